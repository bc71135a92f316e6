/*
 * handover.c - exchanges of pipeline stages, and the waits for them
 *
 * Each slot and link has an event, recorded after the last exchange that received into it or sent
 * from it. The host knows which exchanges are pending, so each wait is queued once, by the pass
 * that needs it.
 */
#include "lib/base/mem.h"
#include "train/engine/handover.h"
#include "train/engine/streams.h"

#include <stdlib.h>

/* A slot or a link. */
struct port {
	struct event *passed; /* its last exchange */
	bool under_way;       /* the compute stream has not waited for it yet */
};

struct handover {
	struct stream *stream;
	struct event *ready; /* the passes queued before an exchange */
	struct port *slot, *link;
	int num_ports; /* slots, then links */
};

struct handover *
handover_open(struct engine *e)
{
	const struct backend *b = e->backend;
	bool beside = layout_schedule(&e->plan.layout, 1, true).beside;
	struct handover *h = mem_zalloc(1, sizeof *h);

	h->stream = beside ? b->stream(e->device, STREAM_PIPELINE) : e->stream;
	h->num_ports = e->mem.use.slots + e->mem.use.links;
	h->slot = mem_zalloc((size_t)h->num_ports, sizeof *h->slot);
	h->link = h->slot + e->mem.use.slots;
	if (!beside)
		return h;
	h->ready = b->event(e->device);
	for (int i = 0; i < h->num_ports; i++)
		h->slot[i].passed = b->event(e->device);
	return h;
}

void
handover_close(struct handover *h)
{
	if (!h)
		return;
	free(h->slot);
	free(h);
}

void
handover_exchange(
    struct engine *e, const struct action *a, const struct p2p *message, int n, enum span span)
{
	struct handover *h = e->handover;
	struct comm *pp = e->groups.pp;

	streams_fork(e, h->stream, h->ready);
	timing_begin(e, span);
	pp->ops->exchange(COMM_HERE(pp), h->stream, message, n);
	timing_end(e, span);
	for (int i = 0; h->stream != e->stream && i < n; i++) {
		struct port *p =
		    a[i].kind == ACTION_RECV_FORWARD ? &h->slot[a[i].slot] : &h->link[a[i].link];

		e->backend->record(h->stream, p->passed);
		p->under_way = true;
	}
}

static void
await(struct engine *e, struct port *p, enum span span)
{
	if (p->under_way)
		streams_join(e, e->handover->stream, p->passed, span);
	p->under_way = false;
}

/* Waits until a link that a pass writes has been sent, or one that a backward pass reads has
 * arrived. */
void
handover_await(struct engine *e, const struct action *pass)
{
	bool back = pass->kind == ACTION_BACKWARD;

	await(e, &e->handover->slot[pass->slot], SPAN_RECV_FORWARD);
	if (pass->link >= 0)
		await(e, &e->handover->link[pass->link],
		    back ? SPAN_RECV_BACKWARD : SPAN_SEND_FORWARD);
}

void
handover_settle(struct engine *e)
{
	for (int i = 0; i < e->handover->num_ports; i++)
		await(e, &e->handover->slot[i], SPAN_EXCHANGE);
}
