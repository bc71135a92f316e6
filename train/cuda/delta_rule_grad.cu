/*
 * delta_rule_grad.cu - the backward pass of linear attention by the gated delta rule, in the
 * chunked form of delta_rule.cuh
 *
 * The states before each chunk are made once more. From the last chunk to the first, dM being the
 * gradient of the state after the chunk and dO that of the output by sqrt(d),
 *
 *   h = L K dM                        dV = b T^T (P^T dO + h)
 *   dM <- g[C-1] dM + (g Q)^T dO - (g K)^T dV
 *
 * with L[t] = D[C-1][t], b, g as factors of rows. Then every chunk has its gradients at once: with
 * dP = D (dO W^T) on and below the diagonal and dA = -D (dV W^T) below it,
 *
 *   dQ = dP K + (g dO) M^T            dK = dP^T Q + (dA + dA^T) K - (g dV) M^T + (L W) dM^T
 *   dbeta = (1 - b) <T^T (P^T dO + h), W>
 *   dG[t] = row t, less column t, of dP (Q K^T) + dA (K K^T), and
 *           g[t] <dO, Q M> - g[t] <dV, K M> - <h, W>
 *
 * and dG[C-1] has the sum of <h, W> and g[C-1] <dM, M> in addition. The gradient of a position's
 * logarithm of the decay is the sum of dG from it on. Inner products are products of tiles in fp32,
 * and all sums are in fp32, in an order that follows from the shapes and the memory of the GPU's
 * blocks. Source: Yang 2024, arXiv:2412.06464, section 3.3; docs/math.md 2.12.
 */
#include "train/cuda/delta_rule.cuh"

enum { BLOCK_OWN = 2 << 10 }; /* bytes of shared memory that kernels declare themselves, at most */

/* What a launch of these kernels is told in addition. */
struct delta_back {
	struct delta_call c;
	struct tensor dq, dk, dv, dbeta, ddecay, dout;
};

/* A block's part of shared memory. */
template <class F> struct room {
	float *rows, *state, *scores;
	float *x, *w, *o, *v; /* [C, E] */
	float *numbers, *dbeta, *ddecay;
	int first; /* column of values */
};

template <class F> struct room_size {
	enum { FLOATS = F::ROWS + F::STATE + F::SQUARE + 4 * F::VALUES + F::FACTORS + 2 * F::C };
};

template <class F>
static __device__ inline struct room<F>
room_of(float *shared) {
	struct room<F> s;

	s.rows = shared;
	s.state = s.rows + F::ROWS;
	s.scores = s.state + F::STATE;
	s.x = s.scores + F::SQUARE;
	s.w = s.x + F::VALUES;
	s.o = s.w + F::VALUES;
	s.v = s.o + F::VALUES;
	s.numbers = s.v + F::VALUES;
	s.dbeta = s.numbers + F::FACTORS;
	s.ddecay = s.dbeta + F::C;
	s.first = 0;
	return s;
}

template <class F>
static __device__ inline struct tile
rows_tile(const struct room<F> &s)
{
	return tile{ s.rows, F::D_STEP };
}

template <class F>
static __device__ inline struct tile
state_tile(const struct room<F> &s)
{
	return tile{ s.state, F::E_STEP };
}

template <class F>
static __device__ inline struct tile
scores_tile(const struct room<F> &s)
{
	return tile{ s.scores, F::C_STEP };
}

template <class F>
static __device__ inline struct tile
values_tile(const float *at)
{
	return tile{ at, F::E_STEP };
}

/* The gradient of the output by sqrt(d). */
template <typename T, class F>
static __device__ inline void
load_dout(const struct delta_back &b, const struct place &p, const struct room<F> &s)
{
	float factor = 1 / sqrtf((float)b.c.d);

#pragma unroll 4
	for (int i = threadIdx.x; i < F::C * F::E; i += F::THREADS)
		s.o[i / F::E * F::E_STEP + i % F::E] =
		    factor * value_at<T>(b.c, p, b.dout, i / F::E, s.first + i % F::E);
}

