/*
 * sizes.h - the sizes on a rank that two kinds of block or more read, in what they state
 */
#ifndef MODEL_BLOCK_SIZES_H
#define MODEL_BLOCK_SIZES_H

#include "lib/model/config.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

#include <stdbool.h>
#include <stdint.h>

struct sizes {
	const struct model_config *model;
	const struct layout *layout;
	const struct train_shape *shape;
	int pp;
	bool trains;
	int64_t tokens;     /* T = s/c*b: of the positions that a context rank holds */
	int64_t rows;       /* R, of T what lies between blocks: with sequence parallelism T/t */
	int64_t all_tokens; /* s*b: of all context ranks */
	int64_t seq, held;  /* s, s/c */
	int64_t positions;  /* that a sample has: s, or those whose keys are kept */
	int64_t hidden;     /* h */
	int64_t vocab;      /* rows of a table on a tensor rank, with padding */
	int64_t later;      /* layers after the head that the rank has, and trains */
};

/* On pipeline stage pp. The layout has passed layout_check and layout_check_length, so all
 * divisions are exact. */
struct sizes sizes_of_rank(
    const struct model_config *c, const struct layout *l, const struct train_shape *s, int pp);
/* The columns of an activation's input, for so many of its output: beside them those of the gate,
 * where the model has one. */
int64_t sizes_gated(const struct sizes *z, int64_t columns);

#endif
