/*
 * blend_plan.c - how many samples each corpus is asked for, and how many the blend has
 *
 * The table at the top of blend.h. Megatron-LM asks for a surplus of half a percent, because the
 * greedy choice may draw a little more from a corpus than its share; with many corpora and few
 * samples that is not enough, and it fails. Here the draws are known before anything is built.
 * Source: Megatron-LM core/datasets/blended_megatron_dataset_builder.py.
 */
#include "lib/base/mem.h"
#include "lib/data/blend_impl.h"

#include <stdlib.h>
#include <string.h>

/* Above this the doubles of the shares do not count samples exactly. */
static const int64_t most_samples = 1LL << 50;

/* A loop over corpora that keeps the first failure. */
struct running {
	struct jobs *jobs;
	pthread_mutex_t lock;
	struct err why;
	int failed;
};

/* Runs one index; later ones are skipped once an earlier one has failed. */
static void
run_one(void *ctx, int i)
{
	struct running *r = ctx;
	struct err e;

	if (r->jobs->fn(r->jobs->ctx, i, &e) == 0)
		return;
	pthread_mutex_lock(&r->lock);
	if (i < r->failed) {
		r->failed = i;
		r->why = e;
	}
	pthread_mutex_unlock(&r->lock);
}

/* All earlier indices run even when one fails: the reported failure must not depend on the
 * threads. */
int
jobs_run(struct jobs *j, int count, struct pool *pool, struct err *e)
{
	struct running *r = mem_zalloc(1, sizeof *r);
	int rc = 0;

	r->jobs = j;
	r->failed = count;
	pthread_mutex_init(&r->lock, NULL);
	if (pool)
		pool_run(pool, count, run_one, r);
	else
		for (int i = 0; i < count; i++)
			run_one(r, i);
	if (r->failed < count) {
		rc = -1;
		if (e)
			*e = r->why;
	}
	pthread_mutex_destroy(&r->lock);
	free(r);
	return rc;
}

/* A weight may be so small beside the others that its share is 0, or the others so large that their
 * sum is infinite; Megatron-LM refuses shares of 0. */
static int
check_shares(const struct path_list *l, const double *w, struct err *e)
{
	struct str weight = { 0 };
	int rc = 0;

	for (int k = 0; k < l->count && rc == 0; k++) {
		if (w[k] > 0)
			continue;
		str_add_double(&weight, l->weight[k]);
		rc = err_at(e, l->prefix[k], 0,
		    "its weight %s is 0 as a share of the sum of the weights, in numbers of 64 "
		    "bits; "
		    "leave the corpus out, or give weights that are less far apart",
		    weight.buf);
	}
	str_release(&weight);
	return rc;
}

/* The shares of the corpora, of one list or of all stages, and the requests. Shares are normalised
 * here, and once more for the choice. */
static int
ask_by_weight(struct blend *b, const struct blend_config *cfg, struct err *e)
{
	int64_t *share = mem_zalloc((size_t)b->num_parts, sizeof *share), count = 0;
	int rc = 0;

	for (int i = 0; i < b->num_parts; i++)
		b->part[i].weight = 0;
	for (int k = 0; k < b->num_stages && rc == 0; k++) {
		struct stage *s = &b->stage[k];

		blend_normalise(s->list->weight, s->num_parts, s->weight);
		rc = check_shares(s->list, s->weight, e);
		for (int i = 0; i < s->num_parts && rc == 0; i++) {
			int64_t n = blend_share(s->count, s->weight[i]);

			share[s->part[i]] += n;
			count += n;
		}
		blend_normalise(s->weight, s->num_parts, s->weight);
		for (int i = 0; i < s->num_parts; i++)
			b->part[s->part[i]].weight +=
			    s->weight[i] * ((double)s->count / (double)cfg->samples.num_samples);
	}
	/* What a run does not reach is planned as if it took one sample. */
	for (int i = 0; i < b->num_parts; i++)
		b->part[i].num_samples = blend_request(share[i] ? share[i] : 1, 1, cfg->surplus);
	if (!b->scheduled)
		b->count = b->stage[0].count = count;
	free(share);
	return rc;
}

/* All corpora of a list in one stage of `count` samples, whose weights are not known yet. */
static void
plan_list(struct blend *b, int64_t count)
{
	struct stage *s = b->stage;

	s->list = b->list;
	s->count = count;
	s->num_parts = b->num_parts;
	s->part = mem_alloc((size_t)b->num_parts, sizeof *s->part);
	for (int i = 0; i < b->num_parts; i++)
		s->part[i] = i;
}

/* The lines of a schedule. Those that end before the blend begins, or begin after its end, have no
 * samples. */
