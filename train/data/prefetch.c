/*
 * prefetch.c - rings of micro batches that a thread fills
 *
 * Training has a ring and evaluation has one, so that neither discards what was read for the other:
 * a step after an evaluation finds its batches ready, and so does an evaluation after steps, since
 * evaluations repeat. Entries of a ring go round too: free, filled, given out, free again. Three
 * counters that only grow tell them apart: filled - taken are ready, taken - passed are with the
 * device, the rest are free. When the run asks for another batch than the next one (a repeated
 * step, another split), the ready batches are discarded and the thread continues from there; the
 * batch being filled at that moment is recognised by its generation and dropped.
 */
#include "lib/base/clock.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/model/evaluation.h"
#include "train/data/prefetch.h"
#include "train/step/pipeline.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A ring holds two steps of the largest size, or as many batches as fit RING_BYTES, but at least
 * four, or a step where whole steps are asked for. */
enum { RING_BYTES = 256 << 20, RING_LEAST = 4 };
enum { TRAINING, EVALUATION, RINGS };

struct entry {
	struct batch batch;
	struct prefetch_key key;
	double tokens;  /* the weight of those that the loss counts */
	struct err err; /* when tokens is -1 */
};

struct ring {
	struct run_plan plan; /* whose micro batches these are */
	size_t bytes;         /* of a batch */
	int size;             /* 0: no batch of this kind is ever requested */
	struct entry *entry;
	char *memory; /* of all batches, pinned where that helps */
	/* under the lock */
	int64_t filled, taken, passed;
	struct prefetch_key next; /* to be filled; step -1: nothing has been asked for */
	int64_t generation;
};

struct prefetch {
	const struct engine *e;
	const struct data *d;
	struct data_reader *reader; /* the thread's */
	struct ring ring[RINGS];
	pthread_t thread;
	pthread_mutex_t lock;
	/* an entry is ready or free, or the thread must fill something else */
	pthread_cond_t wake;
	/* under the lock */
	bool stop;
	struct ring *current; /* the one requested last: it is filled first */
	struct prefetch_stats stats;
};

/* The micro batch requested after k. Evaluations go through the sets of their split repeatedly: the
 * next of them, the first after the last. */
static struct prefetch_key
next_key(const struct prefetch *p, struct prefetch_key k)
{
	const struct run_plan *plan;
	int64_t samples;
	struct data_set s, next;
	int i = k.set;

	data_set(p->d, k.set, &s);
	plan = &p->ring[s.which == SPLIT_TRAIN ? TRAINING : EVALUATION].plan;
	samples = s.which == SPLIT_TRAIN ? batch_at(&plan->ramp, k.step) : plan->eval_batch_size;
	if (++k.microbatch == run_microbatches(plan, samples)) {
		k.microbatch = 0;
		k.step += samples;
	}
	if (s.which == SPLIT_TRAIN || k.step < s.batches * samples)
		return k;
	do {
		i = (i + 1) % data_num_sets(p->d);
		data_set(p->d, i, &next);
	} while (i != k.set && !(next.which == s.which && next.batches > 0));
	return (struct prefetch_key){ i, 0, 0 };
}

/* With the lock: a ring with room for a batch, or NULL. */
static struct ring *
ring_with_room(struct prefetch *p)
{
	struct ring *order[] = { p->current, &p->ring[TRAINING], &p->ring[EVALUATION] };

	for (size_t i = 0; i < sizeof order / sizeof *order; i++)
		if (order[i]->next.step >= 0 &&
		    order[i]->filled - order[i]->passed < order[i]->size)
			return order[i];
	return NULL;
}

/* The thread: fills free entries in order until told to stop. A batch that cannot be read is all
 * zeroes, which is safe: none of its tokens counts. */
