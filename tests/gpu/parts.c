/*
 * parts.c [BACKEND] - gathers and scatters in parts between GPUs of one host, blocks that all
 * exchange, and rows that go to experts and back: bits, order, rates
 *
 * Run by mpirun with two ranks or more (tests/gpu/parts.sh), a GPU each; alone, or without a GPU,
 * it says so and succeeds. Every rank can make every other rank's numbers. Parts are read on
 * another stream as soon as their event has passed. A chain of calls without a word to the host
 * would show memory that is written before it is free. All is tested and timed twice, by messages
 * and then by shared memory; with a backend's name as argument, "cpu", nothing is timed.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "tests/gpu.h"
#include "tests/tree_sum.h"
#include "train/comm.h"
#include "train/ops.h"

TREE_SUM(sum_f32, float)

enum { PART = 64 << 20, ROUNDS = 20, REPEATS = 20 };

enum { SUM_BYTES = 16 << 20 }; /* of room for sums that all ranks get */

struct rig {
	const struct backend *b;
	struct device *d;
	struct comm *world, *c;
	struct stream *compute, *overlap;
	struct event **event, *forked, *joined;
	char *whole, *slots, *part; /* the first two are shared; PART for each rank, one PART */
	bool shared;
};

/* One call: parts of count elements. */
struct trial {
	enum dtype dtype;
	int64_t count;
	bool in_place;
	int64_t room; /* of a scatter at once: elements of the slots for each other rank */
	bool reversed;
};

/* --- numbers ---------------------------------------------------------------------------------- */

/* Elements [first, first + count) of a rank's array, as floats that the type holds; to free(). */
static float *
numbers(const struct trial *t, int rank, int64_t first, int64_t count)
{
	float *x = mem_alloc((size_t)count, sizeof *x);
	char *narrow = mem_alloc((size_t)count, dtype_size(t->dtype));

	for (int64_t i = 0; i < count; i++) {
		uint64_t h = ((uint64_t)(first + i) * 64 + (uint64_t)rank + 1) * 0x9e3779b97f4a7c15;

		h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9;
		x[i] = (float)((int)(h >> 48) - 32768) / (float)(1 << (h >> 40 & 7)) / 1024;
	}
	dtype_convert(narrow, t->dtype, x, DTYPE_F32, count);
	dtype_convert(x, DTYPE_F32, narrow, t->dtype, count);
	free(narrow);
	return x;
}

static void
upload(struct rig *r, const struct tensor *to, const float *x)
{
	char *host = mem_alloc((size_t)tensor_elements(to), dtype_size(to->dtype));
	struct err e;

	dtype_convert(host, to->dtype, x, DTYPE_F32, tensor_elements(to));
	r->b->copy_in(r->compute, to->data, host, tensor_bytes(to));
	CHECK(r->b->sync(r->compute, &e) == 0);
	free(host);
}

