/*
 * search.h - the legal layouts of a run that fit a device, fastest first
 *
 * Every divisor of the model and of the world is tried as tensor and pipeline size, every power of
 * two as micro batch and, where there are stages, as chunks of each, the optimizer's state whole
 * and sharded over data ranks; gradients and weights are sharded only where nothing else fits.
 * Any number of ranks may share the experts of a layer, and each expert as many as there are tensor
 * ranks, or one. Memory is the memory plan's (which the trainer allocates) plus
 * the device's reserve; time comes from plan/time. Plans within 1 % of each other count as ties,
 * the smaller one first. Source: docs/planning.md 5.
 */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "lib/base/target.h"
#include "lib/model/split.h"
#include "plan/time.h"

enum fit { FIT_YES, FIT_TIGHT, FIT_NO }; /* tight: within 4 % of the device memory */

struct search_input {
	struct model_config model;
	/* only seq_length, dtype, rule, and sharding if keep_sharding are used */
	struct train_shape shape;
	struct hardware hw;
	int64_t world_size, global_batch_size;
	int64_t tensor, pipeline, micro_batch; /* 0: free */
	/* the context ranks of every plan, the ranks that share experts, 0: free, and sequence
	 * parallelism where a plan has several tensor ranks */
	struct layout typed;
	bool keep_sharding;         /* every plan has the sharding of the shape */
	struct split_options split; /* of every plan, if any is given */
	bool overlap_p2p;
};

struct candidate {
	struct layout layout;
	struct train_shape shape;
	uint64_t bytes; /* arenas of the fullest rank */
	enum fit fit;
	struct step_time time;
};

struct search {
	struct candidate *item; /* plans that fit, best first; owned */
	int count, cap;
	int64_t legal;             /* number of legal layouts */
	struct candidate smallest; /* the legal plan that needs the least memory */
	/* what all plans share while they are made: the model's parameters and counts */
	struct memory_stages common;
};

/* Returns -1 when no layout is legal or none fits, with the reason; search_release in either
 * case. */
int search_run(struct search *s, const struct search_input *in, struct err *e);
void search_release(struct search *s);
/* The best `top` as tab-separated rows under a header line. */
void search_print(const struct search *s, const struct search_input *in, int64_t top, FILE *f);
/* How a file of a plan is recognised. */
extern const struct target_kind search_file;
/* Item number `pick` (from 1) as an option file for mtrain. */
int search_text(const struct search *s, const struct search_input *in, int64_t pick,
    struct str *out, struct err *e);
/* One line: where the best plan spends its time, and why the next one is slower. */
void search_reason(const struct search *s, struct str *out);

#endif
