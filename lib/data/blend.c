/*
 * blend.c - opening the samples of one split, and reading them
 *
 * First comes what needs no map: the request to each corpus, the number of samples, and which
 * corpus gives which sample (from the cache, or by the choice). Then the maps of the corpora, in
 * parallel. New files are committed last, all together, or by the caller with those of other
 * splits.
 */
#include "lib/base/mem.h"
#include "lib/data/blend_impl.h"

#include <stdlib.h>
#include <string.h>

/* Chooses the first `size` samples of a stage, into the arrays or, where they are NULL, only
 * counted. */
static void
choose_first(const struct blend *b, const struct stage *s, int64_t size, int16_t *dataset,
    int64_t *sample, int64_t *drawn)
{
	int n = s->num_parts;
	int64_t *limit = mem_alloc((size_t)n, sizeof *limit);
	struct blend_choice c = { .weight = s->weight,
		.limit = b->exhaustive ? limit : NULL,
		.count = n,
		.size = size,
		.dataset = dataset,
		.dataset_sample = sample,
		.drawn = drawn };

	for (int i = 0; i < n; i++) {
		const struct part *p = &b->part[s->part[i]];

		limit[i] = samples_count(p->samples) - p->first;
	}
	blend_choose(&c);
	free(limit);
}

static void
choose(const struct blend *b, struct stage *s)
{
	if (b->counted)
		return;
	choose_first(b, s, s->count, index_map_alloc(&s->dataset, DTYPE_I16, s->count),
	    index_map_alloc(&s->dataset_sample, DTYPE_I64, s->count), s->drawn);
}

/* How many of the first n samples of a stage come from each of its parts. Goes backwards from the
 * last sample: the first one found of a part gives its number. */
static void
count_first(const struct blend *b, const struct stage *s, int64_t n, int64_t *out)
{
	int missing = s->num_parts;

	if (b->counted && !s->from_cache) {
		choose_first(b, s, n, NULL, NULL, out);
		return;
	}
	memset(out, 0, (size_t)s->num_parts * sizeof *out);
	for (int64_t i = n - 1; i >= 0 && missing > 0; i--) {
		int64_t k = index_map_get(&s->dataset, i);

		if (out[k])
			continue;
		out[k] = index_map_get(&s->dataset_sample, i) + 1;
		missing--;
	}
}

/* Stages in turn: what each draws counts as drawn before the next. */
static void
load_or_choose(struct blend *b, const struct blend_config *cfg, struct map_cache *cache)
{
	b->from_cache = true;
	for (int k = 0; k < b->num_parts; k++)
		b->part[k].drawn = 0;
	for (int k = 0; k < b->num_stages; k++) {
		struct stage *s = &b->stage[k];

		for (int i = 0; i < s->num_parts; i++)
			s->before[i] = b->part[s->part[i]].drawn;
		if (s->count == 0)
			continue;
		index_map_release(&s->dataset);
		index_map_release(&s->dataset_sample);
		s->from_cache = blend_load(b, k, &cfg->samples, cache);
		if (!s->from_cache)
			choose(b, s);
		b->from_cache = b->from_cache && s->from_cache;
		count_first(b, s, s->count, s->drawn);
		for (int i = 0; i < s->num_parts; i++)
			b->part[s->part[i]].drawn += s->drawn[i];
	}
}

/*
 * The blending indices. A larger request to a corpus changes the name of a blend but not its
 * arrays, which are then looked up, and written, under the new name.
 */
static int
fill_index(struct blend *b, const struct blend_config *cfg, struct map_cache *cache, struct err *e)
{
	bool changed;
	int rc = 0;

	load_or_choose(b, cfg, cache);
	if (blend_replan(b, cfg, &changed, e) < 0)
		return -1;
	if (changed)
		load_or_choose(b, cfg, cache);
	for (int k = 0; k < b->num_stages && rc == 0 && cfg->samples.write_cache; k++)
		if (b->stage[k].count && !b->stage[k].from_cache)
			rc = blend_store(b, k, &cfg->samples, cache, e);
	return rc;
}

/* What the maps of one corpus need. */
struct filling {
	struct blend *b;
	const struct samples_config *c;
	struct map_cache *cache;
};

