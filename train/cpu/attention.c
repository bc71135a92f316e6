/*
 * attention.c - causal grouped attention in tiles of TILE queries by TILE keys, by BLAS
 *
 * The forward pass keeps a running maximum and sum per query (Milakov & Gimelshein 2018,
 * arXiv:1805.02867). The backward pass goes over the tiles twice, first by query tile for dq, then
 * by key tile for dk and dv, so that each sum has one owner and only the statistics grow with the
 * sequence. Tiles without visible keys are skipped. Source: docs/math.md 2.5; Dao 2023,
 * arXiv:2307.08691.
 */
#include "train/cpu/real.h"

enum { TILE = 64, HEAD_TILE = TILE * CPU_HEAD_MAX };

/* A thread's workspace: converted tiles, sums, weights of one pair of tiles, statistics of its
 * rows. */
struct work {
	real q[HEAD_TILE], k[HEAD_TILE], v[HEAD_TILE], dout[HEAD_TILE], acc[2][HEAD_TILE];
	real p[TILE * TILE], ds[TILE * TILE], mask[TILE], slope[TILE], max[TILE], sum[TILE];
};
_Static_assert(sizeof(struct work) <= CPU_SCRATCH, "workspace");

/* Rows [first, first + rows) of one head of one sample, a position each; head counts groups when
 * the tensor is k or v. Those of keys are their positions. */
struct place {
	int64_t sample, head, first, rows;
};

/* Rows of d elements, stride apart. */
struct tile {
	real *p;
	int64_t stride, d;
};

/* The keys of a tile that a query sees: [lo, hi) within the tile. */
struct range {
	int64_t lo, hi;
};

/* The d elements of one row of a place. */
static struct span
row_of(const struct attention *a, const struct place *at, int64_t i, int64_t d)
{
	return (struct span){ (at->first + i) * a->micro_batch + at->sample, at->head * d, d };
}

/* The elements of a place in t, whose heads have d each, converted into buf if necessary. In place
 * where the storage is real, so F32 and F64 runs copy nothing. */
static struct tile
load(
    const struct attention *a, const struct tensor *t, const struct place *at, int64_t d, real *buf)
{
	struct span s = row_of(a, at, 0, d);

	if (t->dtype == REAL_DTYPE)
		return (struct tile){ span_address(t, &s), a->micro_batch * t->stride[0], d };
	for (int64_t i = 0; i < at->rows; i++) {
		s = row_of(a, at, i, d);
		span_load(t, &s, buf + i * d);
	}
	return (struct tile){ buf, d, d };
}

/* Of queries or keys, and of what has the width of values. */
static struct tile
load_scored(const struct attention *a, const struct tensor *t, const struct place *at, real *buf)
{
	return load(a, t, at, a->head_dim, buf);
}

static struct tile
load_values(const struct attention *a, const struct tensor *t, const struct place *at, real *buf)
{
	return load(a, t, at, attention_value_dim(a), buf);
}

/* Writes rows of d elements that are dense at p. */
static void
store(const struct attention *a, const struct tensor *t, const struct place *at, int64_t d,
    const real *p)
{
	for (int64_t i = 0; i < at->rows; i++) {
		struct span s = row_of(a, at, i, d);

		dtype_convert(span_address(t, &s), t->dtype, p + i * d, REAL_DTYPE, d);
	}
}

/* The start of the document of a query in a sample. */
static int64_t
document_start(const struct attention *a, int64_t sample, int64_t query)
{
	const int32_t *first = a->first.data;

	return first ? first[query * a->micro_batch + sample] : 0;
}

/* First key that a query sees. It never decreases from one query to the next, so the loops over
 * tiles can stop early. */
static int64_t
first_key(const struct attention *a, int64_t sample, int64_t query)
{
	int64_t position = attention_first_query(a) + query;

	return int64_max(
	    document_start(a, sample, query), a->window > 0 ? position - a->window + 1 : 0);
}

/* A query tile and a key tile of the head that it reads, with what was loaded of them. */
struct tiles {
	const struct attention *a;
	struct work *w;
	struct place queries, keys;
	struct tile q, k, v, dout;
};

/* Moves the pair to the key tile that starts at `first` and loads it. */
static void
load_keys(struct tiles *t, int64_t group, int64_t first)
{
	const struct attention *a = t->a;

	t->keys = (struct place){ t->queries.sample, group, first,
		int64_min(TILE, attention_keys(a) - first) };
	t->k = load_scored(a, &a->k, &t->keys, t->w->k);
	t->v = load_values(a, &a->v, &t->keys, t->w->v);
}

