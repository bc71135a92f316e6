/*
 * gemm_rows.cu - a few rows times a matrix that is stored along the sum, as where text is generated
 *
 * The time is that of reading the matrix, which leaves the cache before anything else does. There
 * are as many blocks as are on the GPU at once. A warp goes through some rows of the matrix, each a
 * column of the result, and asks for several packs of each before it multiplies the first; the few
 * rows are in shared memory. Where the matrix is constant, the first of its packs are asked for
 * while the kernel before is still running: a block begins as soon as one of that kernel has ended,
 * and memory is read without a pause. Sums are in F32: of a lane in the order of its packs, then
 * over the lanes.
 *
 * What stands around a linear layer costs a kernel each, of 2 to 4 us, where the matrices of a
 * Llama of 1 B take 3 to 17 on an H200: so a norm is taken here, by each block, which weighs the
 * rows as it puts them in shared memory and divides the sums at the end. A gated activation is
 * taken by the warp that has both its columns, and a residual is added to what would be stored.
 */
#include "train/cuda/act.cuh"
#include "train/cuda/early.cuh"

enum {
	ROWS_MAX = 2,
	WARPS = CU_THREADS / 32,
	SHARED_OWN = 1 << 10 /* bytes of a block's shared memory that are not rows */
};

/* c = alpha a b^T + bias; or, joined to it: a normed by its own rows, act of gate and up, which are
 * the halves of b, or c on top of a residual. */
struct rows_call {
	struct tensor c, a, b, bias, norm, residual;
	float alpha, eps, shift; /* eps and shift of the norm */
	struct act_curve act;
	bool constant; /* b is not made by kernels that may still be running */
};

/* How a warp goes through b: rows at a time, packs of each that a lane asks for at once, and blocks
 * of a multiprocessor, by the registers that this takes. */
struct two_rows {
	enum { ROWS = 2, AHEAD = 8, BLOCKS = 2 };
};
struct long_row {
	enum { ROWS = 1, AHEAD = 16, BLOCKS = 2 };
};
struct short_row {
	enum { ROWS = 1, AHEAD = 8, BLOCKS = 3 };
};

/* Packs of a lane. */
template <typename W> struct packs {
	uint4 of[W::ROWS][W::AHEAD];
};

/* The rows of a as they are multiplied, in shared memory: [M, packs of a row]; and of each warp the
 * sums of the squares of what it has put there. */
template <typename T, int M> struct few_rows {
	pack<T, full<T>::width> *of;
	float (*squares)[M];
	int count;
};

/* 16 bytes that are read once, by one lane of the GPU: what else is in the cache stays there. Zeros
 * where they are not present, by a predicate: loads that a branch guards are not under way
 * together. */
static __device__ inline uint4
fetch_once(const void *p, bool present)
{
	uint4 w;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint64_t first;

	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
	asm volatile("{\n"
		     ".reg .pred present;\n"
		     "setp.ne.u32 present, %6, 0;\n"
		     "mov.b32 %0, 0;\n"
		     "mov.b32 %1, 0;\n"
		     "mov.b32 %2, 0;\n"
		     "mov.b32 %3, 0;\n"
		     "@present ld.global.nc.L1::no_allocate.L2::cache_hint.v4.b32 "
		     "{%0, %1, %2, %3}, [%4], %5;\n"
		     "}"
		     : "=&r"(w.x), "=&r"(w.y), "=&r"(w.z), "=&r"(w.w)
		     : "l"(p), "l"(first), "r"((unsigned)present));
#else
	w = present ? *(const uint4 *)p : make_uint4(0, 0, 0, 0);
#endif
	return w;
}

/* Columns of c that a warp has at a time. */
template <typename W, bool GATED>
static __host__ __device__ inline int
columns_of_warp(void)
{
	return GATED ? W::ROWS / 2 : W::ROWS;
}

/* The row of b that is the j-th of a warp; beyond the last it is that. */
template <typename W, bool GATED>
static __device__ inline int64_t
row_of_warp(const struct rows_call &c, int64_t first, int j)
{
	int per = columns_of_warp<W, GATED>();
	int64_t column = min(first + j % per, c.c.shape[1] - 1);

	return j < per ? column : column + c.c.shape[1];
}

