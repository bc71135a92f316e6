/*
 * merged.c - a model merged of others by their weights
 *
 * Sums of a box go through all operands once, whatever the method: a vote of signs needs the sum of
 * what is positive and of what is negative, and the larger one is the result. What a method needs
 * of a whole tensor (an angle, a threshold, a norm) is computed by passes over it when the first of
 * its boxes is asked for, and kept for the others.
 */
#include "ckpt/merged.h"
#include "ckpt/deltas.h"
#include "ckpt/slab.h"
#include "ckpt/vocab_map.h"
#include "lib/base/int64.h"

#include <math.h>
#include <stdlib.h>

const char *const merge_methods[] = { "linear", "slerp", "task_arithmetic", "ties", "dare_linear",
	"dare_ties", NULL };
const char *const merge_semantics[] = { "mergekit", "paper", NULL };

/* Rows of a box that the others have, too, where they lie together. */
struct run {
	int64_t row, count; /* in the box */
	int box;            /* of the first of the others; theirs follow in their order */
};

struct merged {
	struct derived d;
	struct vocab_map map; /* of the vocabulary of the result, where they differ */
	struct tokenizer *own, *other;
	/* of the parameter that was read last */
	const struct param *param;
	double share[2]; /* slerp: of both models */
	struct deltas deltas;
	struct run *run; /* [num_runs], of the box that was read last */
	int num_runs;
};

static const struct merge_rule *
rule_of(const struct derived *d)
{
	return d->rule;
}

static struct merged *
merged_of(struct derived *d)
{
	return (struct merged *)d;
}

static bool
votes(const struct merge_rule *r)
{
	return r->method == MERGE_TIES || r->method == MERGE_DARE_TIES;
}

/* Whether sums are divided by the weights: by default of linear and ties. */
static bool
normalizes(const struct merge_rule *r)
{
	if (r->normalize != MERGE_DEFAULT)
		return r->normalize == MERGE_TRUE;
	return r->method == MERGE_LINEAR || r->method == MERGE_TIES;
}

/* --- slerp ------------------------------------------------------------------------------------ */

struct angle {
	struct merged *m;
	double a, b, dot;
};

/* Sums of a box of both models, in the order of its elements. */
static int
add_box(struct angle *s, const struct source_part *p, struct err *e)
{
	int64_t elements = slice_elements(&p->slice);
	double a[DERIVED_STRETCH], b[DERIVED_STRETCH];

	if (deltas_read(&s->m->deltas, p, e) < 0)
		return -1;
	for (int64_t at = 0, n; at < elements; at += n) {
		n = int64_min(elements - at, DERIVED_STRETCH);
		derived_numbers(s->m->d.box[0].array, at, n, a);
		derived_numbers(s->m->d.box[1].array, at, n, b);
		for (int64_t k = 0; k < n; k++) {
			s->a += a[k] * a[k];
			s->b += b[k] * b[k];
			s->dot += a[k] * b[k];
		}
	}
	return 0;
}

/* The shares of both models, by the angle between their tensors. */
static void
set_shares(struct merged *m, const struct angle *s)
{
	const struct merge_rule *r = rule_of(&m->d);
	static const double least = 1e-8;
	bool mergekit = r->semantics == MERGE_MERGEKIT;
	double a = sqrt(s->a), b = sqrt(s->b), c, phi;

	a = (mergekit ? a > least : a > 0) ? a : 1;
	b = (mergekit ? b > least : b > 0) ? b : 1;
	c = fmax(-1, fmin(1, s->dot / a / b));
	phi = acos(c);
	m->share[0] = 1 - r->t;
	m->share[1] = r->t;
	if ((mergekit && fabs(c) > 0.9995) || sin(phi) == 0 || r->t == 0 || r->t == 1)
		return;
	m->share[0] = sin((1 - r->t) * phi) / sin(phi);
	m->share[1] = sin(r->t * phi) / sin(phi);
}

static int
find_angle(struct merged *m, const struct param *p, struct err *e)
{
	struct source_part whole = { .param = p, .slice = slice_whole(p->ndim, p->shape) };
	struct angle sums = { .m = m };
	struct slabs w = { 0 };
	int rc = 0;

	slabs_add(&w, &whole);
	for (int64_t k = 0; k < w.count && rc == 0; k++) {
		if (k + 1 < w.count)
			derived_expect(&m->d, &w.item[k + 1]);
		rc = add_box(&sums, &w.item[k], e);
	}
	slabs_release(&w);
	set_shares(m, &sums);
	return rc;
}

