/*
 * vector.c - element-wise operations and sums that know nothing of the model
 *
 * Tensors may be of any floating types, also of two different ones, and rows may be strided;
 * arithmetic is in real and results are rounded once. Long sums do not depend on the number of
 * threads: the vector is cut into parts by its length alone, each part is summed by one thread,
 * and the parts are added in order.
 */
#include "lib/base/rng.h"
#include "train/cpu/real.h"

enum { COLUMNS = 64, ROWS = 64, PARTS = 256 };

/* The sums of some columns: blocks of rows are summed, then added in order. */
static void
sum_columns(const void *ctx, int64_t item, void *scratch)
{
	const struct pair *p = ctx;
	struct span s = { 0, item * COLUMNS, int64_min(COLUMNS, p->x.shape[1] - item * COLUMNS) };
	real *out = real_at(&p->y, s.first), buf[COLUMNS];

	(void)scratch;
	while (s.row < p->x.shape[0]) {
		real sum[COLUMNS] = { 0 };
		int64_t end = int64_min(s.row + ROWS, p->x.shape[0]);

		for (; s.row < end; s.row++) {
			const real *x = span_load(&p->x, &s, buf);

			for (int64_t i = 0; i < s.count; i++)
				sum[i] += x[i];
		}
		for (int64_t i = 0; i < s.count; i++)
			out[i] += sum[i];
	}
}

/* out [n] += sum over the rows of x [T, n]; out is real whatever x is. Columns are shared out,
 * rows are not. */
void
cpu_name(column_sum)(struct stream *st, const struct tensor *out, const struct tensor *x)
{
	ops_require(x->ndim == 2 && out->shape[0] == x->shape[1] && out->dtype == REAL_DTYPE);
	cpu_for(st, int64_div_up(x->shape[1], COLUMNS), sum_columns, &(struct pair){ *out, *x });
}

/* y += x. */
static void
add_span(const void *ctx, const struct span *s)
{
	const struct pair *p = ctx;
	real y_buf[CPU_SPAN], x_buf[CPU_SPAN], *y = span_load(&p->y, s, y_buf);
	const real *x = span_load(&p->x, s, x_buf);

	for (int64_t i = 0; i < s->count; i++)
		y[i] += x[i];
	span_store(&p->y, s, y);
}

/* Shapes must agree, types need not. */
void
cpu_name(add)(struct stream *st, const struct pair *p)
{
	ops_require(tensor_same_shape(&p->y, &p->x));
	cpu_spans(st, &p->y, add_span, p);
}

/* Adds a span to the sum that came before it, which the result replaces. */
static void
join(real *later, const real *earlier, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		later[i] = earlier[i] + later[i];
}

/* A rank's term of a span. */
static void
load_term(real *to, const struct sum *a, int rank, const struct span *s)
{
	struct span row = { rank - (a->own >= 0 && rank > a->own), s->first, s->count };

	dtype_convert(to, REAL_DTYPE,
	    rank == a->own ? span_address(&a->x, s) : span_address(&a->others, &row), a->x.dtype,
	    s->count);
}

/* T of the terms of `count` ranks from `first` on: a binary counter of subtrees. Returns one of
 * them. */
static real *
add_block(real tree[TREE_LEVELS][CPU_SPAN], const struct sum *a, int first, int count,
    const struct span *s)
{
	real *sum = NULL;

	for (int k = 0; k < count; k++) {
		int level = 0;

		while (k >> level & 1)
			level++;
		load_term(tree[level], a, first + k, s);
		for (int i = 0; i < level; i++)
			join(tree[level], tree[i], s->count);
	}
	for (int level = 0; level < TREE_LEVELS; level++) {
		if (!(count >> level & 1))
			continue;
		if (sum)
			join(sum, tree[level], s->count);
		else
			sum = tree[level];
	}
	return sum;
}

/* Held apart until all is read, as y may be x. */
static void
sum_span(const void *ctx, const struct span *s)
{
	const struct sum *a = ctx;
	real tree[TREE_LEVELS][CPU_SPAN], before[CPU_SPAN], *sum = NULL;
	int ranks = (a->own >= 0) + (int)(a->others.data ? a->others.shape[0] : 0);
	int block = a->block ? a->block : TREE_TERMS;

	for (int first = 0; first < ranks; first += block) {
		int left = ranks - first;

		sum = add_block(tree, a, first, left < block ? left : block, s);
		if (first > 0)
			join(sum, before, s->count);
		if (left > block)
			memcpy(before, sum, (size_t)s->count * sizeof *sum);
	}
	dtype_convert(span_address(&a->y, s), a->y.dtype, sum, REAL_DTYPE, s->count);
}

