/*
 * corpus_log.c - what each corpus of training has given so far, and its loss
 *
 * Rank 0 counts the samples of every step by corpus. With --log-loss-by-corpus the last stage
 * leaves losses and masks of all tokens of a step in host memory; each rank adds up its own by
 * corpus, and the ranks add theirs at log steps. Tokens that count are known before the passes:
 * where there may be others, the ranks that compute losses count those of their rows.
 */
#include "lib/base/mem.h"
#include "train/data/corpus_log.h"
#include "train/data/data_impl.h"
#include "train/step/pipeline.h"

#include <stdlib.h>
#include <string.h>

struct corpus_log {
	const struct data *d;
	struct engine *e;
	int count;         /* corpora; 0: mock data */
	int64_t *consumed; /* [count] */
	int64_t *trained;  /* [count]; rank 0 */
	/* [count] each: tokens that count, of this step and since they were added up over ranks;
	 * NULL: all tokens count */
	double *step, *since;
	bool counts; /* this rank counts those of its rows */
	struct data_reader *reader;
	int64_t *samples; /* [b] */
	size_t bytes;     /* of losses, for the whole step */
	/* [micro batches] of { loss real [T], mask F32 [T] }; NULL: not requested, or on another
	 * rank */
	char *losses;
	double *sums; /* [count][2]: loss and tokens since the last line; NULL: not requested */
};

/* Puts the corpus of each sample of a micro batch into `samples`. */
static void
find_corpora(struct corpus_log *l, int64_t first, int microbatch, int rank)
{
	const struct run_plan *p = &l->e->plan;
	struct data_place at = { SPLIT_TRAIN, pipeline_first_sample(p, first, microbatch, 0), rank,
		0 };
	struct err err;

	/* The samples of a past step are a function of its number. */
	if (data_samples(l->reader, &at, l->samples, &err) < 0)
		BUG("%s", err.msg);
	for (int64_t i = 0; i < p->shape.micro_batch_size; i++) {
		int64_t of_corpus;
		int k;

		blend_locate(l->d->set[SPLIT_TRAIN].blend, l->samples[i], &k, &of_corpus);
		l->samples[i] = k;
	}
}

/* The data are the same on all ranks, so rank 0 counts those of the others; trained: where all
 * their tokens count, or NULL. */
static void
count_samples(struct corpus_log *l, int64_t first, int microbatch, int64_t *trained)
{
	const struct train_shape *s = &l->e->plan.shape;

	for (int j = 0; j < l->e->plan.layout.data_parallel_size; j++) {
		find_corpora(l, first, microbatch, j);
		for (int64_t i = 0; i < s->micro_batch_size; i++) {
			l->consumed[l->samples[i]]++;
			if (trained && trained[l->samples[i]] >= 0)
				trained[l->samples[i]] += s->seq_length;
		}
	}
}

/* Adds up what was consumed before, once; with the cyclic loader sample by sample, independent of
 * the steps. */
static void
count_before(struct corpus_log *l, int64_t consumed)
{
	const struct set *s = &l->d->set[SPLIT_TRAIN];

	if (l->d->c->o.dataloader_type == SAMPLER_SINGLE) {
		blend_consumed(s->blend, consumed - s->start, l->consumed);
		for (int k = 0; k < l->count; k++) {
			struct blend_corpus c;

			blend_corpus(s->blend, k, &c);
			l->consumed[k] += c.first;
		}
		return;
	}
	if (l->count == 1)
		l->consumed[0] = consumed - s->start;
	for (int64_t at = s->start; at < consumed && l->count > 1; at += data_group(l->d))
		count_samples(l, at, 0, NULL);
}

/* The ranks that compute the losses of a step have memory for them. */
static void
make_log(struct corpus_log *l, int64_t consumed)
{
	const struct data *d = l->d;
	struct engine *e = l->e;
	bool losses = d->c->o.log_loss_by_corpus || d->c->o.sample_losses;

	if (data_masks(d)) {
		l->step = mem_zalloc((size_t)l->count, sizeof *l->step);
		l->since = mem_zalloc((size_t)l->count, sizeof *l->since);
		l->counts = e->last_stage && e->coord[AX_TP] == 0;
	}
	if (e->rank != 0 && !losses && !l->counts)
		return;
	l->consumed = mem_zalloc((size_t)l->count, sizeof *l->consumed);
	l->reader = data_reader_new(d);
	l->samples = mem_alloc((size_t)e->plan.shape.micro_batch_size, sizeof *l->samples);
	if (e->rank == 0) {
		l->trained = mem_zalloc((size_t)l->count, sizeof *l->trained);
		count_before(l, consumed);
	}
	if (d->c->o.log_loss_by_corpus)
		l->sums = mem_zalloc((size_t)l->count, 2 * sizeof *l->sums);
	if (!losses || !e->last_stage || e->coord[AX_TP] != 0)
		return;
	l->bytes = (size_t)e->plan.shape.num_microbatches * pipeline_loss_bytes(e);
	l->losses = mem_zalloc(l->bytes, 1);
	if (e->backend->pin)
		e->backend->pin(e->device, l->losses, l->bytes);
}

struct corpus_log *
corpus_log_open(const struct data *d, struct engine *e, int64_t consumed, struct err *err)
{
	struct corpus_log *l = mem_zalloc(1, sizeof *l);
	const struct blend *b = d->set[SPLIT_TRAIN].blend;
	int rc = 0;

	l->d = d;
	l->e = e;
	l->count = b ? blend_num_corpora(b) : 0;
	if (l->count == 0)
		return l;
	make_log(l, consumed);
	if (l->trained)
		rc = data_record_trained(d, l->trained, err);
	if (comm_agree(COMM_HERE(e->groups.world), rc, err)) {
		corpus_log_close(l);
		return NULL;
	}
	return l;
}