/* Each row of a tile [C, E] times its factor. */
template <class F, bool NEGATED>
static __device__ inline void
scale_tile(float *to, const float *factor)
{
	for (int i = threadIdx.x; i < F::C * F::E; i += F::THREADS)
		to[i / F::E * F::E_STEP + i % F::E] *=
		    NEGATED ? -factor[i / F::E] : factor[i / F::E];
}

/* --- from chunk to chunk ---------------------------------------------------------------------- */

/* h into h, and P^T dO + h into x; rows, state, scores and o hold K, dM, P and dO. */
template <class F>
static __device__ inline void
put_dw(const struct delta_call &c, const struct room<F> &s, value_sums<F> &h)
{
	value_sums<F> dw;

	clear(h);
	multiply<F::EXACT, false, false>(h, rows_tile(s), state_tile(s), key_terms(c));
	scale_rows<false>(h, factors_at<F>(s.numbers).left);
	dw = h;
	multiply<F::EXACT, true, false>(dw, scores_tile(s), values_tile<F>(s.o), F::C);
	put_tile(s.x, F::E_STEP, dw);
}

/* y = T^T x, where scores holds T. */
template <class F>
static __device__ inline void
solve_transposed(const struct room<F> &s, value_sums<F> &y)
{
	clear(y);
	multiply<F::EXACT, true, false>(y, scores_tile(s), values_tile<F>(s.x), F::C);
}

template <typename T, class F>
static __device__ inline void
pass_back(
    const struct delta_back &b, const struct room<F> &s, const struct place &p, state_sums<F> &dm)
{
	const struct delta_call &c = b.c;
	struct factors f = factors_at<F>(s.numbers);
	const float *record = record_of<F>(c, p);
	value_sums<F> y;

	load_factors<F>(s.numbers, record);
	put_tile(s.state, F::E_STEP, dm);
	store_state<F>(c, c.gradients + p.record * c.d * c.e, c.e, s.first, dm);
	load_scores<F>(s.scores, record, 1);
	load_dout<T, F>(b, p, s);
	__syncthreads();
	load_rows<T, F>(c, p, s.rows, c.r.k, f.k_inverse);
	__syncthreads();
	put_dw<F>(c, s, y);
	__syncthreads();
	load_scores<F>(s.scores, record, 0);
	scale_tile<F, false>(s.o, f.carried);
	__syncthreads();
	solve_transposed<F>(s, y);
	scale_rows<false>(y, f.beta);
	scale_rows<true>(y, f.carried);
	put_tile(s.v, F::E_STEP, y);
	__syncthreads();
	scale(dm, f.carried[F::C - 1]);
	multiply<F::EXACT, true, false>(dm, rows_tile(s), values_tile<F>(s.v), F::C);
	__syncthreads();
	load_rows<T, F>(c, p, s.rows, c.r.q, f.q_inverse);
	__syncthreads();
	multiply<F::EXACT, true, false>(dm, rows_tile(s), values_tile<F>(s.o), F::C);
	__syncthreads();
}

template <typename T, class F>
static __global__ void
__launch_bounds__(F::THREADS, F::BLOCKS) reverse_kernel(struct delta_back b)
{
	extern __shared__ __align__(16) float delta_shared[];
	struct room<F> s = room_of<F>(delta_shared);
	state_sums<F> dm;

	s.first = blockIdx.x * F::E;
	clear(dm);
	for (int chunk = b.c.chunks - 1; chunk >= 0; chunk--)
		pass_back<T, F>(b, s, place_of<F>(b.c, blockIdx.z, chunk, blockIdx.y), dm);
}

/* --- every chunk ------------------------------------------------------------------------------ */

/* What a block of a chunk and key head sums over its heads of values, over the columns of one. */
template <class F> struct gathered {
	key_sums<F> dq, dk;
	score_sums<F> scores, writes; /* dO W^T, dV W^T */
	float tail;                   /* the thread's part of dG[C-1] */
};

/* vector += factor times the sums of the rows of a matrix [C, columns], or of its columns, which
 * are C. Some lanes of a warp share a row. */
template <class F, bool BY_COLUMNS>
static __device__ inline void
add_sums(float *vector, const struct tile &t, int columns, float factor)
{
	enum { LANES = F::THREADS / F::C };
	int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
	float sum = 0;

	for (int i = lane; i < columns; i += LANES)
		sum += BY_COLUMNS ? t.at[i * t.step + row] : t.at[row * t.step + i];
	for (int other = LANES / 2; other > 0; other /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, other);
	if (lane == 0)
		vector[row] += factor * sum;
}

