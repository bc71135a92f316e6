/*
 * comm.c - the communication contract: every result compared, bit for bit, with a computation by
 * one process
 *
 * Without mpirun it tests a world of one; tests/parity/comm.sh runs it on several ranks. Every rank
 * can compute every other rank's numbers, so only the calls under test communicate. With the word
 * "abort" a rank aborts, with "lost" one sends to a rank that does not exist.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "tests/tree_sum.h"
#include "train/comm.h"

TREE_SUM(sum_f64, double)
TREE_SUM(sum_f32, float)
TREE_SUM(sum_u64, uint64_t)

enum { MAX_RANKS = 32 };

static const enum dtype reducible[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I64,
	DTYPE_I32 };

struct trial {
	struct comm *comm;
	enum dtype dtype;
	int64_t count; /* elements of a part */
	enum reduce op;
	bool in_place, parts, reversed; /* reversed: of parts alone */
	uint64_t seed;
};

static uint64_t
mix(uint64_t x)
{
	x = (x + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Elements [first, first + count) of a rank's array: numbers of both signs and of very different
 * magnitudes. */
static char *
make_array(const struct trial *t, int rank, int64_t first, int64_t count)
{
	size_t size = dtype_size(t->dtype);
	char *a = mem_alloc((size_t)count, size);

	for (int64_t i = 0; i < count; i++) {
		uint64_t h = mix(t->seed ^ mix((uint64_t)(first + i) * 1000 + (uint64_t)rank));
		float f = (float)((int)(h >> 48) - 32768) / (float)(1 << (h & 15));
		double d = (double)f + (double)(h >> 32 & 0xffff) * 0x1p-40;

		if (t->dtype == DTYPE_F64)
			memcpy(a + (size_t)i * size, &d, 8);
		else if (dtype_is_float(t->dtype))
			dtype_convert(a + (size_t)i * size, t->dtype, &f, DTYPE_F32, 1);
		else
			memcpy(a + (size_t)i * size, &h, size);
	}
	return a;
}

/* One element in its real type. */
union number {
	double f64;
	float f32;
	int64_t i64;
	int32_t i32;
};

/* The largest of n numbers, or S of them. */
static union number
combine(const union number *x, int n, enum dtype real, enum reduce op)
{
	union number most = x[0];
	double f64[MAX_RANKS];
	float f32[MAX_RANKS];
	uint64_t u64[MAX_RANKS];

	for (int k = 0; k < n; k++) {
		f64[k] = x[k].f64;
		f32[k] = x[k].f32;
		u64[k] = real == DTYPE_I32 ? (uint64_t)x[k].i32 : (uint64_t)x[k].i64;
		if (real == DTYPE_F64)
			most.f64 = fmax(most.f64, x[k].f64);
		else if (real == DTYPE_F32)
			most.f32 = fmaxf(most.f32, x[k].f32);
		else if ((int64_t)u64[k] > (real == DTYPE_I32 ? most.i32 : most.i64))
			most = x[k];
	}
	if (op == REDUCE_MAX)
		return most;
	if (real == DTYPE_F64)
		return (union number){ .f64 = sum_f64(f64, n) };
	if (real == DTYPE_F32)
		return (union number){ .f32 = sum_f32(f32, n) };
	return (union number){ .i64 = (int64_t)sum_u64(u64, n) };
}

/* Which of the parts is a rank's. */
static int
part_of(const struct trial *t, int rank)
{
	return t->reversed ? t->comm->size - 1 - rank : rank;
}

/* The reduction of elements [first, first + count) over all ranks; the caller frees. */
static char *
expected(const struct trial *t, int64_t first, int64_t count)
{
	enum dtype real = t->dtype == DTYPE_BF16 || t->dtype == DTYPE_F16 ? DTYPE_F32 : t->dtype;
	size_t size = dtype_size(t->dtype);
	char *out = mem_alloc((size_t)count, size), *array[MAX_RANKS];
	union number x[MAX_RANKS], y;

	for (int r = 0; r < t->comm->size; r++)
		array[r] = make_array(t, r, first, count);
	for (size_t i = 0; i < (size_t)count; i++) {
		for (int r = 0; r < t->comm->size; r++)
			dtype_convert(&x[r], real, array[r] + i * size, t->dtype, 1);
		y = combine(x, t->comm->size, real, t->op);
		dtype_convert(out + i * size, t->dtype, &y, real, 1);
	}
	for (int r = 0; r < t->comm->size; r++)
		free(array[r]);
	return out;
}

static void
test_all_reduce(const struct trial *t)
{
	char *mine = make_array(t, t->comm->rank, 0, t->count), *want = expected(t, 0, t->count);
	struct tensor x = tensor_1d(mine, t->dtype, t->count);

	t->comm->ops->all_reduce(t->comm, NULL, &(struct comm_reduce){ x, t->op });
	CHECK(memcmp(mine, want, tensor_bytes(&x)) == 0);
	free(mine);
	free(want);
}

/* Slots for the parts of the other ranks, and no more. */
static void
scatter_parts(const struct trial *t, const struct tensor *out, const struct tensor *in)
{
	int64_t room = t->count * (t->comm->size - 1);
	struct comm_parts p = { .whole = *in, .part = *out, .reversed = t->reversed };

	p.partial_sums = tensor_1d(mem_alloc((size_t)room, dtype_size(t->dtype)), t->dtype, room);
	t->comm->ops->reduce_scatter_parts(t->comm, NULL, &p);
	free(p.partial_sums.data);
}

static void
test_reduce_scatter(const struct trial *t)
{
	int64_t n = t->count, total = n * t->comm->size, first = n * part_of(t, t->comm->rank);
	char *all = make_array(t, t->comm->rank, 0, total), *want = expected(t, first, n);
	char *part = mem_alloc((size_t)n, dtype_size(t->dtype));
	struct tensor in = tensor_1d(all, t->dtype, total), out = tensor_1d(part, t->dtype, n);

	if (t->in_place)
		out.data = all + (size_t)first * dtype_size(t->dtype);
	scatter_parts(t, &out, &in);
	CHECK(memcmp(out.data, want, tensor_bytes(&out)) == 0);
	free(all);
	free(part);
	free(want);
}

static void
test_all_gather(const struct trial *t)
{
	int64_t n = t->count, total = n * t->comm->size;
	char *all = mem_zalloc((size_t)total, dtype_size(t->dtype)),
	     *part = make_array(t, t->comm->rank, 0, n);
	struct tensor out = tensor_1d(all, t->dtype, total), in = tensor_1d(part, t->dtype, n);
	size_t bytes = tensor_bytes(&in);

	if (t->in_place) {
		in.data = all + (size_t)part_of(t, t->comm->rank) * bytes;
		memcpy(in.data, part, bytes);
	}
	if (t->parts)
		t->comm->ops->all_gather_parts(t->comm, NULL,
		    &(struct comm_parts){ .whole = out, .part = in, .reversed = t->reversed });
	else
		t->comm->ops->all_gather(t->comm, NULL, &(struct comm_gather){ out, in });
	for (int r = 0; r < t->comm->size; r++) {
		/* In parts, the own one is the caller's. */
		if (t->parts && r == t->comm->rank)
			continue;
		char *want = make_array(t, r, 0, n);

		CHECK(memcmp(all + (size_t)part_of(t, r) * bytes, want, bytes) == 0);
		free(want);
	}
	free(all);
	free(part);
}

static void
test_broadcast(const struct trial *t)
{
	for (int root = 0; root < t->comm->size; root++) {
		char *mine = make_array(t, t->comm->rank, 0, t->count),
		     *want = make_array(t, root, 0, t->count);
		struct tensor x = tensor_1d(mine, t->dtype, t->count);

		t->comm->ops->broadcast(t->comm, NULL, &(struct comm_broadcast){ x, root });
		CHECK(memcmp(mine, want, tensor_bytes(&x)) == 0);
		free(mine);
		free(want);
	}
}

/* Two messages in each direction with every rank, including itself, in one batch; sends are listed
 * first. */
static void
test_exchange(const struct trial *t)
{
	int ranks = t->comm->size, n = 2 * ranks;
	struct p2p *message = mem_zalloc((size_t)(2 * n), sizeof *message);
	struct trial tagged = *t;

	for (int i = 0; i < 2 * n; i++) {
		bool send = i < n;
		int peer = i % n / 2, tag = i % 2;
		int64_t count = t->count + tag;

		tagged.seed = t->seed + (uint64_t)(tag * 1000 + peer);
		message[i] = (struct p2p){ send, peer, tag, tensor_1d(NULL, t->dtype, count) };
		message[i].buf.data = send ? make_array(&tagged, t->comm->rank, 0, count)
					   : mem_zalloc((size_t)count, dtype_size(t->dtype));
	}
	t->comm->ops->exchange(t->comm, NULL, &(struct comm_messages){ message, 2 * n });
	for (int i = 0; i < 2 * n; i++) {
		if (!message[i].send) {
			tagged.seed = t->seed + (uint64_t)(message[i].tag * 1000 + t->comm->rank);
			char *want =
			    make_array(&tagged, message[i].peer, 0, message[i].buf.shape[0]);

			CHECK(
			    memcmp(message[i].buf.data, want, tensor_bytes(&message[i].buf)) == 0);
			free(want);
		}
		free(message[i].buf.data);
	}
	free(message);
}

/* Every collective at one size, with and without overlap of in and out. */
static void
test_size(struct trial t)
{
	for (int i = 0; i < 6; i++) {
		t.in_place = i % 2;
		t.parts = i > 1;
		t.reversed = i > 3;
		t.op = REDUCE_SUM;
		if (t.parts)
			test_reduce_scatter(&t);
		test_all_gather(&t);
	}
	for (int op = 0; op < 2; op++) {
		t.op = (enum reduce)op;
		test_all_reduce(&t);
	}
	test_broadcast(&t);
	test_exchange(&t);
}

static void
test_sizes(struct comm *c, uint64_t seed)
{
	const int64_t fixed[] = { 0, 1, 3, 1024, 8191 };

	for (size_t d = 0; d < sizeof reducible / sizeof *reducible; d++)
		for (int i = 0; i < 8; i++) {
			int64_t count =
			    i < 5 ? fixed[i] : (int64_t)(mix(seed + (uint64_t)i) % 20000);

			test_size((struct trial){
			    .comm = c, .dtype = reducible[d], .count = count, .seed = seed++ });
		}
}

/* Arrays larger than the staging buffer, and messages in several parts. */
static void
test_large(struct comm *c, uint64_t seed)
{
	struct trial t = { .comm = c,
		.dtype = DTYPE_F32,
		.count = (int64_t)mpi_staging_bytes() / 4 + 77777,
		.seed = seed };

	test_all_reduce(&t);
	t.dtype = DTYPE_BF16;
	test_all_reduce(&t);
	t.count /= c->size;
	t.in_place = true;
	test_reduce_scatter(&t);
	t.dtype = DTYPE_F64;
	t.count = 2200001;
	test_all_gather(&t);
	if (c->size <= 2) {
		test_broadcast(&t);
		test_exchange(&t);
	}
}

/* Odd and even ranks in separate communicators, in reverse order; then one without rank 0. */
static void
test_split(struct comm *world, uint64_t seed)
{
	int color = world->rank % 2, same = (world->size + 1 - color) / 2;
	struct err e = { "" };
	struct comm *half = world->ops->split(world, color, -world->rank, &e), *rest;

	CHECK(half && half->size == same && half->rank == same - 1 - world->rank / 2);
	test_size((struct trial){ .comm = half, .dtype = DTYPE_F32, .count = 1001, .seed = seed });
	half->ops->free(half);
	rest = world->ops->split(world, world->rank ? 7 : -1, 0, &e);
	CHECK(world->rank ? rest && rest->size == world->size - 1 && rest->rank == world->rank - 1
			  : !rest);
	CHECK_STR(e.msg, "");
	if (rest) {
		rest->ops->barrier(rest);
		rest->ops->free(rest);
	}
}

/* Rank r sends 3 r bytes of its letter. */
static void
test_gather_bytes(struct comm *c)
{
	for (int root = 0; root < c->size; root++) {
		size_t len = (size_t)c->rank * 3, total = 99,
		       want = (size_t)(c->size * (c->size - 1) / 2) * 3, at = 0;
		char text[64];
		char *all;

		memset(text, 'a' + c->rank, sizeof text);
		all = c->ops->gather_bytes(c, text, len, root, &total);
		CHECK(c->rank == root ? all && total == want : !all && total == 0);
		for (int r = 0; all && r < c->size; r++)
			for (int i = 0; i < 3 * r; i++)
				CHECK(all[at++] == 'a' + r);
		free(all);
	}
}

/* A maximum keeps a NaN of any rank. */
static void
test_nan(struct comm *c)
{
	for (int where = 0; where < c->size; where++) {
		float x = c->rank == where ? NAN : 1.0f;
		struct tensor t = tensor_1d(&x, DTYPE_F32, 1);

		c->ops->all_reduce(c, NULL, &(struct comm_reduce){ t, REDUCE_MAX });
		CHECK(isnan(x));
	}
}

/* A rank that aborts, or that sends to a rank that does not exist, ends all ranks with status 4. */
static void
end_badly(struct comm *c, const char *how)
{
	float x = 0;
	struct p2p lost = { true, c->size, 0, tensor_1d(&x, DTYPE_F32, 1) };

	if (c->rank == c->size - 1 && !strcmp(how, "abort"))
		c->ops->abort(c, EXIT_PEER);
	if (c->rank == c->size - 1)
		c->ops->exchange(c, NULL, &(struct comm_messages){ &lost, 1 });
	c->ops->barrier(c);
}

/* --- rows of experts -------------------------------------------------------------------------- */

enum { LOCAL_EXPERTS = 3, ROW_WIDTH = 5 };

/* Rows that a rank has for an expert: some none, some many. */
static int32_t
rows_for(uint64_t seed, int rank, int expert)
{
	return (int32_t)(mix(seed + (uint64_t)rank * 100 + (uint64_t)expert) % 7 % 5);
}

/* What row i of those of a rank for an expert holds. */
static float
row_value(int rank, int expert, int i)
{
	return (float)(rank * 10000 + expert * 100 + i + 1);
}

/* Rows of a rank in the order of experts, or, taken, those that a rank's experts take, in theirs:
 * its number of rows; the value of each in x, unless that is NULL. */
static int64_t
list_rows(const struct trial *t, bool taken, float *x)
{
	int size = t->comm->size, own = t->comm->rank, n = 0;
	int first = taken ? own * LOCAL_EXPERTS : 0,
	    end = taken ? first + LOCAL_EXPERTS : size * LOCAL_EXPERTS;

	for (int expert = first; expert < end; expert++)
		for (int rank = taken ? 0 : own; rank < (taken ? size : own + 1); rank++)
			for (int i = 0; i < rows_for(t->seed, rank, expert); i++, n++)
				for (int k = 0; x && k < ROW_WIDTH; k++)
					x[n * ROW_WIDTH + k] = row_value(rank, expert, i);
	return n;
}

/* The first rows are those wanted, and the others have not been written. */
static void
check_rows(const float *x, const float *want, int64_t rows, int64_t all)
{
	for (int64_t i = 0; i < all * ROW_WIDTH; i++)
		CHECK(x[i] == (i < rows * ROW_WIDTH ? want[i] : -1));
}

static float *
rows_of(int64_t rows)
{
	float *x = mem_alloc((size_t)(rows * ROW_WIDTH + 1), sizeof *x);

	for (int64_t i = 0; i < rows * ROW_WIDTH; i++)
		x[i] = -1;
	return x;
}

/* Rows to their experts and back, in windows of so many rows, of which the last are empty. */
static void
test_rows(const struct trial *t, int64_t height)
{
	int experts = t->comm->size * LOCAL_EXPERTS;
	int64_t sent = list_rows(t, false, NULL), taken = list_rows(t, true, NULL);
	int64_t windows = 4 * (int64_t)experts / height + 2, room = windows * height;
	float *routed = rows_of(sent), *took = rows_of(room), *back = rows_of(sent),
	      *want = rows_of(room);
	int32_t *counts = mem_alloc((size_t)t->comm->size * (size_t)experts, sizeof *counts);
	struct rows_exchange x = { .counts = tensor_2d(counts, DTYPE_I32, t->comm->size, experts) };

	for (int i = 0; i < t->comm->size * experts; i++)
		counts[i] = rows_for(t->seed, i / experts, i % experts);
	list_rows(t, false, routed);
	list_rows(t, true, want);
	for (int64_t i = windows; i-- > 0;) {
		x.first = i * height;
		x.out = tensor_2d(took + x.first * ROW_WIDTH, DTYPE_F32, height, ROW_WIDTH);
		x.in = tensor_2d(routed, DTYPE_F32, sent, ROW_WIDTH);
		x.back = false;
		t->comm->ops->all_to_all_rows(t->comm, NULL, &x);
		x.in = x.out;
		x.out = tensor_2d(back, DTYPE_F32, sent, ROW_WIDTH);
		x.back = true;
		t->comm->ops->all_to_all_rows(t->comm, NULL, &x);
	}
	check_rows(took, want, taken, room);
	check_rows(back, routed, sent, sent);
	free(routed);
	free(took);
	free(back);
	free(want);
	free(counts);
}

static void
test_windows(struct comm *c, uint64_t seed)
{
	static const int64_t heights[] = { 1, 4, 7, 100 };

	for (int i = 0; i < 3 * 4; i++)
		test_rows(
		    &(struct trial){ .comm = c, .seed = seed + (uint64_t)i / 4 }, heights[i % 4]);
}

int
main(int argc, char **argv)
{
	uint64_t seed = check_seed();
	struct err e;
	struct comm *world = mpi_world(&e);
	int local_size = 0, local;

	CHECK(world);
	if (!world)
		return check_done();
	prog_begin(argv[0]);
	prog_rank(world->rank);
	if (argc > 1)
		end_badly(world, argv[1]);
	local = mpi_local_rank(world, &local_size);
	CHECK(local == world->rank && local_size == world->size);
	test_sizes(world, seed);
	test_large(world, seed + 100);
	test_split(world, seed + 200);
	test_gather_bytes(world);
	test_nan(world);
	test_windows(world, seed + 300);
	world->ops->barrier(world);
	world->ops->free(world);
	mpi_end();
	return check_done();
}
