/* p2p.c - waits for messages of stages: each once when they go beside passes, none when they
 * go between passes; channels; the order in which a ring of stages opens them */
#include "train/engine/p2p.h"

#include "tests/check.h"
#include "train/comm.h"

struct event {
	int number;
};

static struct event events[16];
static int num_events, exchanges, messages, shared, waited[16]; /* by the compute stream */
static struct stream compute, channel[CHANNELS];
static const struct stream *used; /* by the last message or exchange */
static const void *landed;        /* where the last message lands */
static int to;                    /* the rank at its other end */

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
	return &channel[index - STREAM_RECV_FORWARD];
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
exchange(struct comm *c, struct stream *st, const struct comm_messages *a)
{
	(void)c;
	(void)a;
	used = st;
	exchanges++;
}

static void
message(struct comm *c, struct stream *st, const struct comm_message *a)
{
	(void)c;
	used = st;
	landed = a->receive_buffer.data;
	to = a->message.peer;
	messages++;
}

static bool
share(struct comm *c, const struct comm_memory *piece, int count, struct err *why)
{
	(void)c;
	(void)piece;
	(void)why;
	shared += count;
	return true;
}

static int
waits(void)
{
	int n = 0;

	for (int i = 0; i < num_events; i++)
		n += waited[i];
	return n;
}

/* A step's messages: an input arrives in slot 1, an output is sent from stage output 0. */
static void
hand_over(struct engine *e, int wait)
{
	const struct action receive = { ACTION_RECV_FORWARD, 0, 0, 1, -1, -1, -1, 0 },
			    send = { ACTION_SEND_FORWARD, 0, 0, -1, -1, -1, 0, 1 },
			    other = { ACTION_FORWARD, 1, 0, 0, -1, 0, 1, 2 },
			    reads = { ACTION_FORWARD, 0, 0, 1, -1, 0, 1, 3 },
			    writes = { ACTION_BACKWARD, 0, 1, 0, -1, 0, 0, 4 };
	const struct p2p in = { .send = false, .peer = 3 }, out = { .send = true, .peer = 1 };
	int before = waits();

	p2p_exchange(e, &receive, &in, 1, SPAN_RECV_FORWARD);
	p2p_exchange(e, &send, &out, 1, SPAN_SEND_FORWARD);
	p2p_await(e, &other);
	CHECK(waits() == before);
	p2p_await(e, &reads);
	CHECK(waits() == before + wait);
	p2p_await(e, &reads);
	CHECK(waits() == before + wait);
	p2p_await(e, &writes);
	CHECK(waits() == before + 2 * wait);
	p2p_exchange(e, &send, &out, 1, SPAN_SEND_FORWARD);
	p2p_settle(e);
	CHECK(waits() == before + 3 * wait);
	p2p_settle(e);
	CHECK(waits() == before + 3 * wait);
}

/* A message each way together: what is sent is queued first, and each kind has its own stream,
 * communicator and half of the memory where messages land. */
static void
both_ways(struct engine *e, const float *arena)
{
	const struct action a[] = { { ACTION_RECV_FORWARD, 0, 0, 0, -1, -1, -1, 0 },
		{ ACTION_SEND_BACKWARD, 0, 0, -1, -1, -1, 1, 0 } };
	const struct p2p m[] = { { .send = false, .peer = 3 }, { .send = true, .peer = 3 } };

	p2p_exchange(e, a, m, 2, SPAN_EXCHANGE);
	CHECK(used == &channel[0] && landed == arena && to == 1);
	p2p_exchange(e, &a[1], &m[1], 1, SPAN_EXCHANGE);
	CHECK(used == &channel[3] && landed == arena + 2 * 3 && to == 0);
	p2p_settle(e);
}

/* Each stage is at each of its channels once; what is one stage's end of an edge in a round is in
 * the same round the other's other end. */
static void
rounds(int n)
{
	for (int s = 0; s < n; s++) {
		int seen = 0, next = (s + 1) % n;

		for (int i = 0; i < CHANNEL_ROUNDS; i++) {
			int k = channel_in_round(i, s, n);

			seen |= k < 0 ? 0 : 1 << k;
			if (k == 1 || k == 2)
				CHECK(channel_in_round(i, next, n) == (k == 1 ? 0 : 3));
		}
		CHECK(seen == 15);
	}
}

int
main(void)
{
	static const struct comm_ops ops = {
		.exchange = exchange, .message = message, .share = share
	};
	struct backend b = {
		.event = new_event, .stream = stream_of, .record = record, .wait = wait_for
	};
	struct comm world = { .ops = &ops, .size = 4 }, pp = { .ops = &ops, .size = 4 },
		    end[CHANNELS] = { { .ops = &ops, .rank = 0, .size = 2 },
			    { .ops = &ops, .rank = 0, .size = 2 }, { .ops = &ops, .size = 2 },
			    { .ops = &ops, .rank = 1, .size = 2 } };
	float arena[4 * 3];
	struct engine e = { .backend = &b,
		.stream = &compute,
		.groups.world = &world,
		.groups.pp = &pp,
		.arena[ARENA_PARAMS] = (char *)arena,
		.mem.use = { 2, 0, 1, 2 },
		.plan.layout = { 1, 1, 1, 4 } };

	e.timing = timing_new();
	e.stage_p2p = p2p_open(&e);
	hand_over(&e, 0);
	CHECK(used == &compute && num_events == 0 && exchanges == 3);
	p2p_close(e.stage_p2p);
	e.mem.buffer =
	    &(struct buffer){ .dtype = DTYPE_F32, .shape = { 4, 3 }, .bytes = sizeof arena };
	e.mem.at[BUF_RECEIVE] = 1;
	for (int k = 0; k < CHANNELS; k++)
		e.groups.channel[k] = &end[k];
	e.stage_p2p = p2p_open(&e);
	CHECK(shared == CHANNELS);
	hand_over(&e, 1);
	CHECK(used == &channel[1] && num_events == 5 && exchanges == 3 && messages == 3);
	both_ways(&e, arena);
	p2p_close(e.stage_p2p);
	timing_free(e.timing);
	for (int n = 2; n <= 9; n++)
		rounds(n);
	return check_done();
}
