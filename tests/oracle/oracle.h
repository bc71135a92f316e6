/*
 * oracle.h - a second opinion on training: what a run of mtrain in double precision must compute
 *
 * Written from the formulas of papers and of Megatron-LM's documentation, for models so small that
 * every number is an entry of a tape. Shares no code with the programs and knows them by their
 * files alone: checkpoints by manifest.tsv, index maps, metrics.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdbool.h>

enum { LAYERS = 4, WIDE = 64, SEQ = 16, BATCH = 8, EXPERTS = 8, STEPS = 5 };
enum { DOCUMENTS = 150, LONGEST = 30, SAMPLES = DOCUMENTS * LONGEST };
enum activation { SWIGLU, GEGLU, SQUARED_RELU, GELU, GELU_ERF };
enum placement { BEFORE, AFTER, BOTH };
enum positions { ROPE, LEARNED, NO_POSITIONS };
enum score { SOFTMAX, PRE_SOFTMAX, SIGMOID };
enum balancing { BY_BATCH, BY_SEQUENCE, BY_STEP };
enum rule { ADAM, SGD, MUON };

/* A case: a model, its losses, an update rule. */
struct setup {
	int layers, hidden, heads, groups, channels, ffn, vocab, seq, micro, batch;
	bool layer_norm, one_plus, parallel, qk_norm, interleaved, tied, gated;
	enum activation activation;
	enum placement placement;
	enum positions positions;
	double epsilon, rotary_share, rotary_base, score_scale, score_cap, logit_cap, embed_scale,
	    z_loss;
	int window, skip; /* window 0: none; every skip-th layer is without; 0: none is */
	bool mask_ends, apart, restart;
	int experts, topk, every; /* layers whose number `every` divides have experts */
	int router_groups, group_topk, group_scores; /* 0: experts are in no groups */
	double topk_scale;
	enum score score;
	enum balancing balancing;
	bool biased, by_token;
	double balance, router_z, bias_rate;
	enum rule rule;
	double lr, min_lr, beta1, beta2, adam_epsilon, decay, clip, momentum;
	bool cosine, nesterov;
	int warmup;
};

/* A tensor of a checkpoint, or of the oracle, and what an update rule keeps of it. */
struct weights {
	char name[96];
	int rows, columns, count; /* rows 0: a vector */
	int first;                /* on the tape */
	double *value, *grad, *m, *v;
};

struct model {
	struct setup s;
	struct weights *weights;
	int num_weights;
	/* rows of each expert in the step, and rows that would choose it without bias and groups */
	double load[LAYERS][EXPERTS], total[LAYERS][EXPERTS];
};

/* Samples of seq + 1 tokens each. */
struct step_losses {
	double loss, norm;
};

/* model.c: the losses and gradients of a step over samples, `batch` of them. */
struct step_losses model_step(struct model *m, const int *samples);
struct weights *model_find(struct model *m, const char *name);
/* rules.c: step from 1 on. */
void rule_update(struct model *m, double norm, int step);
/* files.c: a checkpoint's tensors; the maps of one dataset; the values of a key of the metrics.
 * All end the program with a reason where a file is not as it should be. */
void read_checkpoint(const char *dir, struct model *m);
void free_model(struct model *m);
void write_dataset(const char *prefix, const int *tokens, const int *lengths, int count);
/* The first samples of a dataset of DOCUMENTS documents. */
void read_samples(
    const char *cache, const int *tokens, const int *lengths, int *out, int samples, int seq);
int read_metric(const char *path, const char *key, double *out, int most);
void give_up(const char *what, const char *of) __attribute__((noreturn));

#endif
