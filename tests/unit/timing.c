/* timing.c - tests of the timers of a step, on a device whose clock advances on command */
#include "lib/base/mem.h"
#include "tests/check.h"
#include "train/engine/timing.h"
#include "train/watch/observe.h"

#include <stdlib.h>
#include <string.h>

struct event {
	double seconds;
	struct event *next;
};

static double now;
static struct event *made;
static int timers, begun, told;
static char last[64];

static struct event *
timer(struct device *d)
{
	struct event *ev = mem_zalloc(1, sizeof *ev);

	(void)d;
	timers++;
	ev->next = made;
	return made = ev;
}

static void
record(struct stream *st, struct event *ev)
{
	(void)st;
	ev->seconds = now;
}

static double
elapsed(struct event *from, struct event *to)
{
	return to->seconds - from->seconds;
}

static void
before(struct observer *o, struct stream *st)
{
	(void)o;
	(void)st;
	begun++;
}

static void
after(struct observer *o, struct stream *st, const struct op_call *c)
{
	(void)o;
	(void)st;
	told++;
	snprintf(last, sizeof last, "%s", c->name);
}

/* Other processes have its core half of the time. */
static double
computed(struct event *from, struct event *to)
{
	return elapsed(from, to) / 2;
}

static const struct backend device = {
	.timer = timer, .record = record, .elapsed = elapsed, .computed = computed
};

/* A forward pass of five seconds, with two waits for tensor ranks and one for a batch. */
static void
pass(struct engine *e)
{
	static const enum span waits[] = { SPAN_BATCH, SPAN_TENSOR, SPAN_TENSOR };

	timing_begin(e, SPAN_FORWARD);
	for (int i = 0; i < 3; i++) {
		timing_begin(e, waits[i]);
		now += 1;
		timing_end(e, waits[i]);
	}
	now += 2;
	timing_end(e, SPAN_FORWARD);
}

int
main(void)
{
	struct observer looks = { .before = before, .after = after };
	struct stream stream = { 0 };
	struct engine e = { .backend = &device, .stream = &stream, .timing = timing_new() };
	struct spans sum = { 0 };
	const double *seconds = sum.elapsed;

	pass(&e);
	CHECK(timers == 0);
	timing_watch(&e, true);
	pass(&e);
	pass(&e);
	/* A span that is still open when the times are read is lost. */
	timing_begin(&e, SPAN_GRADS);
	now += 7;
	timing_read(&e, &sum);
	CHECK(seconds[SPAN_FORWARD] == 10 && seconds[SPAN_TENSOR] == 4 && seconds[SPAN_GRADS] == 0);
	CHECK(timing_waited(seconds, WAIT_TENSOR) == 4 && timing_waited(seconds, WAIT_BATCH) == 2);
	CHECK(timing_waited(seconds, WAIT_DATA) == 0);
	CHECK(sum.computed[SPAN_FORWARD] == 5 && sum.computed[SPAN_TENSOR] == 2);
	/* The next step reuses the timers; only waits are reported to the observer. */
	CHECK(timers == 18);
	stream.observer = &looks;
	pass(&e);
	timing_read(&e, &sum);
	CHECK(seconds[SPAN_FORWARD] == 15 && timers == 18);
	CHECK(begun == 3 && told == 3 && !strcmp(last, "tensor-parallel-comm"));
	timing_watch(&e, false);
	pass(&e);
	timing_read(&e, &sum);
	CHECK(seconds[SPAN_FORWARD] == 15 && told == 3);
	for (int s = 0; s < SPAN_COUNT; s++)
		CHECK(span_kinds[s].name && span_kinds[s].level > 0);
	stream.observer = NULL;
	timing_free(e.timing);
	while (made) {
		struct event *next = made->next;

		free(made);
		made = next;
	}
	return check_done();
}
