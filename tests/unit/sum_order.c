/*
 * sum_order.c - the order of sums: the CPU's operation in both precisions and the reduction of
 * train/mpi against the definition, for 1 to 40 terms of every type, bit for bit
 */
#include "lib/base/mem.h"
#include "tests/check.h"
#include "tests/tree_sum.h"
#include "train/backend.h"
#include "train/mpi/impl.h"
#include "train/ops.h"

TREE_SUM(sum_f64, double)
TREE_SUM(sum_f32, float)
TREE_SUM(sum_u64, uint64_t)
TREE_SUM(sum_u32, uint32_t)

enum { TERMS = 40, LENGTH = 2051 };

/* Terms [TERMS, LENGTH] of a type, of both signs and many magnitudes. */
static char *
make_terms(enum dtype type)
{
	char *x = mem_alloc((size_t)TERMS * LENGTH, dtype_size(type));

	for (int64_t i = 0; i < TERMS * LENGTH; i++) {
		uint64_t h = (uint64_t)i * 0x9e3779b97f4a7c15;
		double d;

		h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9;
		d = ((double)(h >> 44) - 0x1p19) / (double)(1 << (h & 15));
		if (dtype_is_float(type))
			dtype_convert(x + (size_t)i * dtype_size(type), type, &d, DTYPE_F64, 1);
		else
			memcpy(x + (size_t)i * dtype_size(type), &h, dtype_size(type));
	}
	return x;
}

/* Element i of S of the first n terms, rounded to `to`; out has room for any. */
static void
define(void *out, enum dtype to, const char *terms, enum dtype type, int n, int64_t i)
{
	size_t size = dtype_size(type);
	double f64[TERMS];
	float f32[TERMS];
	uint64_t u64[TERMS];
	uint32_t u32[TERMS];

	for (int k = 0; k < n; k++) {
		const char *at = terms + ((size_t)k * LENGTH + (size_t)i) * size;

		if (type == DTYPE_F64)
			memcpy(&f64[k], at, 8);
		else if (dtype_is_float(type))
			dtype_convert(&f32[k], DTYPE_F32, at, type, 1);
		else
			memcpy(type == DTYPE_I64 ? (void *)&u64[k] : &u32[k], at, size);
	}
	if (type == DTYPE_F64)
		dtype_convert(out, to, &(double){ sum_f64(f64, n) }, DTYPE_F64, 1);
	else if (dtype_is_float(type))
		dtype_convert(out, to, &(float){ sum_f32(f32, n) }, DTYPE_F32, 1);
	else if (type == DTYPE_I64)
		memcpy(out, &(uint64_t){ sum_u64(u64, n) }, 8);
	else
		memcpy(out, &(uint32_t){ sum_u32(u32, n) }, 4);
}

static void
compare(const char *have, enum dtype to, const char *terms, enum dtype type, int n)
{
	size_t size = dtype_size(to);
	char want[8];

	for (int64_t i = 0; i < LENGTH; i += 1 + i % 5) {
		define(want, to, terms, type, n, i);
		CHECK(memcmp(have + (size_t)i * size, want, size) == 0);
	}
}

static void
test_reduction(enum dtype type)
{
	char *x = make_terms(type), *y = mem_alloc(LENGTH, dtype_size(type));

	for (int n = 1; n <= TERMS; n++) {
		struct summands s = { x, n, LENGTH, type, 0, type };

		reduce_in_order(y, &s, REDUCE_SUM);
		compare(y, type, x, type, n);
	}
	free(x);
	free(y);
}

/* What hosts of `inside` neighbours add, and then their sums in blocks, is the sum of all. */
static void
test_hosts(struct stream *st, enum dtype type)
{
	enum dtype partial = dtype_size(type) == 2 ? DTYPE_F32 : type;
	char *x = make_terms(type), *sums = mem_alloc(TERMS * LENGTH, 8), *y = mem_alloc(LENGTH, 8);
	size_t size = dtype_size(type), to = dtype_size(partial);

	for (int inside = 1; inside <= TREE_TERMS; inside *= 2)
		for (int hosts = 1; hosts * inside <= TERMS; hosts++) {
			struct summands s = { sums, hosts, LENGTH, partial, TREE_TERMS / inside,
				type };

			for (int h = 0; h < hosts; h++) {
				struct summands own = { x + (size_t)(h * inside) * LENGTH * size,
					inside, LENGTH, type, 0, partial };

				reduce_in_order(sums + (size_t)h * LENGTH * to, &own, REDUCE_SUM);
			}
			reduce_in_order(y, &s, REDUCE_SUM);
			compare(y, type, x, type, hosts * inside);
			if (!st)
				continue;
			st->ops->sum(st,
			    &(struct sum){ .y = tensor_1d(y, type, LENGTH),
				.others = tensor_2d(sums, partial, hosts, LENGTH),
				.own = -1,
				.block = s.block });
			compare(y, type, x, type, hosts * inside);
		}
	free(x);
	free(sums);
	free(y);
}

/* The term of a rank lies apart from the others', or in the place of the sum; or all are rows. */
static void
test_operation(struct stream *st, enum dtype type, enum dtype to)
{
	char *x = make_terms(type), *others = mem_alloc((size_t)TERMS * LENGTH, dtype_size(type)),
	     *y = mem_alloc(LENGTH, 8);
	size_t row = LENGTH * dtype_size(type);

	for (int n = 1; n <= TERMS; n++) {
		int own = n * 13 % 5 % n;
		struct sum s = { .y = tensor_1d(y, to, LENGTH),
			.x = tensor_1d(x, type, LENGTH),
			.others = tensor_2d(others, type, n - 1, LENGTH),
			.own = own };

		memcpy(others, x, (size_t)own * row);
		memcpy(others + (size_t)own * row, x + (size_t)(own + 1) * row,
		    (size_t)(n - own - 1) * row);
		s.x.data = x + (size_t)own * row;
		if (to == type && n % 2)
			s.x.data = memcpy(y, s.x.data, row);
		st->ops->sum(st, &s);
		compare(y, to, x, type, n);
		s.own = -1;
		s.others = tensor_2d(x, type, n, LENGTH);
		st->ops->sum(st, &s);
		compare(y, to, x, type, n);
	}
	free(x);
	free(others);
	free(y);
}

static void
test_device(enum dtype real)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	struct device_config config = { .num_threads = 1, .dtype = real };
	struct err e = { "" };
	struct device *d = backend_cpu.open(&config, &e);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);

	if (real == DTYPE_F64)
		test_operation(st, DTYPE_F64, DTYPE_F64);
	for (int i = 0; real == DTYPE_F32 && i < 3; i++) {
		test_operation(st, types[i], types[i]);
		test_operation(st, types[i], DTYPE_F32);
		test_hosts(st, types[i]);
	}
	backend_cpu.close(d);
}

int
main(void)
{
	static const enum dtype all[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I64,
		DTYPE_I32 };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		test_reduction(all[i]);
		test_hosts(NULL, all[i]);
	}
	test_device(DTYPE_F32);
	test_device(DTYPE_F64);
	return check_done();
}