/* The maps of one corpus. */
static int
fill_one(void *ctx, int i, struct err *e)
{
	struct filling *f = ctx;
	struct samples_config c = *f->c;

	c.num_samples = samples_num_samples(f->b->unique[i]);
	return samples_fill(f->b->unique[i], &c, f->cache, e);
}

/* The maps of all corpora. Of those that were built because their maps were missing, only the first
 * looks for maps of another tokenizer: the same holds for the others, and reading a large directory
 * takes long. */
static int
fill_corpora(
    struct blend *b, const struct blend_config *cfg, struct map_cache *cache, struct err *e)
{
	struct filling f = { b, &cfg->samples, cache };
	struct samples_config c = cfg->samples;
	int built = -1;

	if (cfg->plan_only)
		return 0;
	if (jobs_run(&(struct jobs){ &f, fill_one }, b->num_unique, cfg->pool, e) < 0)
		return -1;
	for (int i = 0; i < b->num_unique; i++) {
		if (samples_note(b->unique[i]))
			str_addf(&b->notes, "%s\n", samples_note(b->unique[i]));
		else if (built < 0 && !samples_from_cache(b->unique[i]))
			built = i;
		if (b->plain)
			b->from_cache = samples_from_cache(b->unique[i]);
	}
	if (built >= 0) {
		c.num_samples = samples_num_samples(b->unique[built]);
		samples_note_other_tokenizer(b->unique[built], &c, &b->notes);
	}
	return 0;
}

/* The corpora stay the caller's and must outlive the blend; the paths need not. */
struct blend *
blend_open(const struct corpora *c, const struct data_paths *paths, const struct blend_config *cfg,
    struct err *e)
{
	struct blend_config own = *cfg;
	const struct path_list *list = data_paths_list(paths, cfg->samples.which);
	struct map_cache *cache;
	struct blend *b;
	int rc;

	if (list->count == 0) {
		err_set(e, "the %s split has no corpora", split_name[cfg->samples.which]);
		return NULL;
	}
	if (paths->per_split)
		own.samples.split = NULL;
	b = mem_zalloc(1, sizeof *b);
	b->corpora = c;
	b->list = list;
	b->which = cfg->samples.which;
	b->num_parts = list->count;
	b->scheduled = paths->num_stages && b->which == SPLIT_TRAIN;
	b->plain = !b->scheduled && list->count == 1 && (!list->weight || paths->per_split);
	b->counted = cfg->plan_only && !cfg->samples.write_cache;
	cache = cfg->cache ? cfg->cache : map_cache_new();
	rc = blend_plan(b, paths, &own, e);
	if (rc == 0 && !b->plain)
		rc = fill_index(b, &own, cache, e);
	if (rc == 0)
		rc = fill_corpora(b, &own, cache, e);
	if (!cfg->cache && rc == 0)
		rc = map_cache_commit(cache, e);
	else if (!cfg->cache)
		map_cache_abort(cache);
	b->list = NULL;
	for (int k = 0; k < b->num_stages; k++)
		b->stage[k].list = NULL;
	if (rc == 0)
		return b;
	blend_close(b);
	return NULL;
}

/* NULL is allowed. */
void
blend_close(struct blend *b)
{
	if (!b)
		return;
	for (int i = 0; i < b->num_unique; i++)
		samples_close(b->unique[i]);
	free(b->unique);
	free(b->part);
	for (int k = 0; k < b->num_stages; k++) {
		struct stage *s = &b->stage[k];

		free(s->part);
		free(s->weight);
		free(s->before);
		free(s->drawn);
		index_map_release(&s->dataset);
		index_map_release(&s->dataset_sample);
	}
	free(b->stage);
	str_release(&b->notes);
	free(b);
}

int64_t
blend_count(const struct blend *b)
{
	return b->count;
}

int
blend_num_stages(const struct blend *b)
{
	return b->num_stages;
}

void
blend_stage(const struct blend *b, int k, struct blend_stage *out)
{
	const struct stage *s = &b->stage[k];

	*out = (struct blend_stage){ s->first, s->count, s->num_parts, s->hash };
}

