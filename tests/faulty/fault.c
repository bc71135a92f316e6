/*
 * fault.c - the faults of a run, by the environment variable MIKOSHI_FAULT
 *
 *   skip:RANK:STEP:NUMBER   RANK leaves out its NUMBERth collective of the step
 *   slow:RANK:PERCENT       its operations take that much more work
 *   stuck:RANK:STEP         it reads a pipe that nothing writes to, before the passes of the step
 *   stop:RANK:STEP          it is stopped there, by SIGSTOP
 *   kill:RANK:STEP          it is killed there
 *   spin:RANK:STEP          its device computes for ever from there on
 *   flip_weight:RANK:STEP   a bit of one of its weights changes after the update of the step
 *   flip_grad:RANK:STEP     a bit of a weight gradient, when the backward pass has made it
 *
 * Ranks count from 0, steps and collectives from 1. Collectives are caught by a table of operations
 * before each communicator's own, operations by an observer, so that nothing in mtrain knows of it.
 */
#include "lib/base/mem.h"
#include "tests/faulty/spin.h"
#include "train/config/fault.h"
#include "train/engine/engine.h"
#include "train/watch/observe.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { SKIP, SLOW, STUCK, STOP, KILL, SPIN, FLIP_WEIGHT, FLIP_GRAD, KINDS };

/* numbers: how many follow the rank. */
static const struct {
	const char *name, *form;
	int numbers;
} kinds[KINDS] = {
	[SKIP] = { "skip", "skip:RANK:STEP:NUMBER", 2 },
	[SLOW] = { "slow", "slow:RANK:PERCENT", 1 },
	[STUCK] = { "stuck", "stuck:RANK:STEP", 1 },
	[STOP] = { "stop", "stop:RANK:STEP", 1 },
	[KILL] = { "kill", "kill:RANK:STEP", 1 },
	[SPIN] = { "spin", "spin:RANK:STEP", 1 },
	[FLIP_WEIGHT] = { "flip_weight", "flip_weight:RANK:STEP", 1 },
	[FLIP_GRAD] = { "flip_grad", "flip_grad:RANK:STEP", 1 },
};

/* The table of a communicator; the first member, so that the one leads to the other. */
struct caught {
	struct comm_ops ops;
	const struct comm_ops *inner;
	struct fault *fault;
	struct comm *comm;
};

struct fault {
	struct observer base;
	enum kind kind;
	int64_t rank, number[2];
	struct engine *e;        /* NULL: not this rank's */
	int64_t step;            /* that runs */
	int64_t calls;           /* collectives of it so far */
	struct event *from, *to; /* of the operation that runs */
	bool done;
	struct caught world, group[5];
};

/* --- what was asked for ----------------------------------------------------------------------- */

/* ":N" at *text, from least to most. */
static bool
take_number(const char **text, int64_t least, int64_t most, int64_t *out)
{
	const char *digits = *text + 1;
	char *end;

	if (**text != ':' || *digits < '0' || *digits > '9')
		return false;
	errno = 0;
	*out = strtoll(digits, &end, 10);
	*text = end;
	return !errno && *out >= least && *out <= most;
}

static bool
parse(struct fault *f, const char *text, int64_t world_size)
{
	size_t len = strcspn(text, ":");

	for (f->kind = 0; f->kind < KINDS; f->kind++)
		if (strlen(kinds[f->kind].name) == len && !memcmp(kinds[f->kind].name, text, len))
			break;
	text += len;
	if (f->kind == KINDS || !take_number(&text, 0, world_size - 1, &f->rank))
		return false;
	for (int i = 0; i < kinds[f->kind].numbers; i++)
		if (!take_number(&text, 1, INT_MAX, &f->number[i]))
			return false;
	return !*text;
}

static int
refuse(const char *text, struct err *e)
{
	struct str forms = { 0 };

	for (int k = 0; k < KINDS; k++)
		str_addf(&forms, "%s%s",
		    k == 0              ? ""
			: k + 1 < KINDS ? ", "
					: " or ",
		    kinds[k].form);
	err_set(e, "MIKOSHI_FAULT '%s': must be %s, with numbers of this run", text, forms.buf);
	str_release(&forms);
	return -1;
}

int
fault_read(struct fault **out, int64_t world_size, struct err *e)
{
	const char *text = getenv("MIKOSHI_FAULT");

	*out = NULL;
	if (!text)
		return 0;
	*out = mem_zalloc(1, sizeof **out);
	if (parse(*out, text, world_size))
		return 0;
	fault_free(*out);
	*out = NULL;
	return refuse(text, e);
}

/* --- collectives ------------------------------------------------------------------------------ */

static const struct comm_ops *
inner(const struct comm *c)
{
	return ((const struct caught *)c->ops)->inner;
}

/* Counts a collective of the step. */
static bool
left_out(const struct comm *c)
{
	struct fault *f = ((const struct caught *)c->ops)->fault;

	return f->step == f->number[0] && ++f->calls == f->number[1];
}

#define CAUGHT(call, type) \
	static void caught_##call(struct comm *c, struct stream *st, const struct type *a) \
	{ \
		if (!left_out(c)) \
			inner(c)->call(c, st, a); \
	}

