/*
 * hosts.c - communicators of two levels against one level: each operation gives the same bits
 *
 * Every rank draws the same placement, operation, type and sizes. Ranks wait different times before
 * a call. Without mpirun there is one rank and nothing to compare; tests/parity/comm.sh starts
 * more.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/model/hosts.h"
#include "tests/check.h"
#include "train/comm.h"

#include <unistd.h>

enum { RANKS = 32, TRIALS = 200, TYPES = 6 };

static const enum dtype types[TYPES] = { DTYPE_F32, DTYPE_BF16, DTYPE_F64, DTYPE_F16, DTYPE_I64,
	DTYPE_I32 };

/* Ranks of a placement, as one level and as two. */
struct pair {
	struct comm *flat, *two;
	struct hosts h;
};

struct trial {
	struct pair p;
	enum dtype type, to; /* of terms and of a sum */
	int64_t count;       /* elements of a part */
	bool reversed, in_place;
	unsigned seed;
};

static int recorded[RANKS];

/* Events are their numbers here. */
static void
record(struct stream *st, struct event *e)
{
	(void)st;
	recorded[(int)((char *)(void *)e - (char *)NULL) - 1]++;
}

static const struct backend counting = { .record = record };

/* --- placements ------------------------------------------------------------------------------- */

/* Blocks, and at times a rank that is elsewhere. */
static void
draw_places(int *host, int size)
{
	int inside = 1 << rand() % 4, uneven = rand() % 4;

	for (int r = 0; r < size; r++)
		host[r] = r / inside;
	if (uneven == 0)
		host[rand() % size] = rand() % 2;
	if (uneven == 1 && rand() % 2)
		for (int r = 0; r < size; r++)
			host[r] = r % 2;
}

static struct comm *
part_of(struct comm *c, int color)
{
	struct err e;
	struct comm *part = c->ops->split(c, color, c->rank, &e);

	CHECK(part);
	return part;
}

/* Of the first `size` ranks; those after them have none. */
static void
open_pair(struct pair *p, struct comm *world, int size)
{
	int host[RANKS];
	struct err e;
	struct comm *all = world->ops->split(world, world->rank < size ? 0 : -1, world->rank, &e);

	*p = (struct pair){ .flat = all };
	draw_places(host, size);
	if (!all)
		return;
	hosts_of(&p->h, host, size, all->rank);
	if (p->h.count > 1 && p->h.inside > 1) {
		struct comm_levels l = { .all = part_of(all, 0),
			.inside = part_of(all, p->h.own),
			.rail = part_of(all, p->h.place) };

		p->two = hosts_comm(&l, &p->h, &counting);
		CHECK(p->two->rank == all->rank && p->two->size == size);
	}
}

static void
close_pair(struct pair *p)
{
	if (p->two)
		p->two->ops->free(p->two);
	if (p->flat)
		p->flat->ops->free(p->flat);
}

/* --- operations ------------------------------------------------------------------------------- */