/* M into state, and the thread's part of <dM, M>. */
template <class F>
static __device__ inline float
load_before(const struct delta_call &c, const struct place &p, const struct room<F> &s)
{
	const float *m = c.states + p.record * c.d * c.e, *dm = c.gradients + p.record * c.d * c.e;
	float sum = 0;

	load_state<F>(c, s.state, m, c.e, s.first);
	for (int i = threadIdx.x; i < F::D * F::E; i += F::THREADS) {
		int row = i / F::E, column = s.first + i % F::E;

		if (row < c.d && column < c.e)
			sum += m[(int64_t)row * c.e + column] * dm[(int64_t)row * c.e + column];
	}
	return sum;
}

/* Of the columns from s.first on: dO, dV and W into o, v and w, and M into state. What these give
 * to dbeta and dG; dv is written. */
template <typename T, class F>
static __device__ inline void
solve_columns(
    const struct delta_back &b, const struct place &p, const struct room<F> &s, float *tail)
{
	const struct delta_call &c = b.c;
	const float *record = record_of<F>(c, p);
	struct factors f = factors_at<F>(s.numbers);
	value_sums<F> h, y, kept, w;

	load_scores<F>(s.scores, record, 1);
	load_state<F>(c, s.state, c.gradients + p.record * c.d * c.e, c.e, s.first);
	load_dout<T, F>(b, p, s);
	load_rows<T, F>(c, p, s.rows, c.r.k, f.k_inverse);
	__syncthreads();
	put_dw<F>(c, s, h);
	__syncthreads();
	load_scores<F>(s.scores, record, 0);
	*tail += f.carried[F::C - 1] * load_before<F>(c, p, s);
	__syncthreads();
	solve_transposed<F>(s, y);
	clear(kept);
	multiply<F::EXACT, false, false>(kept, rows_tile(s), state_tile(s), key_terms(c));
	scale_rows<false>(kept, f.carried);
	__syncthreads();
	FOR_SUMS(y, i, row, column)
	{
		float dv = f.beta[row] * y.at[i];

		s.v[row * F::E_STEP + column] = dv;
		s.x[row * F::E_STEP + column] =
		    f.beta[row] * (value_at<T>(c, p, c.r.v, row, s.first + column) - kept.at[i]);
		if (row < p.count && s.first + column < c.e)
			put(row_of<T>(b.dv, row_at(c, p, row)) + (int64_t)p.head * c.e + s.first +
				column,
			    dv);
	}
	load_rows<T, F>(c, p, s.rows, c.r.q, f.q_inverse);
	__syncthreads();
	clear(w);
	multiply<F::EXACT, false, false>(w, scores_tile(s), values_tile<F>(s.x), F::C);
	put_tile(s.w, F::E_STEP, w);
	__syncthreads();
	FOR_SUMS(y, i, row, column)
	{
		s.x[row * F::E_STEP + column] = y.at[i] * w.at[i];
		*tail += h.at[i] * w.at[i];
		y.at[i] = -f.beta[row] * y.at[i] * kept.at[i] - h.at[i] * w.at[i];
	}
	__syncthreads();
	add_sums<F, false>(s.dbeta, values_tile<F>(s.x), F::E, 1);
	clear(kept);
	multiply<F::EXACT, false, false>(kept, rows_tile(s), state_tile(s), key_terms(c));
	__syncthreads();
	FOR_SUMS(y, i, row, column)
	s.x[row * F::E_STEP + column] =
	    y.at[i] + f.carried[row] * kept.at[i] * s.o[row * F::E_STEP + column];
	__syncthreads();
	add_sums<F, false>(s.ddecay, values_tile<F>(s.x), F::E, 1);
}

/* What the columns give to the products with states, and to those with W. */
template <class F>
static __device__ inline void
gather_columns(const struct delta_call &c, const struct place &p, const struct room<F> &s,
    struct gathered<F> *to)
{
	struct factors f = factors_at<F>(s.numbers);

