/*
 * delta_rule.cu - the forward pass of linear attention by the gated delta rule, in the chunked form
 * of delta_rule.cuh
 *
 * A block has some columns of the state of a head of values, which know of no others, and goes from
 * chunk to chunk. Inner products are products of tiles in fp32. Short passes with a state that is
 * kept, as in the generation of text, go position after position. All sums are in fp32, in an order
 * that follows from the shapes alone.
 */
#include "train/cuda/delta_rule.cuh"

/* The widest key; positions of a pass that are too few for a chunk. */
enum { KEY_MAX = 512, STEPS = 15 };

/* A block's part of shared memory, and the state's columns that its threads hold. */
template <class F> struct columns {
	float *rows, *state, *scores, *x, *w, *numbers;
	state_sums<F> m;
	int first;
};

template <class F>
static __device__ inline struct columns<F>
columns_of(float *shared) {
	struct columns<F> s;

	s.rows = shared;
	s.state = s.rows + F::ROWS;
	s.scores = s.state + F::STATE;
	s.x = s.scores + F::SQUARE;
	s.w = s.x + F::VALUES;
	s.numbers = s.w + F::VALUES;
	s.first = blockIdx.x * F::E;
	return s;
}

/* The state that is kept of a head, or NULL. */
static __device__ inline float *
kept_state(const struct delta_call &c, const struct place &p)
{
	int64_t width = (int64_t)c.per_key * c.e, keys = c.heads / c.per_key;

	return c.r.state.data ? (float *)c.r.state.data + (p.sample * keys + p.key) * c.d * width +
		p.head % c.per_key * c.e
			      : NULL;
}

template <class F>
static __device__ inline void
begin(const struct delta_call &c, struct columns<F> *s, const struct place &p)
{
	const float *from = kept_state(c, p);

	FOR_SUMS(s->m, i, row, column)
	s->m.at[i] = from && row < c.d && s->first + column < c.e
	    ? from[row * (int64_t)c.per_key * c.e + s->first + column]
	    : 0;
}

/* b (V - g K M) into x. */
template <typename T, class F>
static __device__ inline void
put_rest(const struct delta_call &c, struct columns<F> *s, const struct place &p)
{
	struct factors f = factors_at<F>(s->numbers);
	value_sums<F> x;

	clear(x);
	multiply<F::EXACT, false, false>(
	    x, tile{ s->rows, F::D_STEP }, tile{ s->state, F::E_STEP }, key_terms(c));
	FOR_SUMS(x, i, row, column)
	s->x[row * F::E_STEP + column] = f.beta[row] *
	    (value_at<T>(c, p, c.r.v, row, s->first + column) - f.carried[row] * x.at[i]);
}

/* g Q M + P W, for which Q and P are loaded, to out. */
template <typename T, class F>
static __device__ inline void
put_out(const struct delta_call &c, struct columns<F> *s, const struct place &p)
{
	struct factors f = factors_at<F>(s->numbers);
	value_sums<F> out;
	float factor = 1 / sqrtf((float)c.d);

	load_rows<T, F>(c, p, s->rows, c.r.q, f.q_inverse);
	load_scores<F>(s->scores, record_of<F>(c, p), 1);
	__syncthreads();
	clear(out);
	multiply<F::EXACT, false, false>(
	    out, tile{ s->rows, F::D_STEP }, tile{ s->state, F::E_STEP }, key_terms(c));
	scale_rows<false>(out, f.carried);
	multiply<F::EXACT, false, false>(
	    out, tile{ s->scores, F::C_STEP }, tile{ s->w, F::E_STEP }, F::C);
	FOR_SUMS(out, i, row, column)
	if (row < p.count && s->first + column < c.e)
		put(row_of<T>(c.r.out, row_at(c, p, row)) + (int64_t)p.head * c.e + s->first +
			column,
		    factor * out.at[i]);
	__syncthreads();
	load_rows<T, F>(c, p, s->rows, c.r.k, f.k_inverse);
	__syncthreads();
}

/* From the state before a chunk to that after it. Where a document begins with the chunk, what is
 * in the state belongs to another, or is nothing. */
template <typename T, class F>
static __device__ inline void
pass_chunk(const struct delta_call &c, struct columns<F> *s, const struct place &p)
{
	struct factors f = factors_at<F>(s->numbers);
	const float *record = record_of<F>(c, p);
	value_sums<F> w;

	load_factors<F>(s->numbers, record);
	__syncthreads();
	if (f.begins[0] >= 0)
		clear(s->m);
	put_tile(s->state, F::E_STEP, s->m);
	if (c.states)
		store_state<F>(c, c.states + p.record * c.d * c.e, c.e, s->first, s->m);
	load_rows<T, F>(c, p, s->rows, c.r.k, f.k_inverse);
	load_scores<F>(s->scores, record, 0);
	__syncthreads();
	put_rest<T, F>(c, s, p);
	__syncthreads();
	clear(w);
	multiply<F::EXACT, false, false>(
	    w, tile{ s->scores, F::C_STEP }, tile{ s->x, F::E_STEP }, F::C);
	put_tile(s->w, F::E_STEP, w);
	__syncthreads();
	if (c.r.out.data)
		put_out<T, F>(c, s, p);
	scale_rows<false>(w, f.left);
	put_tile(s->x, F::E_STEP, w);
	__syncthreads();
	scale(s->m, f.carried[F::C - 1]);
	multiply<F::EXACT, true, false>(
	    s->m, tile{ s->rows, F::D_STEP }, tile{ s->x, F::E_STEP }, F::C);
	__syncthreads();
}

