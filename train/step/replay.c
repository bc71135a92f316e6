/*
 * replay.c - recordings of segments of passes, one for each set of arguments
 *
 * The first two calls of a kind run directly, because libraries choose algorithms and build plans
 * in them, and connect. The third is recorded and launched. A segment whose arguments could differ
 * from the recording (another loss scale or place of the logits, losses to be kept, an observer,
 * 8-bit operands without a history) runs directly.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/engine/fp8.h"
#include "train/engine/hashes.h"
#include "train/step/model.h"
#include "train/step/replay.h"

#include <stdlib.h>

enum { WARM_CALLS = 2, PASSES = 2 };

/* Stages in chunks may have a kind for each pass of a step, and a recording takes memory of the
 * device that no plan counts. */
enum { RECORDINGS_MAX = 256 };

/* One kind of call. */
struct recording {
	struct recorded *graph; /* NULL: none yet */
	int runs;
	/* the recording's */
	double token_scale;
	const void *logits;
	int64_t first_logits;
};

struct replay {
	const struct engine *e;
	struct recording *kind;  /* [place][PASSES][segments][training][accumulate] */
	int num_kinds, segments; /* segments: of the pass that has most */
	int recordings;
	bool off; /* the device has not recorded a segment: it is not tried again */
};

/* How many combinations of chunk, slot, tail (or none), batch and stage output (or none) passes
 * have. */
static int
places(const struct engine *e)
{
	const struct schedule_use *u = &e->mem.use;

	return layout_chunks(&e->plan.layout) * u->slots * (u->tails + 1) * u->batches *
	    (u->stage_outputs + 1);
}

/* The number of a pass's combination. */
static int
place(const struct step *s)
{
	const struct schedule_use *u = &s->e->mem.use;
	int at = (s->chunk * u->slots + s->slot) * (u->tails + 1) + s->tail + 1;

	return (at * u->batches + s->batch) * (u->stage_outputs + 1) + s->stage_output + 1;
}

/* Whether segments are the same in every step. Masks of dropout have the step in their key. Tensor
 * ranks communicate so often that a recording gains nothing: GPT-2 124M on two H200s took 1 to 5 %
 * longer with one. Ranks that share experts, and context ranks, communicate as often, and number
 * their messages. */
static bool
repeats(const struct engine *e)
{
	const struct model_config *c = &e->plan.model;

	return e->groups.tp->size == 1 && !(e->groups.ep && e->groups.ep->size > 1) &&
	    e->groups.cp->size == 1 && c->hidden_dropout == 0 && c->embedding_dropout == 0 &&
	    c->attention_dropout == 0;
}

struct replay *
replay_new(const struct engine *e)
{
	struct replay *r;

	if (!e->backend->record_begin || !repeats(e))
		return NULL;
	r = mem_zalloc(1, sizeof *r);
	r->e = e;
	for (int i = 0; i < PASSES * layout_chunks(&e->plan.layout); i++) {
		int segments = e->items[i / PASSES][i % PASSES].num_segments;

		r->segments = segments > r->segments ? segments : r->segments;
	}
	r->num_kinds = places(e) * PASSES * r->segments * 4;
	r->kind = mem_zalloc((size_t)r->num_kinds, sizeof *r->kind);
	return r;
}

static void
forget(const struct engine *e, struct recording *k)
{
	if (k->graph)
		e->backend->drop(k->graph);
	k->graph = NULL;
}

void
replay_free(struct replay *r)
{
	if (!r)
		return;
	for (int i = 0; i < r->num_kinds; i++)
		forget(r->e, &r->kind[i]);
	free(r->kind);
	free(r);
}

/* False where the device cannot record the segment, of which nothing has been run then. */
static bool
record(
    struct recording *k, struct step *s, const struct pass_items *of, const struct segment *segment)
{
	struct engine *e = s->e;
	struct err why;

	if (e->backend->record_begin(e->stream, &why)) {
		step_segment(s, of, segment);
		k->graph = e->backend->record_end(e->stream, &why);
	}
	k->token_scale = e->token_scale;
	k->logits = s->logits;
	k->first_logits = s->first_logits;
	if (k->graph)
		return true;
	forget(e, k);
	warn("passes are queued each time, as with --no-cuda-graphs: they cannot be recorded: %s",
	    why.msg);
	return false;
}

/* Whether what is recorded has the arguments of this pass. */
static bool
is_alike(const struct recording *k, const struct step *s)
{
	return k->token_scale == s->e->token_scale && k->logits == s->logits &&
	    k->first_logits == s->first_logits;
}

/* The recording of a segment, which is made once it has run often enough; NULL: the segment has to
 * be queued. */
static struct recording *
recording_of(
    struct replay *r, struct step *s, const struct pass_items *of, const struct segment *segment)
{
	int at = (place(s) * PASSES + of->backward) * r->segments + segment->number;
	struct recording *k = &r->kind[(at * 2 + s->training) * 2 + s->accumulate];

	if (k->graph)
		return is_alike(k, s) ? k : NULL;
	if (r->off || k->runs++ < WARM_CALLS || r->recordings == RECORDINGS_MAX)
		return NULL;
	r->off = !record(k, s, of, segment);
	r->recordings += !r->off;
	return r->off ? NULL : k;
}

void
replay_segment(
    struct replay *r, struct step *s, const struct pass_items *of, const struct segment *segment)
{
	struct engine *e = s->e;
	bool usual = r && !s->losses && !e->stream->observer &&
	    !(of->backward && hashes_watches(s)) && !fp8_begins(e);
	struct recording *k = usual ? recording_of(r, s, of, segment) : NULL;

	if (!k) {
		step_segment(s, of, segment);
		return;
	}
	e->backend->launch(e->stream, k->graph);
}
