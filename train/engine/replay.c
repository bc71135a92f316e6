/*
 * replay.c - recordings of legs of passes, one for each set of arguments
 *
 * The first two calls of a kind run directly, because libraries choose algorithms and build plans
 * in them. The third is recorded and launched. A leg whose arguments could differ from the
 * recording (another loss scale, logits or losses to be kept, an observer) runs directly.
 */
#include "lib/base/mem.h"
#include "train/engine/hashes.h"
#include "train/engine/model.h"
#include "train/engine/replay.h"

#include <stdlib.h>

enum { WARM_CALLS = 2, PASSES = 2 };

/* One kind of call. */
struct recording {
	struct recorded *graph; /* NULL: none yet */
	int calls;
	bool failed;        /* the device could not record it; it is not tried again */
	double token_scale; /* the recording's */
};

struct replay {
	const struct engine *e;
	struct recording *kind; /* [place][PASSES][legs][training][accumulate] */
	int legs;               /* of the pass that has most */
};

/* The index of a pass's chunk, slot, batch and link, or of none of them. */
static int
places(const struct engine *e)
{
	const struct schedule_use *u = &e->mem.use;

	return layout_chunks(&e->plan.layout) * u->slots * u->batches * (u->links + 1);
}

static int
place(const struct step *s)
{
	const struct schedule_use *u = &s->e->mem.use;
	int at = s->chunk * u->slots + s->slot;

	return (at * u->batches + s->batch) * (u->links + 1) + s->link + 1;
}

struct replay *
replay_new(const struct engine *e)
{
	const struct model_config *c = &e->plan.model;
	struct replay *r;

	if (!e->backend->record_begin || e->groups.tp->size > 1 || e->groups.cp->size > 1 ||
	    c->hidden_dropout > 0 || c->embedding_dropout > 0 || c->attention_dropout > 0)
		return NULL;
	r = mem_zalloc(1, sizeof *r);
	r->e = e;
	for (int i = 0; i < PASSES * layout_chunks(&e->plan.layout); i++) {
		int legs = e->moves[i / PASSES][i % PASSES].num_legs;

		r->legs = legs > r->legs ? legs : r->legs;
	}
	r->kind = mem_zalloc((size_t)(places(e) * PASSES * r->legs) * 4, sizeof *r->kind);
	return r;
}

/* The recordings themselves belong to the device and are freed with it. */
void
replay_free(struct replay *r)
{
	if (!r)
		return;
	free(r->kind);
	free(r);
}

/* Records the leg and launches it; if the device cannot record it, it runs directly. */
static void
record(struct recording *k, struct step *s, const struct moves *of, const struct leg *leg)
{
	const struct backend *b = s->e->backend;

	if (b->record_begin(s->e->stream)) {
		step_leg(s, of, leg);
		k->graph = b->record_end(s->e->stream);
	}
	k->token_scale = s->e->token_scale;
	k->failed = !k->graph;
	if (k->graph)
		b->launch(s->e->stream, k->graph);
	else
		step_leg(s, of, leg);
}

void
replay_leg(struct replay *r, struct step *s, const struct moves *of, const struct leg *leg)
{
	struct recording *k;
	int at;

	if (!r || s->logits || s->losses || s->e->stream->observer ||
	    (of->backward && hashes_watches(s))) {
		step_leg(s, of, leg);
		return;
	}
	at = (place(s) * PASSES + of->backward) * r->legs + leg->number;
	k = &r->kind[(at * 2 + s->training) * 2 + s->accumulate];
	if (k->graph && k->token_scale == s->e->token_scale)
		s->e->backend->launch(s->e->stream, k->graph);
	else if (!k->graph && !k->failed && k->calls++ >= WARM_CALLS)
		record(k, s, of, leg);
	else
		step_leg(s, of, leg);
}