static void
plan_schedule(struct blend *b, const struct data_paths *paths, const struct blend_config *cfg)
{
	int64_t end = cfg->samples.num_samples;
	int *part = mem_alloc((size_t)corpora_count(b->corpora), sizeof *part);

	for (int k = 0; k < b->num_parts; k++)
		part[b->part[k].dataset] = k;
	for (int k = b->num_stages - 1; k >= 0; k--) {
		struct stage *s = &b->stage[k];
		int64_t first = cfg->stage_first[k];

		s->list = &paths->stage[k].list;
		s->first = first < 0 ? 0 : first < end ? first : end;
		s->count = end - s->first;
		end = s->first;
		s->num_parts = s->list->count;
		s->part = mem_alloc((size_t)s->num_parts, sizeof *s->part);
		for (int i = 0; i < s->num_parts; i++)
			s->part[i] = part[corpora_find(b->corpora, s->list->prefix[i])];
	}
	b->count = cfg->samples.num_samples;
	free(part);
}

/* Makes the stages, whose weights and counts come later. */
static int
plan_stages(
    struct blend *b, const struct data_paths *paths, const struct blend_config *cfg, struct err *e)
{
	b->num_stages = b->scheduled ? paths->num_stages : 1;
	b->stage = mem_zalloc((size_t)b->num_stages, sizeof *b->stage);
	if (b->scheduled)
		plan_schedule(b, paths, cfg);
	else
		plan_list(b, cfg->samples.num_samples);
	for (int k = 0; k < b->num_stages; k++) {
		struct stage *s = &b->stage[k];
		size_t n = (size_t)s->num_parts;

		if (s->num_parts > BLEND_CORPORA_MAX)
			return err_set(e,
			    "%d corpora in one list: at most %d, as the blending index numbers "
			    "them with 16 bits",
			    s->num_parts, BLEND_CORPORA_MAX);
		s->weight = mem_zalloc(n, sizeof *s->weight);
		s->before = mem_zalloc(n, sizeof *s->before);
		s->drawn = mem_zalloc(n, sizeof *s->drawn);
	}
	return 0;
}

/* A corpus that continues an order gets the request that made that order. */
static void
keep_orders(struct blend *b, const struct blend_config *cfg)
{
	for (int k = 0; k < b->num_parts && cfg->kept; k++)
		if (cfg->kept[k].first > 0 || cfg->kept[k].same_request) {
			b->part[k].first = cfg->kept[k].first;
			b->part[k].num_samples = cfg->kept[k].num_samples;
			b->part[k].kept = true;
		}
}

/* The samples of a part that were not drawn before. */
static int64_t
left(const struct part *p)
{
	int64_t has = samples_count(p->samples);

	return p->first < has ? has - p->first : 0;
}

/* A continued order that is shorter than its draws starts over. */
static void
note_repeats(struct blend *b, const struct part *p)
{
	if (p->drawn > left(p))
		str_addf(&b->notes,
		    "%s: the %s blend draws %lld samples from it, but only %lld were not drawn "
		    "before: its order starts over\n",
		    dataset_prefix(corpora_dataset(b->corpora, p->dataset)), split_name[b->which],
		    (long long)p->drawn, (long long)left(p));
}

/* The checks that need no corpus. */
static int
ask(struct blend *b, const struct data_paths *paths, const struct blend_config *cfg, struct err *e)
{
	bool weights = b->scheduled || b->list->weight;
	int64_t wanted = cfg->samples.num_samples;
	const char *name = split_name[b->which];

	if (wanted > most_samples)
		return err_set(e, "%lld samples wanted of the %s split: at most %lld",
		    (long long)wanted, name, (long long)most_samples);
	for (int k = 0; k < b->num_parts; k++) {
		b->part[k].dataset = corpora_find(b->corpora, b->list->prefix[k]);
		b->part[k].num_samples = b->plain ? wanted : -1;
		b->part[k].weight = 1;
	}
	if (b->plain) {
		keep_orders(b, cfg);
		return 0;
	}
	if (wanted == 0)
		return err_set(
		    e, "0 samples wanted of the %s split: must be at least 1 for a blend", name);
	if (weights && wanted < 0)
		return err_set(e,
		    "the %s split has weights but no number of samples: weights need one; a list "
		    "without weights takes every sample once",
		    name);
	if (plan_stages(b, paths, cfg, e) < 0 || (weights && ask_by_weight(b, cfg, e) < 0))
		return -1;
	keep_orders(b, cfg);
	return 0;
}

/* An order in which equal requests are neighbours. */
static int
by_request(const void *x, const void *y)
{
	const struct part *a = *(struct part *const *)x, *b = *(struct part *const *)y;

	if (a->dataset != b->dataset)
		return a->dataset < b->dataset ? -1 : 1;
	if (a->num_samples != b->num_samples)
		return a->num_samples < b->num_samples ? -1 : 1;
	return a < b ? -1 : a > b;
}

/* What the planning of one samples object needs. */
struct planning {
	struct blend *b;
	const struct blend_config *cfg;
	struct part **first; /* [num_unique]: a part that makes the request */
};

/* Sums up the lengths of one corpus. */
static int
plan_one(void *ctx, int i, struct err *e)
{
	struct planning *p = ctx;
	struct samples_config c = p->cfg->samples;

	c.num_samples = p->first[i]->num_samples;
	p->b->unique[i] = samples_plan(corpora_dataset(p->b->corpora, p->first[i]->dataset), &c, e);
	return p->b->unique[i] ? 0 : -1;
}