/* The keys of the tile that query row i sees; an empty range at its end when its document begins
 * after it. */
static struct range
visible(const struct tiles *t, int64_t i)
{
	int64_t query = t->queries.first + i, rows = t->keys.rows,
		lo = first_key(t->a, t->queries.sample, query) - t->keys.first,
		hi = attention_first_query(t->a) + query + 1 - t->keys.first;

	lo = int64_min(rows, int64_max(0, lo));
	return (struct range){ lo, int64_max(lo, int64_min(rows, hi)) };
}

/* out [queries, keys] = scale * x y^T, rows TILE apart. */
static void
scores(const struct tiles *t, const struct tile *x, const struct tile *y, real scale, real *out)
{
	blas_gemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)t->queries.rows, (int)t->keys.rows,
	    (int)x->d, scale, x->p, (int)x->stride, y->p, (int)y->stride, 0, out, TILE);
}

/* out [queries, d] += scale * s x, for s [queries, keys]. */
static void
weigh_keys(const struct tiles *t, const real *s, const struct tile *x, real scale, real *out)
{
	blas_gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)t->queries.rows, (int)x->d,
	    (int)t->keys.rows, scale, s, TILE, x->p, (int)x->stride, 1, out, (int)x->d);
}

/* out [keys, d] += scale * s^T x. */
static void
weigh_queries(const struct tiles *t, const real *s, const struct tile *x, real scale, real *out)
{
	blas_gemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)t->keys.rows, (int)x->d,
	    (int)t->queries.rows, scale, s, TILE, x->p, (int)x->stride, 1, out, (int)x->d);
}

/* The dropout factors of row i of a tile, in w->mask; zero where the row sees nothing. */
static void
row_mask(const struct tiles *t, int64_t i, struct range r)
{
	const struct dropout *d = &t->a->drop;
	int64_t row =
	    (d->first_sample + t->queries.sample) * d->width + d->first_column + t->queries.head;
	int64_t query = attention_first_query(t->a) + t->queries.first + i,
		index = (row * d->seq_length + query) * d->seq_length + t->keys.first + r.lo;

	for (int64_t j = 0; j < t->keys.rows; j++)
		t->w->mask[j] = 0;
	cpu_name(dropout_mask)(d, (uint64_t)index, r.hi - r.lo, t->w->mask + r.lo);
}

/* x[lo, hi) = c tanh(x / c) where scores are capped; the derivatives in w->slope. */
static void
cap_row(const struct tiles *t, real *x, struct range r)
{
	real c = (real)t->a->softcap;

	for (int64_t j = r.lo; c > 0 && j < r.hi; j++) {
		real y = real_math(tanh)(x[j] / c);

		x[j] = c * y;
		t->w->slope[j] = 1 - y * y;
	}
}

/* x[lo, hi) = e^(x - shift), zero elsewhere in the row. */
static void
exp_row(real *x, struct range r, int64_t count, real shift)
{
	for (int64_t j = 0; j < r.lo; j++)
		x[j] = 0;
	for (int64_t j = r.lo; j < r.hi; j++)
		x[j] = real_exp(x[j] - shift);
	for (int64_t j = r.hi; j < count; j++)
		x[j] = 0;
}

/* Turns a row of scores into weights relative to the new maximum and brings sum and output to
 * it. A row that sees nothing of the tile is left as it is: e^(-inf + inf) is NaN. */
static void
online_row(const struct tiles *t, int64_t i, struct range r)
{
	struct work *w = t->w;
	int64_t d = t->v.d;
	real *x = w->p + i * TILE, *o = w->acc[0] + i * d, old = w->max[i], factor;

	w->max[i] = row_max(x + r.lo, r.hi - r.lo, old);
	exp_row(x, r, t->keys.rows, w->max[i]);
	factor = r.lo < r.hi ? real_exp(old - w->max[i]) : 1;
	w->sum[i] = w->sum[i] * factor + row_sum(x + r.lo, r.hi - r.lo);
	for (int64_t c = 0; factor != 1 && c < d; c++)
		o[c] *= factor;
}

/* Adds what one key tile contributes to the outputs of a query tile. */
static void
forward_pair(const struct tiles *t)
{
	real *p = t->w->p;

	scores(t, &t->q, &t->k, (real)t->a->scale, p);
	for (int64_t i = 0; i < t->queries.rows; i++, p += TILE) {
		struct range r = visible(t, i);

		cap_row(t, p, r);
		online_row(t, i, r);
		if (t->a->drop.p == 0)
			continue;
		row_mask(t, i, r);
		for (int64_t j = 0; j < t->keys.rows; j++)
			p[j] *= t->w->mask[j];
	}
	weigh_keys(t, t->w->p, &t->v, 1, t->w->acc[0]);
}

