/*
 * candidate.h - what a search is given, and the plans that it finds
 */
#ifndef PLAN_CANDIDATE_H
#define PLAN_CANDIDATE_H

#include "lib/model/split.h"
#include "plan/time.h"

enum fit { FIT_YES, FIT_TIGHT, FIT_NO }; /* tight: within 4 % of the device memory */

/* How the layers are split: by options that were typed, by work, or equally. */
enum split_form { SPLIT_TYPED, SPLIT_BY_WORK, SPLIT_EQUAL };

struct found;
struct search_input {
	struct model_config model;
	/* num_microbatches and micro_batch_size are not used, nor what is free */
	struct train_shape shape;
	struct hardware hw;
	int64_t world_size, global_batch_size;
	int64_t tensor, context, pipeline, micro_batch; /* 0: free */
	/* the ranks that share experts and instances, 0: free, and sequence parallelism where a
	 * plan has several tensor ranks */
	struct layout typed;
	/* every plan has these of the shape: sharding, the form of context ranks, recomputation,
	 * activations on the host, the types and the place of what the optimizer keeps */
	bool keep_sharding, keep_form, keep_recompute, keep_offload, keep_optimizer;
	bool keep_outer_sharding;   /* and this of the layout */
	struct split_options split; /* of every plan, if any is given */
	bool overlap_p2p;
	int64_t top; /* plans that are wanted; 0: all that fit */
	/* above 0: the search ends with the first plan that fits and takes no longer */
	double seconds;
	/* of other searches that differ in their ranks, with moments as they are and of 16 bits;
	 * NULL: none */
	struct found *found[2];
};

struct candidate {
	struct layout layout;
	enum split_form split;
	struct train_shape shape;
	uint64_t bytes; /* arenas of the fullest rank */
	uint64_t host;  /* what the rank that keeps most on its host keeps there */
	/* of the stage that holds most of the parameters, and those that its optimizer owns */
	int64_t elements, own;
	enum fit fit;
	struct step_time time;
	int number; /* of its layout, chunks and split, in the order of the search */
};

/* Ways to share the work that a rule forbids. */
struct refusal {
	char option[48]; /* that breaks it */
	int64_t count;
	char example[256]; /* one of them, with the nearest legal value */
};
enum { SEARCH_REFUSALS = 12 };

/* Plans whose times differ by less than this share are as fast. */
#define SEARCH_TIE 0.01

struct search {
	struct candidate *item; /* plans that fit, best first; owned */
	int count, cap;
	int64_t legal;             /* ways to share the work, with a micro batch each */
	int64_t planned;           /* plans whose memory was computed */
	struct candidate smallest; /* the plan that needs the least memory, where none fits */
	struct candidate tight;    /* the fastest of those that fit tightly, if any does */
	struct refusal refusals[SEARCH_REFUSALS]; /* ended by a count of 0 */
};

/* Device bytes that a rank needs: arenas and the device's own reserve. */
double search_need(const struct candidate *c, const struct hardware *hw);
/* Whether a plan fits. */
enum fit search_fit(const struct candidate *c, const struct hardware *hw);
/* Host bytes that the ranks of a host need at most, and whether it has room for them; so it does if
 * its memory is not known. */
double search_need_on_host(const struct candidate *c, const struct hardware *hw);
bool search_fits_host(const struct candidate *c, const struct hardware *hw);

#endif
