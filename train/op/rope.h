/* rope.h - rotary positions */
#ifndef TRAIN_OP_ROPE_H
#define TRAIN_OP_ROPE_H

#include "train/op/call.h"

/* Rotary positions in place on num_heads heads side by side in the columns of x. The rotary_dim
 * elements of a head from `first` on are rotated by the angle of their row's position; table row p
 * holds cos and sin of each of rotary_dim / 2 angles: [position, rotary_dim / 2, 2]. Half-split
 * pairs (i, i + rotary_dim / 2), or (2i, 2i + 1) when interleaved. backward rotates the other way.
 * Source: Su 2021 arXiv:2104.09864. */
struct rope {
	struct tensor x;         /* act [T, num_heads * head_dim] */
	struct tensor table;     /* real [positions, rotary_dim] */
	struct tensor positions; /* I32 [T] */
	int num_heads, head_dim, rotary_dim, first;
	bool interleaved, backward;
};

static inline void
describe_rope(struct op_call *c, const struct rope *r)
{
	op_reads(c, &r->x);
	op_writes(c, "x", &r->x);
}

#endif

#ifdef OPERATION
OPERATION(rope, rope)
#endif