static void *
run(void *arg)
{
	struct prefetch *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		struct ring *r = ring_with_room(p);
		struct data_place at = { .rank = p->e->coord[AX_DP],
			.context = p->e->coord[AX_CP] };
		int64_t generation;
		struct entry *x;

		if (!r) {
			pthread_cond_wait(&p->wake, &p->lock);
			continue;
		}
		x = &r->entry[r->filled % r->size];
		x->key = r->next;
		generation = r->generation;
		pthread_mutex_unlock(&p->lock);
		at.set = x->key.set;
		at.consumed = pipeline_first_sample(&r->plan, x->key.step, x->key.microbatch, 0);
		x->tokens = data_batch(p->reader, &at, &x->batch, &x->err);
		if (x->tokens < 0)
			memset(x->batch.tokens, 0, r->bytes);
		pthread_mutex_lock(&p->lock);
		p->stats.reads++;
		if (generation != r->generation)
			continue;
		r->filled++;
		r->next = next_key(p, r->next);
		pthread_cond_broadcast(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* The first set of a kind that this run reads; -1: none. */
static int
first_set(const struct prefetch *p, int kind)
{
	bool trains = !p->e->plan.shape.forward_only;

	for (int i = 0; i < data_num_sets(p->d); i++) {
		struct data_set s;

		data_set(p->d, i, &s);
		if (s.which == SPLIT_TRAIN ? kind == TRAINING && trains
					   : kind == EVALUATION && s.batches > 0)
			return i;
	}
	return -1;
}

/* Layers that predict later tokens, of which evaluations have none. */
static int64_t
later_layers(const struct prefetch *p, const struct ring *r)
{
	return r == &p->ring[TRAINING] ? r->plan.model.mtp_num_layers : 0;
}

/* The arrays of an entry: four of 4 bytes an element, the starts of documents, and those of later
 * tokens. */
static struct batch
entry_at(const struct prefetch *p, const struct ring *r, char *at)
{
	const struct run_plan *plan = &r->plan;
	size_t rows = (size_t)run_rows(plan), later = rows * (size_t)later_layers(p, r),
	       documents = plan->shape.reset_attention_mask ? (size_t)run_document_rows(plan) : 0;
	int32_t *x = (int32_t *)(void *)at;

	return (struct batch){ x, x + rows, x + 2 * rows, (float *)(void *)(x + 3 * rows),
		documents ? x + 4 * rows : NULL, later ? x + 4 * rows + documents : NULL,
		later ? (float *)(void *)(x + 4 * rows + documents + later) : NULL,
		later ? x + 4 * rows + documents + 2 * later : NULL };
}

/* Memory for a ring of the plan's micro batches; its bytes are as many as its batches take. */
static void
ring_init(const struct prefetch *p, struct ring *r, const struct run_plan *plan, bool steps)
{
	const struct train_shape *s = &plan->shape;
	size_t rows = (size_t)run_rows(plan);
	int64_t fit, two = 2 * s->num_microbatches;

	r->plan = *plan;
	r->bytes = (16 + 12 * (size_t)later_layers(p, r)) * rows;
	if (s->reset_attention_mask)
		r->bytes += 4 * (size_t)run_document_rows(plan);
	fit = (int64_t)(RING_BYTES / r->bytes);
	r->size = (int)(fit < two ? fit : two);
	r->size = r->size < RING_LEAST ? RING_LEAST : r->size;
	if (steps && r->size < s->num_microbatches)
		r->size = (int)s->num_microbatches;
	r->entry = mem_zalloc((size_t)r->size, sizeof *r->entry);
	r->memory = mem_alloc((size_t)r->size, r->bytes);
	if (p->e->backend->pin)
		p->e->backend->pin(p->e->device, r->memory, (size_t)r->size * r->bytes);
	for (int i = 0; i < r->size; i++)
		r->entry[i].batch = entry_at(p, r, r->memory + (size_t)i * r->bytes);
}

/* A host that cannot start a thread lacks a resource that every run needs. */
struct prefetch *
prefetch_new(const struct engine *e, const struct data *d, bool steps)
{
	struct prefetch *p = mem_zalloc(1, sizeof *p);
	const struct run_plan plan[] = { e->plan, evaluation_plan(&e->plan) };

	p->e = e;
	p->d = d;
	p->reader = data_reader_new(d);

	for (int i = 0; i < RINGS; i++) {
		p->ring[i].next.step = -1;
		if (first_set(p, i) >= 0)
			ring_init(p, &p->ring[i], &plan[i], steps && i == TRAINING);
	}
	p->current = p->ring;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	if (pthread_create(&p->thread, NULL, run, p))
		die("cannot start a thread that reads batches");
	return p;
}

/* Waits for the batch that is being read. */
void
prefetch_free(struct prefetch *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->wake);
	for (int i = 0; i < RINGS; i++) {
		struct ring *r = &p->ring[i];

		if (r->memory && p->e->backend->unpin)
			p->e->backend->unpin(p->e->device, r->memory);
		free(r->memory);
		free(r->entry);
	}
	data_reader_free(p->reader);
	free(p);
}

/* With the lock: discards what is ready and continues from k. */
static void
restart(struct prefetch *p, struct ring *r, struct prefetch_key k)
{
	r->generation++;
	r->filled = r->taken;
	r->next = k;
	pthread_cond_broadcast(&p->wake);
}

void
prefetch_start(struct prefetch *p, int64_t consumed)
{
	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < RINGS; i++)
		if (p->ring[i].size)
			restart(p, &p->ring[i],
			    (struct prefetch_key){
				first_set(p, i), i == TRAINING ? consumed : 0, 0 });
	pthread_mutex_unlock(&p->lock);
}