/* --- what a tensor needs first ---------------------------------------------------------------- */

static int
prepare(struct merged *m, const struct param *p, struct err *e)
{
	const struct merge_rule *r = rule_of(&m->d);
	int rc = 0;

	if (m->param == p)
		return 0;
	m->param = NULL;
	if (r->method == MERGE_SLERP)
		rc = find_angle(m, p, e);
	else
		rc = deltas_prepare(&m->deltas, p, e);
	if (rc == 0)
		m->param = p;
	return rc;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* Reads what sum share_i A_i is of, where a share of 0 adds nothing, not even the sign of a zero.
 */
static int
read_models(struct merged *m, const struct source_part *p, const double *share, struct err *e)
{
	struct derived_term *t = m->deltas.term;
	int n = 0;

	for (int i = 0; i < m->d.count; i++) {
		if (share[i] == 0)
			continue;
		t[n] = deltas_term(&m->d, i, p);
		t[n++].weight = share[i];
	}
	return derived_read(&m->d, t, n, e);
}

static void
merge_linear(const struct derived *d, const struct derived_stretch *s, double *x)
{
	const struct merge_rule *r = rule_of(d);
	double sum = 0;

	for (int i = 0; i < d->count; i++)
		sum += r->weight[i];
	derived_sum(d, s, x);
	for (int64_t k = 0; normalizes(r) && k < s->n; k++)
		x[k] /= sum;
}

/* Sums of weighted deltas by their sign, and of their weights, in a stretch. */
struct votes {
	double positive[DERIVED_STRETCH], negative[DERIVED_STRETCH];
	double weight_positive[DERIVED_STRETCH], weight_negative[DERIVED_STRETCH];
};

/* One condition a loop, which compilers turn into a choice without a branch: signs are random. */
static void
vote(struct votes *v, double w, double factor, double *y, int64_t n)
{
	for (int64_t k = 0; k < n; k++)
		y[k] = w * (factor * y[k]);
	for (int64_t k = 0; k < n; k++)
		v->positive[k] += y[k] < 0 ? 0 : y[k];
	for (int64_t k = 0; k < n; k++)
		v->negative[k] += y[k] < 0 ? y[k] : 0;
	for (int64_t k = 0; k < n; k++)
		v->weight_positive[k] += y[k] <= 0 ? 0 : w;
	for (int64_t k = 0; k < n; k++)
		v->weight_negative[k] += y[k] < 0 ? w : 0;
}

/* What the larger side says, which becomes `positive`; divided by the weights of that side. */
static void
elect(struct votes *v, bool divide, int64_t n)
{
	double *x = v->positive, *weights = v->weight_positive;
	const double *negative = v->negative;

	for (int64_t k = 0; k < n; k++)
		weights[k] = x[k] + negative[k] < 0 ? v->weight_negative[k] : weights[k];
	for (int64_t k = 0; k < n; k++)
		x[k] = x[k] + negative[k] < 0 ? negative[k] : x[k];
	for (int64_t k = 0; divide && k < n; k++)
		x[k] /= weights[k] + (weights[k] == 0);
}

/* Sums what is left of the operands' deltas. */
static void
sum_deltas(const struct merged *m, const struct derived_stretch *s, struct votes *v)
{
	const struct merge_rule *r = rule_of(&m->d);
	double x[DERIVED_STRETCH], weights = 0;

	for (int i = 0; i < m->d.count; i++) {
		double factor = m->deltas.trim[i].factor, w = r->weight[i];

		if (i == r->base)
			continue;
		weights += w;
		deltas_kept(&m->deltas, i, s, x);
		if (votes(r))
			vote(v, w, factor, x, s->n);
		for (int64_t k = 0; !votes(r) && k < s->n; k++)
			v->positive[k] += w * (factor * x[k]);
	}
	if (votes(r))
		elect(v, normalizes(r), s->n);
	weights = fabs(weights) < 1e-8 ? 1 : weights;
	for (int64_t k = 0; !votes(r) && normalizes(r) && k < s->n; k++)
		v->positive[k] /= weights;
}

/* The base and the sum. What is subtracted is never -0: a sum of 0 leaves the sign of a zero. */
static void
merge_deltas(const struct merged *m, const struct derived_stretch *s, double *x)
{
	const struct merge_rule *r = rule_of(&m->d);
	struct votes v = { 0 };
	double lambda = r->lambda;

	sum_deltas(m, s, &v);
	derived_numbers(m->d.box[r->base].array, s->at, s->n, x);
	for (int64_t k = 0; k < s->n; k++)
		v.positive[k] *= lambda;
	for (int64_t k = 0; k < s->n; k++)
		x[k] -= 0 - v.positive[k];
}

/* --- other vocabularies ----------------------------------------------------------------------- */

/* Whether a parameter is a table of rows that only some of the models have. */
static bool
is_rows(const struct derived *d, const struct param *p)
{
	return rule_of(d)->own >= 0 &&
	    (param_is(p, "embedding.word_embeddings.weight") || param_is(p, "output_layer.weight"));
}

/* The row that token `row` of the result has in the tables of the others; -1: none. */
static int64_t
other_row(const struct merged *m, int64_t row)
{
	return row < tokenizer_vocab_size(m->own) && row < m->map.count ? m->map.row[row].old : -1;
}

/* How many rows from `row` on, before `end`, have rows of the others that lie together, the first
 * of which is *first, or have none, and *first is -1. */
static int64_t
follow_rows(const struct merged *m, int64_t row, int64_t end, int64_t *first)
{
	int64_t n = 1;

	*first = other_row(m, row);
	while (row + n < end && other_row(m, row + n) == (*first < 0 ? -1 : *first + n))
		n++;
	return n;
}

/* Reads the own model's box, and of each run of rows that the others have, theirs. */
static int
read_rows(struct merged *m, const struct source_part *p, struct err *e)
{
	struct derived *d = &m->d;
	int64_t row = p->slice.start[0], end = row + p->slice.count[0], first;
	size_t most = (size_t)(p->slice.count[0] * (d->count - 1)) + 1;
	struct derived_term *t = mem_alloc(most, sizeof *t);
	int rc, own = rule_of(d)->own, n = 1;

	t[0] = deltas_term(d, own, p);
	m->run = mem_realloc(m->run, (size_t)p->slice.count[0], sizeof *m->run);
	m->num_runs = 0;
	for (int64_t rows; row < end; row += rows) {
		struct source_part of = *p;

		rows = follow_rows(m, row, end, &first);
		if (first < 0)
			continue;
		m->run[m->num_runs++] = (struct run){ row - p->slice.start[0], rows, n };
		of.slice.start[0] = first;
		of.slice.count[0] = rows;
		for (int i = 0; i < d->count; i++)
			if (i != own)
				t[n++] = deltas_term(d, i, &of);
	}
	rc = derived_read(d, t, n, e);
	free(t);
	return rc;
}

/* Adds the weighted deltas of the others in elements of a run. */
static void
add_deltas(const struct merged *m, int box, const struct derived_stretch *s, double *x)
{
	const struct merge_rule *r = rule_of(&m->d);
	const struct derived_box *of = &m->d.box[box];
	double base[DERIVED_STRETCH], other[DERIVED_STRETCH];

	derived_numbers(of[r->base - (r->base > r->own)].array, s->at, s->n, base);
	for (int i = 0; i < m->d.count; i++) {
		double weight = r->lambda * r->weight[i];

		if (i == r->base || i == r->own)
			continue;
		derived_numbers(of[i - (i > r->own)].array, s->at, s->n, other);
		for (int64_t k = 0; k < s->n; k++)
			x[k] += weight * other[k];
		for (int64_t k = 0; k < s->n; k++)
			x[k] += -weight * base[k];
	}
}

/* Rows of the own model get the deltas of the others where these have them. */
static void
merge_rows(const struct merged *m, const struct derived_stretch *s, double *x)
{
	int64_t width = s->part->slice.count[1];

	derived_numbers(m->d.box[0].array, s->at, s->n, x);
	for (int i = 0; i < m->num_runs; i++) {
		const struct run *run = &m->run[i];
		int64_t first = run->row * width, from = int64_max(s->at, first),
			to = int64_min(s->at + s->n, first + run->count * width);

		if (from < to)
			add_deltas(m, run->box,
			    &(struct derived_stretch){ s->part, from - first, to - from },
			    x + (from - s->at));
	}
}

/* --- the kind --------------------------------------------------------------------------------- */

static int
begin(struct derived *d, const struct source_part *p, struct err *e)
{
	struct merged *m = merged_of(d);
	const struct merge_rule *r = rule_of(d);

	if (is_rows(d, p->param))
		return read_rows(m, p, e);
	if (prepare(m, p->param, e) < 0)
		return -1;
	if (r->method == MERGE_LINEAR)
		return read_models(m, p, r->weight, e);
	return r->method == MERGE_SLERP ? read_models(m, p, m->share, e)
					: deltas_read(&m->deltas, p, e);
}

static void
numbers(const struct derived *d, const struct derived_stretch *s, double *x)
{
	const struct merged *m = (const struct merged *)d;
	const struct merge_rule *r = rule_of(d);

	if (is_rows(d, s->part->param))
		merge_rows(m, s, x);
	else if (r->method == MERGE_LINEAR)
		merge_linear(d, s, x);
	else if (r->method == MERGE_SLERP)
		derived_sum(d, s, x);
	else
		merge_deltas(m, s, x);
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	if (p->state)
		return false;
	out->dtype = is_rows(d, p->param) ? source_dtype(derived_last(d), p->param, NULL)
					  : derived_widest(d, p->param);
	if (out->dtype != DTYPE_NONE && rule_of(d)->dtype != DTYPE_NONE)
		out->dtype = rule_of(d)->dtype;
	return out->dtype != DTYPE_NONE;
}

/* Tokens meet by their pieces; the last source is the one whose vocabulary the result has. */
static int
map_vocabularies(struct merged *m, struct err *e)
{
	const struct merge_rule *r = rule_of(&m->d);
	const struct vocab_map_rule how = { false, true, NULL };
	int64_t both = 0;

	m->own = tokenizer_open(r->own_tokenizer, e);
	m->other = m->own ? tokenizer_open(r->other_tokenizer, e) : NULL;
	if (!m->other)
		return -1;
	m->map.before = m->other;
	m->map.after = m->own;
	m->map.old_rows = m->d.from[r->base]->config.vocab_size;
	if (tokenizer_vocab_size(m->other) > m->map.old_rows ||
	    tokenizer_vocab_size(m->own) > derived_last(&m->d)->config.vocab_size)
		return err_set(e, "a tokenizer has more tokens than its model has rows");
	if (vocab_map_make(&m->map, &how, e) < 0)
		return -1;
	for (int64_t i = 0; i < tokenizer_vocab_size(m->own); i++)
		both += other_row(m, i) >= 0;
	str_addf(&m->d.s.notes,
	    "%lld of %lld tokens are in both vocabularies; rows of the others stay as they were\n",
	    (long long)both, (long long)tokenizer_vocab_size(m->own));
	return 0;
}

static int
set_model(struct derived *d, struct err *e)
{
	struct merged *m = merged_of(d);
	const struct merge_rule *r = rule_of(d);

	if (derived_same_models(d, r->own < 0, e) < 0)
		return -1;
	derived_find_masters(d);
	d->weight = r->weight;
	deltas_init(&m->deltas, d);
	return r->own >= 0 ? map_vocabularies(m, e) : 0;
}

static int
set_state(struct derived *d, struct err *e)
{
	(void)e;
	if (rule_of(d)->dtype != DTYPE_NONE)
		state_edit(&d->s.state_text, "dtype", "%s", dtype_name(rule_of(d)->dtype));
	return 0;
}

static void
release(struct derived *d)
{
	struct merged *m = merged_of(d);

	vocab_map_release(&m->map);
	tokenizer_close(m->own);
	tokenizer_close(m->other);
	deltas_release(&m->deltas);
	free(m->run);
}

const struct derived_kind derived_merged = {
	.name = "merge",
	.size = sizeof(struct merged),
	.keeps = KEEPS_HISTORIES | KEEPS_RUN_OPTIONS,
	.model = set_model,
	.origin = find_origin,
	.begin = begin,
	.numbers = numbers,
	.state = set_state,
	.release = release,
};
