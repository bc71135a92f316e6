/*
 * delta_prepare.cu - what the passes of linear attention need of each chunk and head: the scores of
 * its keys and queries, and the factors of its positions (delta_rule.cuh)
 *
 * A block has one chunk of one head of values. All sums are in fp32, in an order that follows from
 * the shapes alone.
 */
#include "train/cuda/delta_rule.cuh"

enum { SLAB = 32, SLAB_STEP = SLAB + 4 }; /* columns of keys and queries at a time */

/* b, G and the first position of the document; padded rows have the last one's. */
template <typename T, class F>
static __device__ inline void
position_factors(const struct delta_call &c, const struct place &p, const struct factors &f)
{
	int t = threadIdx.x;
	float sum = 0;

	if (t < F::C) {
		int64_t row = row_at(c, p, min(t, p.count - 1));
		float bias = to_float(((const T *)c.r.decay_bias.data)[p.head]),
		      rate = expf(to_float(((const T *)c.r.decay_log.data)[p.head])),
		      x = to_float(row_of<T>(c.r.decay, row)[p.head]),
		      b = to_float(row_of<T>(c.r.beta, row)[p.head]);
		int64_t first = c.r.first.data ? ((const int32_t *)c.r.first.data)[row] : 0;

		f.left[t] = t < p.count ? -rate * softplus(x + bias) : 0;
		f.beta[t] = t < p.count ? 1 / (1 + expf(-b)) : 0;
		f.begins[t] = (float)max(first - position_at(c.r.position) - p.first, (int64_t)-1);
	}
	__syncthreads();
	for (int s = 0; t < F::C && s <= t; s++)
		sum += f.left[s];
	if (t < F::C)
		f.sum[t] = sum;
	__syncthreads();
	if (t < F::C) {
		f.carried[t] = f.begins[t] < 0 ? expf(sum) : 0;
		f.left[t] = decay_between(f, F::C - 1, t);
	}
}

/* 1 / |x| of each row; a warp has a row. */
template <typename T, class F>
static __device__ inline void
inverse_lengths(
    const struct delta_call &c, const struct place &p, const struct tensor &x, float *inverse)
{
	for (int t = threadIdx.x / 32; t < F::C; t += F::THREADS / 32) {
		float sum = 0;

		for (int i = threadIdx.x % 32; t < p.count && i < c.d; i += 32) {
			float v = to_float(row_of<T>(x, row_at(c, p, t))[p.key * c.d + i]);

			sum += v * v;
		}
		sum = warp_sum(sum);
		if (threadIdx.x % 32 == 0)
			inverse[t] = t < p.count ? 1 / sqrtf(sum + 1e-6f) : 0;
	}
}

/* Columns [first, first + SLAB) of the rows of a chunk, divided by their lengths. */
template <typename T, class F>
static __device__ inline void
load_slab(const struct delta_call &c, const struct place &p, float *to, const struct tensor &x,
    const float *inverse, int first)
{
	for (int i = threadIdx.x; i < F::C * SLAB; i += F::THREADS) {
		int t = i / SLAB, at = first + i % SLAB;
		bool present = t < p.count && at < c.d;

		to[t * SLAB_STEP + i % SLAB] = present
		    ? to_float(row_of<T>(x, row_at(c, p, t))[p.key * c.d + at]) * inverse[t]
		    : 0;
	}
}

/* inverse [C, C] = (1 + a)^-1 of an a below the diagonal, row after row; some lanes of a warp share
 * a column. */
template <class F>
static __device__ inline void
invert(const float *a, float *inverse)
{
	enum { LANES = F::THREADS / F::C };
	int column = threadIdx.x / LANES, lane = threadIdx.x % LANES;

	for (int t = 0; t < F::C; t++) {
		float sum = 0;

		for (int s = lane; s < t; s += LANES)
			sum += a[t * F::C_STEP + s] * inverse[s * F::C_STEP + column];
		for (int other = LANES / 2; other > 0; other /= 2)
			sum += __shfl_xor_sync(0xffffffffu, sum, other);
		if (lane == 0)
			inverse[t * F::C_STEP + column] = t == column ? 1 : t < column ? 0 : -sum;
		__syncwarp();
	}
}

/* A into a, and P into the record. */
template <class F>
static __device__ inline void
put_scores(float *a, float *record, const struct factors &f, const score_sums<F> &keys,
    const score_sums<F> &queries)
{
	FOR_SUMS(keys, i, t, s)
	{
		float between = decay_between(f, t, s);

		a[t * F::C_STEP + s] = s < t ? f.beta[t] * between * keys.at[i] : 0;
		record[F::C * F::C + t * F::C + s] = between * queries.at[i];
	}
}

template <typename T, class F>
static __global__ void
__launch_bounds__(F::THREADS) prepare_kernel(struct delta_call c)
{
	__shared__ __align__(16) float a[F::SQUARE], room[2 * F::C * SLAB_STEP],
	    numbers[F::FACTORS];
	float *k = room, *q = k + F::C * SLAB_STEP; /* and later T */
	struct place p = place_of<F>(c, blockIdx.z, blockIdx.x, blockIdx.y);
	struct factors f = factors_at<F>(numbers);
	score_sums<F> keys, queries;
	float *record = record_of<F>(c, p);

	static_assert(F::SQUARE <= 2 * F::C * SLAB_STEP, "T is where the slabs were");
	position_factors<T, F>(c, p, f);
	inverse_lengths<T, F>(c, p, c.r.q, f.q_inverse);
	inverse_lengths<T, F>(c, p, c.r.k, f.k_inverse);
	clear(keys);
	clear(queries);
	for (int first = 0; first < c.d; first += SLAB) {
		__syncthreads();
		load_slab<T, F>(c, p, k, c.r.k, f.k_inverse, first);
		load_slab<T, F>(c, p, q, c.r.q, f.q_inverse, first);
		__syncthreads();
		multiply<F::EXACT, false, true>(
		    keys, tile{ k, SLAB_STEP }, tile{ k, SLAB_STEP }, SLAB);
		multiply<F::EXACT, false, true>(
		    queries, tile{ q, SLAB_STEP }, tile{ k, SLAB_STEP }, SLAB);
	}
	put_scores<F>(a, record, f, keys, queries);
	__syncthreads();
	invert<F>(a, room);
	__syncthreads();
	for (int i = threadIdx.x; i < F::C * F::C; i += F::THREADS)
		record[i] = room[i / F::C * F::C_STEP + i % F::C];
	for (int i = threadIdx.x; i < F::FACTORS - F::C; i += F::THREADS)
		record[2 * F::C * F::C + i] = numbers[i];
}

template <typename T>
static void
prepare(struct stream *st, const struct delta_call *c)
{
	dim3 grid((unsigned)c->chunks, (unsigned)c->heads, (unsigned)c->samples);

	if (c->d <= 128)
		prepare_kernel<T, form<64, 32, 128, is_float<T>()>>
		    <<<grid, CU_THREADS, 0, cu_handle(st)>>>(*c);
	else if (c->d <= 256)
		prepare_kernel<T, form<32, 16, 256, is_float<T>()>>
		    <<<grid, CU_THREADS, 0, cu_handle(st)>>>(*c);
	else
		prepare_kernel<T, form<16, 16, 512, is_float<T>()>>
		    <<<grid, CU_THREADS, 0, cu_handle(st)>>>(*c);
}

void
cu_delta_prepare(struct stream *st, const struct delta_call *c)
{
	PICK(c->r.q.dtype, prepare)(st, c);
}