/* With the lock: everything that was given out may be filled again. */
static void
pass_all(struct prefetch *p)
{
	for (int i = 0; i < RINGS; i++)
		p->ring[i].passed = p->ring[i].taken;
	pthread_cond_broadcast(&p->wake);
}

/* With the lock: the ring of the batch, whose next batch it is from now on. */
static struct ring *
ring_at(struct prefetch *p, struct prefetch_key k)
{
	struct prefetch_key next; /* batch, read or being read */
	struct data_set s;
	struct ring *r;

	data_set(p->d, k.set, &s);
	r = &p->ring[s.which == SPLIT_TRAIN ? TRAINING : EVALUATION];
	if (r->size == 0)
		BUG("batches of set %d were never to be read", k.set);
	p->current = r;
	next = r->filled > r->taken ? r->entry[r->taken % r->size].key : r->next;
	if (next.set != k.set || next.step != k.step || next.microbatch != k.microbatch)
		restart(p, r, k);
	return r;
}

/* With the lock: waits until as many batches of the ring are ready. All of them may be with the
 * device in a long step; then the device is waited for. */
static void
await(struct prefetch *p, struct ring *r, int count)
{
	double start = clock_seconds();

	if (r->filled - r->taken >= count)
		return;
	if (r->taken - r->passed + count > r->size) {
		engine_sync(p->e);
		pass_all(p);
	}
	while (r->filled - r->taken < count)
		pthread_cond_wait(&p->wake, &p->lock);
	p->stats.waits++;
	p->stats.seconds += clock_seconds() - start;
}

/* Adds the weights of a batch: of its tokens, and of those that each layer after the head
 * predicts. */
static void
add_weights(const struct entry *x, int64_t rows, struct token_weights *w)
{
	if (x->tokens < 0)
		return;
	w->next += x->tokens;
	for (int64_t i = 0; x->batch.later_mask && i < w->layers * rows; i++)
		w->later[i / rows] += (double)x->batch.later_mask[i];
}

void
prefetch_tokens(struct prefetch *p, struct prefetch_key k, int count, struct token_weights *w)
{
	struct ring *r;

	*w = (struct token_weights){ .layers = p->e->plan.model.mtp_num_layers };

	pthread_mutex_lock(&p->lock);
	r = ring_at(p, k);
	if (r->size < count)
		BUG("%d batches are asked for, and there is room for %d", count, r->size);
	await(p, r, count);
	for (int i = 0; i < count; i++)
		add_weights(&r->entry[(r->taken + i) % r->size], run_rows(&r->plan), w);
	pthread_mutex_unlock(&p->lock);
}

/* The run waits for its first batch; later ones are ready unless the disk is slow. */
double
prefetch_batch(struct prefetch *p, struct prefetch_key k, struct batch *out, struct err *err)
{
	struct ring *r;
	struct entry *x;

	pthread_mutex_lock(&p->lock);
	r = ring_at(p, k);
	await(p, r, 1);
	x = &r->entry[r->taken++ % r->size];
	pthread_mutex_unlock(&p->lock);
	*out = x->batch;
	if (x->tokens < 0)
		*err = x->err;
	return x->tokens;
}

void
prefetch_passed(struct prefetch *p)
{
	pthread_mutex_lock(&p->lock);
	pass_all(p);
	pthread_mutex_unlock(&p->lock);
}

struct prefetch_stats
prefetch_stats(struct prefetch *p)
{
	struct prefetch_stats s;

	pthread_mutex_lock(&p->lock);
	s = p->stats;
	pthread_mutex_unlock(&p->lock);
	return s;
}
