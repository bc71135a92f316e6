/*
 * delta_step.cu - the gated delta rule position after position, for passes of few positions with
 * states that are kept
 *
 * A block has 32 columns of the state of a head of values, a lane each, and every eighth row
 * belongs to a warp. It reads the state twice a position: for what k and q find in it, and to
 * change it. With M before the position, a the decay and w = b (v - a M^T k), the output is
 * (a M^T q + (q.k) w) / sqrt(d).
 */
#include "train/cuda/delta_rule.cuh"

enum { LANES = 32, WARPS = CU_THREADS / LANES, KEY_MAX = 512 };

/* Of a position: k and q as they are stored, and what makes them of length 1. */
struct step_position {
	float *q, *k;
	float q_inverse, k_inverse, across; /* across: q.k of length 1 */
	float beta, decay;
	bool begins;
};

template <typename T>
static __device__ inline void
load_position(const struct delta_call &c, struct step_position *p, int64_t row, int head, int at)
{
	float q = 0, k = 0, across = 0,
	      rate = expf(to_float(((const T *)c.r.decay_log.data)[head])),
	      x = to_float(row_of<T>(c.r.decay, row)[head]) +
	    to_float(((const T *)c.r.decay_bias.data)[head]);
	int64_t column = (int64_t)(head / c.per_key) * c.d,
		first = c.r.first.data ? ((const int32_t *)c.r.first.data)[row] : 0;

	__syncthreads();
	for (int i = threadIdx.x; i < c.d; i += CU_THREADS) {
		p->q[i] = to_float(row_of<T>(c.r.q, row)[column + i]);
		p->k[i] = to_float(row_of<T>(c.r.k, row)[column + i]);
		q += p->q[i] * p->q[i];
		k += p->k[i] * p->k[i];
		across += p->q[i] * p->k[i];
	}
	p->q_inverse = 1 / sqrtf(block_sum(q) + 1e-6f);
	p->k_inverse = 1 / sqrtf(block_sum(k) + 1e-6f);
	p->across = block_sum(across) * p->q_inverse * p->k_inverse;
	p->beta = 1 / (1 + expf(-to_float(row_of<T>(c.r.beta, row)[head])));
	p->decay = expf(-rate * softplus(x));
	p->begins = first == at + position_at(c.r.position);
}

/* The sum of x over the warps, for each lane. */
static __device__ inline float
sum_over_warps(float x)
{
	__shared__ float part[WARPS][LANES];
	float sum = 0;

	__syncthreads();
	part[threadIdx.x / LANES][threadIdx.x % LANES] = x;
	__syncthreads();
	for (int i = 0; i < WARPS; i++)
		sum += part[i][threadIdx.x % LANES];
	return sum;
}

/* The thread's rows of its column, from `state` on, which change; returns the output. */
static __device__ inline float
step(const struct delta_call &c, const struct step_position &p, float *state, float v, bool present)
{
	int64_t width = (int64_t)c.per_key * c.e;
	float found = 0, read = 0, w;

	for (int i = threadIdx.x / LANES; present && !p.begins && i < c.d; i += WARPS) {
		float m = state[i * width];

		found += m * p.k[i];
		read += m * p.q[i];
	}
	found = sum_over_warps(found) * p.k_inverse * p.decay;
	read = sum_over_warps(read) * p.q_inverse * p.decay;
	w = p.beta * (v - found);
	for (int i = threadIdx.x / LANES; present && i < c.d; i += WARPS)
		state[i * width] =
		    (p.begins ? 0 : p.decay * state[i * width]) + p.k[i] * p.k_inverse * w;
	return (read + p.across * w) / sqrtf((float)c.d);
}

template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) step_kernel(struct delta_call c)
{
	__shared__ float q[KEY_MAX], k[KEY_MAX];
	struct step_position p = { q, k };
	int column = blockIdx.x * LANES + threadIdx.x % LANES, head = blockIdx.y,
	    sample = blockIdx.z;
	bool present = column < c.e;
	float *state = (float *)c.r.state.data +
	    ((int64_t)sample * (c.heads / c.per_key) + head / c.per_key) * c.d * c.per_key * c.e +
	    head % c.per_key * c.e + column;

	for (int at = 0; at < c.positions; at++) {
		int64_t row = (int64_t)at * c.r.micro_batch + sample,
			place = (int64_t)head * c.e + column;
		float v = present ? to_float(row_of<T>(c.r.v, row)[place]) : 0, out;

		load_position<T>(c, &p, row, head, at);
		out = step(c, p, state, v, present);
		if (present && threadIdx.x < LANES)
			put(row_of<T>(c.r.out, row) + place, out);
	}
}

template <typename T>
static void
launch(struct stream *st, const struct delta_call *c)
{
	dim3 grid(
	    (unsigned)int64_div_up(c->e, LANES), (unsigned)c->heads, (unsigned)c->r.micro_batch);

	step_kernel<T><<<grid, CU_THREADS, 0, cu_handle(st)>>>(*c);
}

void
cu_delta_step(struct stream *st, const struct delta_rule *r)
{
	struct delta_call c = {};

	c.r = *r;
	c.positions = (int)(r->q.shape[0] / r->micro_batch);
	c.heads = r->num_value_heads;
	c.per_key = r->num_value_heads / r->num_key_heads;
	c.d = (int)(r->k.shape[1] / r->num_key_heads);
	c.e = (int)(r->v.shape[1] / r->num_value_heads);
	PICK(r->q.dtype, launch)(st, &c);
}
