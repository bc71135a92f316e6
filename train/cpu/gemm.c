/*
 * gemm.c - GEMMs: tiles of the result are distributed over the threads, with one BLAS call per tile
 * and block of k
 *
 * The tiles follow from the shapes alone. Operands that are not stored in real precision are
 * converted block by block into the workspace; the result is rounded once, after the last block,
 * and the epilogue is applied to a tile while it is in the cache.
 */
#include "train/cpu/real.h"

enum {
	BLOCK = 256, /* side of a converted block */
	TILE_MIN = 64,
	TILE_MAX = 512,  /* side of a tile of c */
	TILE_COUNT = 16, /* tiles wanted, to keep threads busy */
	SMALL = 1 << 19, /* multiply-adds that are not worth distributing */
	FEW = 8,         /* rows for which b is read once, and not copied for BLAS */
};

/* A thread's blocks of operands and result that are not stored in real. */
struct work {
	real a[BLOCK * BLOCK], b[BLOCK * BLOCK], c[BLOCK * BLOCK];
};
_Static_assert(sizeof(struct work) <= CPU_SCRATCH, "workspace");

/* How the result is cut up; the same for all threads. */
struct tiles {
	const struct gemm *g;
	real alpha;      /* the GEMM's, and of 8-bit operands their scales */
	int64_t m, n, k; /* of the GEMM */
	int64_t tile_m, tile_n, block_k, per_row;
	bool few; /* rows of a by rows of b, both as they are */
};

/* Rows and columns of a matrix. */
struct box {
	int64_t row, column, rows, columns;
};

/* Where BLAS reads or writes a box, and the elements between its rows. */
struct matrix {
	real *p;
	int64_t stride;
};

/* The box of t to write to: in place, or buf. */
static struct matrix
box_out(const struct tensor *t, const struct box *b, real *buf)
{
	struct span s = { b->row, b->column, b->columns };
	bool direct = t->dtype == REAL_DTYPE;

	return (struct matrix){ direct ? span_address(t, &s) : buf,
		direct ? t->stride[0] : b->columns };
}

/* The box of t to read, converted into buf when it must be. */
static struct matrix
box_load(const struct tensor *t, const struct box *b, real *buf)
{
	struct matrix m = box_out(t, b, buf);

	for (int64_t i = 0; m.p == buf && i < b->rows; i++) {
		struct span s = { b->row + i, b->column, b->columns };

		span_load(t, &s, buf + i * b->columns);
	}
	return m;
}

/* A box of an operand [r,k], whose blocks may have scales: 8-bit numbers are never in place. */
static struct matrix
operand_load(const struct tensor *t, const struct tensor *scale, const struct box *b, real *buf)
{
	struct matrix m = box_load(t, b, buf);
	enum scale_kind kind = scale_kind(scale, t);

	if (kind == SCALE_TENSOR)
		return m;
	for (int64_t i = 0; i < b->rows; i++)
		for (int64_t j = 0; j < b->columns; j++) {
			int64_t row = b->row + i, block = (b->column + j) / SCALE_BLOCK;
			struct span at = kind == SCALE_LINES
			    ? (struct span){ block, row, 1 }
			    : (struct span){ row / SCALE_BLOCK, block, 1 };

			m.p[i * m.stride + j] *= (real) * (const float *)span_address(scale, &at);
		}
	return m;
}

/* Rows [row, row + rows) and columns of op(t), as they lie in memory. */
static struct box
stored(bool transposed, struct box b)
{
	return transposed ? (struct box){ b.column, b.row, b.columns, b.rows } : b;
}

/* The epilogue of a tile: bias, the saved or read aux value, and the activation. The activation
 * sees the value as it was saved, so that the backward pass differentiates what was computed. */
static void
finish_tile(const struct gemm *g, const struct box *b, const struct matrix *c)
{
	real bias_buf[TILE_MAX], aux_buf[TILE_MAX];
	const real *bias = g->bias.data
	    ? span_load(&g->bias, &(struct span){ 0, b->column, b->columns }, bias_buf)
	    : NULL;

	for (int64_t r = 0; r < b->rows; r++) {
		struct span s = { b->row + r, b->column, b->columns };
		real *x = c->p + r * c->stride;

		for (int64_t i = 0; bias && i < b->columns; i++)
			x[i] += bias[i];
		if (g->act == GEMM_GELU) {
			dtype_convert(
			    span_address(&g->aux, &s), g->aux.dtype, x, REAL_DTYPE, s.count);
			cpu_name(gelu_tanh)(x, span_load(&g->aux, &s, aux_buf), s.count);
		} else if (g->act == GEMM_GELU_GRAD)
			cpu_name(gelu_tanh_slope)(x, span_load(&g->aux, &s, aux_buf), s.count);
	}
}