/* Element of lse and delta. */
static real *
statistic(const struct attention *a, const struct tensor *t, const struct place *q, int64_t i)
{
	return (real *)t->data + (q->sample * a->num_heads + q->head) * t->stride[0] + q->first + i;
}

/* The item-th tile of all samples and heads with so many rows each; num_heads counts groups for key
 * tiles. */
static struct place
tile_place(int64_t rows, int64_t num_heads, int64_t item)
{
	int64_t tiles = int64_div_up(rows, TILE), row = item / tiles, first = item % tiles * TILE;

	return (
	    struct place){ row / num_heads, row % num_heads, first, int64_min(TILE, rows - first) };
}

/* The item-th tile of queries. */
static struct place
query_tile(const struct attention *a, int64_t item)
{
	return tile_place(attention_queries(a), a->num_heads, item);
}

/* The end of the keys that any query of a tile sees. */
static int64_t
keys_end(const struct attention *a, const struct place *queries)
{
	return attention_first_query(a) + queries->first + queries->rows;
}

/* The key tile with the first key that any of the queries sees. */
static int64_t
first_tile(const struct place *queries, const struct attention *a)
{
	return first_key(a, queries->sample, queries->first) / TILE * TILE;
}

/* Ends a row: its sink joins the maximum and the sum. Returns its log-sum-exp; *factor is that of
 * its output. */
static real
finish_row(const struct tiles *t, int64_t i, real *factor)
{
	const struct attention *a = t->a;
	real max = t->w->max[i], sum = t->w->sum[i], most = max;

	if (a->sink.data) {
		real sink = *real_at(&a->sink, t->queries.head);

		most = sink > max ? sink : max;
		sum = sum * real_exp(max - most) + real_exp(sink - most);
	}
	*factor = (most == max ? 1 : real_exp(max - most)) / sum;
	return most + real_math(log)(sum);
}

/* Outputs and statistics of one query tile, from all keys that it sees. */
static void
forward_tile(const void *ctx, int64_t item, void *scratch)
{
	const struct attention *a = ctx;
	struct work *w = scratch;
	struct tiles t = { .a = a, .w = w, .queries = query_tile(a, item) };
	int64_t group = t.queries.head * a->num_groups / a->num_heads,
		end = keys_end(a, &t.queries), d = attention_value_dim(a);

	t.q = load_scored(a, &a->q, &t.queries, w->q);
	for (int64_t i = 0; i < t.queries.rows; i++) {
		w->max[i] = -(real)INFINITY;
		w->sum[i] = 0;
	}
	memset(w->acc[0], 0, (size_t)(t.queries.rows * d) * sizeof(real));
	for (int64_t k0 = first_tile(&t.queries, a); k0 < end; k0 += TILE) {
		load_keys(&t, group, k0);
		forward_pair(&t);
	}
	for (int64_t i = 0; i < t.queries.rows; i++) {
		real *o = w->acc[0] + i * d, factor;

		*statistic(a, &a->lse, &t.queries, i) = finish_row(&t, i, &factor);
		for (int64_t c = 0; c < d; c++)
			o[c] *= factor;
	}
	store(a, &a->out, &t.queries, d, w->acc[0]);
}

/* Shapes of the forward pass; the backward pass checks its own besides. */
static void
check(const struct attention *a)
{
	ops_require(a->head_dim <= CPU_HEAD_MAX && attention_value_dim(a) <= CPU_HEAD_MAX);
	ops_require(attention_shapes_fit(a) && a->lse.dtype == REAL_DTYPE);
}

/* Query tiles of all samples and heads. */
static int64_t
query_tiles(const struct attention *a)
{
	return (int64_t)a->micro_batch * a->num_heads * int64_div_up(attention_queries(a), TILE);
}

/* One item per query tile: outputs of different tiles are written by different threads and the
 * order of the keys is fixed, so the result does not depend on the number of threads. */
void
cpu_name(attention_fwd)(struct stream *st, const struct attention *a)
{
	check(a);
	cpu_for(st, query_tiles(a), forward_tile, a);
}