/* Asks for a lane's packs from number `at` of the warp's on. */
template <typename T, typename W, bool GATED>
static __device__ inline void
ask(const struct rows_call &c, struct packs<W> &to, int64_t first, int at)
{
	enum { N = full<T>::width };
	int count = (int)(c.b.shape[1] / N);

#pragma unroll
	for (int j = 0; j < W::ROWS; j++) {
		const T *row = row_of<T>(c.b, row_of_warp<W, GATED>(c, first, j));

#pragma unroll
		for (int u = 0; u < W::AHEAD; u++) {
			int i = at + 32 * u + (int)threadIdx.x % 32;

			to.of[j][u] = fetch_once(row + i * N, i < count);
		}
	}
}

/* A pack of a row by the norm's factors. */
template <typename T, int N>
static __device__ inline pack<T, N>
weigh(const struct rows_call &c, const pack<T, N> &v, const pack<T, N> &factors, float &squares)
{
	float x[N], w[N];

	unpack(x, v);
	unpack(w, factors);
#pragma unroll
	for (int k = 0; k < N; k++) {
		squares += x[k] * x[k];
		x[k] *= w[k] + c.shift;
	}
	return packed<T, N>(x);
}

/* Puts the rows of a in shared memory. */
template <typename T, int M, bool NORM>
static __device__ inline void
take_rows(const struct rows_call &c, const struct few_rows<T, M> &a)
{
	enum { N = full<T>::width };
	float squares[M] = {};

#pragma unroll 4
	for (int i = threadIdx.x; i < a.count; i += CU_THREADS) {
		pack<T, N> w;

		if (NORM)
			move<T, N>(&w, (const T *)c.norm.data + i * N);
#pragma unroll
		for (int r = 0; r < M; r++) {
			pack<T, N> v;

			move<T, N>(&v, row_of<T>(c.a, r) + i * N);
			if (NORM)
				v = weigh<T, N>(c, v, w, squares[r]);
			move<T, N>(&a.of[r * a.count + i], &v);
		}
	}
#pragma unroll
	for (int r = 0; NORM && r < M; r++) {
		squares[r] = warp_sum(squares[r]);
		if (threadIdx.x % 32 == 0)
			a.squares[threadIdx.x / 32][r] = squares[r];
	}
	__syncthreads();
}

/* Adds the products with what was asked for. */
template <typename T, int M, typename W>
static __device__ inline void
multiply(const struct few_rows<T, M> &a, float (&sum)[M][W::ROWS], const struct packs<W> &b, int at)
{
	enum { N = full<T>::width };

#pragma unroll
	for (int u = 0; u < W::AHEAD; u++) {
		int i = min(at + 32 * u + (int)threadIdx.x % 32, a.count - 1);

#pragma unroll
		for (int r = 0; r < M; r++) {
			float x[N];

			load(x, a.of[r * a.count + i].at);
#pragma unroll
			for (int j = 0; j < W::ROWS; j++) {
				pack<T, N> v;
				float y[N];

				move<T, N>(&v, &b.of[j][u]);
				unpack(y, v);
#pragma unroll
				for (int k = 0; k < N; k++)
					sum[r][j] += x[k] * y[k];
			}
		}
	}
}

/* x with the bias of a row of b, as it would be stored. */
template <typename T>
static __device__ inline float
as_stored(const struct rows_call &c, float x, int64_t row)
{
	T stored;

	put(&stored, c.bias.data ? x + to_float(((const T *)c.bias.data)[row]) : x);
	return to_float(stored);
}

/* A warp's columns of a row of c by their sums, each by a lane of its own. */
template <typename T, typename W, bool GATED>
static __device__ inline void
put_columns(const struct rows_call &c, const float (&x)[W::ROWS], int64_t row, int64_t first)
{
	int columns = columns_of_warp<W, GATED>();

#pragma unroll
	for (int j = 0; j < columns; j++) {
		float y = as_stored<T>(c, x[j], row_of_warp<W, GATED>(c, first, j));

		if (threadIdx.x % 32 != j || first + j >= c.c.shape[1])
			continue;
		if (GATED) {
			float gate[1] = { y },
			      up[1] = { as_stored<T>(c, x[W::ROWS / 2 + j],
				  row_of_warp<W, GATED>(c, first, W::ROWS / 2 + j)) };

			act_forward(c.act, gate, gate, up);
			y = gate[0];
		} else if (c.residual.data) {
			y += to_float(row_of<T>(c.residual, row)[first + j]);
		}
		put(row_of<T>(c.c, row) + first + j, y);
	}
}