/* One samples object for each different request; a list may name a corpus many times. */
static int
plan_unique(struct blend *b, const struct blend_config *cfg, struct err *e)
{
	int n = b->num_parts, rc;
	struct part **order = mem_alloc((size_t)n, sizeof *order);
	struct planning p = { b, cfg, mem_alloc((size_t)n, sizeof *p.first) };
	int *group = mem_alloc((size_t)n, sizeof *group);

	for (int i = 0; i < b->num_unique; i++)
		samples_close(b->unique[i]);
	free(b->unique);
	b->unique = mem_zalloc((size_t)n, sizeof *b->unique);
	b->num_unique = 0;
	for (int k = 0; k < n; k++)
		order[k] = &b->part[k];
	qsort(order, (size_t)n, sizeof *order, by_request);
	for (int k = 0; k < n; k++) {
		const struct part *before = k ? order[k - 1] : NULL;

		if (!before || before->dataset != order[k]->dataset ||
		    before->num_samples != order[k]->num_samples)
			p.first[b->num_unique++] = order[k];
		group[k] = b->num_unique - 1;
	}
	rc = jobs_run(&(struct jobs){ &p, plan_one }, b->num_unique, cfg->pool, e);
	for (int k = 0; k < n; k++)
		order[k]->samples = b->unique[group[k]];
	free(group);
	free(p.first);
	free(order);
	return rc;
}

/* Weights in proportion to the samples of one epoch. */
static int
weigh_by_samples(struct blend *b, const struct blend_config *cfg, struct err *e)
{
	int64_t wanted = cfg->samples.num_samples;
	double *w = mem_alloc((size_t)b->num_parts, sizeof *w);
	int rc = 0;

	for (int k = 0; k < b->num_parts && rc == 0; k++) {
		int64_t has = left(&b->part[k]);
		const char *prefix =
		    dataset_prefix(corpora_dataset(b->corpora, b->part[k].dataset));

		w[k] = (double)has;
		b->count += has;
		if (has == 0 && b->part[k].first > 0)
			rc = err_at(e, prefix, 0,
			    "all of its %lld samples were drawn before: a blend without weights "
			    "can take none from it",
			    (long long)samples_count(b->part[k].samples));
		else if (has == 0)
			rc = err_at(e, prefix, 0,
			    "%lld tokens in the %s split: a blend needs at least one sample, which "
			    "is %lld tokens",
			    (long long)samples_tokens_per_epoch(b->part[k].samples),
			    split_name[b->which],
			    (long long)cfg->samples.seq_length + cfg->samples.add_extra_token);
	}
	b->exhaustive = wanted < 0;
	if (wanted > b->count)
		str_addf(&b->notes,
		    "the %s split has %lld samples, fewer than the %lld wanted: its list has no "
		    "weights, so each corpus "
		    "gives one epoch at most\n",
		    split_name[b->which], (long long)b->count, (long long)wanted);
	else if (wanted > 0)
		b->count = wanted;
	if (!b->exhaustive)
		blend_normalise(w, b->num_parts, w);
	for (int k = 0; k < b->num_parts; k++)
		b->stage[0].weight[k] = b->part[k].weight =
		    b->exhaustive ? w[k] / (double)b->count : w[k];
	b->stage[0].count = b->count;
	free(w);
	return rc;
}

/* The choice itself is the caller's: it may be in the cache. */
int
blend_plan(
    struct blend *b, const struct data_paths *paths, const struct blend_config *cfg, struct err *e)
{
	b->part = mem_zalloc((size_t)b->num_parts, sizeof *b->part);
	if (ask(b, paths, cfg, e) < 0 || plan_unique(b, cfg, e) < 0)
		return -1;
	if (b->plain) {
		struct part *p = &b->part[0];

		/* A continued order never runs out: it starts over. */
		b->count = left(p) < cfg->samples.num_samples ? cfg->samples.num_samples : left(p);
		if (p->first == 0)
			b->count = samples_count(p->samples);
		p->drawn = b->count;
		note_repeats(b, p);
		return 0;
	}
	return b->scheduled || b->list->weight ? 0 : weigh_by_samples(b, cfg, e);
}

/* An exhaustive blend never draws more than there is. */
int
blend_replan(struct blend *b, const struct blend_config *cfg, bool *changed, struct err *e)
{
	*changed = false;
	for (int k = 0; k < b->num_parts; k++) {
		struct part *p = &b->part[k];
		long long has = (long long)samples_count(p->samples), drawn = (long long)p->drawn;

		if (p->kept)
			note_repeats(b, p);
		if (drawn <= has || p->kept)
			continue;
		str_addf(&b->notes,
		    "%s: the %s blend draws %lld samples from it, but a request for %lld gives "
		    "only %lld: the request is raised to %lld\n",
		    dataset_prefix(corpora_dataset(b->corpora, p->dataset)), split_name[b->which],
		    drawn, (long long)p->num_samples, has, drawn);
		p->num_samples = p->drawn;
		*changed = true;
	}
	return *changed ? plan_unique(b, cfg, e) : 0;
}