/* n elements of a rank, of both signs and many magnitudes, with zeros of both signs. */
static struct tensor
made(const struct trial *t, int64_t n, int which)
{
	struct tensor x = tensor_1d(mem_zalloc((size_t)n + 1, 8), t->type, n);
	uint64_t h = t->seed * UINT64_C(77) + (uint64_t)(t->p.flat->rank * 1000 + which);

	for (int64_t i = 0; i < n; i++) {
		double d;

		h = (h + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
		h ^= h >> 29;
		d = h % 11 == 0 ? -0.0 : ((double)(h >> 44) - 0x1p19) / (double)(1 << (h & 15));
		if (dtype_is_float(t->type))
			dtype_convert((char *)x.data + (size_t)i * dtype_size(t->type), t->type, &d,
			    DTYPE_F64, 1);
		else
			memcpy((char *)x.data + (size_t)i * dtype_size(t->type), &h,
			    dtype_size(t->type));
	}
	return x;
}

static struct tensor
empty(enum dtype type, int64_t n)
{
	return tensor_1d(mem_zalloc((size_t)n + 1, 8), type, n);
}

static void
compare(const struct tensor *a, const struct tensor *b)
{
	CHECK(memcmp(a->data, b->data, tensor_bytes(a)) == 0);
}

/* The parts, or elements of them from some on, through room for so many elements of a part. */
static void
scatter(const struct trial *t, struct comm *c, struct tensor *out, int64_t room)
{
	int64_t size = c->size, first = t->count > 3 ? t->seed % 3 : 0, n = t->count - 2 * first;
	struct comm_parts p = { .whole = made(t, t->count * size, 0), .reversed = t->reversed };
	struct tensor own = comm_whole(c, &p, c->rank);

	p.first = first;
	p.partial_sums = empty(t->type, room * (size - 1));
	p.part = t->in_place && t->to == t->type ? tensor_rows(&own, first, n) : *out;
	p.part.shape[0] = n;
	c->ops->reduce_scatter_parts(c, NULL, &p);
	memcpy(out->data, p.part.data, tensor_bytes(&p.part));
	free(p.whole.data);
	free(p.partial_sums.data);
}

static void
test_scatter(const struct trial *t)
{
	struct tensor a = empty(t->to, t->count), b = empty(t->to, t->count);
	int64_t least = t->count < COMM_ROOM ? t->count : COMM_ROOM;

	scatter(t, t->p.flat, &a, least);
	scatter(t, t->p.two, &b, least + rand() % (int)(2 * t->count + 1));
	compare(&a, &b);
	free(a.data);
	free(b.data);
}

/* In parts the own one is the caller's, and each other rank's event is recorded. */
static void
gather(const struct trial *t, struct comm *c, struct tensor *out, bool parts)
{
	struct event *event[RANKS];
	struct comm_parts p = {
		.whole = *out, .part = made(t, t->count, 1), .reversed = t->reversed
	};
	struct tensor own = comm_whole(c, &p, c->rank), part = p.part;

	for (int i = 0; i < c->size; i++)
		event[i] = (struct event *)(void *)((char *)NULL + 1 + i);
	p.event = c == t->p.two ? event : NULL;
	memcpy(own.data, part.data, tensor_bytes(&part));
	if (t->in_place)
		p.part = own;
	if (parts)
		c->ops->all_gather_parts(c, NULL, &p);
	else
		c->ops->all_gather(c, NULL, &(struct comm_gather){ p.whole, p.part });
	free(part.data);
}

static void
test_gather(const struct trial *t, bool parts)
{
	int64_t n = t->count * t->p.flat->size;
	struct trial forward = *t;
	struct tensor a = empty(t->type, n), b = empty(t->type, n);

	forward.reversed &= parts;
	memset(recorded, 0, sizeof recorded);
	gather(&forward, t->p.flat, &a, parts);
	gather(&forward, t->p.two, &b, parts);
	compare(&a, &b);
	for (int r = 0; parts && r < t->p.flat->size; r++)
		if (r / t->p.h.inside != t->p.h.own && r % t->p.h.inside == t->p.h.place)
			CHECK(recorded[r] == 1);
	free(a.data);
	free(b.data);
}

static void
test_whole(const struct trial *t, bool reduce)
{
	struct comm *c[] = { t->p.flat, t->p.two };
	struct tensor x[] = { made(t, t->count, 2), made(t, t->count, 2) };

	for (int i = 0; i < 2; i++)
		if (reduce)
			c[i]->ops->all_reduce(c[i], NULL,
			    &(struct comm_reduce){ x[i], t->reversed ? REDUCE_MAX : REDUCE_SUM });
		else
			c[i]->ops->broadcast(c[i], NULL,
			    &(struct comm_broadcast){ x[i], (int)t->seed % c[i]->size });
	compare(&x[0], &x[1]);
	free(x[0].data);
	free(x[1].data);
}

/* Two arrays, of which each rank gives each other a part. */
static void
test_exchange(const struct trial *t)
{
	struct comm *c[] = { t->p.flat, t->p.two };
	int size = t->p.flat->size;
	int64_t n = 2 * size * t->count;
	struct tensor give = made(t, n, 3), take[] = { empty(t->type, n), empty(t->type, n) };
	struct comm_block block[2 * RANKS];

	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < 2 * size; i++)
			block[i] = (struct comm_block){ tensor_rows(&give, i * t->count, t->count),
				tensor_rows(&take[k], i * t->count, t->count) };
		c[k]->ops->all_to_all(c[k], NULL, &(struct comm_arrays){ block, 2 });
	}
	compare(&take[0], &take[1]);
	free(give.data);
	free(take[0].data);
	free(take[1].data);
}