template <typename T, class F>
static __global__ void
__launch_bounds__(F::THREADS, F::BLOCKS) states_kernel(struct delta_call c)
{
	extern __shared__ __align__(16) float delta_shared[];
	struct columns<F> s = columns_of<F>(delta_shared);
	struct place p = place_of<F>(c, blockIdx.z, 0, blockIdx.y);
	float *kept = kept_state(c, p);

	begin(c, &s, p);
	for (int chunk = 0; chunk < c.chunks; chunk++)
		pass_chunk<T, F>(c, &s, place_of<F>(c, blockIdx.z, chunk, blockIdx.y));
	if (kept)
		store_state<F>(c, kept, (int64_t)c.per_key * c.e, s.first, s.m);
}

template <typename T, class F>
static void
launch_states(struct stream *st, const struct delta_call *c)
{
	const size_t floats = F::ROWS + F::STATE + F::SQUARE + 2 * F::VALUES + F::FACTORS;
	dim3 grid((unsigned)int64_div_up(c->e, F::E), (unsigned)c->heads, (unsigned)c->samples);

	if (delta_allow(st, (const void *)states_kernel<T, F>, floats))
		states_kernel<T, F>
		    <<<grid, F::THREADS, floats * sizeof(float), cu_handle(st)>>>(*c);
}

template <typename T>
static void
states(struct stream *st, const struct delta_call *c)
{
	if (c->d <= 128)
		launch_states<T, form<64, 32, 128, is_float<T>()>>(st, c);
	else if (c->d <= 256)
		launch_states<T, form<32, 16, 256, is_float<T>()>>(st, c);
	else
		launch_states<T, form<16, 16, 512, is_float<T>()>>(st, c);
}

void
cu_delta_states(struct stream *st, const struct delta_call *c)
{
	PICK(c->r.q.dtype, states)(st, c);
}

void
cu_delta_check(const struct delta_rule *r)
{
	int64_t rows = r->q.shape[0], n = r->num_key_heads, m = r->num_value_heads;

	ops_require(r->micro_batch > 0 && rows % r->micro_batch == 0);
	ops_require(n > 0 && m % n == 0 && r->k.shape[1] % n == 0 && r->v.shape[1] % m == 0 &&
	    r->k.shape[1] / n <= KEY_MAX);
	ops_require(tensor_same_shape(&r->q, &r->k) && r->v.shape[0] == rows &&
	    r->q.dtype == r->k.dtype && r->v.dtype == r->k.dtype);
	ops_require(r->beta.shape[0] == rows && r->beta.shape[1] == m &&
	    tensor_same_shape(&r->beta, &r->decay) && r->beta.dtype == r->k.dtype &&
	    r->decay.dtype == r->k.dtype);
	ops_require(r->decay_log.shape[0] == m && r->decay_bias.shape[0] == m &&
	    r->decay_log.dtype == r->k.dtype && r->decay_bias.dtype == r->k.dtype);
	ops_require(!r->first.data || r->first.dtype == DTYPE_I32);
	ops_require(!r->state.data || r->state.dtype == DTYPE_F32);
}

/* Whether the heads of all tensors are whole packs. */
static bool
are_packs(const struct delta_rule *r, const struct delta_call *c)
{
	int n = 16 / (int)dtype_size(r->q.dtype);

	return c->d % n == 0 && cu_packs(&r->q, n) && cu_packs(&r->k, n);
}

struct delta_call
cu_delta_call(const struct delta_rule *r, bool backward, int first)
{
	int64_t n = r->num_key_heads, m = r->num_value_heads;
	struct recurrence_shape s = { r->q.shape[0] / r->micro_batch, m, r->k.shape[1] / n,
		r->v.shape[1] / m };
	struct recurrence_chunks chunks = recurrence_chunks(&s);
	int64_t each = recurrence_work(&s, backward), cells = chunks.count * m,
		room = tensor_elements(&r->work) / int64_max(1, each);
	struct delta_call c = {};

	ops_require(r->work.dtype == DTYPE_F32 && room > 0);
	c.r = *r;
	c.sample = first;
	c.samples = (int)int64_min(room, r->micro_batch - first);
	c.positions = (int)s.positions;
	c.chunks = (int)chunks.count;
	c.heads = (int)m;
	c.per_key = (int)(m / n);
	c.d = (int)s.key_dim;
	c.e = (int)s.value_dim;
	c.packs = are_packs(r, &c);
	c.records = (float *)r->work.data;
	if (!backward)
		return c;
	c.states = c.records + c.samples * cells * chunks.record;
	c.gradients = c.states + c.samples * cells * s.key_dim * s.value_dim;
	c.sums = c.gradients + c.samples * cells * s.key_dim * s.value_dim;
	return c;
}

void
cuda_delta_rule(struct stream *st, const struct delta_rule *r)
{
	int first = 0;

	cu_delta_check(r);
	ops_require(tensor_same_shape(&r->out, &r->v) && r->out.dtype == r->v.dtype);
	if (r->q.shape[0] == 0)
		return;
	if (r->state.data && r->q.shape[0] / r->micro_batch <= STEPS) {
		cu_delta_step(st, r);
		first = r->micro_batch;
	}
	while (first < r->micro_batch) {
		struct delta_call c = cu_delta_call(r, false, first);

		cu_delta_prepare(st, &c);
		cu_delta_states(st, &c);
		first += c.samples;
	}
	cu_launched(st, "delta_rule");
}
