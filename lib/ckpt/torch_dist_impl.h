/* torch_dist_impl.h - shared by the files of Megatron-LM's torch_dist format: the whole tensors
 * (source_torch_dist.c), the flat buffers of its optimizer (torch_dist_flat.c) */
#ifndef CKPT_TORCH_DIST_IMPL_H
#define CKPT_TORCH_DIST_IMPL_H

#include "lib/ckpt/distcp_dir.h"
#include "lib/ckpt/megatron.h"
#include "lib/ckpt/megatron_args.h"
#include "lib/ckpt/megatron_run.h"
#include "lib/ckpt/source.h"

/* What is stored for a tensor of the model: the weight, its fp32 master, the states of the rule. */
enum { DIST_WEIGHT, DIST_MASTER, DIST_STATES, DIST_KINDS = DIST_STATES + OPTIM_STATES_MAX };

/* A stored tensor: NULL where there is none. It may have dimensions before those of the model's
 * tensor, which is at these indices of them: the layer, the expert. */
struct dist_tensor {
	const struct ckpt_tensor *t;
	int ndim;
	int64_t at[2];
};

/* A model rank's part of a tensor in its flat buffers, which hold all kinds but the weight. */
struct dist_range {
	const struct ckpt_tensor *bucket[DIST_KINDS]; /* NULL: none */
	int64_t start;
};

struct dist_source {
	struct source s;
	struct distcp_dir dir;
	struct megatron_args args;
	struct megatron_map map;
	char prefix[64];          /* of the keys: "module." in NeMo's */
	struct dist_tensor *held; /* [map.count][DIST_KINDS] */
	/* [stages][width][map.count]: the ranks of a stage that hold its experts once together, as
	 * in struct torch_rank; of what is of no expert the first of each tensor rank has it */
	struct dist_range *range;
	int num_kinds;             /* of each tensor: 1, or with masters and the rule's states */
	bool has_master, flat;     /* flat: masters and states are in flat buffers */
	enum megatron_names names; /* of the implementation that trained ... */
	enum megatron_experts experts; /* ... and in which order its experts were registered */
	const char *said_by, *needs;   /* what says the model: "its args", "its args need" */
	/* the optimizer is in flat buffers of ranks whose layout is not known */
	bool divided;
};

/* --- torch_dist_model.c ----------------------------------------------------------------------- */

/* Takes the model of a config.json in place of the args, and how far the run got from the file
 * train_state.pt, or else the directory's name. */
int dist_take_model(
    struct dist_source *d, const char *model, struct megatron_run *run, struct err *e);

/* --- source_torch_dist.c ---------------------------------------------------------------------- */

/* A box of parameter i of a kind that is stored in whole tensors. */
int dist_read(
    struct dist_source *d, int i, int kind, const struct slice *slice, void *dst, struct err *e);
/* What states of a kind are called: the k-th name, or NULL after the last. */
const char *dist_state_name(const struct dist_source *d, int kind, int k);

/* --- torch_dist_flat.c ------------------------------------------------------------------------ */

/* What the names of an optimizer begin with where its state is not in whole tensors; there are
 * several where ranks share the experts. */
void dist_optimizer_prefix(const struct dist_source *d, int optimizer, char out[16]);
/* Whether the optimizer is in flat buffers. */
bool dist_has_flat(const struct dist_source *d);
/* Whether those hold such a state. */
bool dist_has_flat_state(const struct dist_source *d, const char *state);
/* What holds a kind of a tensor, of its first rank; NULL: nothing. */
const struct ckpt_tensor *dist_flat_tensor(const struct dist_source *d, int tensor, int kind);
/* Finds the ranges of all model ranks, and proves them by some elements of each tensor; what is
 * wrong becomes a problem. */
void dist_open_flat(struct dist_source *d);
/* A box of parameter i of a kind. A master is compared with its weight. */
int dist_read_flat(
    struct dist_source *d, int i, int kind, const struct slice *slice, void *dst, struct err *e);

#endif