/* To free(). */
static float *
download(struct rig *r, struct stream *st, const struct tensor *from)
{
	char *host = mem_alloc((size_t)tensor_elements(from), dtype_size(from->dtype));
	float *x = mem_alloc((size_t)tensor_elements(from), sizeof *x);
	struct err e = { "" };

	r->b->copy_out(st, host, from->data, tensor_bytes(from));
	if (r->b->sync(st, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	dtype_convert(x, DTYPE_F32, host, from->dtype, tensor_elements(from));
	free(host);
	return x;
}

static bool
same(const float *a, const float *b, int64_t n)
{
	return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* --- one call --------------------------------------------------------------------------------- */

static struct comm_parts
parts_of(const struct rig *r, const struct trial *t)
{
	int64_t n = t->count;
	struct comm_parts p = { .whole = tensor_1d(r->whole, t->dtype, n * r->c->size),
		.part = tensor_1d(r->part, t->dtype, n),
		.partial_sums =
		    tensor_1d(r->slots, t->dtype, (t->room ? t->room : n) * (r->c->size - 1)),
		.reversed = t->reversed,
		.event = t->room ? NULL : r->event };

	if (t->in_place)
		p.part = comm_whole(r->c, &p, r->c->rank);
	return p;
}

/* The stream of the calls continues after the compute stream; and that after the calls. */
static void
fork_calls(struct rig *r)
{
	r->b->record(r->compute, r->forked);
	r->b->wait(r->overlap, r->forked);
}

static void
join_calls(struct rig *r)
{
	r->b->record(r->overlap, r->joined);
	r->b->wait(r->compute, r->joined);
}

/* Each part is copied away after its own event. */
static void
test_gather(struct rig *r, const struct trial *t)
{
	struct comm_parts p = parts_of(r, t);
	float *mine = numbers(t, r->c->rank, 0, t->count);

	r->compute->ops->fill(r->compute, &(struct fill){ p.whole, NAN });
	upload(r, &p.part, mine);
	fork_calls(r);
	r->c->ops->all_gather_parts(r->c, r->overlap, &p);
	for (int i = 1; i < r->c->size; i++) {
		int from = (r->c->rank + i) % r->c->size;
		struct tensor part = comm_whole(r->c, &p, from);
		float *want = numbers(t, from, 0, t->count), *have;

		r->b->wait(r->compute, r->event[from]);
		have = download(r, r->compute, &part);
		CHECK(same(have, want, t->count));
		free(have);
		free(want);
	}
	join_calls(r);
	free(download(r, r->compute, &p.part));
	free(mine);
}

/* Without parts: all is there when the stream passes. */
static void
test_whole(struct rig *r, const struct trial *t)
{
	struct comm_parts p = parts_of(r, t);
	float *mine = numbers(t, r->c->rank, 0, t->count), *have;

	r->compute->ops->fill(r->compute, &(struct fill){ p.whole, NAN });
	upload(r, &p.part, mine);
	fork_calls(r);
	r->c->ops->all_gather(r->c, r->overlap, &(struct comm_gather){ p.whole, p.part });
	join_calls(r);
	have = download(r, r->compute, &p.whole);
	for (int i = 0; i < r->c->size; i++) {
		float *want = numbers(t, i, 0, t->count);

		CHECK(same(have + i * t->count, want, t->count));
		free(want);
	}
	free(have);
	free(mine);
}

/* The sum of elements from `first` on, rounded once; to free(). */
static float *
expected(const struct rig *r, const struct trial *t, int64_t first)
{
	int size = r->c->size;
	float *sum = mem_alloc((size_t)t->count, sizeof *sum);
	float **x = mem_alloc((size_t)size, sizeof *x),
	      *term = mem_alloc((size_t)size, sizeof *term);
	char *narrow = mem_alloc((size_t)t->count, dtype_size(t->dtype));

	for (int rank = 0; rank < size; rank++)
		x[rank] = numbers(t, rank, first, t->count);
	for (int64_t i = 0; i < t->count; i++) {
		for (int rank = 0; rank < size; rank++)
			term[rank] = x[rank][i];
		sum[i] = sum_f32(term, size);
	}
	for (int rank = 0; rank < size; rank++)
		free(x[rank]);
	dtype_convert(narrow, t->dtype, sum, DTYPE_F32, t->count);
	dtype_convert(sum, DTYPE_F32, narrow, t->dtype, t->count);
	free(x);
	free(term);
	free(narrow);
	return sum;
}

/* Parts are made one after the other, the next rank's first, or all before. */
static void
test_scatter(struct rig *r, const struct trial *t)
{
	struct comm_parts p = parts_of(r, t);
	float *mine = numbers(t, r->c->rank, 0, t->count * r->c->size);
	float *want = expected(r, t, r->c->rank * t->count), *have;

	r->compute->ops->fill(r->compute, &(struct fill){ p.whole, NAN });
	fork_calls(r);
	for (int i = 1; i <= r->c->size; i++) {
		int rank = (r->c->rank + i) % r->c->size;
		struct tensor part = comm_whole(r->c, &p, rank);

		upload(r, &part, mine + rank * t->count);
		r->b->record(r->compute, r->event[rank]);
	}
	if (!p.event)
		fork_calls(r);
	r->c->ops->reduce_scatter_parts(r->c, r->overlap, &p);
	join_calls(r);
	have = download(r, r->compute, &p.part);
	CHECK(same(have, want, t->count));
	free(mine);
	free(want);
	free(have);
}

/* A sum that every rank gets, in the pieces that the communicator's room allows. */
static void
test_sum(struct rig *r, const struct trial *t)
{
	struct tensor x = tensor_1d(r->whole, t->dtype, t->count);
	float *mine = numbers(t, r->c->rank, 0, t->count), *want = expected(r, t, 0), *have;

	upload(r, &x, mine);
	fork_calls(r);
	r->c->ops->all_reduce(r->c, r->overlap, &(struct comm_reduce){ x, REDUCE_SUM });
	join_calls(r);
	have = download(r, r->compute, &x);
	CHECK(same(have, want, t->count));
	free(mine);
	free(want);
	free(have);
}

/* A sum of integers, as of the rows of experts. */
static void
test_counts(struct rig *r)
{
	int32_t x[] = { 1, r->c->rank, -5 * r->c->rank }, n = r->c->size, sum = n * (n - 1) / 2;
	struct tensor t = tensor_1d(r->whole, DTYPE_I32, 3);
	struct err e;

	r->b->copy_in(r->compute, t.data, x, sizeof x);
	r->c->ops->all_reduce(r->c, r->compute, &(struct comm_reduce){ t, REDUCE_SUM });
	r->b->copy_out(r->compute, x, t.data, sizeof x);
	CHECK(r->b->sync(r->compute, &e) == 0);
	CHECK(x[0] == n && x[1] == sum && x[2] == -5 * sum);
}

enum { ARRAYS = 3 };

/* The blocks of some arrays, n elements each: what is given lies in slots, what is taken in whole.
 */
static void
list_blocks(const struct rig *r, enum dtype type, int64_t n, struct comm_block *block)
{
	struct tensor give = tensor_1d(r->slots, type, n * ARRAYS * r->c->size),
		      take = tensor_1d(r->whole, type, n * ARRAYS * r->c->size);

	for (int i = 0; i < ARRAYS * r->c->size; i++)
		block[i] = (struct comm_block){ tensor_rows(&give, i * n, n),
			tensor_rows(&take, i * n, n) };
}

/* Twice, so that the second call may not begin before the first has been read. */
static void
test_blocks(struct rig *r, const struct trial *t)
{
	int size = r->c->size, own = r->c->rank;
	int64_t n = t->count, all = n * ARRAYS * size;
	struct comm_block *block = mem_alloc((size_t)(ARRAYS * size), sizeof *block);
	struct tensor given = tensor_1d(r->slots, t->dtype, all),
		      taken = tensor_1d(r->whole, t->dtype, all);
	float *mine = numbers(t, own, 0, all);

	list_blocks(r, t->dtype, n, block);
	r->compute->ops->fill(r->compute, &(struct fill){ taken, NAN });
	upload(r, &given, mine);
	for (int k = 0; k < 2; k++) {
		fork_calls(r);
		r->c->ops->all_to_all(r->c, r->overlap, &(struct comm_arrays){ block, ARRAYS });
		join_calls(r);
	}
	for (int i = 0; i < ARRAYS * size; i++) {
		float *want = numbers(t, i % size, (i - i % size + own) * n, n),
		      *have = download(r, r->compute, &block[i].take);

		CHECK(i % size == own || same(have, want, n));
		free(want);
		free(have);
	}
	free(mine);
	free(block);
}

static void
test_sizes(struct rig *r)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	static const int64_t counts[] = { 1, 3, 8, 1000, 4097, 65536, 1048583, 4 << 20 };

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
		for (int i = 0; i < 12; i++) {
			struct trial t = { types[i / 4], counts[k], i % 2, 0, i / 2 % 2 };

			test_gather(r, &t);
			if (!t.reversed)
				test_whole(r, &t);
			if (!t.reversed && !t.in_place && t.count <= 1 << 20)
				test_blocks(r, &t);
			test_scatter(r, &t);
			if (!t.reversed && !t.in_place)
				test_sum(r, &t);
		}
}

/* From many pieces, odd ones and a last one that is short, to two and one. */
static void
test_pieces(struct rig *r)
{
	static const int64_t rooms[] = { COMM_ROOM, 1000, 65537, 1048582, 2 << 20 };

	for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++)
		for (int i = 0; i < 8; i++) {
			struct trial t = { i / 4 ? DTYPE_BF16 : DTYPE_F32, k == 0 ? 4097 : 1048583,
				i % 2, rooms[k], i / 2 % 2 };

			test_scatter(r, &t);
		}
}

/* Every round multiplies the part by the number of ranks, which a power of two does exactly; rounds
 * alternate between the streams. */
static void
test_chain(struct rig *r)
{
	struct trial t = { DTYPE_F32, 300001, false, 0, false };
	struct comm_parts p = parts_of(r, &t);
	float *x = numbers(&t, r->c->rank, 0, t.count), *have;
	struct tensor own = comm_whole(r->c, &p, r->c->rank);

	if (r->c->size & (r->c->size - 1))
		return;
	upload(r, &p.part, x);
	for (int k = 0; k < ROUNDS; k++) {
		struct stream *st = k % 2 ? r->compute : r->overlap;

		fork_calls(r);
		r->c->ops->all_gather_parts(r->c, st, &p);
		st->ops->cast(st, &(struct pair){ own, p.part });
		for (int i = 0; i < r->c->size; i++)
			r->b->record(st, r->event[i]);
		r->c->ops->reduce_scatter_parts(r->c, st, &p);
		join_calls(r);
	}
	have = download(r, r->compute, &p.part);
	for (int64_t i = 0; i < t.count; i++)
		x[i] *= (float)pow(r->c->size, ROUNDS);
	CHECK(same(have, x, t.count));
	free(have);
	free(x);
}

/* --- rows of experts -------------------------------------------------------------------------- */

/* Rows of so many elements, in windows of so many rows; some of each of `local` experts a rank, or
 * as many of each. */
struct rows_trial {
	enum dtype dtype;
	int64_t columns, height, local, each;
};

static int64_t
rows_for(const struct rows_trial *t, int rank, int64_t expert)
{
	static const int64_t some[] = { 3, 0, 17, 1, 40, 0, 0, 5, 8 };

	return t->each ? t->each : some[(rank * 5 + expert * 7) % 9];
}

/* A number below 256, which every type has. */
static float
row_number(int64_t rank, int64_t expert, int64_t row, int64_t column)
{
	return (float)((rank * 101 + expert * 31 + row * 7 + column) % 251);
}

/* Rows of a rank in the order of experts, or, taken, those that its experts take in theirs: how
 * many they are, and in x, unless it is NULL, their numbers. */
static int64_t
list_rows(const struct rig *r, const struct rows_trial *t, bool taken, float *x)
{
	int64_t own = r->c->rank, n = 0, first = taken ? own * t->local : 0,
		end = taken ? first + t->local : r->c->size * t->local;

	for (int64_t expert = first; expert < end; expert++)
		for (int64_t rank = taken ? 0 : own; rank < (taken ? r->c->size : own + 1); rank++)
			for (int64_t i = 0; i < rows_for(t, (int)rank, expert); i++, n++)
				for (int64_t k = 0; x && k < t->columns; k++)
					x[n * t->columns + k] = row_number(rank, expert, i, k);
	return n;
}

static struct tensor
counts_on(struct rig *r, const struct rows_trial *t)
{
	int64_t experts = t->local * r->c->size, cells = experts * r->c->size;
	int32_t *host = mem_alloc((size_t)cells, sizeof *host);
	struct err e;
	struct tensor counts = tensor_2d(
	    r->b->alloc(r->d, (size_t)cells * sizeof *host, &e), DTYPE_I32, r->c->size, experts);

	for (int64_t i = 0; i < cells; i++)
		host[i] = (int32_t)rows_for(t, (int)(i / experts), i % experts);
	r->b->copy_in(r->compute, counts.data, host, tensor_bytes(&counts));
	CHECK(r->b->sync(r->compute, &e) == 0);
	free(host);
	return counts;
}

/* What a tensor has is x, and after that NaN. */
static void
check_rows(struct rig *r, const struct tensor *t, const float *x, int64_t rows)
{
	float *have = download(r, r->compute, t);
	int64_t n = rows * t->shape[1];

	CHECK(same(have, x, n));
	for (int64_t i = n; i < tensor_elements(t); i++)
		if (!isnan(have[i])) {
			CHECK(isnan(have[i]));
			break;
		}
	free(have);
}

/* To experts, window by window from the last one on, which is empty, and back. Every rank has room
 * for as many rows, and makes as many calls. */
static void
test_rows(struct rig *r, const struct rows_trial *t)
{
	int64_t sent = list_rows(r, t, false, NULL), taken = list_rows(r, t, true, NULL),
		most = (t->each ? t->each : 40) * t->local * r->c->size,
		windows = most / t->height + 2;
	struct tensor routed = tensor_2d(r->whole, t->dtype, sent, t->columns),
		      all = tensor_2d(r->slots, t->dtype, windows * t->height, t->columns);
	float *to = mem_alloc((size_t)tensor_elements(&routed) + 1, sizeof *to),
	      *from = mem_alloc((size_t)tensor_elements(&all), sizeof *from);
	struct rows_exchange x = { .counts = counts_on(r, t) };

	list_rows(r, t, false, to);
	list_rows(r, t, true, from);
	upload(r, &routed, to);
	r->compute->ops->fill(r->compute, &(struct fill){ all, NAN });
	for (int64_t i = windows; i-- > 0;) {
		x.first = i * t->height;
		x.in = routed;
		x.out = tensor_rows(&all, x.first, t->height);
		r->c->ops->all_to_all_rows(r->c, r->compute, &x);
	}
	check_rows(r, &all, from, taken);
	r->compute->ops->fill(r->compute, &(struct fill){ routed, NAN });
	x.back = true;
	for (int64_t i = 0; i < windows; i++) {
		x.first = i * t->height;
		x.in = tensor_rows(&all, x.first, t->height);
		x.out = routed;
		r->c->ops->all_to_all_rows(r->c, r->compute, &x);
	}
	check_rows(r, &routed, to, sent);
	r->b->release(r->d, x.counts.data);
	free(to);
	free(from);
}

static void
test_exchanges(struct rig *r)
{
	static const struct rows_trial trials[] = {
		{ DTYPE_F32, 1, 1000, 5, 0 },
		{ DTYPE_F32, 1, 7, 3, 0 },
		{ DTYPE_BF16, 5, 16, 1, 0 },
		{ DTYPE_F16, 64, 33, 4, 0 },
		{ DTYPE_BF16, 2048, 100, 2, 0 },
		{ DTYPE_F32, 20, 4096, 40, 0 },
		{ DTYPE_BF16, 520, 3000, 200, 7 },
	};

	for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
		test_rows(r, &trials[i]);
}

/* --- rates ------------------------------------------------------------------------------------ */

typedef void call(struct rig *r, const void *args);

static void
gather_parts(struct rig *r, const void *p)
{
	r->c->ops->all_gather_parts(r->c, r->overlap, p);
}

static void
scatter_parts(struct rig *r, const void *p)
{
	r->c->ops->reduce_scatter_parts(r->c, r->overlap, p);
}

static void
gather(struct rig *r, const void *args)
{
	const struct comm_parts *p = args;

	r->c->ops->all_gather(r->c, r->overlap, &(struct comm_gather){ p->whole, p->part });
}

static void
sum_all(struct rig *r, const void *args)
{
	const struct comm_parts *p = args;

	r->c->ops->all_reduce(r->c, r->overlap, &(struct comm_reduce){ p->part, REDUCE_SUM });
}

static void
exchange_blocks(struct rig *r, const void *args)
{
	const struct comm_parts *p = args;
	struct comm_block *block = mem_alloc((size_t)(ARRAYS * r->c->size), sizeof *block);

	list_blocks(r, p->part.dtype, p->part.shape[0] / ARRAYS, block);
	r->c->ops->all_to_all(r->c, r->overlap, &(struct comm_arrays){ block, ARRAYS });
	free(block);
}

static void
rows_call(struct rig *r, const void *x)
{
	r->c->ops->all_to_all_rows(r->c, r->overlap, x);
}

/* Seconds of a call, of REPEATS one after the other. */
static double
seconds(struct rig *r, call *make, const void *args)
{
	struct err e;
	double begun = 0;

	for (int i = -2; i < REPEATS; i++) {
		if (i == 0) {
			CHECK(r->b->sync(r->overlap, &e) == 0);
			r->world->ops->barrier(r->world);
			begun = clock_seconds();
		}
		make(r, args);
	}
	CHECK(r->b->sync(r->overlap, &e) == 0);
	return (clock_seconds() - begun) / REPEATS;
}

/* Rows of 4 KiB, as many for each of 128 experts. Of those the others take, as bytes; the own ones
 * are copied too. Last a window that no row is in. */
static void
print_rows(struct rig *r)
{
	enum { WIDTH = 2048, ALL = PART / WIDTH / 2 };

	for (int64_t rows = ALL; rows >= ALL / 64; rows /= 8) {
		struct rows_trial t = { DTYPE_BF16, WIDTH, rows, 128 / r->c->size, rows / 128 };
		struct tensor routed = tensor_2d(r->whole, t.dtype, rows, WIDTH),
			      taken = tensor_2d(r->slots, t.dtype, rows, WIDTH),
			      counts = counts_on(r, &t);
		const struct rows_exchange calls[] = { { taken, routed, counts, 0, false },
			{ routed, taken, counts, 0, true },
			{ taken, routed, counts, rows, false } };
		static const char *const name[] = { "rows to experts", "rows back", "no rows" };
		double bytes = (double)tensor_bytes(&routed) * (r->c->size - 1) / r->c->size;

		for (int i = 0; i < 3; i++) {
			double s = seconds(r, rows_call, &calls[i]);

			if (r->c->rank == 0)
				printf("%-16s %5d rows a rank  %8.1f us  %6.1f GB/s\n", name[i],
				    (int)rows, s * 1e6, i < 2 ? bytes / s * 1e-9 : 0);
		}
		r->b->release(r->d, counts.data);
	}
}

static void
print_rates(struct rig *r)
{
	static const struct {
		const char *name;
		call *make;
	} calls[] = { { "gather in parts", gather_parts }, { "scatter in parts", scatter_parts },
		{ "blocks to all", exchange_blocks }, { "all-gather", gather },
		{ "sum on all", sum_all } };

	for (int64_t bytes = PART; bytes >= 1 << 20; bytes /= 4) {
		struct trial t = { DTYPE_BF16, bytes / 2, false, 0, false };
		struct comm_parts p = parts_of(r, &t);

		for (int i = 0; i < r->c->size; i++)
			r->b->record(r->compute, r->event[i]);
		for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
			double s = seconds(r, calls[k].make, &p);

			if (r->c->rank == 0)
				printf("%-16s %3d MiB a part  %8.1f us  %6.1f GB/s\n",
				    calls[k].name, (int)(bytes >> 20), s * 1e6,
				    (double)(bytes * (r->c->size - 1)) / s * 1e-9);
		}
	}
}

