/*
 * merged.c - a model merged of others by their weights
 *
 * Sums of a box go through all operands once, whatever the method: a vote of signs needs the sum of
 * what is positive and of what is negative, and the larger one is the result. What a method needs
 * of a whole tensor (an angle, a threshold, a norm) is computed by passes over it when the first of
 * its boxes is asked for, and kept for the others.
 */
#include "ckpt/merged.h"
#include "ckpt/kth.h"
#include "ckpt/slab.h"
#include "ckpt/vocab_map.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const merge_methods[] = { "linear", "slerp", "task_arithmetic", "ties", "dare_linear",
	"dare_ties", NULL };
const char *const merge_semantics[] = { "mergekit", "paper", NULL };

/* What is left of an operand's delta of a tensor. */
struct trim {
	/* ties: larger magnitudes are kept, and those that are equal up to element `last` of
	 * parameter `in`, by their numbers */
	uint32_t bits;
	int64_t in, last;
	double factor; /* of what is kept */
};

struct merged {
	struct derived d;
	struct vocab_map map; /* of the vocabulary of the result, where they differ */
	struct tokenizer *own, *other;
	/* of the parameter that was read last */
	const struct param *param;
	double share[2];   /* slerp: of both models */
	struct trim *trim; /* [count] */
	bool global;       /* the thresholds are those of all tensors, and known */
	double *room[5];
	size_t room_elements;
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
is_ties(const struct merge_rule *r)
{
	return r->method == MERGE_TIES;
}

static bool
is_dare(const struct merge_rule *r)
{
	return r->method == MERGE_DARE_LINEAR || r->method == MERGE_DARE_TIES;
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

/* --- reading ---------------------------------------------------------------------------------- */

/* A box of a parameter of a source, whose table may have other rows than the result's. */
static struct derived_term
term_of(const struct derived *d, int i, const struct source_part *p)
{
	struct derived_term t = { .from = d->from[i], .part = *p, .weight = 1 };
	int k = source_index(t.from, p->param);

	t.part.param = k >= 0 ? &t.from->param[k] : source_param(t.from, p->param->in_layer);
	derived_choose_copy(d, t.from, t.part.param, &t.part.copy);
	return t;
}

static int
read_model(struct derived *d, int i, const struct source_part *p, double *dst, struct err *e)
{
	struct derived_term t = term_of(d, i, p);

	return derived_sum(d, &t, dst, e);
}

/* A_i - B. */
static int
read_delta(struct derived *d, int i, const struct source_part *p, double *dst, struct err *e)
{
	struct derived_term t = term_of(d, rule_of(d)->base, p);

	if (read_model(d, i, p, dst, e) < 0)
		return -1;
	t.weight = -1;
	t.add = true;
	return derived_sum(d, &t, dst, e);
}

/* The number in the tensor of the first element of row `row` of a box. */
static int64_t
element_at(const struct source_part *p, int64_t row)
{
	int64_t at = p->slice.start[0] + row;

	for (int k = 1; k < p->slice.ndim; k++)
		at = at * p->param->shape[k] + p->slice.start[k];
	return at;
}

/* Elements of a box that follow each other in the tensor. */
static int64_t
row_length(const struct slice *s)
{
	return slice_elements(s) / s->count[0];
}

/* --- what is kept of a delta ------------------------------------------------------------------ */

/* Zeroes the elements of a box that are not kept, without the factor. */
static void
trim_box(const struct derived *d, int i, const struct source_part *p, double *x)
{
	const struct merge_rule *r = rule_of(d);
	const struct trim *t = &((const struct merged *)d)->trim[i];
	int64_t number = p->param - d->s.param, n = row_length(&p->slice);
	double density = r->density[i];
	uint32_t stream = 0;
	char name[140];

	if (density >= 1 || (!is_ties(r) && !is_dare(r)))
		return;
	snprintf(name, sizeof name, "%s/%d", p->param->name, i);
	stream = rng_stream(name);
	for (int64_t row = 0; row < p->slice.count[0]; row++)
		for (int64_t k = 0, at = element_at(p, row); k < n; k++, at++, x++) {
			uint32_t bits = is_ties(r) ? kth_bits(*x) : 0;
			bool before = number < t->in || (number == t->in && at <= t->last),
			     kept = is_ties(r)
			    ? bits > t->bits || (bits == t->bits && before)
			    : (double)rng_uniform(r->seed, (uint64_t)at, stream, 0) < density;

			if (!kept)
				*x = 0;
		}
}

/* A pass over a tensor, by slabs in the order of its elements. */
struct pass {
	struct derived *d;
	int operand;
	void (*look)(void *ctx, const struct source_part *p, double *x);
	void *ctx;
};

static int
pass_over(const struct pass *q, const struct param *p, struct err *e)
{
	struct source_part whole = { .param = p, .slice = slice_whole(p->ndim, p->shape) };
	double *x = mem_alloc(SLAB_ELEMENTS, sizeof *x);
	struct slabs w = { 0 };
	int rc = 0;

	slabs_add(&w, &whole);
	for (int64_t k = 0; k < w.count && rc == 0; k++) {
		rc = read_delta(q->d, q->operand, &w.item[k], x, e);
		if (rc == 0)
			q->look(q->ctx, &w.item[k], x);
	}
	slabs_release(&w);
	free(x);
	return rc;
}

static void
look_at_magnitudes(void *ctx, const struct source_part *p, double *x)
{
	kth_add(ctx, x, slice_elements(&p->slice));
}

/* Looks for the last of the equal elements that are kept. */
struct search {
	const struct derived *d;
	struct trim *trim;
	int64_t left;
};

static void
look_for_last(void *ctx, const struct source_part *p, double *x)
{
	struct search *s = ctx;
	int64_t n = slice_elements(&p->slice), at = element_at(p, 0);

	for (int64_t k = 0; k < n && s->left > 0; k++)
		if (kth_bits(x[k]) == s->trim->bits && --s->left == 0) {
			s->trim->in = p->param - s->d->s.param;
			s->trim->last = at + k;
		}
}

/* The parameters [first, end) together: how many elements, and the threshold of an operand. */
static int
find_threshold(struct merged *m, int i, const int range[2], struct err *e)
{
	struct derived *d = &m->d;
	struct kth *k = mem_alloc(1, sizeof *k);
	struct search search = { d, &m->trim[i], 0 };
	struct pass q = { d, i, look_at_magnitudes, k };
	int64_t n = 0, keep;
	int rc = 0;

	for (int p = range[0]; p < range[1]; p++)
		n += param_elements(&d->s.param[p]);
	keep = (int64_t)(rule_of(d)->density[i] * (double)n);
	kth_begin(k, keep ? keep : 1);
	for (int round = 0; round < 2 && rc == 0; round++) {
		for (int p = range[0]; p < range[1] && rc == 0; p++)
			rc = pass_over(&q, &d->s.param[p], e);
		kth_end_round(k);
	}
	m->trim[i].bits = k->bits;
	m->trim[i].in = INT64_MAX;
	search.left = k->ties;
	q.look = look_for_last;
	q.ctx = &search;
	for (int p = range[0]; p < range[1] && rc == 0 && k->ties < k->equal && search.left; p++)
		rc = pass_over(&q, &d->s.param[p], e);
	free(k);
	return rc;
}

/* The sums of the magnitudes of a delta, before and after it is trimmed. */
struct norms {
	const struct derived *d;
	int operand;
	double before, after;
};

static void
look_at_norms(void *ctx, const struct source_part *p, double *x)
{
	struct norms *s = ctx;
	int64_t n = slice_elements(&p->slice);

	for (int64_t k = 0; k < n; k++)
		s->before += fabs(x[k]);
	trim_box(s->d, s->operand, p, x);
	for (int64_t k = 0; k < n; k++)
		s->after += fabs(x[k]);
}

/* What the kept elements are multiplied by: the paper's 1 / density, or mergekit's quotient of
 * norms. */
static int
find_factor(struct merged *m, int i, const struct param *p, struct err *e)
{
	const struct merge_rule *r = rule_of(&m->d);
	bool rescale = r->rescale == MERGE_DEFAULT ? is_dare(r) : r->rescale == MERGE_TRUE;
	struct norms sums = { &m->d, i, 0, 0 };
	const struct pass q = { &m->d, i, look_at_norms, &sums };
	static const double least = 1e-7;

	m->trim[i].factor = 1;
	if (!rescale || r->density[i] >= 1 || r->density[i] <= 0)
		return 0;
	if (r->semantics == MERGE_PAPER) {
		m->trim[i].factor = is_dare(r) ? 1 / r->density[i] : 1;
		return 0;
	}
	if (pass_over(&q, p, e) < 0)
		return -1;
	if (sums.before >= least && sums.after >= least)
		m->trim[i].factor = sums.before / sums.after;
	return 0;
}

/* --- slerp ------------------------------------------------------------------------------------ */

struct angle {
	struct merged *m;
	double a, b, dot;
};

/* Sums of a box of both models. */
static int
add_box(struct angle *s, const struct source_part *p, double *const x[2], struct err *e)
{
	int64_t n = slice_elements(&p->slice);

	for (int i = 0; i < 2; i++)
		if (read_model(&s->m->d, i, p, x[i], e) < 0)
			return -1;
	for (int64_t k = 0; k < n; k++) {
		s->a += x[0][k] * x[0][k];
		s->b += x[1][k] * x[1][k];
		s->dot += x[0][k] * x[1][k];
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
	double *const x[2] = { mem_alloc(SLAB_ELEMENTS, sizeof(double)),
		mem_alloc(SLAB_ELEMENTS, sizeof(double)) };
	struct angle sums = { .m = m };
	struct slabs w = { 0 };
	int rc = 0;

	slabs_add(&w, &whole);
	for (int64_t k = 0; k < w.count && rc == 0; k++)
		rc = add_box(&sums, &w.item[k], x, e);
	slabs_release(&w);
	free(x[0]);
	free(x[1]);
	set_shares(m, &sums);
	return rc;
}

/* --- what a tensor needs first ---------------------------------------------------------------- */

/* Under MERGE_PAPER thresholds are those of all tensors together. */
static int
find_trims(struct merged *m, const struct param *p, struct err *e)
{
	const struct merge_rule *r = rule_of(&m->d);
	bool paper = r->semantics == MERGE_PAPER;
	int number = (int)(p - m->d.s.param), one[2] = { number, number + 1 },
	    all[2] = { 0, m->d.s.count }, rc = 0;

	for (int i = 0; i < m->d.count && rc == 0; i++) {
		if (i == r->base)
			continue;
		if (is_ties(r) && r->density[i] < 1 && !m->global)
			rc = find_threshold(m, i, paper ? all : one, e);
		if (rc == 0)
			rc = find_factor(m, i, p, e);
	}
	m->global = paper;
	return rc;
}

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
	else if (is_ties(r) || is_dare(r))
		rc = find_trims(m, p, e);
	if (rc == 0)
		m->param = p;
	return rc;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* sum share_i A_i, where a share of 0 adds nothing, not even the sign of a zero. */
static int
add_models(
    struct derived *d, const struct source_part *p, const double *share, double *dst, struct err *e)
{
	bool add = false;

	for (int i = 0; i < d->count; i++) {
		struct derived_term t = term_of(d, i, p);

		if (share[i] == 0)
			continue;
		t.weight = share[i];
		t.add = add;
		add = true;
		if (derived_sum(d, &t, dst, e) < 0)
			return -1;
	}
	return 0;
}

static int
merge_linear(struct derived *d, const struct source_part *p, double *dst, struct err *e)
{
	const struct merge_rule *r = rule_of(d);
	double sum = 0;

	for (int i = 0; i < d->count; i++)
		sum += r->weight[i];
	if (add_models(d, p, r->weight, dst, e) < 0)
		return -1;
	for (int64_t k = 0, n = slice_elements(&p->slice); normalizes(r) && k < n; k++)
		dst[k] /= sum;
	return 0;
}

/* Sums of weighted deltas by their sign, and of their weights. */
enum { DELTA, POSITIVE, NEGATIVE, WEIGHT_POSITIVE, WEIGHT_NEGATIVE };

static void
make_room(struct merged *m, int64_t n)
{
	if (m->room_elements < (size_t)n)
		for (int i = 0; i < 5; i++) {
			free(m->room[i]);
			m->room[i] = mem_alloc((size_t)n, sizeof(double));
		}
	m->room_elements = m->room_elements < (size_t)n ? (size_t)n : m->room_elements;
	for (int i = POSITIVE; i <= WEIGHT_NEGATIVE; i++)
		memset(m->room[i], 0, (size_t)n * sizeof(double));
}

/* Adds what is left of an operand's delta to the sums. */
static int
add_delta(struct merged *m, int i, const struct source_part *p, struct err *e)
{
	const struct merge_rule *r = rule_of(&m->d);
	double *x = m->room[DELTA], factor = m->trim[i].factor, w = r->weight[i];
	bool vote = votes(r), nothing = r->density[i] <= 0 && is_dare(r);
	int64_t n = slice_elements(&p->slice);

	if (nothing)
		return 0;
	if (read_delta(&m->d, i, p, x, e) < 0)
		return -1;
	trim_box(&m->d, i, p, x);
	for (int64_t k = 0; k < n && !vote; k++)
		m->room[POSITIVE][k] += w * (factor * x[k]);
	for (int64_t k = 0; k < n && vote; k++) {
		double y = w * (factor * x[k]);
		int of = y < 0;

		m->room[POSITIVE + of][k] += y;
		m->room[WEIGHT_POSITIVE + of][k] += y != 0 ? w : 0;
	}
	return 0;
}

/* What the sums make of element k. */
static double
mix(const struct merged *m, int64_t k, double weights)
{
	const struct merge_rule *r = rule_of(&m->d);
	double x = m->room[POSITIVE][k], divisor = weights;

	if (votes(r)) {
		bool negative = x + m->room[NEGATIVE][k] < 0;

		x = m->room[POSITIVE + negative][k];
		divisor = m->room[WEIGHT_POSITIVE + negative][k];
		divisor = divisor == 0 ? 1 : divisor;
	} else if (fabs(divisor) < 1e-8) {
		divisor = 1;
	}
	if (normalizes(r))
		x /= divisor;
	return r->lambda == 1 ? x : x * r->lambda;
}

static int
merge_deltas(struct merged *m, const struct source_part *p, double *dst, struct err *e)
{
	struct derived *d = &m->d;
	const struct merge_rule *r = rule_of(d);
	int64_t n = slice_elements(&p->slice);
	double weights = 0;

	make_room(m, n);
	for (int i = 0; i < d->count; i++) {
		if (i == r->base)
			continue;
		weights += r->weight[i];
		if (add_delta(m, i, p, e) < 0)
			return -1;
	}
	if (read_model(d, r->base, p, dst, e) < 0)
		return -1;
	for (int64_t k = 0; k < n; k++) {
		double x = mix(m, k, weights);

		/* the sign of a zero of the base stays where nothing is added */
		dst[k] = x == 0 ? dst[k] : dst[k] + x;
	}
	return 0;
}

/* --- other vocabularies ----------------------------------------------------------------------- */

static bool
is_table(const struct param *p)
{
	return param_is(p, "embedding.word_embeddings.weight") ||
	    param_is(p, "output_layer.weight");
}

/* The row that token `row` of the result has in the tables of the others; -1: none. */
static int64_t
other_row(const struct merged *m, int64_t row)
{
	return row < tokenizer_vocab_size(m->own) && row < m->map.count ? m->map.row[row].old : -1;
}

/* Rows of the own model get the weighted deltas of the others, whose rows lie together. */
static int
add_rows(struct merged *m, const struct source_part *p, int64_t first, double *dst, struct err *e)
{
	struct derived *d = &m->d;
	const struct merge_rule *r = rule_of(d);
	struct source_part of = *p;

	of.slice.start[0] = first;
	for (int i = 0; i < d->count && first >= 0; i++) {
		struct derived_term t = term_of(d, i, &of), base = term_of(d, r->base, &of);

		if (i == r->base || i == r->own)
			continue;
		t.weight = r->lambda * r->weight[i];
		base.weight = -t.weight;
		t.add = base.add = true;
		if (derived_sum(d, &t, dst, e) < 0 || derived_sum(d, &base, dst, e) < 0)
			return -1;
	}
	return 0;
}

static int
merge_rows(struct merged *m, const struct source_part *p, double *dst, struct err *e)
{
	struct source_part run = *p;
	int64_t start = p->slice.start[0], end = start + p->slice.count[0];

	if (read_model(&m->d, rule_of(&m->d)->own, p, dst, e) < 0)
		return -1;
	for (int64_t row = start, n; row < end; row += n) {
		int64_t first = other_row(m, row);

		for (n = 1; row + n < end; n++)
			if (other_row(m, row + n) != (first < 0 ? -1 : first + n))
				break;
		run.slice.start[0] = row;
		run.slice.count[0] = n;
		if (add_rows(m, &run, first, dst, e) < 0)
			return -1;
		dst += n * p->slice.count[1];
	}
	return 0;
}

/* --- the kind --------------------------------------------------------------------------------- */

static int
compute(struct derived *d, const struct source_part *p, double *dst, struct err *e)
{
	struct merged *m = merged_of(d);
	const struct merge_rule *r = rule_of(d);
	struct source_part own = *p;

	own.param = &d->s.param[source_index(&d->s, p->param)];
	if (r->own >= 0 && is_table(p->param))
		return merge_rows(m, &own, dst, e);
	if (prepare(m, own.param, e) < 0)
		return -1;
	if (r->method == MERGE_LINEAR)
		return merge_linear(d, &own, dst, e);
	return r->method == MERGE_SLERP ? add_models(d, &own, m->share, dst, e)
					: merge_deltas(m, &own, dst, e);
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	if (p->state)
		return false;
	out->dtype = rule_of(d)->own >= 0 && is_table(p->param)
	    ? source_dtype(derived_last(d), p->param, NULL)
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
	m->trim = mem_zalloc((size_t)d->count, sizeof *m->trim);
	for (int i = 0; i < d->count; i++)
		m->trim[i].factor = 1;
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
	free(m->trim);
	for (int i = 0; i < 5; i++)
		free(m->room[i]);
}

const struct derived_kind derived_merged = {
	.name = "merge",
	.size = sizeof(struct merged),
	.keeps = KEEPS_HISTORIES | KEEPS_RUN_OPTIONS,
	.model = set_model,
	.origin = find_origin,
	.compute = compute,
	.state = set_state,
	.release = release,
};
