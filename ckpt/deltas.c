/* deltas.c - what is kept of the deltas of models from their base */
#include "ckpt/deltas.h"
#include "ckpt/kth.h"
#include "ckpt/slab.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>
#include <stdlib.h>

static const struct merge_rule *
rule_of(const struct derived *d)
{
	return d->rule;
}

static bool
is_ties(const struct merge_rule *r)
{
	return r->method == MERGE_TIES;
}

static bool
is_dare(const struct merge_rule *r)
{
	return r->method == MERGE_DARE_LINEAR || r->method == MERGE_DARE_TIES;
}

void
deltas_init(struct deltas *m, struct derived *d)
{
	size_t n = (size_t)d->count;

	*m = (struct deltas){ d, mem_zalloc(n, sizeof *m->term), mem_zalloc(n, sizeof *m->trim),
		false };
	for (int i = 0; i < d->count; i++)
		m->trim[i].factor = 1;
}

void
deltas_release(struct deltas *m)
{
	free(m->term);
	free(m->trim);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct derived_term
deltas_term(const struct derived *d, int i, const struct source_part *p)
{
	struct derived_term t = { .from = d->from[i], .part = *p, .weight = 1 };
	int k = source_index(t.from, p->param);

	t.part.param = k >= 0 ? &t.from->param[k] : source_param(t.from, p->param->in_layer);
	derived_choose_copy(d, t.from, t.part.param, &t.part.copy);
	return t;
}

int
deltas_read(struct deltas *m, const struct source_part *p, struct err *e)
{
	for (int i = 0; i < m->d->count; i++)
		m->term[i] = deltas_term(m->d, i, p);
	return derived_read(m->d, m->term, m->d->count, e);
}

/* A_i - B in a stretch of the box that was read last. */
static void
delta(const struct deltas *m, int i, const struct derived_stretch *s, double *x)
{
	double base[DERIVED_STRETCH];

	derived_numbers(m->d->box[i].array, s->at, s->n, x);
	derived_numbers(m->d->box[rule_of(m->d)->base].array, s->at, s->n, base);
	for (int64_t k = 0; k < s->n; k++)
		x[k] -= base[k];
}

/* The number in the tensor of element `at` of a box, whose rows are whole, and how many from it on
 * follow each other in the tensor. */
static int64_t
element_at(const struct source_part *p, int64_t at, int64_t *follow)
{
	const struct slice *s = &p->slice;
	int64_t row = slice_elements(s) / (s->ndim > 1 ? s->count[0] : 1),
		number = s->start[0] + at / row;

	for (int k = 1; k < s->ndim; k++)
		number = number * p->param->shape[k] + s->start[k];
	*follow = row - at % row;
	return number + at % row;
}

/* --- what is kept of a delta ------------------------------------------------------------------ */

/* Zeroes what is not larger than a threshold, nor equal to it and early enough. */
static void
trim_small(const struct trim *t, int64_t number, int64_t at, int64_t n, double *x)
{
	for (int64_t k = 0; k < n; k++) {
		uint32_t bits = kth_bits(x[k]);
		bool before = number < t->in || (number == t->in && at + k <= t->last),
		     kept = bits > t->bits || (bits == t->bits && before);

		x[k] = kept ? x[k] : 0;
	}
}

/* Zeroes the elements that are not kept, without the factor. */
static void
trim(const struct deltas *m, int i, const struct derived_stretch *s, double *x)
{
	const struct merge_rule *r = rule_of(m->d);
	const struct param *p = s->part->param;
	uint32_t stream = 0;
	char name[140];

	if (r->density[i] >= 1 || (!is_ties(r) && !is_dare(r)))
		return;
	snprintf(name, sizeof name, "%s/%d", p->name, i);
	stream = rng_stream(name);
	for (int64_t k = 0, n; k < s->n; k += n) {
		int64_t at = element_at(s->part, s->at + k, &n);

		n = int64_min(n, s->n - k);
		if (is_ties(r))
			trim_small(&m->trim[i], p - m->d->s.param, at, n, x + k);
		for (int64_t j = k; is_dare(r) && j < k + n; j++) {
			uint64_t number = (uint64_t)(at + j - k);

			if ((double)rng_uniform(r->seed, number, stream, 0) >= r->density[i])
				x[j] = 0;
		}
	}
}

void
deltas_kept(const struct deltas *m, int i, const struct derived_stretch *s, double *x)
{
	delta(m, i, s, x);
	trim(m, i, s, x);
}

/* A pass over tensors, by boxes in the order of their elements: every operand's delta is looked at
 * by one thread, in order. */
struct pass {
	struct deltas *m;
	bool (*wanted)(const void *ctx, int operand);
	void (*look)(void *ctx, int operand, const struct derived_stretch *s, double *x);
	void *ctx;
	struct source_part part; /* that was read */
};

static void
look_at_operand(void *ctx, int i)
{
	const struct pass *q = ctx;
	int64_t n = slice_elements(&q->part.slice);
	struct derived_stretch s = { &q->part, 0, 0 };
	double x[DERIVED_STRETCH];

	for (; s.at < n && q->wanted(q->ctx, i); s.at += s.n) {
		s.n = int64_min(n - s.at, DERIVED_STRETCH);
		delta(q->m, i, &s, x);
		q->look(q->ctx, i, &s, x);
	}
}

static bool
any_wanted(const struct pass *q)
{
	for (int i = 0; i < q->m->d->count; i++)
		if (q->wanted(q->ctx, i))
			return true;
	return false;
}

/* Ends where nothing more is wanted. */
static int
pass_over(struct pass *q, const struct param *p, struct err *e)
{
	const struct source_part whole = { .param = p, .slice = slice_whole(p->ndim, p->shape) };
	struct derived *d = q->m->d;
	struct slabs w = { 0 };
	int rc = 0;

	slabs_cut(&w, &whole, int64_min(SLAB_ELEMENTS, derived_part(d)));
	for (int64_t k = 0; k < w.count && rc == 0 && any_wanted(q); k++) {
		q->part = w.item[k];
		if (k + 1 < w.count)
			derived_expect(d, &w.item[k + 1]);
		rc = deltas_read(q->m, &q->part, e);
		if (rc == 0)
			derived_share(d, d->count, look_at_operand, q);
	}
	slabs_release(&w);
	return rc;
}

/* The thresholds of all operands: in two passes their magnitudes, in a third the last of the equal
 * elements that are kept. */
struct search {
	struct deltas *m;
	struct kth *kth; /* [operands] */
	int64_t *left;   /* [operands] of equal elements */
};

static bool
has_threshold(const void *ctx, int i)
{
	const struct merge_rule *r = rule_of(((const struct search *)ctx)->m->d);

	return i != r->base && r->density[i] < 1;
}

static void
look_at_magnitudes(void *ctx, int i, const struct derived_stretch *s, double *x)
{
	kth_add(&((struct search *)ctx)->kth[i], x, s->n);
}

static bool
has_left(const void *ctx, int i)
{
	return ((const struct search *)ctx)->left[i] > 0;
}

static void
look_for_last(void *ctx, int i, const struct derived_stretch *s, double *x)
{
	struct search *q = ctx;
	struct trim *t = &q->m->trim[i];
	int64_t follow;

	for (int64_t k = 0; k < s->n && q->left[i] > 0; k++)
		if (kth_bits(x[k]) == t->bits && --q->left[i] == 0) {
			t->in = s->part->param - q->m->d->s.param;
			t->last = element_at(s->part, s->at + k, &follow);
		}
}

/* Passes over the parameters [range[0], range[1]). */
static int
pass_range(struct pass *q, const int range[2], struct err *e)
{
	int rc = 0;

	for (int p = range[0]; p < range[1] && rc == 0; p++)
		rc = pass_over(q, &q->m->d->s.param[p], e);
	return rc;
}

/* The parameters [range[0], range[1]) together: how many elements, and the thresholds. */
static int
find_thresholds(struct deltas *m, const int range[2], struct err *e)
{
	struct derived *d = m->d;
	struct search s = { m, mem_alloc((size_t)d->count, sizeof *s.kth),
		mem_zalloc((size_t)d->count, sizeof *s.left) };
	struct pass q = { .m = m, .wanted = has_threshold, .look = look_at_magnitudes, .ctx = &s };
	int64_t n = 0;
	int rc = 0;

	for (int p = range[0]; p < range[1]; p++)
		n += param_elements(&d->s.param[p]);
	for (int i = 0; i < d->count; i++) {
		int64_t keep = (int64_t)(rule_of(d)->density[i] * (double)n);

		kth_begin(&s.kth[i], keep > 0 ? keep : 1);
	}
	for (int round = 0; round < 2 && rc == 0; round++) {
		rc = pass_range(&q, range, e);
		for (int i = 0; i < d->count; i++)
			kth_end_round(&s.kth[i]);
	}
	for (int i = 0; i < d->count; i++) {
		m->trim[i].bits = s.kth[i].bits;
		m->trim[i].in = INT64_MAX;
		if (has_threshold(&s, i) && s.kth[i].ties < s.kth[i].equal)
			s.left[i] = s.kth[i].ties;
	}
	q.wanted = has_left;
	q.look = look_for_last;
	if (rc == 0)
		rc = pass_range(&q, range, e);
	free(s.kth);
	free(s.left);
	return rc;
}

/* The sums of the magnitudes of deltas, before and after they are trimmed. */
struct norms {
	struct deltas *m;
	double (*sum)[2]; /* [operands] */
};

/* Whether what is kept of an operand is multiplied by a quotient of its norms. */
static bool
has_norms(const void *ctx, int i)
{
	const struct merge_rule *r = rule_of(((const struct norms *)ctx)->m->d);

	return i != r->base && r->density[i] < 1 && r->density[i] > 0;
}

static void
look_at_norms(void *ctx, int i, const struct derived_stretch *s, double *x)
{
	struct norms *q = ctx;

	for (int64_t k = 0; k < s->n; k++)
		q->sum[i][0] += fabs(x[k]);
	trim(q->m, i, s, x);
	for (int64_t k = 0; k < s->n; k++)
		q->sum[i][1] += fabs(x[k]);
}

/* What the kept elements are multiplied by: the paper's 1 / density, or mergekit's quotient of
 * norms. */
static int
find_factors(struct deltas *m, const struct param *p, struct err *e)
{
	const struct merge_rule *r = rule_of(m->d);
	bool rescale = r->rescale == MERGE_DEFAULT ? is_dare(r) : r->rescale == MERGE_TRUE,
	     paper = r->semantics == MERGE_PAPER;
	struct norms norms = { m, mem_zalloc((size_t)m->d->count, sizeof *norms.sum) };
	struct pass q = { .m = m, .wanted = has_norms, .look = look_at_norms, .ctx = &norms };
	int rc = rescale && !paper ? pass_over(&q, p, e) : 0;
	static const double least = 1e-7;

	for (int i = 0; i < m->d->count && rc == 0; i++) {
		const double *sum = norms.sum[i];

		m->trim[i].factor = 1;
		if (rescale && paper && has_norms(&norms, i))
			m->trim[i].factor = is_dare(r) ? 1 / r->density[i] : 1;
		else if (sum[0] >= least && sum[1] >= least)
			m->trim[i].factor = sum[0] / sum[1];
	}
	free(norms.sum);
	return rc;
}

/* Under MERGE_PAPER thresholds are those of all tensors together. */
int
deltas_prepare(struct deltas *m, const struct param *p, struct err *e)
{
	const struct merge_rule *r = rule_of(m->d);
	bool paper = r->semantics == MERGE_PAPER;
	int number = (int)(p - m->d->s.param), one[2] = { number, number + 1 },
	    all[2] = { 0, m->d->s.count }, rc = 0;

	if (!is_ties(r) && !is_dare(r))
		return 0;
	if (is_ties(r) && !m->global)
		rc = find_thresholds(m, paper ? all : one, e);
	m->global = paper;
	return rc < 0 ? -1 : find_factors(m, p, e);
}