/* --- the program ------------------------------------------------------------------------------ */

/* The device, its communicator and its memory; false with a reason. */
static bool
open_rig(struct rig *r, struct err *e)
{
	struct device_config dc = { .num_threads = 1, .dtype = DTYPE_F32 };
	struct comm *host = r->world->ops->split(r->world, 0, r->world->rank, e);
	size_t ranks = (size_t)r->world->size;
	int local;

	dc.local_rank = mpi_local_rank(r->world, &local);
	r->d = r->b->open(&dc, e);
	if (!r->d)
		return false;
	r->c = r->b->comm
	    ? r->b->comm(r->d, host, &(struct comm_config){ "ranks", 0, SUM_BYTES }, e)
	    : host;
	if (!r->c)
		return false;
	r->compute = r->b->stream(r->d, STREAM_COMPUTE);
	r->overlap = r->b->stream(r->d, STREAM_TENSOR);
	r->event = mem_alloc(ranks, sizeof *r->event);
	for (size_t i = 0; i < ranks; i++)
		r->event[i] = r->b->event(r->d);
	r->forked = r->b->event(r->d);
	r->joined = r->b->event(r->d);
	r->whole = r->b->alloc(r->d, ranks * PART, e);
	r->slots = r->b->alloc(r->d, ranks * PART, e);
	r->part = r->b->alloc(r->d, PART, e);
	return r->whole && r->slots && r->part;
}

