/*
 * record.c - a CPU that records: what is queued between record_begin and record_end is kept with
 * its arguments, and run by each launch
 *
 * It stands for a GPU with its graphs: what would differ from one step to the next, and must not be
 * in a recording, spoils the results here as well. mtrain is linked with it in place of what
 * chooses the backend. The number of launches is printed when the device is closed.
 */
#include "lib/base/mem.h"
#include "train/comm.h"
#include "train/ops.h"

#include <stdio.h>
#include <stdlib.h>

const struct backend *__real_backend_choose(const char *name, struct err *e);
const struct backend *__wrap_backend_choose(const char *name, struct err *e);

struct copy {
	void *to;
	const void *from;
	size_t bytes;
};

/* A call and its arguments. */
struct call {
	void (*run)(const struct call *);
	struct stream *st;
	union {
		struct copy copy;
#define OPERATION(op, type) struct type op;
#include "train/ops_list.h"
	} of;
};

struct recorded {
	struct call *call;
	size_t count, room;
};

static const struct backend *real;
static const struct ops *inner; /* of the CPU's streams */
static struct recorded *tape;   /* what is recorded now; NULL: calls are run */
static long launches;

static struct call *
keep(struct stream *st, void (*run)(const struct call *))
{
	struct call *c;

	if (tape->count == tape->room) {
		tape->room = 2 * tape->room + 64;
		tape->call = mem_realloc(tape->call, tape->room, sizeof *tape->call);
	}
	c = &tape->call[tape->count++];
	*c = (struct call){ .run = run, .st = st };
	return c;
}

/* --- operations ------------------------------------------------------------------------------- */

#define OPERATION(op, type) \
	static void run_##op(const struct call *c) \
	{ \
		inner->op(c->st, &c->of.op); \
	} \
	static void kept_##op(struct stream *st, const struct type *a) \
	{ \
		if (tape) \
			keep(st, run_##op)->of.op = *a; \
		else \
			inner->op(st, a); \
	}

#include "train/ops_list.h"

static const struct ops kept_ops = {
#define OPERATION(op, type) .op = kept_##op,
#include "train/ops_list.h"
};

static struct stream *
stream(struct device *d, int index)
{
	struct stream *st = real->stream(d, index);

	if (st->ops == &kept_ops)
		return st;
	inner = st->ops;
	st->ops = &kept_ops;
	return st;
}

/* --- collectives ------------------------------------------------------------------------------ */

static struct comm *
host(const struct comm *c)
{
	return c->impl;
}

/* No leg has one of them, nor an event. */
static void
none_now(void)
{
	if (tape)
		BUG("a call that cannot be recorded");
}

static bool
share(struct comm *c, const struct comm_memory *piece, int count, struct err *why)
{
	return host(c)->ops->share(host(c), piece, count, why);
}

static void
barrier(struct comm *c)
{
	host(c)->ops->barrier(host(c));
}

static void
free_comm(struct comm *c)
{
	host(c)->ops->free(host(c));
	free(c);
}

#define CALL(call, type) \
	static void call_##call(struct comm *c, struct stream *st, const struct type *a) \
	{ \
		none_now(); \
		host(c)->ops->call(host(c), st, a); \
	}

#include "train/comm_list.h"

static const struct comm_ops kept_comm_ops = {
#define CALL(call, type) .call = call_##call,
#include "train/comm_list.h"
	.share = share,
	.barrier = barrier,
	.free = free_comm,
};

static struct comm *
comm(struct device *d, struct comm *from, const struct comm_config *config, struct err *e)
{
	struct comm *c = mem_zalloc(1, sizeof *c);

	(void)d;
	(void)config;
	(void)e;
	*c = (struct comm){
		.ops = &kept_comm_ops, .rank = from->rank, .size = from->size, .impl = from
	};
	return c;
}

/* --- the device ------------------------------------------------------------------------------- */

static void
record(struct stream *st, struct event *ev)
{
	none_now();
	real->record(st, ev);
}

static void
run_copy(const struct call *c)
{
	real->copy_out(c->st, c->of.copy.to, c->of.copy.from, c->of.copy.bytes);
}

static void
copy_out(struct stream *st, void *to, const void *from, size_t bytes)
{
	if (tape)
		keep(st, run_copy)->of.copy = (struct copy){ to, from, bytes };
	else
		real->copy_out(st, to, from, bytes);
}

static void
copy_in(struct stream *st, void *to, const void *from, size_t bytes)
{
	none_now();
	real->copy_in(st, to, from, bytes);
}

/* Its queue is always empty. */
static bool
passed(struct device *d, struct event *ev)
{
	(void)d;
	(void)ev;
	return true;
}

static bool
record_begin(struct stream *st, struct err *why)
{
	(void)st;
	(void)why;
	tape = mem_zalloc(1, sizeof *tape);
	return true;
}

static struct recorded *
record_end(struct stream *st, struct err *why)
{
	struct recorded *r = tape;

	(void)st;
	(void)why;
	tape = NULL;
	return r;
}

static void
launch(struct stream *st, struct recorded *r)
{
	(void)st;
	launches++;
	for (size_t i = 0; i < r->count; i++)
		r->call[i].run(&r->call[i]);
}

static void
drop(struct recorded *r)
{
	if (r)
		free(r->call);
	free(r);
}

static void
device_close(struct device *d)
{
	fprintf(stderr, "%ld launches\n", launches);
	real->close(d);
}

const struct backend *
__wrap_backend_choose(const char *name, struct err *e)
{
	static struct backend b;

	real = __real_backend_choose(name, e);
	if (!real)
		return NULL;
	b = *real;
	b.close = device_close;
	b.stream = stream;
	b.record = record;
	b.copy_in = copy_in;
	b.copy_out = copy_out;
	b.passed = passed;
	b.record_begin = record_begin;
	b.record_end = record_end;
	b.launch = launch;
	b.drop = drop;
	b.comm = comm;
	return &b;
}