/* out[i] = the sum of x[i] w for 4 rows of x, or for one. Every sum has one order. */
enum { FEW_ROWS = 4, FEW_UNROLL = 2 };

static inline void
dot_rows(int rows, const real *w, const struct matrix *x, int64_t n, real *out)
{
	vec acc[FEW_ROWS][FEW_UNROLL] = { { { 0 } } };
	int64_t k = 0;

	for (; k + FEW_UNROLL * VEC_LANES <= n; k += FEW_UNROLL * VEC_LANES)
		for (int i = 0; i < rows; i++)
			for (int u = 0; u < FEW_UNROLL; u++)
				acc[i][u] += *(const vec_at *)(w + k + u * VEC_LANES) *
				    *(const vec_at *)(x->p + i * x->stride + k + u * VEC_LANES);
	for (int i = 0; i < rows; i++) {
		vec sum = acc[i][0] + acc[i][1];
		real total = 0;

		for (int j = 0; j < VEC_LANES; j++)
			total += sum[j];
		for (int64_t r = k; r < n; r++)
			total += w[r] * x->p[i * x->stride + r];
		out[i] = total;
	}
}

/* A tile c = alpha a b^T of few rows: rows of b pass by once. */
static void
few_rows(const struct tiles *t, const struct box *cb, const struct matrix *c)
{
	const struct gemm *g = t->g;
	real out[FEW];

	for (int64_t j = 0; j < cb->columns; j++) {
		const real *w = span_address(&g->b, &(struct span){ cb->column + j, 0, t->k });

		for (int64_t i = 0; i < cb->rows;) {
			struct matrix x = { span_address(
						&g->a, &(struct span){ cb->row + i, 0, t->k }),
				g->a.stride[0] };

			if (cb->rows - i >= FEW_ROWS) {
				dot_rows(FEW_ROWS, w, &x, t->k, out + i);
				i += FEW_ROWS;
			} else {
				dot_rows(1, w, &x, t->k, out + i);
				i++;
			}
		}
		for (int64_t i = 0; i < cb->rows; i++)
			c->p[i * c->stride + j] = t->alpha * out[i];
	}
}

/* One tile of c over all of k. Blocks of k are added in order into the tile, in real; alpha
 * applies to each, beta to the first alone. */
static void
tile(const void *ctx, int64_t item, void *scratch)
{
	const struct tiles *t = ctx;
	const struct gemm *g = t->g;
	struct work *w = scratch;
	struct box cb = { item / t->per_row * t->tile_m, item % t->per_row * t->tile_n, 0, 0 };
	struct matrix c;
	int64_t k0 = 0;

	cb.rows = int64_min(t->tile_m, t->m - cb.row);
	cb.columns = int64_min(t->tile_n, t->n - cb.column);
	c = g->beta == 0 ? box_out(&g->c, &cb, w->c) : box_load(&g->c, &cb, w->c);
	if (t->few)
		few_rows(t, &cb, &c);
	for (bool more = !t->few; more; more = k0 < t->k) {
		int64_t k = int64_min(t->block_k, t->k - k0);
		struct box ab = stored(g->trans_a, (struct box){ cb.row, k0, cb.rows, k });
		struct box bb = stored(g->trans_b, (struct box){ k0, cb.column, k, cb.columns });
		struct matrix a = operand_load(&g->a, &g->scale_a, &ab, w->a),
			      b = operand_load(&g->b, &g->scale_b, &bb, w->b);

		blas_gemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
		    g->trans_b ? CblasTrans : CblasNoTrans, (int)cb.rows, (int)cb.columns, (int)k,
		    t->alpha, a.p, (int)a.stride, b.p, (int)b.stride, k0 == 0 ? (real)g->beta : 1,
		    c.p, (int)c.stride);
		k0 += k;
	}
	finish_tile(g, &cb, &c);
	for (int64_t i = 0; i < cb.rows; i++) {
		struct span s = { cb.row + i, cb.column, cb.columns };

		span_store(&g->c, &s, c.p + i * c.stride);
	}
}

/* Halves the longer side until the tiles are small and numerous enough. The number of threads plays
 * no part, or results would depend on it. Multiples of 16, which suit BLAS's kernels. */
static void
choose_tiles(struct tiles *t, bool direct)
{
	int64_t limit = direct ? TILE_MAX : BLOCK;
	bool small = t->m * t->n * t->k <= SMALL;

	t->tile_m = t->m;
	t->tile_n = t->n;
	t->block_k = direct ? int64_max(1, t->k) : BLOCK;
	for (;;) {
		int64_t *side = t->tile_m >= t->tile_n ? &t->tile_m : &t->tile_n;
		int64_t count = int64_div_up(t->m, t->tile_m) * int64_div_up(t->n, t->tile_n);

		if (*side <= limit && (small || *side <= TILE_MIN || count >= TILE_COUNT))
			break;
		*side = int64_div_up(*side, 2 * 16) * 16;
	}
	t->per_row = int64_div_up(t->n, t->tile_n);
}