static void
test(struct rig *r, bool rates)
{
	if (r->c->rank == 0)
		printf("%d ranks, memory is %sshared\n", r->c->size, r->shared ? "" : "not ");
	test_sizes(r);
	test_counts(r);
	test_pieces(r);
	test_chain(r);
	test_exchanges(r);
	if (!rates)
		return;
	print_rates(r);
	print_rows(r);
}

static void
run(struct rig *r, bool rates)
{
	const struct comm_memory piece[] = { { r->whole, (size_t)r->c->size * PART },
		{ r->slots, (size_t)r->c->size * PART } };
	struct err why = { "" };

	test(r, rates);
	r->shared = r->c->ops->share(r->c, piece, 2, &why);
	if (r->c->rank == 0 && *why.msg)
		printf("%s\n", why.msg);
	test(r, rates);
	r->world->ops->barrier(r->world);
	r->c->ops->free(r->c);
	r->b->release(r->d, r->whole);
	r->b->release(r->d, r->slots);
	r->b->release(r->d, r->part);
	r->b->close(r->d);
	free(r->event);
}

int
main(int argc, char **argv)
{
	struct err e = { "" };
	struct rig r = { .world = mpi_world(&e) };

	CHECK(r.world);
	if (!r.world)
		return check_done();
	prog_begin(argv[0]);
	prog_rank(r.world->rank);
	r.b = argc > 1 ? backend_choose(argv[1], &e) : gpu_backend();
	if (!r.b || r.world->size == 1) {
		printf("%s\n", r.b ? "skipped: one rank alone" : e.msg);
		mpi_end();
		return 0;
	}
	if (!open_rig(&r, &e)) {
		fprintf(stderr, "%s\n", e.msg);
		r.world->ops->abort(r.world, 1);
	}
	run(&r, argc == 1);
	r.world->ops->free(r.world);
	mpi_end();
	return check_done();
}
