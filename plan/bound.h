/*
 * bound.h - what a plan needs at least, without its shards
 *
 * Placing the shards of a model with many experts takes milliseconds, and so does counting the
 * passes of long pipelines. A bound adds up the elements that a stage holds, without the gaps of
 * its buckets, at the bytes that each of them takes, and what its layers save for the passes in
 * flight. Both are taken from memory plans: of a few elements, and of a stage with one layer and
 * one micro batch, which many plans share. The memory plan needs no less.
 */
#ifndef PLAN_BOUND_H
#define PLAN_BOUND_H

#include "lib/model/memory.h"
#include "plan/table.h"

/* Elements: of matrices of layers, of experts that ranks share, and of the rest. */
struct holding {
	int64_t matrices, experts, rest;
};

/* What the ranks of a layout's tensor and expert axes hold of each layer. */
struct layer_holdings {
	int64_t tensor, expert_ranks, expert_slices;
	struct holding *before; /* of the layers before layer k - 1; owned */
	struct holding largest; /* the most of a kind that a layer has */
	int64_t table;          /* of the embedding */
};

struct bounds {
	const struct model_config *model;
	struct memory_stages table; /* its parameters alone; owned */
	struct schedule_counts counts;
	struct place_sizes sizes;
	struct layer_holdings *item;
	int count;
	struct memory_stage *stage; /* of a pipeline; owned */
	int num_stages;
	struct table acts, rates; /* of struct acts and struct rates */
};

/* A plan's share of the model: of the stage that holds most, its elements, those that its optimizer
 * owns, what it holds, and the most that one of its layers does; and what each end of the pipeline
 * holds. */
struct bound {
	int64_t elements, own;
	struct holding holds, largest;
	struct bound_stage {
		struct holding holds;
		int layers, least; /* those of the stage and of its smallest chunk */
	} end[2];
};

void bounds_init(struct bounds *b, const struct model_config *c);
void bounds_release(struct bounds *b);
/* The share of a layout with a split. */
void bound_of(struct bounds *b, const struct layout *l, bool sharded, struct bound *out);
/* Bytes that the fullest rank of the plan needs at least. */
uint64_t bound_memory(
    struct bounds *b, const struct layout *l, const struct train_shape *s, const struct bound *of);
/* What the passes of a step gather at least where weights are sharded, of matrices of layers and of
 * experts. */
void bound_gathers(
    const struct bound *of, const struct layout *l, const struct train_shape *s, int64_t least[2]);
/* As bound_memory, of all numbers of chunks and all splits of a layout without one. */
uint64_t bound_memory_any(struct bounds *b, const struct layout *l, const struct train_shape *s);

#endif