CAUGHT(all_reduce, comm_reduce)
CAUGHT(reduce_scatter_parts, comm_parts)
CAUGHT(all_gather_parts, comm_parts)
CAUGHT(all_gather, comm_gather)
CAUGHT(broadcast, comm_broadcast)
CAUGHT(exchange, comm_messages)

static void
catch_calls(struct fault *f, struct caught *to, struct comm *c)
{
	if (!c)
		return;
	*to = (struct caught){ .ops = *c->ops, .inner = c->ops, .fault = f, .comm = c };
	to->ops.all_reduce = caught_all_reduce;
	to->ops.reduce_scatter_parts = caught_reduce_scatter_parts;
	to->ops.all_gather_parts = caught_all_gather_parts;
	to->ops.all_gather = caught_all_gather;
	to->ops.broadcast = caught_broadcast;
	to->ops.exchange = caught_exchange;
	c->ops = &to->ops;
}

/* --- operations ------------------------------------------------------------------------------- */

static void
flip_bit(const struct engine *e, const struct tensor *t)
{
	char byte;

	e->backend->copy_out(e->stream, &byte, t->data, 1);
	engine_sync(e);
	byte ^= 1;
	e->backend->copy_in(e->stream, t->data, &byte, 1);
	engine_sync(e);
}

static void
before(struct observer *o, struct stream *st)
{
	struct fault *f = (struct fault *)o;

	(void)st;
	if (f->kind == SLOW)
		f->e->backend->record(st, f->from);
}

/* The work of the operation so far, in seconds. */
static double
computed(struct fault *f, struct stream *st)
{
	f->e->backend->record(st, f->to);
	engine_sync(f->e);
	return f->e->backend->computed(f->from, f->to);
}

/* Computes in vain, as a slow core would: waiting for a core is not work. */
static void
slow_down(struct fault *f, struct stream *st)
{
	double enough = computed(f, st) * (1 + (double)f->number[0] / 100);

	while (computed(f, st) < enough)
		;
}

/* Waits for others are reported as operations without outputs: they compute nothing. */
static void
after(struct observer *o, struct stream *st, const struct op_call *call)
{
	struct fault *f = (struct fault *)o;

	if (!call->out[0])
		return;
	if (f->kind == SLOW) {
		slow_down(f, st);
	} else if (f->step == f->number[0] && !f->done && f->base.backward &&
	    !strcmp(call->name, "gemm weight gradient")) {
		flip_bit(f->e, call->out[0]);
		f->done = true;
	}
}

/* --- the run ---------------------------------------------------------------------------------- */

void
fault_join(struct fault *f, struct engine *e)
{
	struct groups *g = &e->groups;
	struct comm *group[] = { g->tp, g->dp, g->pp, g->kv, g->embedding };

	_Static_assert(sizeof group / sizeof *group == sizeof f->group / sizeof *f->group,
	    "a table for each group");
	if (!f || e->rank != f->rank)
		return;
	f->e = e;
	f->base = (struct observer){ .before = before, .after = after };
	f->from = e->backend->timer(e->device);
	f->to = e->backend->timer(e->device);
	if (f->kind != SKIP)
		return;
	catch_calls(f, &f->world, g->world);
	for (size_t i = 0; i < sizeof group / sizeof *group; i++)
		catch_calls(f, &f->group[i], group[i]);
}

/* The communicators of the groups have gone; world stays. */
void
fault_free(struct fault *f)
{
	if (f && f->world.comm)
		f->world.comm->ops = f->world.inner;
	free(f);
}

static void
read_for_ever(void)
{
	char byte;
	int fd[2];

	if (pipe(fd) == 0 && read(fd[0], &byte, 1) == 1)
		BUG("a pipe that nobody writes into has a byte");
}

/* On the CPU the host is the device and computes at once: nothing is queued. */
static void
spin(const struct engine *e)
{
	while (!e->backend->passed)
		;
	spin_device(e->stream);
}

static void
end(const struct engine *e, enum kind k)
{
	if (k == STUCK)
		read_for_ever();
	if (k == STOP)
		raise(SIGSTOP);
	if (k == KILL)
		raise(SIGKILL);
	if (k == SPIN)
		spin(e);
}

void
fault_step(struct fault *f, int64_t step)
{
	if (!f || !f->e)
		return;
	f->step = step;
	f->calls = 0;
	if (f->kind == SLOW || f->kind == FLIP_GRAD)
		f->e->ops = observe_begin(f->e->stream, &f->base);
	if (step == f->number[0])
		end(f->e, f->kind);
}

/* Of a weight in the middle of the model. */
void
fault_updated(struct fault *f)
{
	const struct param *p;
	struct tensor t;

	if (!f || !f->e || f->kind != FLIP_WEIGHT || f->step != f->number[0])
		return;
	p = &f->e->table[f->e->mem.shards.item[f->e->mem.shards.count / 2].param];
	t = engine_weight(f->e, p->layer, p->number);
	flip_bit(f->e, &t);
}