void
cpu_name(attention_step)(struct stream *st, const struct attention_step *s)
{
	struct attention a = s->fwd;
	int64_t b = a.micro_batch, before = cpu_position(&s->position) * b;
	struct tensor key = tensor_rows(&s->keys, before, b),
		      value = tensor_rows(&s->values, before, b);

	ops_require(attention_step_fits(s));
	cpu_name(cast)(st, &(struct pair){ key, a.k });
	cpu_name(cast)(st, &(struct pair){ value, a.v });
	a.k = tensor_rows(&s->keys, 0, before + b);
	a.v = tensor_rows(&s->values, 0, before + b);
	cpu_name(attention_fwd)(st, &a);
}

/* The scores of one head of every sample: heads have one writer each. */
static void
max_head(const void *ctx, int64_t head, void *scratch)
{
	const struct attention_max *m = ctx;
	const struct attention *a = &m->fwd;
	struct work *w = scratch;
	struct tiles t = { .a = a, .w = w };
	int64_t tiles = int64_div_up(attention_queries(a), TILE);
	real *max = real_at(&m->max, head);

	for (int64_t i = 0; i < a->micro_batch * tiles; i++) {
		t.queries = tile_place(attention_queries(a), 1, i);
		t.queries.head = head;
		t.q = load_scored(a, &a->q, &t.queries, w->q);
		for (int64_t k0 = first_tile(&t.queries, a); k0 < keys_end(a, &t.queries);
		     k0 += TILE) {
			t.keys =
			    (struct place){ t.queries.sample, head * a->num_groups / a->num_heads,
				    k0, int64_min(TILE, attention_keys(a) - k0) };
			t.k = load_scored(a, &a->k, &t.keys, w->k);
			scores(&t, &t.q, &t.k, (real)a->scale, w->p);
			for (int64_t row = 0; row < t.queries.rows; row++) {
				struct range r = visible(&t, row);

				*max = row_max(w->p + row * TILE + r.lo, r.hi - r.lo, *max);
			}
		}
	}
}

void
cpu_name(attention_max)(struct stream *st, const struct attention_max *m)
{
	const struct attention *a = &m->fwd;

	ops_require(a->micro_batch > 0 && a->head_dim <= CPU_HEAD_MAX &&
	    a->q.shape[1] == (int64_t)a->num_heads * a->head_dim &&
	    a->k.shape[1] == (int64_t)a->num_groups * a->head_dim);
	ops_require(m->max.dtype == REAL_DTYPE && m->max.shape[0] == a->num_heads);
	cpu_for(st, a->num_heads, max_head, m);
}

/* Recomputes the weights of a pair of tiles into w->p (with dropout) and the gradient of the scores
 * into w->ds: ds = P * (dP - delta), dP = dout v^T with the mask of the forward pass, times the
 * slope of capped scores. */
static void
backward_pair(const struct attention_grad *g, const struct tiles *t)
{
	real *p = t->w->p, *ds = t->w->ds, *mask = t->w->mask;

	scores(t, &t->q, &t->k, (real)t->a->scale, p);
	scores(t, &t->dout, &t->v, 1, ds);
	for (int64_t i = 0; i < t->queries.rows; i++, p += TILE, ds += TILE) {
		struct range r = visible(t, i);
		real delta = *statistic(t->a, &g->delta, &t->queries, i);

		cap_row(t, p, r);
		exp_row(p, r, t->keys.rows, *statistic(t->a, &t->a->lse, &t->queries, i));
		if (t->a->drop.p > 0)
			row_mask(t, i, r);
		for (int64_t j = 0; t->a->drop.p > 0 && j < t->keys.rows; j++)
			ds[j] *= mask[j];
		for (int64_t j = 0; j < t->keys.rows; j++)
			ds[j] = p[j] * (ds[j] - delta);
		for (int64_t j = r.lo; t->a->softcap > 0 && j < r.hi; j++)
			ds[j] *= t->w->slope[j];
		for (int64_t j = 0; t->a->drop.p > 0 && j < t->keys.rows; j++)
			p[j] *= mask[j];
	}
}

/* delta and dq of one query tile: the sums of dout * out of its rows, which the second loop reads
 * too, and the sum over its key tiles of scale ds k. */
