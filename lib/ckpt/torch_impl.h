/* torch_impl.h - shared by the files of Megatron-LM's torch format: the files of the ranks
 * (torch_ranks.c), the tensors in them (source_torch.c), experts in one tensor (torch_experts.c),
 * the optimizer's (torch_optim.c) */
#ifndef CKPT_TORCH_IMPL_H
#define CKPT_TORCH_IMPL_H

#include "lib/base/map.h"
#include "lib/ckpt/megatron.h"
#include "lib/ckpt/megatron_args.h"
#include "lib/ckpt/source.h"
#include "lib/ckpt/torchzip.h"

enum { TORCH_NAME_MAX = 64 };

/* A file; zip is NULL when there is none. */
struct torch_file {
	char name[TORCH_NAME_MAX]; /* "mp_rank_00_001/distrib_optim.pt" */
	struct map map;
	struct torchzip *zip;
};

/*
 * What a rank wrote. Of the ranks of a stage those wrote that hold its experts once together: with
 * t tensor ranks and n that share each expert, number r of them is tensor rank r % t, and has slice
 * r % n of the experts of expert rank r / n.
 */
struct torch_rank {
	int64_t number, tensor, stage, expert;
	struct torch_file model, optim;
};

/* A rank's part of a tensor. */
struct torch_cell {
	bool seen; /* a file has it, whether or not it fits */
	struct torch_tensor weight;
	/* the fp32 weight, which fp32 runs do not have, and the states of the rule; of none the
	 * type is DTYPE_NONE */
	struct torch_tensor master, state[OPTIM_STATES_MAX];
};

/* The name of a tensor, with the number of its layer in the model, but of its expert in the rank
 * that holds it; that expert rank, or -1 for all; and its row of cells. */
struct torch_key {
	char name[128];
	int64_t expert_rank;
	int row;
};

struct torch_source {
	struct source s;
	struct megatron_args args;
	struct megatron_map map;
	struct torch_key *key; /* [map.count], sorted by name */
	int num_copies;        /* of tables, on stages other than the first */
	struct megatron_copy copy[MEGATRON_COPIES];
	struct megatron_ranks ranks;
	int64_t expert_ranks, stages, chunks;
	int64_t *first;          /* layer of virtual stage v, and of the end */
	struct torch_rank *rank; /* [stages][width] */
	/* [map.count + num_copies][width]; the last rows are the copies'. Tensors of experts have
	 * those of one expert rank */
	struct torch_cell *cell;
	bool has_master;
	bool compared;  /* the ranks of a run compare the checksums, each a share */
	int64_t unread; /* bytes that were read since pages were given back */
};

/* --- torch_ranks.c ---------------------------------------------------------------------------- */

/* Opens the files of the first rank, then those of all that its arguments tell of; the set must be
 * complete. -1 with the reason. */
int torch_open_ranks(struct torch_source *t, struct err *e);
void torch_close_ranks(struct torch_source *t);
/* Compares what the files say of their tensors with its checksums, once. */
int torch_check_roots(struct torch_source *t, struct err *e);
/* As in struct source_kind: the checksums of all files, or of a rank's share of them. */
int torch_verify_files(struct source *s, struct str *problems);
int torch_check_share(struct source *s, int rank, int num_ranks, struct err *e);
/* Ranks of a stage, and of all. */
int64_t torch_width(const struct torch_source *t);
int64_t torch_num_ranks(const struct torch_source *t);

/* --- source_torch.c --------------------------------------------------------------------------- */

/* The weights of chunk j in a model's file: a dict. */
const struct pickle_value *torch_chunk(
    const struct torch_source *t, const struct torch_rank *r, int64_t j);
/* The row of cells of a tensor that a virtual stage holds under this name on an expert rank, or -1.
 */
int torch_row(
    const struct torch_source *t, int64_t virtual_stage, int64_t expert_rank, const char *key);
/* The tensor of a row of cells, of which the last are those of copies. */
const struct megatron_tensor *torch_row_tensor(const struct torch_source *t, int row);
/* Whether two stages sum the gradients of a row. */
bool torch_is_shared(const struct torch_source *t, int row);
/* The cell of a rank by its number. */
struct torch_cell *torch_cell_at(const struct torch_source *t, int row, int64_t number);
/* Whether a name in a file stands for something other than a parameter. */
bool torch_is_ignored(const char *key);
/* Whether n numbers are the same, those of `fine` rounded to the type of `coarse`. */
bool torch_same(struct dtype_array fine, struct dtype_array coarse, int64_t n);

/* --- torch_experts.c -------------------------------------------------------------------------- */

/* Whether a name is of all experts of a rank, in one tensor: those that follow are for such. */
bool torch_is_grouped(const char *key);
/* What the tensor of one of them is called otherwise; experts are counted from the rank's first. */
void torch_grouped_name(const char *key, int64_t expert, char out[128]);
/* Expert which[0] of which[1] as a matrix of its own, a view. -1 when x does not hold so many. */
int torch_grouped_expert(const char *key, const struct torch_tensor *x, const int64_t which[2],
    struct torch_tensor *out);

/* --- torch_optim.c ---------------------------------------------------------------------------- */

/* Finds the optimizer's tensors of all cells; what is wrong becomes problems. *steps: those that it
 * has done, or -1. */
void torch_read_optimizer(struct torch_source *t, int64_t *steps);

#endif
