/*
 * linears.h - the linears of blocks whose GEMMs may read 8-bit operands
 *
 * A block states them as it states its buffers; copies of weights, scales, and the room that
 * operands take are found by walks over them.
 */
#ifndef MODEL_BLOCK_LINEARS_H
#define MODEL_BLOCK_LINEARS_H

#include "lib/model/block/block.h"
#include "lib/model/block/sizes.h"

#include <stddef.h>

struct linear_row {
	enum fp8_linear linear; /* by which checkpoints number the slots of its scales */
	int first, last;        /* the parameters that are joined to its weight */
	int64_t out, in, count; /* on a tensor rank: so many weights [out,in] one above the other */
	bool experts;           /* it reads the rows of experts; others read the T of the rank */
	/* the weight's gradient comes after the gradient of the output of the linear before it */
	bool waits;
};

struct linear_list {
	struct linear_row row[FP8_LINEARS];
	int count;
};

/* Takes the rows that a block states. */
void state_linears(struct linear_list *to, const struct linear_row *rows, size_t n);
/* Those of a kind of block, and of all kinds that the model has. */
struct linear_list block_linears(const struct block_kind *k, const struct sizes *z);
struct linear_list model_linears(const struct sizes *z);
/* NULL: the list has none of that number. */
const struct linear_row *linear_of(const struct linear_list *x, enum fp8_linear linear);

#endif
