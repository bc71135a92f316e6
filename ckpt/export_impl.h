/* export_impl.h - shared by the files of mckpt export: what is common (export.c, export_args.c),
 * and the formats (export_torch.c, export_dist.c) */
#ifndef CKPT_EXPORT_IMPL_H
#define CKPT_EXPORT_IMPL_H

#include "ckpt/export.h"
#include "lib/ckpt/megatron.h"
#include "lib/ckpt/source.h"
#include "lib/ckpt/torchzip_write.h"
#include "lib/model/lr.h"

/* What is written of a tensor: the weight, its fp32 master, the states of the rule. */
enum { KIND_WEIGHT, KIND_MASTER, KIND_STATES };

struct export
{
	const struct export_options *o;
	struct source *src;
	struct layout layout; /* with the split, and as few data ranks as share the experts */
	struct megatron_ranks ranks;
	struct megatron_map map;
	enum dtype dtype; /* of the weights */
	int num_kinds;    /* 1 without an optimizer */
	bool has_master;  /* else KIND_MASTER is left out */
	int64_t padded_vocab_size;
	bool blurred; /* numbers that less 1, as they are stored, have lost bits */
	/* by the rates of which Megatron-LM knows parameter groups; a run that has saved none is
	 * taken for one at a constant rate so far */
	struct lr_schedule schedule;
	char tmp[IO_PATH]; /* the directory that is written */
	struct err *e;
};

/* --- export.c --------------------------------------------------------------------------------- */

/* Whether a kind of a tensor is written, and its type. */
bool export_has(const struct export *x, int tensor, int kind);
enum dtype export_dtype(const struct export *x, int tensor, int kind);
/* The number of optimizers that the run will have: where ranks share the experts there are two, of
 * all else and of these. Whether one of them has a tensor. */
int export_num_optimizers(const struct export *x);
bool export_optimizes(const struct export *x, int optimizer, int tensor);
/* "exp_avg" */
const char *export_state(const struct export *x, int kind);
/* Whether a tensor of a layer by this name is of a linear layer. */
bool export_is_linear(const char *key);
/* Bytes of the part of a tensor that a rank has. */
uint64_t export_bytes(const struct export *x, int tensor, int kind);
/* Such a part; with blocks above 1, one of so many equal ranges of its rows. */
struct export_part {
	int tensor, kind, rank, block, blocks;
};
/* Writes it as the next bytes of a storage, dense, padding as 0; a few MiB of it at a time. */
int export_put(struct export *x, struct torchzip_writer *w, const struct export_part *part);

/* --- export_args.c ---------------------------------------------------------------------------- */

/* Fills the schedule: of the state, else of the options; rates that were given replace its. -1 with
 * the reason when the optimizer is written and this build cannot read the state's. */
int export_take_schedule(struct export *x);
/* Appends the dict that all files begin with: args, version, iteration. Its end is left open. */
void export_open_common(const struct export *x, struct str *out);
/* Appends a list of parameter groups, of the experts or of all else; ids[g] of them each, as
 * "params", unless negative. */
void export_put_groups(const struct export *x, struct str *out, const int ids[2], bool experts);
/* Appends the key of the learning rate's schedule and its dict. */
void export_put_scheduler(const struct export *x, struct str *out);
/* Whether Megatron-LM's args can express the model: reads back what was written. */
int export_check_args(const struct export *x, struct err *e);

/* --- formats ---------------------------------------------------------------------------------- */

int export_torch(struct export *x);
int export_torch_dist(struct export *x);

#endif