	multiply<F::EXACT, false, true>(to->scores, values_tile<F>(s.o), values_tile<F>(s.w), F::E);
	multiply<F::EXACT, false, true>(to->writes, values_tile<F>(s.v), values_tile<F>(s.w), F::E);
	__syncthreads();
	scale_tile<F, false>(s.o, f.carried);
	scale_tile<F, true>(s.v, f.carried);
	scale_tile<F, false>(s.w, f.left);
	__syncthreads();
	multiply<F::EXACT, false, true>(to->dq, values_tile<F>(s.o), state_tile(s), F::E);
	multiply<F::EXACT, false, true>(to->dk, values_tile<F>(s.v), state_tile(s), F::E);
	__syncthreads();
	load_state<F>(c, s.state, c.gradients + p.record * c.d * c.e, c.e, s.first);
	__syncthreads();
	multiply<F::EXACT, false, true>(to->dk, values_tile<F>(s.w), state_tile(s), F::E);
	__syncthreads();
}

/* dP and dA in place of the sums of a head. */
template <class F>
static __device__ inline void
mask_scores(const struct factors &f, struct gathered<F> *g)
{
	FOR_SUMS(g->scores, i, t, s)
	{
		float between = decay_between(f, t, s);

		g->scores.at[i] *= between;
		g->writes.at[i] *= s < t ? -between : 0;
	}
}

/* What the scores of a head give to dq, dk and dG. */
template <typename T, class F>
static __device__ inline void
gather_scores(const struct delta_call &c, const struct place &p, const struct room<F> &s,
    struct gathered<F> *g)
{
	struct factors f = factors_at<F>(s.numbers);
	const float *queries = record_of<F>(c, p) + F::C * F::C;
	score_sums<F> keys;

	load_rows<T, F>(c, p, s.rows, c.r.k, f.k_inverse);
	__syncthreads();
	clear(keys);
	multiply<F::EXACT, false, true>(keys, rows_tile(s), rows_tile(s), key_terms(c));
	FOR_SUMS(keys, i, t, u)
	s.scores[t * F::C_STEP + u] = g->scores.at[i] * queries[t * F::C + u];
	mask_scores<F>(f, g);
	FOR_SUMS(keys, i, t, u)
	s.scores[t * F::C_STEP + u] += g->writes.at[i] * keys.at[i];
	__syncthreads();
	add_sums<F, false>(s.ddecay, scores_tile(s), F::C, 1);
	__syncthreads();
	add_sums<F, true>(s.ddecay, scores_tile(s), F::C, -1);
	__syncthreads();
	put_tile(s.scores, F::C_STEP, g->writes);
	__syncthreads();
	multiply<F::EXACT, false, false>(g->dk, scores_tile(s), rows_tile(s), F::C);
	multiply<F::EXACT, true, false>(g->dk, scores_tile(s), rows_tile(s), F::C);
	__syncthreads();
	put_tile(s.scores, F::C_STEP, g->scores);
	__syncthreads();
	multiply<F::EXACT, false, false>(g->dq, scores_tile(s), rows_tile(s), F::C);
	__syncthreads();
	load_rows<T, F>(c, p, s.rows, c.r.q, f.q_inverse);
	__syncthreads();
	multiply<F::EXACT, true, false>(g->dk, scores_tile(s), rows_tile(s), F::C);
}

/* From dG to the gradients of the head's factors, and the chunk's sums for its parameters. */
template <typename T, class F>
static __device__ inline void
put_factors(const struct delta_back &b, const struct place &p, const struct room<F> &s, float tail)
{
	const struct delta_call &c = b.c;
	struct factors f = factors_at<F>(s.numbers);
	int t = threadIdx.x;
	float of_log = 0, of_bias = 0;

	tail = block_sum<float, F::THREADS>(tail);
	if (t < p.count) {
		int64_t row = row_at(c, p, t);
		float rate = expf(to_float(((const T *)c.r.decay_log.data)[p.head])),
		      x = to_float(row_of<T>(c.r.decay, row)[p.head]) +
		    to_float(((const T *)c.r.decay_bias.data)[p.head]),
		      sum = tail;

		for (int u = F::C - 1; u >= t; u--)
			sum += s.ddecay[u];
		if ((int)f.begins[t] == t)
			sum = 0;
		of_log = -rate * softplus(x) * sum;
		of_bias = -rate * sum / (1 + expf(-x));
		put(row_of<T>(b.ddecay, row) + p.head, of_bias);
		put(row_of<T>(b.dbeta, row) + p.head, (1 - f.beta[t]) * s.dbeta[t]);
	}
	of_log = block_sum<float, F::THREADS>(of_log);
	of_bias = block_sum<float, F::THREADS>(of_bias);
	if (t == 0) {
		c.sums[p.record] = of_log;
		c.sums[(int64_t)c.samples * c.chunks * c.heads + p.record] = of_bias;
	}
}

