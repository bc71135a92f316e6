/*
 * activation_offload.c - units that take turns in places
 *
 * What the host queues decides which unit a place has; events order the copies. Copies to the host
 * follow each other on one stream, so a place that has been left was left by all units before.
 */
#include "train/engine/activation_offload.h"
#include "lib/base/mem.h"
#include "train/engine/streams.h"

#include <stdlib.h>

enum { NOTHING = -1 };

struct place {
	int slot, number; /* the unit that was in it last; NOTHING: none */
	struct event *used, *left, *arrived;
	bool leaving, arriving; /* copies that the compute stream has not waited for */
};

struct activation_offload {
	struct stream *out, *in;
	struct place *place;
};

struct activation_offload *
activation_offload_open(struct engine *e)
{
	const struct backend *b = e->backend;
	int n = e->mem.activation_offload.places;
	struct activation_offload *x;

	if (!e->mem.activation_offload.copied)
		return NULL;
	x = mem_zalloc(1, sizeof *x);
	x->out = b->stream(e->device, STREAM_OFFLOAD);
	x->in = b->stream(e->device, STREAM_RELOAD);
	x->place = mem_zalloc((size_t)n, sizeof *x->place);
	for (int i = 0; i < n; i++)
		x->place[i] = (struct place){ NOTHING, NOTHING, b->event(e->device),
			b->event(e->device), b->event(e->device), false, false };
	return x;
}

void
activation_offload_close(struct activation_offload *x)
{
	if (x)
		free(x->place);
	free(x);
}

static struct place *
place_of(const struct engine *e, int number)
{
	return &e->activation_offload->place[number % e->mem.activation_offload.places];
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Nothing where the unit stays in its place. */
static void
copy_out(struct engine *e, int slot, int number)
{
	struct memory_offloaded u = memory_offloaded(&e->mem, slot, number);
	struct place *p = place_of(e, number);
	struct stream *out = e->activation_offload->out;

	if (number >= e->mem.activation_offload.copied)
		return;
	e->backend->record(e->stream, p->used);
	e->backend->wait(out, p->used);
	e->backend->copy_out(
	    out, e->arena[ARENA_HOST] + u.host, e->arena[ARENA_SAVED] + u.device, u.bytes);
	e->backend->record(out, p->left);
	p->leaving = true;
}

/* Nothing where the unit is in its place still. */
static void
copy_in(struct engine *e, int slot, int number)
{
	struct memory_offloaded u = memory_offloaded(&e->mem, slot, number);
	struct place *p = place_of(e, number);
	struct stream *in = e->activation_offload->in;

	if (p->slot == slot && p->number == number)
		return;
	p->slot = slot;
	p->number = number;
	e->backend->wait(in, p->used);
	e->backend->wait(in, p->left);
	e->backend->copy_in(
	    in, e->arena[ARENA_SAVED] + u.device, e->arena[ARENA_HOST] + u.host, u.bytes);
	e->backend->record(in, p->arrived);
	p->arriving = true;
}

static void
await(struct engine *e, struct stream *st, struct event *ev, bool *pending)
{
	if (*pending)
		streams_join(e, st, ev, SPAN_ACTIVATION_OFFLOAD);
	*pending = false;
}

/* --- passes ----------------------------------------------------------------------------------- */

/* A forward pass writes a unit into its place. */
static void
begin_unit(struct step *s, int number)
{
	struct engine *e = s->e;
	struct place *p = place_of(e, number);

	await(e, e->activation_offload->out, p->left, &p->leaving);
	p->slot = s->slot;
	p->number = number;
}

/* A backward pass reads it, and may write to it. A copy to the host that is still under way is then
 * of no use, and not waited for. */
static void
need_unit(struct step *s, int number)
{
	struct engine *e = s->e;
	struct place *p = place_of(e, number);

	if (p->slot != s->slot || p->number != number)
		BUG("unit %d of slot %d was not asked for", number, s->slot);
	await(e, e->activation_offload->in, p->arrived, &p->arriving);
}

static void
end_unit(struct step *s, int number)
{
	struct engine *e = s->e;
	struct place *p = place_of(e, number);
	int next = number - e->mem.activation_offload.places;

	e->backend->record(e->stream, p->used);
	if (next >= 0)
		copy_in(e, s->slot, next);
}

/* The unit of a block of the chunk; NOTHING beyond its ends. */
static int
number_at(const struct step *s, int block)
{
	const struct block_range *r = &s->e->mem.chunk[s->chunk];

	return block >= r->first && block < r->end ? s->e->mem.block[block].activation_offload
						   : NOTHING;
}

/* Evaluations keep nothing and have their places elsewhere in the same memory, so that copies to
 * the host are waited for. */
bool
activation_offload_begin(struct step *s, bool backward)
{
	struct engine *e = s->e;
	const struct block_range *chunk = &e->mem.chunk[s->chunk];
	int last = NOTHING;

	if (!e->activation_offload)
		return false;
	if (!s->training) {
		for (int i = 0; i < e->mem.activation_offload.places; i++) {
			struct place *p = &e->activation_offload->place[i];

			await(e, e->activation_offload->out, p->left, &p->leaving);
		}
		return false;
	}
	for (int b = chunk->end - 1; b >= chunk->first && last == NOTHING; b--)
		last = number_at(s, b);
	for (int i = last; backward && i >= 0 && i > last - e->mem.activation_offload.places; i--)
		copy_in(e, s->slot, i);
	return last != NOTHING;
}

/* The last block of a forward segment writes the input of the next one. All items of a segment are
 * of one unit. */
void
activation_offload_enter(struct step *s, const struct pass_items *of, const struct segment *segment)
{
	int number = number_at(s, of->item[segment->first].block),
	    next = number_at(s, of->item[segment->end - 1].block + 1);

	if (!s->e->activation_offload || !s->training)
		return;
	if (of->backward && number != NOTHING)
		need_unit(s, number);
	if (!of->backward && number != NOTHING)
		begin_unit(s, number);
	if (!of->backward && next != NOTHING)
		begin_unit(s, next);
}

/* A unit ends with the segment after which the pass continues elsewhere. */
void
activation_offload_leave(struct step *s, const struct pass_items *of, const struct segment *segment)
{
	const struct pass_item *m = &of->item[segment->end - 1];
	int number = number_at(s, m->block);

	if (!s->e->activation_offload || !s->training || number == NOTHING)
		return;
	if (segment->end < of->num_items && number_at(s, m[1].block) == number)
		return;
	if (of->backward)
		end_unit(s, number);
	else
		copy_out(s->e, s->slot, number);
}
