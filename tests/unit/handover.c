/* handover.c - waits for exchanges: each once when exchanges go beside passes, none when they go
 * between passes */
#include "train/engine/handover.h"

#include "tests/check.h"
#include "train/comm.h"

struct event {
	int number;
};

static struct event events[16];
static int num_events, exchanges, waited[16]; /* by the compute stream */
static struct stream compute, pipeline;
static const struct stream *used; /* by the last exchange */

static struct event *
new_event(struct device *d)
{
	(void)d;
	events[num_events].number = num_events;
	return &events[num_events++];
}

static struct stream *
stream_of(struct device *d, int index)
{
	(void)d;
	return index == STREAM_PIPELINE ? &pipeline : &compute;
}

static void
record(struct stream *st, struct event *ev)
{
	(void)st;
	(void)ev;
}

static void
wait_for(struct stream *st, struct event *ev)
{
	if (st == &compute)
		waited[ev->number]++;
}

static void
exchange(struct comm *c, struct stream *st, const struct p2p *message, int count)
{
	(void)c;
	(void)message;
	(void)count;
	used = st;
	exchanges++;
}

static int
waits(void)
{
	int n = 0;

	for (int i = 0; i < num_events; i++)
		n += waited[i];
	return n;
}

/* A step's messages: an input arrives in slot 1, an output is sent from link 0. */
static void
hand_over(struct engine *e, int wait)
{
	const struct action receive = { ACTION_RECV_FORWARD, 0, 0, 1, -1, -1, 0 },
			    send = { ACTION_SEND_FORWARD, 0, 0, -1, -1, 0, 1 },
			    other = { ACTION_FORWARD, 1, 0, 0, 0, 1, 2 },
			    reads = { ACTION_FORWARD, 0, 0, 1, 0, 1, 3 },
			    writes = { ACTION_BACKWARD, 0, 1, 0, 0, 0, 4 };
	const struct p2p message = { .send = true };
	int before = waits();

	handover_exchange(e, &receive, &message, 1, SPAN_RECV_FORWARD);
	handover_exchange(e, &send, &message, 1, SPAN_SEND_FORWARD);
	handover_await(e, &other);
	CHECK(waits() == before);
	handover_await(e, &reads);
	CHECK(waits() == before + wait);
	handover_await(e, &reads);
	CHECK(waits() == before + wait);
	handover_await(e, &writes);
	CHECK(waits() == before + 2 * wait);
	handover_exchange(e, &send, &message, 1, SPAN_SEND_FORWARD);
	handover_settle(e);
	CHECK(waits() == before + 3 * wait);
	handover_settle(e);
	CHECK(waits() == before + 3 * wait);
}

int
main(void)
{
	static const struct comm_ops ops = { .exchange = exchange };
	struct backend b = {
		.event = new_event, .stream = stream_of, .record = record, .wait = wait_for
	};
	struct comm pp = { .ops = &ops, .size = 2 };
	struct engine e = { .backend = &b,
		.stream = &compute,
		.groups.pp = &pp,
		.mem.use = { 2, 1, 2 },
		.plan.layout = { 1, 1, 1, 2 } };

	e.timing = timing_new();
	e.handover = handover_open(&e);
	hand_over(&e, 0);
	CHECK(used == &compute && num_events == 0);
	handover_close(e.handover);
	e.plan.layout.virtual_stages = 2;
	e.plan.layout.overlap_p2p = true;
	e.handover = handover_open(&e);
	hand_over(&e, 1);
	CHECK(used == &pipeline && num_events == 5 && exchanges == 6);
	handover_close(e.handover);
	timing_free(e.timing);
	return check_done();
}
