/*
 * hash.c - the hash of the bits of a tensor
 *
 * Sums of 64 bits may be added in any order, so each part of the tensor is summed by one thread and
 * the parts after.
 */
#include "train/cpu/real.h"

enum { PARTS = 256 };

struct hashing {
	const struct tensor *x;
	int64_t count, per_part;
	uint64_t *part;
};

/* Of splitmix64; ops.h has the reference. */
static inline uint64_t
mixed(int64_t i, uint64_t bits)
{
	uint64_t z = (uint64_t)(i + 1) * UINT64_C(0x9e3779b97f4a7c15) + bits;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void
hash_part(const void *ctx, int64_t item, void *scratch)
{
	const struct hashing *h = ctx;
	const void *x = h->x->data;
	int64_t i = item * h->per_part, end = int64_min(h->count, i + h->per_part);
	uint64_t sum = 0;

	(void)scratch;
	switch (dtype_size(h->x->dtype)) {
	case 2:
		for (; i < end; i++)
			sum += mixed(i, ((const uint16_t *)x)[i]);
		break;
	case 4:
		for (; i < end; i++)
			sum += mixed(i, ((const uint32_t *)x)[i]);
		break;
	default:
		for (; i < end; i++)
			sum += mixed(i, ((const uint64_t *)x)[i]);
		break;
	}
	h->part[item] = sum;
}

/* y (I64) = the sum over the elements of x, which is dense and of any floating type. */
void
cpu_name(hash)(struct stream *st, const struct pair *p)
{
	uint64_t parts[PARTS], sum = 0;
	struct hashing h = { .x = &p->x, .count = tensor_elements(&p->x), .part = parts };
	int64_t used;

	ops_require(p->y.dtype == DTYPE_I64 && dtype_is_float(p->x.dtype) &&
	    (p->x.ndim == 1 || p->x.stride[0] == p->x.shape[1]));
	h.per_part = int64_max(CPU_GRAIN, int64_div_up(h.count, PARTS));
	used = int64_div_up(h.count, h.per_part);
	cpu_for(st, used, hash_part, &h);
	for (int64_t i = 0; i < used; i++)
		sum += parts[i];
	*(uint64_t *)p->y.data = sum;
}
