/*
 * data_report.c - the report on the data: the corpora before the first step, and the samples
 * consumed at saves and at the end
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/data/data_impl.h"

#include <stdlib.h>
#include <string.h>

/* Samples that the run takes of a set. */
static int64_t
taken(const struct data *d, const struct set *s)
{
	int64_t b = d->c->plan.eval_batch_size,
		first = s->start > d->record.consumed ? s->start : d->record.consumed;

	if (s->which != SPLIT_TRAIN)
		return s->batches * b < s->count ? s->batches * b : s->count;
	return batch_end(&d->c->plan.ramp, first, d->c->train_iters - d->record.iteration) -
	    s->start;
}

/* A set and its corpora: tokens, samples, share and epochs of each in the run. A set of mock data
 * has none. */
static void
report_set(const struct data *d, const struct set *s)
{
	int64_t all = taken(d, s), *samples;
	int n = s->blend ? blend_num_corpora(s->blend) : 0;
	const char *split = split_name[s->which], *name = s->name ? s->name : "";

	if (!s->blend)
		return;
	note("data: %s%s%s: %lld samples from %d %s%s", split, *name ? " " : "", name,
	    (long long)s->count, n, n == 1 ? "corpus" : "corpora",
	    blend_from_cache(s->blend) ? " (maps from the cache)" : "");
	for (const char *line = blend_notes(s->blend); line && *line;) {
		size_t len = strcspn(line, "\n");

		note("data: %.*s", (int)len, line);
		line += len + (line[len] == '\n');
	}
	samples = mem_zalloc((size_t)n, sizeof *samples);
	blend_consumed(s->blend, all, samples);
	for (int k = 0; k < n; k++) {
		struct blend_corpus c;

		blend_corpus(s->blend, k, &c);
		note("data: %s: %s: %lld tokens, %lld samples, share %.6f, %.4g epochs", split,
		    dataset_prefix(c.dataset), (long long)samples_tokens_per_epoch(c.samples),
		    (long long)samples[k], all > 0 ? (double)samples[k] / (double)all : 0,
		    samples_epochs(c.samples, samples[k]));
		if (d->c->o.sample_packing == PACKING_BEST_FIT)
			note("data: %s: %s: packed, %.4f of its samples are tokens", split,
			    dataset_prefix(c.dataset), samples_fullness(c.samples));
		if (c.first > 0)
			note("data: %s: %s continues after %lld samples of its order", split,
			    dataset_prefix(c.dataset), (long long)c.first);
	}
	free(samples);
	if (s->which != SPLIT_TRAIN && !d->c->o.full_validation && s->batches < d->c->o.eval_iters)
		note("data: %s%s%s: an evaluation takes each of its samples once, fewer than "
		     "--eval-iters %lld batches",
		    split, *name ? " " : "", name, (long long)d->c->o.eval_iters);
}

/* Where the stages of a schedule begin. */
static void
report_stages(const struct data *d)
{
	const struct set *s = &d->set[SPLIT_TRAIN];

	for (int k = 0; d->stage_first && s->blend && k < d->c->paths.num_stages; k++) {
		struct blend_stage stage;

		blend_stage(s->blend, k, &stage);
		note("data: stage %d of %d: %lld samples from sample %lld on, %d %s", k + 1,
		    d->c->paths.num_stages, (long long)stage.count, (long long)d->stage_first[k],
		    stage.num_corpora, stage.num_corpora == 1 ? "corpus" : "corpora");
	}
}

void
data_report(const struct data *d)
{
	const struct data_record *r = &d->record;

	if (r->any && !r->continues && d->set[SPLIT_TRAIN].blend)
		note("data: the data changed since the checkpoint: from sample %lld on it is the "
		     "new list's",
		    (long long)d->set[SPLIT_TRAIN].start);
	for (int i = 0; i < d->num_sets; i++)
		report_set(d, &d->set[i]);
	report_stages(d);
}

void
data_note_stage(const struct data *d, int64_t first, int64_t end)
{
	const struct set *s = &d->set[SPLIT_TRAIN];
	int stage = data_stage(d, end);

	if (stage != data_stage(d, first) && end - s->start < s->count)
		note("data: stage %d of %d begins after sample %lld, token %lld", stage,
		    d->c->paths.num_stages, (long long)end,
		    (long long)(end * d->c->plan.shape.seq_length));
}

double
data_fill(const struct data *d, int64_t first, int64_t count)
{
	const struct set *s = &d->set[SPLIT_TRAIN];
	int64_t most = d->c->plan.shape.seq_length + 1, tokens = 0, end;
	struct sample_part *part;
	int k;

	if (d->c->o.sample_packing != PACKING_BEST_FIT ||
	    d->c->o.dataloader_type != SAMPLER_SINGLE || count == 0)
		return 0;
	part = mem_alloc((size_t)most, sizeof *part);
	first -= s->start;
	end = first + count < s->count ? first + count : s->count;
	for (int64_t i = first; i < end; i++) {
		int64_t parts = blend_parts(s->blend, i, &k, part, most);

		for (int64_t p = 0; p < parts; p++)
			tokens += part[p].count;
	}
	free(part);
	return (double)tokens / (double)(count * most);
}

/* Shortens long lists: rows beyond the limit are summed up, unless -v is given. For a single corpus
 * the log lines have the same information. */
void
data_note_consumed(const struct data *d, const int64_t *counts, const int64_t *trained)
{
	enum { SHOWN = 32 };
	const struct blend *b = d->set[SPLIT_TRAIN].blend;
	int n = b ? blend_num_corpora(b) : 0, shown = n > SHOWN && prog_level() <= 0 ? SHOWN : n;
	int64_t rest = 0, length = d->c->plan.shape.seq_length;

	for (int k = 0; k < n && n > 1; k++) {
		struct blend_corpus c;

		blend_corpus(b, k, &c);
		if (k < shown && trained[k] >= 0)
			note("data: consumed of %s: %lld samples, %.4g epochs, %lld tokens, %lld "
			     "trained on",
			    dataset_prefix(c.dataset), (long long)counts[k],
			    samples_epochs(c.samples, counts[k]), (long long)(counts[k] * length),
			    (long long)trained[k]);
		else if (k < shown)
			note("data: consumed of %s: %lld samples, %.4g epochs, %lld tokens",
			    dataset_prefix(c.dataset), (long long)counts[k],
			    samples_epochs(c.samples, counts[k]), (long long)(counts[k] * length));
		else
			rest += counts[k];
	}
	if (shown < n)
		note("data: consumed of %d further corpora: %lld samples", n - shown,
		    (long long)rest);
}
