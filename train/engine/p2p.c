/*
 * p2p.c - messages of pipeline stages, and the waits for them
 *
 * Each slot and stage output has an event, recorded after the last message that was received into
 * it or sent from it. The host knows which messages are pending, so each wait is queued once, by
 * the pass that needs it.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "train/engine/p2p.h"
#include "train/engine/streams.h"
#include "train/watch/comm_log.h"

#include <stdlib.h>

/* A slot or a stage output. */
struct port {
	struct event *passed;  /* its last message */
	struct stream *stream; /* of that; NULL: the compute stream has waited for it */
};

struct stage_p2p {
	bool overlap;
	struct stream *stream[CHANNELS];
	struct event *ready; /* the passes queued before a message */
	struct port *slot, *stage_output;
	int num_ports; /* slots, then stage outputs */
};

/* The stages of one host write into each other's memory, where messages land; others send them by
 * the network, which is nothing unusual. */
static void
share_receive_buffer(const struct engine *e)
{
	struct comm *world = e->groups.world, *pp = e->groups.pp;
	struct tensor receive_buffer = engine_buffer(e, BUF_RECEIVE);
	struct comm_memory piece = { receive_buffer.data, tensor_bytes(&receive_buffer) };
	struct err why;

	if (receive_buffer.data != e->arena[ARENA_PARAMS])
		BUG("messages do not land at the beginning of an arena");
	comm_log_begin(COMM_HERE(world), COMM_PIPELINE, "sharing of memory");
	for (int i = 0; i < CHANNEL_ROUNDS; i++) {
		int k = channel_in_round(i, pp->rank, pp->size);

		if (k >= 0)
			(void)e->groups.channel[k]->ops->share(
			    e->groups.channel[k], &piece, 1, &why);
	}
	comm_log_end(world);
}

struct stage_p2p *
p2p_open(struct engine *e)
{
	const struct backend *b = e->backend;
	struct stage_p2p *h = mem_zalloc(1, sizeof *h);

	h->overlap = e->groups.channel[0];
	h->num_ports = e->mem.use.slots + e->mem.use.stage_outputs;
	h->slot = mem_zalloc((size_t)h->num_ports, sizeof *h->slot);
	h->stage_output = h->slot + e->mem.use.slots;
	if (!h->overlap)
		return h;
	h->ready = b->event(e->device);
	for (int i = 0; i < h->num_ports; i++)
		h->slot[i].passed = b->event(e->device);
	for (int k = 0; k < CHANNELS; k++)
		h->stream[k] = b->stream(e->device, STREAM_RECV_FORWARD + k);
	share_receive_buffer(e);
	return h;
}

void
p2p_close(struct stage_p2p *h)
{
	if (!h)
		return;
	free(h->slot);
	free(h);
}

/* A message on the stream of its channel. */
static void
send_overlapped(struct engine *e, const struct action *a, const struct p2p *m)
{
	struct stage_p2p *h = e->stage_p2p;
	int k = a->kind - ACTION_RECV_FORWARD;
	struct comm *c = e->groups.channel[k];
	struct port *p =
	    a->kind == ACTION_RECV_FORWARD ? &h->slot[a->slot] : &h->stage_output[a->stage_output];
	struct tensor receive_buffer = engine_buffer(e, BUF_RECEIVE);
	int64_t rows = receive_buffer.shape[0] / 2;
	struct p2p to = { m->send, 1 - c->rank, 0, m->buf };

	receive_buffer = tensor_rows(&receive_buffer, k / 2 * rows, m->buf.shape[0]);
	e->backend->wait(h->stream[k], h->ready);
	c->ops->message(COMM_HERE(c), h->stream[k], &(struct comm_message){ to, receive_buffer });
	e->backend->record(h->stream[k], p->passed);
	p->stream = h->stream[k];
}

/* Beside passes what is sent is queued first, since a device may put streams one after the other:
 * the other stage must not wait for something queued after a receive. */
void
p2p_exchange(
    struct engine *e, const struct action *a, const struct p2p *message, int n, enum span span)
{
	struct stage_p2p *h = e->stage_p2p;
	struct comm *pp = e->groups.pp;

	if (h->overlap) {
		e->backend->record(e->stream, h->ready);
		for (int i = 0; i < 2 * n; i++)
			if (message[i % n].send == (i < n))
				send_overlapped(e, &a[i % n], &message[i % n]);
		return;
	}
	timing_begin(e, span);
	pp->ops->exchange(COMM_HERE(pp), e->stream, &(struct comm_messages){ message, n });
	timing_end(e, span);
}

static void
await(struct engine *e, struct port *p, enum span span)
{
	if (p->stream)
		streams_join(e, p->stream, p->passed, span);
	p->stream = NULL;
}

/* Waits until a stage output that a pass writes has been sent, or one that a backward pass reads
 * has arrived. */
void
p2p_await(struct engine *e, const struct action *pass)
{
	bool back = pass->kind == ACTION_BACKWARD;

	await(e, &e->stage_p2p->slot[pass->slot], SPAN_RECV_FORWARD);
	if (pass->stage_output >= 0)
		await(e, &e->stage_p2p->stage_output[pass->stage_output],
		    back ? SPAN_RECV_BACKWARD : SPAN_SEND_FORWARD);
}

void
p2p_settle(struct engine *e)
{
	for (int i = 0; i < e->stage_p2p->num_ports; i++)
		await(e, &e->stage_p2p->slot[i], SPAN_EXCHANGE);
}