/* What the sums of row r are multiplied by. */
template <typename T, int M, bool NORM>
static __device__ inline float
factor_of_row(const struct rows_call &c, const struct few_rows<T, M> &a, int r)
{
	float squares = 0;

#pragma unroll
	for (int w = 0; w < WARPS; w++)
		squares += NORM ? a.squares[w][r] : 0;
	return NORM ? c.alpha / sqrtf(squares / (float)c.b.shape[1] + c.eps) : c.alpha;
}

/* A warp's columns of all rows of c. */
template <typename T, int M, typename W, bool NORM, bool GATED>
static __device__ inline void
put_sums(const struct rows_call &c, const struct few_rows<T, M> &a, const float (&sum)[M][W::ROWS],
    int64_t first)
{
#pragma unroll
	for (int r = 0; r < M; r++) {
		float x[W::ROWS], factor = factor_of_row<T, M, NORM>(c, a, r);

#pragma unroll
		for (int j = 0; j < W::ROWS; j++)
			x[j] = factor * warp_sum(sum[r][j]);
		put_columns<T, W, GATED>(c, x, r, first);
	}
}

/* The next kernel may begin when all blocks have come to their last columns: before, it would only
 * take room in the cache. */
template <typename T, int M, typename W, bool NORM, bool GATED>
static __global__ void
__launch_bounds__(CU_THREADS, W::BLOCKS) rows_kernel(const struct rows_call c)
{
	extern __shared__ uint4 shared[];
	__shared__ float squares[WARPS][M];
	int columns = columns_of_warp<W, GATED>(), each = 32 * W::AHEAD;
	int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * columns,
		step = (int64_t)gridDim.x * WARPS * columns, last = c.c.shape[1] - 1;
	struct few_rows<T, M> a = {
		(pack<T, full<T>::width> *)shared, squares, (int)(c.b.shape[1] / full<T>::width)
	};
	struct packs<W> b;

	if (!c.constant)
		await_previous();
	ask<T, W, GATED>(c, b, first, 0);
	if (step > last)
		let_next_begin();
	if (c.constant)
		await_previous();
	take_rows<T, M, NORM>(c, a);
	while (first <= last) {
		float sum[M][W::ROWS] = {};

		multiply<T, M, W>(a, sum, b, 0);
		for (int at = each; at < a.count; at += each) {
			ask<T, W, GATED>(c, b, first, at);
			multiply<T, M, W>(a, sum, b, at);
		}
		if (first + step <= last)
			ask<T, W, GATED>(c, b, first + step, 0);
		if (first + 2 * step > last)
			let_next_begin();
		put_sums<T, M, W, NORM, GATED>(c, a, sum, first);
		first += step;
	}
}

/* Bytes of shared memory for the rows of a. */
static size_t
few_rows_bytes(const struct rows_call *c)
{
	return (size_t)(c->c.shape[0] * c->b.shape[1]) * dtype_size(c->b.dtype);
}

