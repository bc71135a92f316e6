/*
 * replay.c - recordings of passes, one for each set of arguments
 *
 * The first two calls of a kind run directly, because libraries choose algorithms and build plans
 * in them. The third is recorded and launched. A pass whose arguments could differ from the
 * recording (another loss scale, logits or losses to be kept, an observer) runs directly.
 */
#include "lib/base/mem.h"
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
	struct recording *kind; /* [place][PASSES][training][accumulate] */
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
	r->kind = mem_zalloc((size_t)places(e) * PASSES * 4, sizeof *r->kind);
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

/* Records the pass and launches it; if the device cannot record it, the pass runs directly. */
static void
record(struct replay *r, struct recording *k, struct step *s, void (*pass)(struct step *))
{
	const struct backend *b = r->e->backend;

	if (b->record_begin(r->e->stream)) {
		pass(s);
		k->graph = b->record_end(r->e->stream);
	}
	k->token_scale = r->e->token_scale;
	k->failed = !k->graph;
	if (k->graph)
		b->launch(r->e->stream, k->graph);
	else
		pass(s);
}

void
replay_pass(struct replay *r, int which, struct step *s, void (*pass)(struct step *))
{
	struct recording *k;

	if (!r || s->logits || s->losses || r->e->stream->observer) {
		pass(s);
		return;
	}
	k = &r->kind[((place(s) * PASSES + which) * 2 + s->training) * 2 + s->accumulate];
	if (k->graph && k->token_scale == r->e->token_scale)
		r->e->backend->launch(r->e->stream, k->graph);
	else if (!k->graph && !k->failed && k->calls++ >= WARM_CALLS)
		record(r, k, s, pass);
	else
		pass(s);
}