/* Sums of some rows of a [m, k] into dbias. */
static void
sum_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct gemm *g = ctx;
	int64_t per_item = cpu_rows_per_item(g->a.shape[1]),
		end = int64_min(g->a.shape[0], (item + 1) * per_item);
	real buf[CPU_SPAN];

	(void)scratch;
	for (int64_t row = item * per_item; row < end; row++)
		for (int64_t first = 0; first < g->a.shape[1]; first += CPU_SPAN) {
			struct span s = { row, first, int64_min(CPU_SPAN, g->a.shape[1] - first) };

			*real_at(&g->dbias, row) += row_sum(span_load(&g->a, &s, buf), s.count);
		}
}

/* What Hopper multiplies of 8 bits, and nothing more. */
static void
check_float8(const struct gemm *g)
{
	ops_require(dtype_is_float8(g->a.dtype) == dtype_is_float8(g->b.dtype));
	if (!dtype_is_float8(g->a.dtype)) {
		ops_require(!g->scale_a.data && !g->scale_b.data);
		return;
	}
	ops_require((scale_kind(&g->scale_a, &g->a) == SCALE_TENSOR) ==
	    (scale_kind(&g->scale_b, &g->b) == SCALE_TENSOR));
	ops_require(scale_kind(&g->scale_a, &g->a) != SCALE_SQUARES ||
	    scale_kind(&g->scale_b, &g->b) != SCALE_SQUARES);
	ops_require(g->a.dtype != DTYPE_F8_E5M2 || g->b.dtype != DTYPE_F8_E5M2);
	ops_require(!g->trans_a && g->trans_b &&
	    (g->beta == 0 || (g->beta == 1 && g->c.dtype == DTYPE_F32)));
	ops_require(g->act == GEMM_LINEAR && !g->dbias.data);
}

/* The number that a scale is, or 1 for none and for those of blocks. */
static real
scale_of(const struct tensor *scale)
{
	return scale->data && scale->ndim == 1 ? (real) * (const float *)scale->data : 1;
}

/* c = alpha op(a) op(b) + beta c, row-major, strides between rows as given, and the rest of struct
 * gemm: dbias = beta dbias + the sums of op(a) over k. k may be 0: c is scaled then. beta 0 does
 * not read c or dbias, so they may hold anything. */
void
cpu_name(gemm)(struct stream *st, const struct gemm *g)
{
	struct tiles t = { .g = g,
		.alpha = (real)g->alpha * scale_of(&g->scale_a) * scale_of(&g->scale_b),
		.m = g->c.shape[0],
		.n = g->c.shape[1],
		.k = g->a.shape[g->trans_a ? 0 : 1] };
	bool direct;

	ops_require(g->a.ndim == 2 && g->b.ndim == 2 && g->c.ndim == 2);
	ops_require(g->a.shape[g->trans_a ? 1 : 0] == t.m);
	ops_require(g->b.shape[g->trans_b ? 1 : 0] == t.k && g->b.shape[g->trans_b ? 0 : 1] == t.n);
	ops_require(!g->bias.data || g->bias.shape[0] == t.n);
	ops_require(!g->dbias.data ||
	    (g->dbias.shape[0] == t.m && g->dbias.dtype == REAL_DTYPE &&
		(g->beta == 0 || g->beta == 1)));
	ops_require(g->act == GEMM_LINEAR ||
	    (g->beta == 0 && g->aux.data && g->aux.ndim == 2 && g->aux.shape[0] == t.m &&
		g->aux.shape[1] == t.n));
	check_float8(g);
	if (g->dbias.data && g->beta == 0)
		cpu_name(fill)(st, &(struct fill){ .x = g->dbias });
	if (g->dbias.data && g->trans_a)
		cpu_name(column_sum)(st, &g->dbias, &g->a);
	else if (g->dbias.data)
		cpu_for(st, int64_div_up(t.m, cpu_rows_per_item(t.k)), sum_rows, g);
	if (t.m == 0 || t.n == 0)
		return;
	direct = g->a.dtype == REAL_DTYPE && g->b.dtype == REAL_DTYPE && g->c.dtype == REAL_DTYPE;
	t.few = direct && t.m <= FEW && !g->trans_a && g->trans_b && g->beta == 0;
	choose_tiles(&t, direct);
	cpu_for(st, int64_div_up(t.m, t.tile_m) * t.per_row, tile, &t);
}
