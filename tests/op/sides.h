/* sides.h - an operation by a backend and by the CPU in double, of numbers that both can hold */
#ifndef TESTS_OP_SIDES_H
#define TESTS_OP_SIDES_H

#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "tests/gpu/rig.h"

/* A device and the type of its statistics. */
struct side {
	struct rig r;
	enum dtype real;
};

static inline struct side
side_open(const struct backend *b, enum dtype act)
{
	bool whole = act == DTYPE_F64;

	return (struct side){ rig_open(b, act), whole ? DTYPE_F64 : DTYPE_F32 };
}

static inline void
narrow(void *to, enum dtype t, const double *x, int64_t n)
{
	if (t != DTYPE_I32)
		dtype_convert(to, t, x, DTYPE_F64, n);
	for (int64_t i = 0; t == DTYPE_I32 && i < n; i++)
		((int32_t *)to)[i] = (int32_t)x[i];
}

static inline void
widen(double *x, const void *from, enum dtype t, int64_t n)
{
	if (t != DTYPE_I32)
		dtype_convert(x, DTYPE_F64, from, t, n);
	for (int64_t i = 0; t == DTYPE_I32 && i < n; i++)
		x[i] = ((const int32_t *)from)[i];
}

/* A tensor of this shape with these numbers, or none of either. */
static inline struct tensor
put(const struct side *s, struct tensor shape, const double *x)
{
	void *host = mem_alloc((size_t)tensor_elements(&shape), dtype_size(shape.dtype));

	if (x)
		narrow(host, shape.dtype, x, tensor_elements(&shape));
	shape = rig_tensor(&s->r, x, shape, host);
	rig_sync(&s->r);
	free(host);
	return shape;
}

/* The elements of a tensor, to free(); the tensor's own memory is released. */
static inline double *
take(const struct side *s, struct tensor t)
{
	size_t n = (size_t)tensor_elements(&t);
	double *x = mem_alloc(n, sizeof *x);
	void *host = mem_alloc(n, dtype_size(t.dtype));

	rig_take(&s->r, t, host);
	widen(x, host, t.dtype, (int64_t)n);
	free(host);
	return x;
}

/* n numbers of about [-3, 3], in steps of 2^-6, which every type holds. */
static inline double *
numbers(uint64_t seed, int64_t n)
{
	double *x = mem_alloc((size_t)n, sizeof *x);

	for (int64_t i = 0; i < n; i++)
		x[i] = (double)((int)(rig_random(&seed) % 385) - 192) / 64;
	return x;
}

/* The largest difference of two arrays, by the root mean square of the second. Both may have NaN in
 * the same places. */
static inline double
side_difference(const double *a, const double *b, int64_t n)
{
	double worst = 0, square = 0;
	int64_t numbers = 0;

	for (int64_t i = 0; i < n; i++) {
		if (isnan(a[i]) != isnan(b[i]))
			return INFINITY;
		if (isnan(b[i]))
			continue;
		worst = fmax(worst, fabs(a[i] - b[i]));
		square += b[i] * b[i];
		numbers++;
	}
	return worst == 0 ? 0 : worst / sqrt(square / (double)numbers);
}

static inline void
side_compare(const char *what, int number, const double *x[2], int64_t n, double limit)
{
	double d = side_difference(x[0], x[1], n);

	check_count++;
	if (d <= limit)
		return;
	check_failures++;
	fprintf(stderr, "case %d: %s differ by %g (limit %g)\n", number, what, d, limit);
}

#endif