static void
test_one(const struct trial *t, int operation)
{
	usleep((useconds_t)((t->p.flat->rank * 7 + (int)t->seed) % 5 * 200));
	switch (operation) {
	case 0:
	case 1:
	case 2: test_scatter(t); break;
	case 3: test_gather(t, false); break;
	case 4: test_gather(t, true); break;
	case 5: test_whole(t, true); break;
	case 6: test_whole(t, false); break;
	default: test_exchange(t);
	}
}

/* Some operations of a placement; what is drawn does not depend on the rank. */
static void
test_placement(struct comm *world)
{
	static const int64_t counts[] = { 0, 1, 2, 15, 16, 17, 129, 1000, 5003 };
	int size = world->size < 3 ? world->size : 2 + rand() % (world->size - 1);
	struct trial t = { .seed = 0 };

	open_pair(&t.p, world, rand() % 3 ? world->size : size);
	for (int i = 0; i < 2; i++) {
		int operation = rand() % 8, type = rand() % TYPES;

		t.type = t.to = types[type];
		if (dtype_size(t.type) == 2 && rand() % 2)
			t.to = DTYPE_F32;
		t.count = counts[rand() % 9];
		t.reversed = rand() % 2;
		t.in_place = rand() % 2;
		t.seed = (unsigned)rand() % 10000;
		if (t.p.two) {
			unsigned seed = (unsigned)rand();

			test_one(&t, operation);
			srand(seed);
		} else {
			srand((unsigned)rand());
		}
	}
	close_pair(&t.p);
}

/* Rank r has r bytes of its letter. */
static void
test_gather_bytes(struct comm *flat, struct comm *two)
{
	struct comm *c[] = { flat, two };
	char letters[RANKS], *all[2];
	size_t total[2];

	memset(letters, 'a' + flat->rank, sizeof letters);
	for (int i = 0; i < 2; i++)
		all[i] = c[i]->ops->gather_bytes(c[i], letters, (size_t)flat->rank, 0, &total[i]);
	CHECK(total[0] == total[1] && !all[0] == !all[1]);
	CHECK(!all[0] || memcmp(all[0], all[1], total[0]) == 0);
	free(all[0]);
	free(all[1]);
}

/* The world itself, as two levels and as one. */
static void
test_world(struct comm *world)
{
	struct err e;
	struct trial t = { .p = { part_of(world, 0), world, { 0 } }, .count = 5003 };

	CHECK(mpi_pretend_hosts(world, 2, &e) == 0 && mpi_levels(world, &e) == 0);
	for (int i = 0; i < 2 * TYPES; i++) {
		t.type = types[i / 2];
		t.reversed = i % 2;
		t.seed = (unsigned)i;
		test_whole(&t, true);
	}
	test_gather_bytes(t.p.flat, world);
	t.p.flat->ops->free(t.p.flat);
}

int
main(int argc, char **argv)
{
	struct err e;
	struct comm *world;

	(void)argc;
	srand((unsigned)check_seed());
	world = mpi_world(&e);
	CHECK(world && world->size <= RANKS);
	if (!world)
		return check_done();
	prog_begin(argv[0]);
	prog_rank(world->rank);
	for (int i = 0; world->size > 1 && i < TRIALS; i++)
		test_placement(world);
	if (world->size % 2 == 0)
		test_world(world);
	world->ops->barrier(world);
	world->ops->free(world);
	mpi_end();
	return check_done();
}
