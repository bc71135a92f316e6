/*
 * optim.h - update rules, loss scaling
 *
 * A rule is a line of lib/model/optim_list.h, which says what it keeps for each parameter, and
 * train/optim/NAME.c, which ends with the const struct optim_kind optim_NAME.
 */
#ifndef TRAIN_OPTIM_OPTIM_H
#define TRAIN_OPTIM_OPTIM_H

#include "lib/model/optim_options.h"
#include "lib/model/optim_rule.h"
#include "train/engine/engine.h"
#include "train/uses.h"

/* One update of a piece: views of this rank's own part, of the memory of one device. */
struct optim_chunk {
	struct stream *stream; /* of that device, and its operations */
	const struct ops *ops;
	/* without weight.data, master is the weight; low bits as in struct adamw */
	struct tensor master, low_bits, grad, weight;
	struct tensor
	    state[OPTIM_STATES_MAX]; /* those kept of it, in the order of the rule's row */
	struct draws draws;          /* for states that are rounded stochastically */
	double lr, weight_decay, grad_scale;
	int64_t step; /* successful steps, this one included */
};

/* The options, besides the rate, that a rule uses and its states depend on. */
enum optim_constant {
	OPTIM_BETA1 = 1,
	OPTIM_BETA2 = 2,
	OPTIM_EPS = 4,
	OPTIM_MOMENTUM = 8,
	OPTIM_DECAY_FORM = 16, /* decoupled_weight_decay */
	OPTIM_MUON = 32,       /* muon.momentum */
};

/* Updates everything this rank owns and gathers the weights. vocab_lr: of the vocabulary tables;
 * grad_scale multiplies the gradients. */
struct optim_update {
	double lr, vocab_lr, weight_decay, grad_scale;
	double expert_rows; /* of an expert of a layer, on average */
	int64_t step;
	/* as qk_clip_scores gives them, or NULL; they stay until the next update has begun */
	const double *scores;
};

struct optim_kind {
	void (*update)(struct engine *, const struct optim_options *, const struct optim_chunk *);
	unsigned
	    constants; /* enum optim_constant: recorded in checkpoints and compared on resume */
	/* Updates what this rank owns of a bucket of layers, instead of update; only of rules with
	 * matrix_states, else NULL. Collective over the tensor group, or for experts that ranks
	 * share over those with slices of the same ones. */
	void (*matrices)(
	    struct engine *, const struct optim_options *, const struct optim_update *, int bucket);
	const enum use *uses; /* what it calls (train/uses.h) */
};
/* In the order of optim_rules. */
extern const struct optim_kind *const optim_kinds[];

/* As uses_check, of the rule of that number. */
int optim_check_uses(int kind, const struct backend *b, struct err *e);
/* For rules that leave to it what they do not take. */
extern const struct optim_kind optim_adam;

void optim_step(struct engine *e, const struct optim_options *o, const struct optim_update *u);
/* Call before weights, masters or states change or are read otherwise: all updates are done, and
 * what still reads them. */
void optim_settle(struct engine *e);
/* Sets the master weights from the weights, after a load without optimizer state. */
void optim_from_weights(struct engine *e);
/* Sets the weights from the masters, rounded, on every rank that holds them. */
void optim_to_weights(struct engine *e);

#endif
