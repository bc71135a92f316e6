/*
 * megatron.h - where the parameters of a model lie in Megatron-LM's tensors
 *
 * Megatron-LM keeps q, k and v in one tensor, group by group: the group's query heads, their gates,
 * its key head, its value head; and gate above up in another, of an MLP or of an expert. All that
 * linear attention projects is one tensor, and its filters are another, with a dimension of 1 in
 * it; torch_dist has each projection and filter by itself. Its vocabulary tables have padded rows.
 * All of its formats, and all states of its optimizers, follow this one map. Source: Megatron-LM
 * core/models/gpt, core/transformer/{attention,mlp}.py, core/transformer/moe/experts.py,
 * core/ssm/gated_delta_net; docs/checkpoints.md 2.1 and 2.2.
 */
#ifndef CKPT_MEGATRON_H
#define CKPT_MEGATRON_H

#include "lib/base/dtype.h"
#include "lib/model/params.h"

/* What the norms before a linear are called: by Transformer Engine they belong to that linear, but
 * those before experts do not. The torch_dist format has its names whichever implementation
 * trained, and of Megatron-LM's own one also those before experts belong to a linear. */
enum megatron_names { MEGATRON_ENGINE, MEGATRON_LOCAL, MEGATRON_LOCAL_DIST };
/* What experts are called: modules in a list; tensors of one module, by --moe-grouped-gemm; or, in
 * torch_dist, all by one name. */
enum megatron_experts { MEGATRON_SEQUENTIAL, MEGATRON_GROUPED, MEGATRON_STACKED };

/* What a layer that predicts later tokens calls the transformer layer in it: transformer_layer in
 * torch_dist, and before 2026 in both formats; since then mtp_model_layer in torch. */
enum megatron_later { MEGATRON_TRANSFORMER_LAYER, MEGATRON_MODEL_LAYER };

struct megatron_tensor {
	const char *prefix; /* "decoder.layers.%d.", or what else its names begin with; "" */
	const char *name;   /* "mlp.linear_fc1.weight"; a %d is the expert */
	int layer;          /* as in struct param */
	int later;          /* the number of its layer after the head; -1: another layer */
	int placed;         /* the layer whose stage has it: its own, but for the final norm and
			     * layers after the head */
	int expert;         /* as in struct param */
	int first;          /* of its parameters, which are all of its layer: its number */
	int ndim;
	int64_t shape[SLICE_DIMS]; /* whole, with padded rows */
	int cut;                   /* the dimension that ranks share; -1: each has all */
	/* blocks of rows, of each of which a rank has an equal part: its parameters, equal ones for
	 * gate and up; 1 where groups take turns */
	int blocks;
	int64_t unit; /* divides every block, and all of what is cut in one */
	/* the weight of a norm that is stored less 1, but is not so as a parameter */
	bool less_one;
	bool decay;   /* weight decay applies: matrices */
	bool balance; /* of no optimizer: balances the experts; fp32 whatever the weights are */
};

/* Row i of a parameter is row first + i / run * step + i % run of its tensor. */
struct megatron_rows {
	int tensor;
	int64_t first, run, step;
};

struct megatron_map {
	/* in the order of registration, which is that of state dicts and of optimizers; buffers of
	 * the distributed optimizer have the reverse */
	int count;
	struct megatron_tensor *tensor;
	struct megatron_rows *rows; /* by parameter */
};

/* What determines a map. */
struct megatron_model {
	const struct model_config *config;
	const struct param *param; /* all of model_params */
	int count;
	enum megatron_names names;
	int64_t padded_vocab_size;
	enum megatron_experts experts;
	enum megatron_later later;
};

/* Released by megatron_map_release in every case. -1 when Megatron-LM has no tensor for a
 * parameter, which is then named. */
int megatron_map_init(struct megatron_map *m, const struct megatron_model *model, struct err *e);
void megatron_map_release(struct megatron_map *m);

/* The name with the numbers of layer and expert, counted from those that are the first ones of a
 * file: 0 and 0 for the model's. */
void megatron_key(
    const struct megatron_tensor *t, int64_t first_layer, int64_t first_expert, char out[128]);
/* The name in torch_dist of all layers' tensors in one; false: this one is of no layer, or of one
 * after the head, which are never joined. */
bool megatron_stack_key(const struct megatron_tensor *t, char out[128]);

/* Whether a virtual stage of a layout has a tensor. Layers after the head are on the last one. */
bool megatron_is_in(const struct megatron_tensor *t, const struct model_config *c,
    const struct layout *l, int virtual_stage);

/* The virtual stages of layers after the head, and of the output table. */
struct megatron_stages {
	int later, last;
};

/*
 * A table that is on a stage other than the first, too: that of the words where layers after the
 * head read it, and that which is tied where the output table is. Where both are on one stage its
 * output table is idle: it has a place in state dicts and optimizers, and what is in it was never
 * used.
 */
enum { MEGATRON_COPIES = 2 };
struct megatron_copy {
	const char *key;
	int tensor, virtual_stage;
	bool output; /* it is the output table */
	bool idle;   /* else its gradients are summed with those of the first stage */
};

/* The copies of a model, in the order of stages and of registration; returns the number. */
int megatron_copies(const struct megatron_map *m, const struct model_config *c,
    const struct megatron_stages *s, struct megatron_copy out[MEGATRON_COPIES]);
/* Rows of the vocabulary tables of a run of so many tensor ranks. */
int64_t megatron_padded_vocab(const struct model_config *c, int64_t tensor_ranks);

/* How many ranks share tensors that are cut, and how many those of an expert. */
struct megatron_ranks {
	int64_t tensor, slices;
};

/* Those that share a tensor; 1 where each has all. */
int64_t megatron_num_ranks(const struct megatron_tensor *t, struct megatron_ranks ranks);
/* Whether so many ranks can share every tensor; names the first that they cannot. */
int megatron_check_ranks(const struct megatron_map *m, struct megatron_ranks ranks, struct err *e);
/* The shape of one rank's tensor. */
void megatron_rank_shape(
    const struct megatron_tensor *t, struct megatron_ranks ranks, int64_t shape[SLICE_DIMS]);

/* Adds `by` to n numbers, in fp64: the weights of a norm that are stored less 1. */
void megatron_shift(void *x, enum dtype t, int64_t n, double by);
/* Makes n stored numbers of parameter i the parameter's. */
void megatron_restore(const struct megatron_map *m, int i, void *x, enum dtype t, int64_t n);

/* Elements of a parameter that are a box in one rank's tensor too. */
struct megatron_piece {
	struct slice param;  /* in coordinates of the parameter */
	int rank;            /* who holds it; 0 where all do */
	struct slice tensor; /* in coordinates of the rank's tensor */
};

/* The next piece of a box of parameter i. Starts with a zeroed piece; false after the last.
 * Together they tile the box. One rank's tensor is the whole one with ranks of 1. */
bool megatron_next(const struct megatron_map *m, int i, struct megatron_ranks ranks,
    const struct slice *slice, struct megatron_piece *p);

#endif