/* As vectors: a sum knows of no rows but those of the other ranks. */
void
cpu_name(sum)(struct stream *st, const struct sum *a)
{
	struct sum v = *a;
	const struct tensor *term = a->own >= 0 ? &v.x : &v.others;

	v.y = tensor_flat(&a->y);
	if (a->own >= 0)
		v.x = tensor_flat(&a->x);
	else
		v.x.dtype = v.others.dtype;
	ops_require(term->data && v.block <= TREE_TERMS &&
	    (v.y.dtype == term->dtype || v.y.dtype == REAL_DTYPE || term->dtype == DTYPE_F32));
	ops_require(a->own < 0 || tensor_same_shape(&v.x, &v.y));
	ops_require(!v.others.data ||
	    (v.others.dtype == term->dtype && v.others.shape[1] == v.y.shape[0] &&
		v.own <= v.others.shape[0]));
	cpu_spans(st, &v.y, sum_span, &v);
}

/* a x + b y. */
static void
axpby_span(const void *ctx, const struct span *s)
{
	const struct axpby *c = ctx;
	real y_buf[CPU_SPAN], x_buf[CPU_SPAN],
	    *y = c->b == 0 ? span_out(&c->y, s, y_buf) : span_load(&c->y, s, y_buf);
	const real *x = span_load(&c->x, s, x_buf), a = (real)c->a, b = (real)c->b;

	for (int64_t i = 0; i < s->count; i++)
		y[i] = b == 0 ? a * x[i] : a * x[i] + b * y[i];
	span_store(&c->y, s, y);
}

/* The divisor is taken in double, once. */
void
cpu_name(axpby)(struct stream *st, const struct axpby *c)
{
	struct axpby call = *c;

	ops_require(tensor_same_shape(&c->y, &c->x));
	ops_require(!c->squares.data || (c->squares.dtype == DTYPE_F64 && c->eps > 0));
	if (c->squares.data)
		call.a /= fmax(sqrt(*(const double *)c->squares.data), c->eps);
	cpu_spans(st, &c->y, axpby_span, &call);
}

/* x = value. */
static void
fill_span(const void *ctx, const struct span *s)
{
	const struct fill *f = ctx;
	real buf[CPU_SPAN], *x = span_out(&f->x, s, buf);

	for (int64_t i = 0; i < s->count; i++)
		x[i] = (real)f->value;
	span_store(&f->x, s, x);
}

/* What x held is not read, so it may be fresh memory. */
void
cpu_name(fill)(struct stream *st, const struct fill *f)
{
	cpu_spans(st, &f->x, fill_span, f);
}

/* In double up to the one rounding to the storage. */
static void
normal_span(const void *ctx, const struct span *s)
{
	const struct normal *n = ctx;
	double value[CPU_SPAN];

	rng_normal(n->key, (uint64_t)(n->first + s->first), s->count, n->stream, 0, value);
	for (int64_t i = 0; i < s->count; i++)
		value[i] *= n->std;
	dtype_convert(span_address(&n->x, s), n->x.dtype, value, DTYPE_F64, s->count);
}

/* x is dense, of any floating type and shape; its elements are numbered as they lie. */
void
cpu_name(normal)(struct stream *st, const struct normal *n)
{
	struct normal flat = *n;

	ops_require(
	    dtype_is_float(n->x.dtype) && (n->x.ndim != 2 || n->x.stride[0] == n->x.shape[1]));
	flat.x = tensor_flat(&n->x);
	cpu_spans(st, &flat.x, normal_span, &flat);
}

/* Same types are copied bit by bit. */
static void
cast_span(const void *ctx, const struct span *s)
{
	const struct pair *p = ctx;
	size_t size = dtype_size(p->x.dtype);

	if (p->y.dtype == p->x.dtype)
		memmove(span_address(&p->y, s), span_address(&p->x, s), (size_t)s->count * size);
	else
		dtype_convert(span_address(&p->y, s), p->y.dtype, span_address(&p->x, s),
		    p->x.dtype, s->count);
}

/* Narrowing rounds to nearest, ties to even (lib/base/dtype); integers are only copied. */
void
cpu_name(cast)(struct stream *st, const struct pair *p)
{
	ops_require(tensor_same_shape(&p->y, &p->x));
	ops_require(
	    p->y.dtype == p->x.dtype || (dtype_is_float(p->y.dtype) && dtype_is_float(p->x.dtype)));
	cpu_spans(st, &p->y, cast_span, p);
}