/* The last stage that begins at the sample or before it and has any. */
int
blend_stage_at(const struct blend *b, int64_t sample)
{
	int low = 0, high = b->num_stages - 1;

	while (low < high) {
		int middle = (low + high + 1) / 2;

		if (b->stage[middle].first <= sample)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

int
blend_stage_corpus(const struct blend *b, int k, int i, struct blend_corpus *out)
{
	const struct stage *s = &b->stage[k];

	blend_corpus(b, s->part[i], out);
	out->weight = s->weight[i];
	out->drawn = s->drawn[i];
	out->first += s->before[i];
	return s->part[i];
}

/* The first stage's. Valid as long as b. */
const char *
blend_hash(const struct blend *b)
{
	return b->num_stages ? b->stage[0].hash : "";
}

/* For messages. */
bool
blend_from_cache(const struct blend *b)
{
	return b->from_cache;
}

/* Valid as long as b. */
const char *
blend_notes(const struct blend *b)
{
	return b->notes.len ? b->notes.buf : NULL;
}

/* The pairs of the list; a corpus named twice counts twice. */
int
blend_num_corpora(const struct blend *b)
{
	return b->num_parts;
}

/* Everything in *out belongs to b or to the corpora. */
void
blend_corpus(const struct blend *b, int k, struct blend_corpus *out)
{
	const struct part *p = &b->part[k];

	*out = (struct blend_corpus){ corpora_dataset(b->corpora, p->dataset), p->samples,
		p->weight, p->num_samples, p->drawn, p->first };
}

void
blend_locate(const struct blend *b, int64_t sample, int *corpus, int64_t *of_corpus)
{
	const struct part *p;

	if (sample < 0 || sample >= b->count)
		BUG("sample %lld of %lld", (long long)sample, (long long)b->count);
	*corpus = 0;
	*of_corpus = sample;
	if (!b->plain) {
		const struct stage *s = &b->stage[blend_stage_at(b, sample)];
		int64_t i = index_map_get(&s->dataset, sample - s->first);

		*corpus = s->part[i];
		*of_corpus = s->before[i] + index_map_get(&s->dataset_sample, sample - s->first);
	}
	p = &b->part[*corpus];
	if (p->kept)
		*of_corpus = (p->first + *of_corpus) % samples_count(p->samples);
}

int64_t
blend_tokens(const struct blend *b, int64_t sample, int64_t *out, struct err *e)
{
	int64_t i;
	int k;

	blend_locate(b, sample, &k, &i);
	return samples_tokens(b->part[k].samples, i, out, e);
}

int64_t
blend_weights(const struct blend *b, int64_t sample, uint8_t *out, struct err *e)
{
	int64_t i;
	int k;

	blend_locate(b, sample, &k, &i);
	return samples_weights(b->part[k].samples, i, out, e);
}

int64_t
blend_parts(
    const struct blend *b, int64_t sample, int *corpus, struct sample_part *out, int64_t cap)
{
	int64_t i;

	blend_locate(b, sample, corpus, &i);
	return samples_parts(b->part[*corpus].samples, i, out, cap);
}

/* A sample of more parts is fetched when it is read. */
void
blend_will_need(const struct blend *b, int64_t sample)
{
	enum { PARTS = 64 };
	struct sample_part part[PARTS];
	const struct dataset *d;
	int64_t n;
	int k;

	n = blend_parts(b, sample, &k, part, PARTS);
	d = corpora_dataset(b->corpora, b->part[k].dataset);
	for (int64_t i = 0; i < n && i < PARTS; i++)
		dataset_will_need(d, part[i].sequence, part[i].first, part[i].count);
}

/* Whole passes, then a part of one. */
void
blend_consumed(const struct blend *b, int64_t consumed, int64_t *out)
{
	int64_t passes = b->count ? consumed / b->count : 0,
		rest = b->count ? consumed % b->count : 0;
	int64_t *drawn = mem_alloc((size_t)b->num_parts, sizeof *drawn);

	for (int k = 0; k < b->num_parts; k++)
		out[k] = passes * b->part[k].drawn + (b->plain ? rest : 0);
	for (int k = 0; k < b->num_stages && b->stage[k].first < rest; k++) {
		const struct stage *s = &b->stage[k];
		int64_t n = rest - s->first;

		if (s->count == 0)
			continue;
		count_first(b, s, n < s->count ? n : s->count, drawn);
		for (int i = 0; i < s->num_parts; i++)
			out[s->part[i]] += drawn[i];
	}
	free(drawn);
}
