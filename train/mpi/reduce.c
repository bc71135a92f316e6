/*
 * reduce.c - sums in the order of lib/base/tree.h, and maxima
 *
 * Works piece by piece: a piece of every summand is widened to the type of the sum, so that one
 * loop per type suffices and the accumulators stay in the caches of the core.
 */
#include "train/mpi/impl.h"

#include "lib/base/tree.h"

enum { PIECE = 1024 }; /* elements */

/* A piece in the type of the sum. Unsigned views serve the sums of integers. */
union piece {
	double f64[PIECE];
	float f32[PIECE];
	uint64_t u64[PIECE];
	uint32_t u32[PIECE];
	int64_t i64[PIECE];
	int32_t i32[PIECE];
};

/* The type that sums of t are taken in. */
static enum dtype
real_type(enum dtype t)
{
	if (t == DTYPE_BF16 || t == DTYPE_F16)
		return DTYPE_F32;
	if (t != DTYPE_F32 && t != DTYPE_F64 && t != DTYPE_I32 && t != DTYPE_I64)
		BUG("reduction of %s", dtype_name(t));
	return t;
}

/* later = earlier + later. Integers are added without a sign, where overflow is defined. */
static void
add(union piece *later, const union piece *earlier, enum dtype real, int n)
{
	switch (real) {
	case DTYPE_F64:
		for (int i = 0; i < n; i++)
			later->f64[i] = earlier->f64[i] + later->f64[i];
		break;
	case DTYPE_F32:
		for (int i = 0; i < n; i++)
			later->f32[i] = earlier->f32[i] + later->f32[i];
		break;
	case DTYPE_I64:
		for (int i = 0; i < n; i++)
			later->u64[i] = earlier->u64[i] + later->u64[i];
		break;
	default:
		for (int i = 0; i < n; i++)
			later->u32[i] = earlier->u32[i] + later->u32[i];
	}
}

/* acc = max(acc, x); a NaN on either side is kept, so that no rank's overflow is lost. */
static void
maximum(union piece *acc, const union piece *x, enum dtype real, int n)
{
	switch (real) {
	case DTYPE_F64:
		for (int i = 0; i < n; i++)
			acc->f64[i] = x->f64[i] > acc->f64[i] || x->f64[i] != x->f64[i]
			    ? x->f64[i]
			    : acc->f64[i];
		break;
	case DTYPE_F32:
		for (int i = 0; i < n; i++)
			acc->f32[i] = x->f32[i] > acc->f32[i] || x->f32[i] != x->f32[i]
			    ? x->f32[i]
			    : acc->f32[i];
		break;
	case DTYPE_I64:
		for (int i = 0; i < n; i++)
			acc->i64[i] = x->i64[i] > acc->i64[i] ? x->i64[i] : acc->i64[i];
		break;
	default:
		for (int i = 0; i < n; i++)
			acc->i32[i] = x->i32[i] > acc->i32[i] ? x->i32[i] : acc->i32[i];
	}
}

/* What is added piece by piece: term k of s, from its element `first` on. */
struct term_piece {
	const struct summands *s;
	enum dtype real;
	int64_t first;
	int count;
};

static void
load(union piece *x, const struct term_piece *p, int k)
{
	size_t size = dtype_size(p->s->dtype);

	dtype_convert(x, p->real, p->s->data + (size_t)(k * p->s->count + p->first) * size,
	    p->s->dtype, p->count);
}

/* T of the n terms from `begin` on, in one of the pieces of tree. */
static union piece *
add_block(union piece tree[TREE_LEVELS], const struct term_piece *p, int begin, int n)
{
	union piece *sum = NULL;

	for (int k = 0; k < n; k++) {
		int level = 0;

		while (k >> level & 1)
			level++;
		load(&tree[level], p, begin + k);
		for (int i = 0; i < level; i++)
			add(&tree[level], &tree[i], p->real, p->count);
	}
	for (int level = 0; level < TREE_LEVELS; level++) {
		if (!(n >> level & 1))
			continue;
		if (sum)
			add(sum, &tree[level], p->real, p->count);
		else
			sum = &tree[level];
	}
	return sum;
}

static void
add_all(union piece *sum, const struct term_piece *p)
{
	union piece tree[TREE_LEVELS], *block;
	int terms = p->s->block ? p->s->block : TREE_TERMS;

	for (int begin = 0; begin < p->s->num; begin += terms) {
		int left = p->s->num - begin;

		block = add_block(tree, p, begin, left < terms ? left : terms);
		if (begin > 0)
			add(block, sum, p->real, p->count);
		*sum = *block;
	}
}

static void
find_maximum(union piece *most, const struct term_piece *p)
{
	union piece x;

	load(most, p, 0);
	for (int k = 1; k < p->s->num; k++) {
		load(&x, p, k);
		maximum(most, &x, p->real, p->count);
	}
}

/* dst gets s->count elements of s->to. 16-bit types are added in F32 and rounded once. */
void
reduce_in_order(void *dst, const struct summands *s, enum reduce op)
{
	struct term_piece p = { .s = s, .real = real_type(s->to == DTYPE_F64 ? s->to : s->dtype) };
	union piece result;

	for (; p.first < s->count; p.first += PIECE) {
		p.count = s->count - p.first < PIECE ? (int)(s->count - p.first) : PIECE;
		(op == REDUCE_SUM ? add_all : find_maximum)(&result, &p);
		dtype_convert((char *)dst + (size_t)p.first * dtype_size(s->to), s->to, &result,
		    p.real, p.count);
	}
}