static void
backward_queries(const void *ctx, int64_t item, void *scratch)
{
	const struct attention_grad *g = ctx;
	const struct attention *a = &g->fwd;
	struct work *w = scratch;
	struct tiles t = { .a = a, .w = w, .queries = query_tile(a, item) };
	int64_t group = t.queries.head * a->num_groups / a->num_heads,
		end = keys_end(a, &t.queries);
	struct tile out = load_values(a, &a->out, &t.queries, w->acc[0]);

	t.q = load_scored(a, &a->q, &t.queries, w->q);
	t.dout = load_values(a, &g->dout, &t.queries, w->dout);
	for (int64_t i = 0; i < t.queries.rows; i++)
		*statistic(a, &g->delta, &t.queries, i) =
		    row_dot(t.dout.p + i * t.dout.stride, out.p + i * out.stride, out.d);
	memset(w->acc[0], 0, (size_t)(t.queries.rows * a->head_dim) * sizeof(real));
	for (int64_t k0 = first_tile(&t.queries, a); k0 < end; k0 += TILE) {
		load_keys(&t, group, k0);
		backward_pair(g, &t);
		weigh_keys(&t, w->ds, &t.k, (real)a->scale, w->acc[0]);
	}
	store(a, &g->dq, &t.queries, a->head_dim, w->acc[0]);
}

/* What a query head adds to dk (acc[0]) and dv (acc[1]) of a key tile, from the query tiles that
 * see it. */
static void
add_head(const struct attention_grad *g, struct tiles *t, int64_t head)
{
	const struct attention *a = t->a;
	int64_t s = attention_queries(a), first = attention_first_query(a);
	int64_t last = t->keys.first + t->keys.rows - 1;
	int64_t end = a->window > 0 ? int64_min(s, last + a->window - first) : s;

	for (int64_t q0 = int64_max(0, t->keys.first - first); q0 < end; q0 += TILE) {
		if (document_start(a, t->keys.sample, q0) > last)
			break;
		t->queries = (struct place){ t->keys.sample, head, q0, int64_min(TILE, s - q0) };
		t->q = load_scored(a, &a->q, &t->queries, t->w->q);
		t->dout = load_values(a, &g->dout, &t->queries, t->w->dout);
		backward_pair(g, t);
		weigh_queries(t, t->w->ds, &t->q, (real)a->scale, t->w->acc[0]);
		weigh_queries(t, t->w->p, &t->dout, 1, t->w->acc[1]);
	}
}

/* dk and dv of one key tile: the sum over the query heads of its group, in order. */
static void
backward_keys(const void *ctx, int64_t item, void *scratch)
{
	const struct attention_grad *g = ctx;
	const struct attention *a = &g->fwd;
	struct work *w = scratch;
	struct place keys = tile_place(attention_keys(a), a->num_groups, item);
	struct tiles t = { .a = a, .w = w, .queries = keys };
	int64_t heads = a->num_heads / a->num_groups;

	load_keys(&t, keys.head, keys.first);
	memset(w->acc[0], 0, (size_t)(keys.rows * t.k.d) * sizeof(real));
	memset(w->acc[1], 0, (size_t)(keys.rows * t.v.d) * sizeof(real));
	for (int64_t head = keys.head * heads; head < (keys.head + 1) * heads; head++)
		add_head(g, &t, head);
	store(a, &g->dk, &keys, t.k.d, w->acc[0]);
	store(a, &g->dv, &keys, t.v.d, w->acc[1]);
}

/* Of one head the sum over all rows of -P delta, with the sink's own P, whose dP is 0; rows in
 * their order, samples in theirs. */
static void
backward_sink(const void *ctx, int64_t head, void *scratch)
{
	const struct attention_grad *g = ctx;
	const struct attention *a = &g->fwd;
	struct work *w = scratch;
	int64_t s = attention_queries(a);
	real sink = *real_at(&a->sink, head), sum = 0;

	for (int64_t sample = 0; sample < a->micro_batch; sample++)
		for (int64_t first = 0; first < s; first += TILE * TILE) {
			struct place at = { sample, head, first,
				int64_min(TILE * TILE, s - first) };
			const real *lse = statistic(a, &a->lse, &at, 0);

			for (int64_t i = 0; i < at.rows; i++)
				w->p[i] = real_exp(sink - lse[i]);
			sum += row_dot(w->p, statistic(a, &g->delta, &at, 0), at.rows);
		}
	*real_at(&g->dsink, head) -= sum;
}

/* delta is filled in the first loop and read in the others; cpu_for is a barrier between them.
 * dq, dk and dv are written, not added to. */
void
cpu_name(attention_bwd)(struct stream *st, const struct attention_grad *g)
{
	const struct attention *a = &g->fwd;

	check(a);
	ops_require(attention_gradients_fit(g));
	cpu_for(st, query_tiles(a), backward_queries, g);
	cpu_for(st, (int64_t)a->micro_batch * a->num_groups * int64_div_up(attention_keys(a), TILE),
	    backward_keys, g);
	if (g->dsink.data)
		cpu_for(st, a->num_heads, backward_sink, g);
}
