/* comm_log.c - calls are numbered, recorded while they last, and passed on unchanged */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/check.h"
#include "train/watch/comm_log.h"

#include <stdlib.h>

enum { RING = 512 };

/* The call that the table below received, and the state of the log during it. */
struct peer {
	struct comm_log *log;
	struct comm_state during;
	int calls, freed;
};

static void
see(struct comm *c)
{
	struct peer *p = c->impl;

	p->calls++;
	comm_log_state(p->log, &p->during);
}

static void
fake_all_reduce(struct comm *c, struct stream *st, const struct comm_reduce *a)
{
	CHECK(!st && a->op == REDUCE_SUM && a->x.shape[0] == 3);
	see(c);
}

static void
fake_exchange(struct comm *c, struct stream *st, const struct comm_messages *a)
{
	(void)st;
	CHECK(a->count == 2 && a->message[1].peer == 1);
	see(c);
}

static void
fake_parts(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	(void)st;
	CHECK(p->whole.shape[0] == 3);
	see(c);
}

static void
fake_barrier(struct comm *c)
{
	see(c);
}

static void
fake_free(struct comm *c)
{
	struct peer *p = c->impl;

	p->freed++;
	free(c);
}

static const struct comm_ops fake_ops = { .all_reduce = fake_all_reduce,
	.exchange = fake_exchange,
	.all_gather_parts = fake_parts,
	.reduce_scatter_parts = fake_parts,
	.barrier = fake_barrier,
	.free = fake_free };

static struct comm *
fake_comm(struct peer *p, int size)
{
	struct comm *c = mem_zalloc(1, sizeof *c);

	*c = (struct comm){ .ops = &fake_ops, .size = size, .impl = p };
	return c;
}

/* A device that passes its events on command. */
struct device {
	int64_t recorded, passed;
};
struct event {
	int64_t place;
};

static struct event *
fake_event(struct device *d)
{
	(void)d;
	return mem_zalloc(1, sizeof(struct event)); /* never freed, like those of a device */
}

static void
fake_record(struct stream *st, struct event *e)
{
	e->place = ++st->device->recorded;
}

static bool
fake_passed(struct device *d, struct event *e)
{
	return e->place <= d->passed;
}

static const struct backend fake_backend = {
	.event = fake_event, .record = fake_record, .passed = fake_passed
};

static void
check_call(const struct comm_state *s, bool waits, uint64_t number, const char *kind)
{
	CHECK(s->waits == waits && s->at.number == number);
	CHECK_STR(s->at.kind, kind);
}