/* From the gradient of unit rows to that of those that were divided by their lengths; a warp has a
 * row. */
template <typename T, class F>
static __device__ inline void
put_rows(const struct delta_call &c, const struct place &p, const struct tensor &to,
    const struct tensor &from, const float *inverse, const float *gradient)
{
	int64_t first = (int64_t)p.key * c.d;

	for (int t = threadIdx.x / 32; t < p.count; t += F::THREADS / 32) {
		const T *x = row_of<T>(from, row_at(c, p, t)) + first;
		const float *dx = gradient + t * F::D_STEP;
		float along = 0;

		for (int i = threadIdx.x % 32; i < c.d; i += 32)
			along += to_float(x[i]) * dx[i];
		along = warp_sum(along) * inverse[t];
		for (int i = threadIdx.x % 32; i < c.d; i += 32)
			put(row_of<T>(to, row_at(c, p, t)) + first + i,
			    inverse[t] * (dx[i] - to_float(x[i]) * inverse[t] * along));
	}
}

/* Everything of a head of values. */
template <typename T, class F>
static __device__ inline void
gather_head(
    const struct delta_back &b, const struct place &p, struct room<F> s, struct gathered<F> *g)
{
	clear(g->scores);
	clear(g->writes);
	g->tail = 0;
	__syncthreads();
	load_factors<F>(s.numbers, record_of<F>(b.c, p));
	for (int i = threadIdx.x; i < 2 * F::C; i += F::THREADS)
		s.dbeta[i] = 0;
	__syncthreads();
	for (; s.first < b.c.e; s.first += F::E) {
		solve_columns<T, F>(b, p, s, &g->tail);
		gather_columns<F>(b.c, p, s, g);
	}
	gather_scores<T, F>(b.c, p, s, g);
	put_factors<T, F>(b, p, s, g->tail);
}

template <typename T, class F>
static __global__ void
__launch_bounds__(F::THREADS, 1) gradients_kernel(struct delta_back b)
{
	extern __shared__ __align__(16) float delta_shared[];
	struct room<F> s = room_of<F>(delta_shared);
	struct factors f = factors_at<F>(s.numbers);
	struct gathered<F> g;
	struct place p = {};

	clear(g.dq);
	clear(g.dk);
	for (int i = 0; i < b.c.per_key; i++) {
		p = place_of<F>(b.c, blockIdx.z, blockIdx.x, blockIdx.y * b.c.per_key + i);
		gather_head<T, F>(b, p, s, &g);
	}
	__syncthreads();
	put_tile(s.rows, F::D_STEP, g.dq);
	__syncthreads();
	put_rows<T, F>(b.c, p, b.dq, b.c.r.q, f.q_inverse, s.rows);
	__syncthreads();
	put_tile(s.rows, F::D_STEP, g.dk);
	__syncthreads();
	put_rows<T, F>(b.c, p, b.dk, b.c.r.k, f.k_inverse, s.rows);
}

/* The sums of a head over samples and over chunks from the last on; a thread has a head. */
static __global__ void
__launch_bounds__(CU_THREADS)
    parameters_kernel(struct delta_call c, float *of_log, float *of_bias, bool accumulate)
{
	int head = blockIdx.x * CU_THREADS + threadIdx.x;
	int64_t cells = (int64_t)c.samples * c.chunks * c.heads;
	float log = 0, bias = 0;

	if (head >= c.heads)
		return;
	for (int sample = 0; sample < c.samples; sample++)
		for (int chunk = c.chunks - 1; chunk >= 0; chunk--) {
			const float *at =
			    c.sums + ((int64_t)sample * c.chunks + chunk) * c.heads + head;

			log += at[0];
			bias += at[cells];
		}
	of_log[head] = (accumulate ? of_log[head] : 0) + log;
	of_bias[head] = (accumulate ? of_bias[head] : 0) + bias;
}

