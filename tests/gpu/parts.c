/*
 * parts.c [BACKEND] - gathers and scatters in parts between GPUs of one host: bits, order, rates
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
#include "train/comm.h"
#include "train/ops.h"

enum { PART = 64 << 20, ROUNDS = 20, REPEATS = 20 };

struct rig {
	const struct backend *b;
	struct device *d;
	struct comm *world, *c;
	struct stream *compute, *beside;
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
		.slots = tensor_1d(r->slots, t->dtype, (t->room ? t->room : n) * (r->c->size - 1)),
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
	r->b->wait(r->beside, r->forked);
}

static void
join_calls(struct rig *r)
{
	r->b->record(r->beside, r->joined);
	r->b->wait(r->compute, r->joined);
}

/* Each part is copied away after its own event. */
static void
test_gather(struct rig *r, const struct trial *t)
{
	struct comm_parts p = parts_of(r, t);
	float *mine = numbers(t, r->c->rank, 0, t->count);

	r->compute->ops->fill(r->compute, &p.whole, NAN);
	upload(r, &p.part, mine);
	fork_calls(r);
	r->c->ops->all_gather_parts(r->c, r->beside, &p);
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

	r->compute->ops->fill(r->compute, &p.whole, NAN);
	upload(r, &p.part, mine);
	fork_calls(r);
	r->c->ops->all_gather(r->c, r->beside, &p.whole, &p.part);
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

/* The sum in rank order, rounded once; to free(). */
static float *
expected(const struct rig *r, const struct trial *t)
{
	float *sum = numbers(t, 0, r->c->rank * t->count, t->count);
	char *narrow = mem_alloc((size_t)t->count, dtype_size(t->dtype));

	for (int rank = 1; rank < r->c->size; rank++) {
		float *x = numbers(t, rank, r->c->rank * t->count, t->count);

		for (int64_t i = 0; i < t->count; i++)
			sum[i] += x[i];
		free(x);
	}
	dtype_convert(narrow, t->dtype, sum, DTYPE_F32, t->count);
	dtype_convert(sum, DTYPE_F32, narrow, t->dtype, t->count);
	free(narrow);
	return sum;
}

/* Parts are made one after the other, the next rank's first, or all before. Ranks without shared
 * memory add as NCCL does. */
static void
test_scatter(struct rig *r, const struct trial *t)
{
	struct comm_parts p = parts_of(r, t);
	float *mine = numbers(t, r->c->rank, 0, t->count * r->c->size);
	float *want = expected(r, t), *have;
	double worst = 0;

	r->compute->ops->fill(r->compute, &p.whole, NAN);
	fork_calls(r);
	for (int i = 1; i <= r->c->size; i++) {
		int rank = (r->c->rank + i) % r->c->size;
		struct tensor part = comm_whole(r->c, &p, rank);

		upload(r, &part, mine + rank * t->count);
		r->b->record(r->compute, r->event[rank]);
	}
	if (!p.event)
		fork_calls(r);
	r->c->ops->reduce_scatter_parts(r->c, r->beside, &p);
	join_calls(r);
	have = download(r, r->compute, &p.part);
	for (int64_t i = 0; i < t->count; i++)
		worst = fmax(worst, fabs((double)have[i] - (double)want[i]));
	CHECK(
	    r->shared ? same(have, want, t->count) : worst < (t->dtype == DTYPE_F32 ? 1e-4 : 1.0));
	free(mine);
	free(want);
	free(have);
}

static void
test_sizes(struct rig *r)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	static const int64_t counts[] = { 1, 3, 8, 1000, 4097, 65536, 1048583, 4 << 20 };

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
		for (int i = 0; i < 6; i++) {
			struct trial t = { types[i / 2], counts[k], i % 2, 0 };

			test_gather(r, &t);
			test_whole(r, &t);
			test_scatter(r, &t);
		}
}

/* From many pieces, odd ones and a last one that is short, to two and one. */
static void
test_pieces(struct rig *r)
{
	static const int64_t rooms[] = { COMM_ROOM, 1000, 65537, 1048582, 2 << 20 };

	for (size_t k = 0; k < sizeof rooms / sizeof *rooms; k++)
		for (int i = 0; i < 4; i++) {
			struct trial t = { i / 2 ? DTYPE_BF16 : DTYPE_F32, k == 0 ? 4097 : 1048583,
				i % 2, rooms[k] };

			test_scatter(r, &t);
		}
}

/* Every round multiplies the part by the number of ranks, which a power of two does exactly; rounds
 * alternate between the streams. */
static void
test_chain(struct rig *r)
{
	struct trial t = { DTYPE_F32, 300001, false, 0 };
	struct comm_parts p = parts_of(r, &t);
	float *x = numbers(&t, r->c->rank, 0, t.count), *have;
	struct tensor own = comm_whole(r->c, &p, r->c->rank);

	if (r->c->size & (r->c->size - 1))
		return;
	upload(r, &p.part, x);
	for (int k = 0; k < ROUNDS; k++) {
		struct stream *st = k % 2 ? r->compute : r->beside;

		fork_calls(r);
		r->c->ops->all_gather_parts(r->c, st, &p);
		st->ops->cast(st, &own, &p.part);
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

/* --- rates ------------------------------------------------------------------------------------ */

enum call { GATHER_PARTS, SCATTER_PARTS, GATHER, SCATTER, CALLS };

static void
make_call(struct rig *r, enum call which, const struct comm_parts *p)
{
	switch (which) {
	case GATHER_PARTS: r->c->ops->all_gather_parts(r->c, r->beside, p); break;
	case SCATTER_PARTS: r->c->ops->reduce_scatter_parts(r->c, r->beside, p); break;
	case GATHER: r->c->ops->all_gather(r->c, r->beside, &p->whole, &p->part); break;
	default: r->c->ops->reduce_scatter(r->c, r->beside, &p->part, &p->whole);
	}
}

/* Seconds of a call, of REPEATS one after the other. */
static double
seconds(struct rig *r, enum call which, const struct comm_parts *p)
{
	struct err e;
	double begun = 0;

	for (int i = -2; i < REPEATS; i++) {
		if (i == 0) {
			CHECK(r->b->sync(r->beside, &e) == 0);
			r->world->ops->barrier(r->world);
			begun = clock_seconds();
		}
		make_call(r, which, p);
	}
	CHECK(r->b->sync(r->beside, &e) == 0);
	return (clock_seconds() - begun) / REPEATS;
}

static void
print_rates(struct rig *r)
{
	static const char *const names[] = { "gather in parts", "scatter in parts", "all-gather",
		"reduce-scatter" };

	for (int64_t bytes = PART; bytes >= 1 << 20; bytes /= 4) {
		struct trial t = { DTYPE_BF16, bytes / 2, false, 0 };
		struct comm_parts p = parts_of(r, &t);

		for (int i = 0; i < r->c->size; i++)
			r->b->record(r->compute, r->event[i]);
		for (int which = 0; which < CALLS; which++) {
			double s = seconds(r, (enum call)which, &p);

			if (r->c->rank == 0)
				printf("%-16s %3d MiB a part  %8.1f us  %6.1f GB/s\n", names[which],
				    (int)(bytes >> 20), s * 1e6,
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
	r->c = r->b->comm ? r->b->comm(r->d, host, &(struct comm_config){ "ranks", 0 }, e) : host;
	if (!r->c)
		return false;
	r->compute = r->b->stream(r->d, STREAM_COMPUTE);
	r->beside = r->b->stream(r->d, STREAM_TENSOR);
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
	test_pieces(r);
	test_chain(r);
	if (rates)
		print_rates(r);
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