/* NULL is allowed. */
void
corpus_log_close(struct corpus_log *l)
{
	if (!l)
		return;
	if (l->losses && l->e->backend->unpin)
		l->e->backend->unpin(l->e->device, l->losses);
	data_reader_free(l->reader);
	free(l->samples);
	free(l->consumed);
	free(l->trained);
	free(l->step);
	free(l->since);
	free(l->losses);
	free(l->sums);
	free(l);
}

const int64_t *
corpus_log_counts(const struct corpus_log *l)
{
	return l->consumed;
}

const int64_t *
corpus_log_trained(const struct corpus_log *l)
{
	return l->trained;
}

/* A count that is not known stays so. */
void
corpus_log_gather(struct corpus_log *l)
{
	struct comm *w = l->e->groups.world;
	struct tensor t = tensor_1d(l->since, DTYPE_F64, l->count);

	if (!l->since)
		return;
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	for (int k = 0; k < l->count && l->trained; k++)
		if (l->trained[k] >= 0)
			l->trained[k] += (int64_t)l->since[k];
	memset(l->since, 0, (size_t)l->count * sizeof *l->since);
}

/* A step may be read again, from its first micro batch on. */
void
corpus_log_batch(struct corpus_log *l, int64_t first, int microbatch, const struct batch *batch)
{
	int64_t b = l->e->plan.shape.micro_batch_size, rows = run_rows(&l->e->plan);

	if (!l->counts)
		return;
	if (microbatch == 0)
		memset(l->step, 0, (size_t)l->count * sizeof *l->step);
	find_corpora(l, first, microbatch, l->e->coord[AX_DP]);
	for (int64_t i = 0; i < b; i++) {
		int64_t n = 0;

		for (int64_t t = i; t < rows; t += b)
			n += batch->loss_mask[t] > 0;
		l->step[l->samples[i]] += (double)n;
	}
}

/* The tokens of a step that was taken; those that a rank has not read itself when all count. */
static void
count_trained(struct corpus_log *l, bool skipped)
{
	for (int k = 0; k < l->count && l->step; k++) {
		l->since[k] += skipped ? 0 : l->step[k];
		l->step[k] = 0;
	}
}

void *
corpus_log_losses(const struct corpus_log *l)
{
	return l->losses;
}

/* Adds the losses of a micro batch of this rank, in the layers' order of rows, to their corpora. */
static void
add_losses(struct corpus_log *l, int microbatch)
{
	const struct train_shape *s = &l->e->plan.shape;
	int64_t b = s->micro_batch_size, tokens = run_rows(&l->e->plan);
	const char *loss = l->losses + (size_t)microbatch * pipeline_loss_bytes(l->e);
	size_t width = dtype_size(memory_compute(s->dtype));
	const char *mask = loss + (size_t)tokens * width;

	for (int64_t t = 0; t < tokens; t++) {
		double *sum = l->sums + 2 * l->samples[t % b], value;
		float m;

		memcpy(&m, mask + (size_t)t * sizeof m, sizeof m);
		dtype_convert(
		    &value, DTYPE_F64, loss + (size_t)t * width, memory_compute(s->dtype), 1);
		sum[0] += m * value;
		sum[1] += m;
	}
}

/* The samples of the step are those that the run's plan gives it. */
void
corpus_log_step(struct corpus_log *l, int64_t first, bool skipped)
{
	const struct run_plan *p = &l->e->plan;
	int n = run_microbatches(p, batch_at(&p->ramp, first));

	for (int m = 0; m < n && l->reader; m++) {
		if (l->e->rank == 0)
			count_samples(l, first, m, l->step || skipped ? NULL : l->trained);
		if (l->losses && l->sums && !skipped) {
			find_corpora(l, first, m, l->e->coord[AX_DP]);
			add_losses(l, m);
		}
	}
	count_trained(l, skipped);
	if (l->e->rank == 0)
		data_note_stage(l->d, first, first + batch_at(&p->ramp, first));
}

/* One line; corpora without a counted token since the last one have no loss in it. */
void
corpus_log_write(struct corpus_log *l, struct metrics *m, int64_t iteration, int64_t consumed)
{
	struct comm *w = l->e->groups.world;
	struct tensor t = tensor_1d(l->sums, DTYPE_F64, 2 * l->count);
	int stage = l->count ? data_stage(l->d, consumed - 1) : 0;

	if (l->sums)
		w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	corpus_log_gather(l);
	/* For a single corpus the lines of the steps have the same information. */
	for (int k = 0; k < l->count && m && (l->count > 1 || l->sums); k++) {
		struct metrics_corpus c = { .consumed_samples = l->consumed[k],
			.consumed_tokens = l->consumed[k] * l->e->plan.shape.seq_length,
			.trained_tokens = l->trained[k],
			.stage = stage };
		struct blend_corpus b;

		blend_corpus(l->d->set[SPLIT_TRAIN].blend, k, &b);
		c.name = dataset_prefix(b.dataset);
		c.epochs = samples_epochs(b.samples, c.consumed_samples);
		c.tokens = l->sums ? l->sums[2 * k + 1] : 0;
		c.lm_loss = c.tokens > 0 ? l->sums[2 * k] / c.tokens : 0;
		metrics_corpus(m, iteration, &c);
	}
	if (l->sums)
		memset(l->sums, 0, 2 * (size_t)l->count * sizeof *l->sums);
}