template <typename T, int M, typename W, bool NORM, bool GATED>
static void
launch_rows(struct stream *st, const struct rows_call *c)
{
	int64_t blocks = int64_min(int64_div_up(c->c.shape[1], WARPS * columns_of_warp<W, GATED>()),
	    W::BLOCKS * (int64_t)st->device->num_sms);
	size_t bytes = few_rows_bytes(c);

	cudaFuncSetAttribute(rows_kernel<T, M, W, NORM, GATED>,
	    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
	cu_launch_early(
	    st, rows_kernel<T, M, W, NORM, GATED>, { (unsigned)blocks, CU_THREADS, bytes }, *c);
}

/* Two columns of a warp where there are enough for all multiprocessors; a column has the same sum
 * either way. */
template <typename T, int M, bool NORM>
static void
launch_plain(struct stream *st, const struct rows_call *c)
{
	int64_t warps = (int64_t)WARPS * st->device->num_sms, n = c->c.shape[1],
		packs = c->b.shape[1] / full<T>::width;

	if (n > warps * two_rows::BLOCKS * two_rows::ROWS)
		launch_rows<T, M, two_rows, NORM, false>(st, c);
	else if (packs > 32 * short_row::AHEAD)
		launch_rows<T, M, long_row, NORM, false>(st, c);
	else
		launch_rows<T, M, short_row, NORM, false>(st, c);
}

template <typename T, int M>
static void
launch_kind(struct stream *st, const struct rows_call *c)
{
	if (c->b.shape[0] > c->c.shape[1])
		launch_rows<T, M, two_rows, true, true>(st, c);
	else if (c->norm.data)
		launch_plain<T, M, true>(st, c);
	else
		launch_plain<T, M, false>(st, c);
}

template <typename T>
static void
launch(struct stream *st, const struct rows_call *c)
{
	if (c->c.shape[0] == 1)
		launch_kind<T, 1>(st, c);
	else
		launch_kind<T, ROWS_MAX>(st, c);
}

/* Rows of whole packs, of one type and not too many. */
static bool
takes(const struct stream *st, const struct rows_call *c)
{
	enum dtype t = c->b.dtype;
	int width = 16 / (int)dtype_size(t);

	return c->c.shape[0] <= ROWS_MAX && !dtype_is_float8(t) &&
	    few_rows_bytes(c) + SHARED_OWN <= (size_t)st->device->shared_block && c->a.dtype == t &&
	    c->c.dtype == t && (!c->bias.data || c->bias.dtype == t) && cu_packs(&c->a, width) &&
	    cu_packs(&c->b, width);
}

static struct rows_call
call_of(const struct gemm *g)
{
	struct rows_call c = {};

	c.c = g->c;
	c.a = g->a;
	c.b = g->b;
	c.bias = g->bias;
	c.alpha = (float)g->alpha;
	return c;
}

bool
gemm_rows(struct stream *st, const struct gemm *g)
{
	const struct rows_call c = call_of(g);

	if (g->trans_a || !g->trans_b || g->beta != 0 || g->act != GEMM_LINEAR || g->dbias.data ||
	    !takes(st, &c))
		return false;
	PICK(c.b.dtype, launch)(st, &c);
	cu_launched(st, "gemm");
	return true;
}

/* The call that one kernel does, of RMSNorm, and of a gate after a norm; false: there is none. */
static bool
joined(const struct stream *st, const struct linear_step *l, struct rows_call *c)
{
	const struct norm *n = &l->norm;
	bool normed = n->weight.data, acts = l->act.x.data;

	*c = {};
	c->c = l->y;
	c->a = l->x;
	c->b = l->weight;
	c->bias = l->bias;
	c->norm = n->weight;
	c->residual = l->residual;
	c->alpha = 1;
	c->eps = (float)n->eps;
	c->shift = (float)n->shift;
	c->act = act_curve_of(l->act.kind, &l->act.gate);
	c->constant = true;
	return takes(st, c) &&
	    (!normed ||
		(!n->mean.data && !n->bias.data && n->weight.dtype == c->b.dtype &&
		    cu_packs(&n->weight, 16 / (int)dtype_size(c->b.dtype)))) &&
	    (!acts || (is_gated(l->act.kind) && normed)) &&
	    (!l->residual.data || l->residual.dtype == c->b.dtype);
}

/* An operation for each part. */
static void
by_parts(struct stream *st, const struct linear_step *l)
{
	struct residual sum = {};
	struct gemm g = {};

	g.c = l->product.data ? l->product : l->y;
	g.a = l->x;
	g.b = l->weight;
	g.trans_b = true;
	g.alpha = 1;
	g.bias = l->bias;
	if (l->norm.weight.data) {
		cuda_norm_fwd(st, &l->norm);
		g.a = l->norm.y;
	}
	cuda_gemm(st, &g);
	sum.y = l->y;
	sum.x = l->product;
	sum.residual = l->residual;
	if (l->act.x.data)
		cuda_act_fwd(st, &l->act);
	else if (l->residual.data)
		cuda_residual_fwd(st, &sum);
}

void
cuda_linear_step(struct stream *st, const struct linear_step *l)
{
	struct rows_call c;

	ops_require(linear_step_fits(l));
	if (l->y.shape[0] == 0)
		return;
	if (!joined(st, l, &c)) {
		by_parts(st, l);
		return;
	}
	PICK(c.b.dtype, launch)(st, &c);
	cu_launched(st, "linear_step");
}