static void
test_blocking(void)
{
	struct peer p = { 0 };
	struct comm *world = fake_comm(&p, 2), *data = fake_comm(&p, 2);
	double x[3];
	struct tensor t = tensor_1d(x, DTYPE_F64, 3);
	struct p2p m[2] = { { true, 1, 0, t }, { false, 1, 0, t } };
	double since = clock_seconds();
	struct comm_state s;

	p.log = comm_log_new(world);
	comm_log_join(world, data, &(struct comm_group){ .role = COMM_DATA });
	comm_log_state(p.log, &s);
	CHECK(!s.waits && s.at.number == 0);
	world->ops->all_reduce(COMM_HERE(world), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	check_call(&p.during, true, 1, "all-reduce");
	CHECK(p.during.at.role == COMM_WORLD);
	CHECK(strstr(p.during.at.site, "tests/unit/comm_log.c:") != NULL);
	CHECK(p.during.at.bytes == 24 && p.during.since >= since);
	data->ops->exchange(data, NULL, &(struct comm_messages){ m, 2 });
	check_call(&p.during, true, 1, "exchange");
	CHECK(p.during.at.role == COMM_DATA);
	CHECK_STR(p.during.at.site, "no place");
	CHECK(p.during.at.bytes == 48);
	data->ops->all_gather_parts(COMM_HERE(data), NULL, &(struct comm_parts){ .whole = t });
	check_call(&p.during, true, 2, "all-gather in parts");
	CHECK(p.during.at.bytes == 24);
	data->ops->reduce_scatter_parts(COMM_HERE(data), NULL, &(struct comm_parts){ .whole = t });
	check_call(&p.during, true, 3, "reduce-scatter in parts");
	world->ops->barrier(COMM_HERE(world));
	check_call(&p.during, true, 2, "barrier");
	comm_log_state(p.log, &s);
	check_call(&s, false, 2, "barrier");
	comm_log_begin(COMM_HERE(world), COMM_DATA, "connection");
	comm_log_state(p.log, &s);
	check_call(&s, true, 3, "connection");
	CHECK(s.at.role == COMM_DATA);
	comm_log_end(world);
	CHECK(p.calls == 5);
	data->ops->free(data);
	world->ops->free(world);
	CHECK(p.freed == 2);
	comm_log_free(p.log);
}

/* The rank waits for the first call that the device has not passed. */
static void
test_queued(void)
{
	struct peer p = { 0 };
	struct comm *world = fake_comm(&p, 2), *data = fake_comm(&p, 2);
	struct device d = { 0, 0 };
	struct stream st = { .device = &d };
	struct p2p m[2] = { { .peer = 1 }, { .peer = 1 } };
	struct comm_state s;

	p.log = comm_log_new(world);
	comm_log_join(world, data, &(struct comm_group){ COMM_DATA, &fake_backend, &d });
	for (int i = 0; i < 3; i++)
		data->ops->exchange(COMM_HERE(data), &st, &(struct comm_messages){ m, 2 });
	comm_log_state(p.log, &s);
	CHECK(!s.waits && s.computes && s.at.number == 0);
	/* An event before each call and one after it. */
	d.passed = 1;
	comm_log_state(p.log, &s);
	check_call(&s, true, 1, "exchange");
	d.passed = 4;
	comm_log_state(p.log, &s);
	check_call(&s, false, 2, "exchange");
	CHECK(s.computes);
	d.passed = 5;
	comm_log_state(p.log, &s);
	check_call(&s, true, 3, "exchange");
	CHECK(!s.computes);
	d.passed = 6;
	comm_log_state(p.log, &s);
	check_call(&s, false, 3, "exchange");
	CHECK(!s.computes);
	/* More calls than the ring holds: the oldest one that is still in it. */
	for (int i = 0; i < 2 * RING; i++)
		data->ops->exchange(COMM_HERE(data), &st, &(struct comm_messages){ m, 2 });
	d.passed = 6 + 2 * RING + 1;
	comm_log_state(p.log, &s);
	check_call(&s, true, 3 + RING + 1, "exchange");
	data->ops->free(data);
	comm_log_state(p.log, &s);
	CHECK(!s.waits);
	world->ops->free(world);
	comm_log_free(p.log);
}

/* A step: `calls` sums among data ranks and one among all. */
static void
step(struct comm *world, struct comm *data, int calls)
{
	double x[3];
	struct tensor t = tensor_1d(x, DTYPE_F64, 3);

	for (int i = 0; i < calls; i++)
		data->ops->all_reduce(
		    COMM_HERE(data), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	world->ops->barrier(COMM_HERE(world));
}

/* Calls are counted by role; a step with another number of them than the one before is reported
 * until the next one begins. */
static void
test_tally(void)
{
	struct peer p = { 0 };
	struct comm *world = fake_comm(&p, 2), *data = fake_comm(&p, 2);

	p.log = comm_log_new(world);
	comm_log_join(world, data, &(struct comm_group){ .role = COMM_DATA });
	comm_log_call_group(world, 3);
	step(world, data, 2);
	CHECK(p.during.made.calls[COMM_WORLD] == 1 && p.during.made.calls[COMM_DATA] == 2);
	CHECK(p.during.made.last == COMM_WORLD && p.during.made.call_group == 3);
	for (int i = 0; i < 3; i++) {
		CHECK(!p.during.made.unusual);
		step(world, data, 2);
	}
	step(world, data, 0);
	CHECK(!p.during.made.unusual);
	step(world, data, 1);
	CHECK(p.during.made.unusual);
	step(world, data, 1);
	CHECK(!p.during.made.unusual);
	step(world, data, 2);
	CHECK(p.during.made.unusual);
	data->ops->free(data);
	world->ops->free(world);
	comm_log_free(p.log);
}

/* A single rank never waits. */
static void
test_alone(void)
{
	struct peer p = { 0 };
	struct comm *world = fake_comm(&p, 1), *data = fake_comm(&p, 2);

	p.log = comm_log_new(world);
	comm_log_join(world, data, &(struct comm_group){ .role = COMM_DATA });
	CHECK(world->ops == &fake_ops && data->ops == &fake_ops);
	free(world);
	free(data);
	comm_log_free(p.log);
}

int
main(void)
{
	test_blocking();
	test_queued();
	test_tally();
	test_alone();
	return check_done();
}