/* --- launches --------------------------------------------------------------------------------- */

/* Sums of gradients, of which a multiprocessor holds one block's, have larger blocks. */
template <typename T, class F>
static void
launch(struct stream *st, const struct delta_back *b)
{
	typedef typename F::larger G;
	const size_t floats = room_size<F>::FLOATS, bytes = floats * sizeof(float);
	unsigned across = (unsigned)int64_div_up(b->c.e, F::E), samples = (unsigned)b->c.samples,
		 heads = (unsigned)b->c.heads;
	dim3 columns(across, heads, samples),
	    keys((unsigned)b->c.chunks, heads / (unsigned)b->c.per_key, samples);

	if (!delta_allow(st, (const void *)reverse_kernel<T, F>, floats) ||
	    !delta_allow(st, (const void *)gradients_kernel<T, G>, floats))
		return;
	reverse_kernel<T, F><<<columns, F::THREADS, bytes, cu_handle(st)>>>(*b);
	gradients_kernel<T, G><<<keys, G::THREADS, bytes, cu_handle(st)>>>(*b);
}

template <typename T>
static void
backward(struct stream *st, const struct delta_back *b)
{
	typedef form<64, 32, 128, is_float<T>()> wide;
	bool fits =
	    (int)(room_size<wide>::FLOATS * sizeof(float)) + BLOCK_OWN <= st->device->shared_block;

	if (b->c.d <= 128 && fits)
		launch<T, wide>(st, b);
	else if (b->c.d <= 128)
		launch<T, form<64, 16, 128, is_float<T>()>>(st, b);
	else if (b->c.d <= 256)
		launch<T, form<32, 16, 256, is_float<T>()>>(st, b);
	else
		launch<T, form<16, 16, 512, is_float<T>()>>(st, b);
}

static void
check(const struct delta_rule_grad *g)
{
	const struct delta_rule *r = &g->fwd;

	cu_delta_check(r);
	ops_require(g->chunk > 0 && r->work.data && !r->state.data);
	ops_require(tensor_same_shape(&g->dq, &r->q) && tensor_same_shape(&g->dk, &r->k) &&
	    tensor_same_shape(&g->dv, &r->v) && tensor_same_shape(&g->dout, &r->v));
	ops_require(
	    tensor_same_shape(&g->dbeta, &r->beta) && tensor_same_shape(&g->ddecay, &r->decay));
	ops_require(g->dq.dtype == r->q.dtype && g->dk.dtype == r->q.dtype &&
	    g->dv.dtype == r->q.dtype && g->dout.dtype == r->q.dtype &&
	    g->dbeta.dtype == r->q.dtype && g->ddecay.dtype == r->q.dtype);
	ops_require(g->ddecay_log.dtype == DTYPE_F32 && g->ddecay_bias.dtype == DTYPE_F32);
}

/* A group of samples from `first` on; returns the sample after them. */
static int
backward_group(struct stream *st, const struct delta_rule_grad *g, int first)
{
	struct delta_back b = { cu_delta_call(&g->fwd, true, first), g->dq, g->dk, g->dv, g->dbeta,
		g->ddecay, g->dout };

	b.c.r.out.data = NULL;
	cu_delta_prepare(st, &b.c);
	cu_delta_states(st, &b.c);
	PICK(g->fwd.q.dtype, backward)(st, &b);
	parameters_kernel<<<(unsigned)int64_div_up(b.c.heads, CU_THREADS), CU_THREADS, 0,
	    cu_handle(st)>>>(b.c, (float *)g->ddecay_log.data, (float *)g->ddecay_bias.data,
	    g->accumulate || first > 0);
	return first + b.c.samples;
}

/* Its own chunks take the place of those that the caller asks for. */
void
cuda_delta_rule_grad(struct stream *st, const struct delta_rule_grad *g)
{
	int first = 0;

	check(g);
	while (first < g->fwd.micro_batch && g->fwd.q.shape[0] > 0)
		first = backward_group(st, g, first);
	cu_launched(st, "delta_rule_grad");
}