/* A long vector as PARTS ranges, each summed in double by one item, and the parts in order
 * after. */
struct reduction {
	const struct tensor *x, *y;
	double (*span)(const struct reduction *, const struct span *);
	int64_t count, per_part;
	double *part;
};

/* Elements as double: in place, or converted into buf. */
static const double *
load_double(const struct tensor *t, const struct span *s, double *buf)
{
	const float *f = span_address(t, s);

	if (t->dtype == DTYPE_F64)
		return span_address(t, s);
	if (t->dtype == DTYPE_F32)
		for (int64_t i = 0; i < s->count; i++)
			buf[i] = (double)f[i];
	else
		dtype_convert(buf, DTYPE_F64, f, t->dtype, s->count);
	return buf;
}

/* Sum of products of a span, in four interleaved sums. Four sums let the compiler use vectors
 * without reordering what we wrote. */
static double
dot_span(const struct reduction *r, const struct span *s)
{
	double x_buf[CPU_SPAN], y_buf[CPU_SPAN], sum[4] = { 0 };
	const double *x = load_double(r->x, s, x_buf), *y = load_double(r->y, s, y_buf);
	int64_t i = 0;

	for (; i + 4 <= s->count; i += 4)
		for (int j = 0; j < 4; j++)
			sum[j] += x[i + j] * y[i + j];
	for (; i < s->count; i++)
		sum[0] += x[i] * y[i];
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* x - x is zero for finite numbers alone. */
static double
nonfinite_span(const struct reduction *r, const struct span *s)
{
	double buf[CPU_SPAN];
	const double *x = load_double(r->x, s, buf);
	int64_t count = 0;

	for (int64_t i = 0; i < s->count; i++)
		count += !(x[i] - x[i] == 0);
	return (double)count;
}

static double
zero_span(const struct reduction *r, const struct span *s)
{
	double buf[CPU_SPAN];
	const double *x = load_double(r->x, s, buf);
	int64_t count = 0;

	for (int64_t i = 0; i < s->count; i++)
		count += x[i] == 0;
	return (double)count;
}

static void
reduce_part(const void *ctx, int64_t item, void *scratch)
{
	const struct reduction *r = ctx;
	int64_t end = int64_min(r->count, (item + 1) * r->per_part);

	(void)scratch;
	r->part[item] = 0;
	for (int64_t first = item * r->per_part; first < end; first += CPU_SPAN) {
		struct span s = { 0, first, int64_min(CPU_SPAN, end - first) };

		r->part[item] += r->span(r, &s);
	}
}

/* out += the sum of the parts. At most PARTS parts of at least CPU_GRAIN elements: short vectors
 * are summed by one thread. */
static void
reduce(struct stream *st, const struct tensor *out, struct reduction *r)
{
	double parts[PARTS], total = 0;
	int64_t used;

	ops_require(
	    out->dtype == DTYPE_F64 && (r->x->ndim == 1 || r->x->stride[0] == r->x->shape[1]));
	r->part = parts;
	r->count = tensor_elements(r->x);
	r->per_part =
	    int64_max(CPU_GRAIN, int64_div_up(int64_div_up(r->count, PARTS), CPU_SPAN) * CPU_SPAN);
	used = int64_div_up(r->count, r->per_part);
	cpu_for(st, used, reduce_part, r);
	for (int64_t i = 0; i < used; i++)
		total += parts[i];
	*(double *)out->data += total;
}

/* out (F64) += sum of x y in double. x and y are dense, of one length, of any floating types. */
void
cpu_name(dot)(struct stream *st, const struct dot *d)
{
	ops_require(tensor_elements(&d->x) == tensor_elements(&d->y));
	reduce(st, &d->out, &(struct reduction){ .x = &d->x, .y = &d->y, .span = dot_span });
}

/* y (F64) += how many elements are NaN or infinite; a double counts exactly up to 2^53. */
void
cpu_name(count_nonfinite)(struct stream *st, const struct pair *p)
{
	reduce(st, &p->y, &(struct reduction){ .x = &p->x, .span = nonfinite_span });
}

/* y (F64) += how many elements are zero. */
void
cpu_name(count_zero)(struct stream *st, const struct pair *p)
{
	reduce(st, &p->y, &(struct reduction){ .x = &p->x, .span = zero_span });
}
