/*
 * quantise_rows.cu - 8-bit copies of a round of rows of experts, whose number the device knows
 *
 * Sixteen lanes have 128 neighbours of a row, which is a block where blocks have factors, so one
 * reading gives factor and codes. A grid of a few blocks an SM walks over the rows that there are.
 */
#include "train/cuda/quantise.cuh"

enum { BLOCKS = 8, LANES = SIDE / COLUMNS }; /* blocks an SM; lanes of 128 columns */

/* What is wanted: the largest alone, or copies by one factor, or by one for each 128 neighbours. */
enum { LARGEST, WHOLE, LINES };

/* One call's arguments. */
struct rows_call {
	struct tensor x, q, counts;
	int64_t first;
	const float *factor; /* WHOLE */
	struct tensor scale; /* LINES: written */
	int *amax;           /* as in quantise.cu; or NULL */
};

/* The factor of a line of 128, which all of its lanes find. */
template <int F8>
static __device__ inline float
line_factor(const struct rows_call &c, int64_t row, int64_t line, uint32_t most)
{
	unsigned lanes = ((1u << LANES) - 1) << (threadIdx.x & LANES);
	int e;

	for (int lane = 1; lane < LANES; lane *= 2)
		most = max(most, __shfl_xor_sync(lanes, most, lane));
	e = block_exponent<F8>(most);
	if (threadIdx.x % LANES == 0)
		row_of<float>(c.scale, line)[row] = power(-e);
	return power(e);
}

template <int F8, typename T>
static __device__ inline void
write_codes(uint8_t *to, const pack<T, COLUMNS> &x, float factor)
{
	float v[COLUMNS];

	unpack(v, x);
#pragma unroll
	for (int k = 0; k < COLUMNS; k++)
		v[k] *= factor;
	*(uint2 *)to = make_uint2(
	    float8_four<F8>(v[0], v[1], v[2], v[3]), float8_four<F8>(v[4], v[5], v[6], v[7]));
}

/* The walk is over whole lines, the last of a row with packs outside of it. */
template <typename T, int F8, int KIND>
static __global__ void
__launch_bounds__(CU_THREADS) rows_kernel(struct rows_call c, struct walk w)
{
	uint32_t most = 0;

	w.rows = rows_of_round(c.counts, c.first, w.rows);
	FOR_PACKS(w, row, i)
	{
		bool inside = i * COLUMNS < c.x.shape[1];
		pack<T, COLUMNS> x = inside ? fetch<T, COLUMNS>(row_of<T>(c.x, row) + i * COLUMNS)
					    : pack<T, COLUMNS>();
		uint32_t own = largest_of(x);
		float factor = 1;

		if (KIND == WHOLE)
			factor = *c.factor;
		if (KIND == LINES)
			factor = line_factor<F8>(c, row, i / LANES, own);
		if (KIND != LARGEST && inside)
			write_codes<F8>(row_of<uint8_t>(c.q, row) + i * COLUMNS, x, factor);
		most = max(most, own);
	}
	if (KIND != LINES && c.amax)
		raise_amax(c.amax, block_largest(most));
}

template <typename T, int F8, int KIND>
static void
launch(struct stream *st, const struct rows_call *c)
{
	int64_t packs = int64_div_up(c->x.shape[1], SIDE) * LANES,
		blocks = int64_min(int64_div_up(c->x.shape[0] * packs, CU_THREADS),
		    BLOCKS * (int64_t)st->device->num_sms);
	struct walk w = walk_by(c->x.shape[0], packs, (unsigned)blocks);

	rows_kernel<T, F8, KIND><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*c, w);
}

template <typename T>
static void
largest(struct stream *st, const struct rows_call *c)
{
	launch<T, DTYPE_F8_E4M3, LARGEST>(st, c);
}

template <typename T>
static void
whole(struct stream *st, const struct rows_call *c)
{
	(c->q.dtype == DTYPE_F8_E4M3 ? launch<T, DTYPE_F8_E4M3, WHOLE>
				     : launch<T, DTYPE_F8_E5M2, WHOLE>)(st, c);
}

template <typename T>
static void
lines(struct stream *st, const struct rows_call *c)
{
	(c->q.dtype == DTYPE_F8_E4M3 ? launch<T, DTYPE_F8_E4M3, LINES>
				     : launch<T, DTYPE_F8_E5M2, LINES>)(st, c);
}

/* The factor from the largest of the rows, by way of its place. */
static void
set_current(struct stream *st, const struct quantise *q, struct rows_call c)
{
	c.amax = (int *)((float *)q->scale.data + SCALE_FACTOR);
	cu_current_begin(st, q);
	PICK(q->x.dtype, largest)(st, &c);
	cu_current_end(st, q);
}

/* Columns are multiples of 16, as are addresses and the bytes of a row. */
static void
check_rows(const struct quantise *q)
{
	bool blocks = q->kind == QUANTISE_BLOCK;

	ops_require(!q->qt.data && !q->sums.data && tensor_same_shape(&q->q, &q->x));
	ops_require(q->x.shape[1] % 16 == 0 && cu_packs(&q->x, 16 / (int)dtype_size(q->x.dtype)));
	ops_require(dtype_is_float8(q->q.dtype) && cu_packs(&q->q, 16));
	ops_require(q->counts.dtype == DTYPE_I32 && q->counts.ndim == 2);
	ops_require(blocks ? !q->amax.data && scale_kind(&q->scale, &q->q) == SCALE_LINES
			   : tensor_elements(&q->scale) == SCALE_ROW);
}

void
cu_quantise_rows(struct stream *st, const struct quantise *q)
{
	struct rows_call c = {};

	if (!cu_has_float8(st, "quantise"))
		return;
	check_rows(q);
	c.x = q->x;
	c.q = q->q;
	c.counts = q->counts;
	c.first = q->first;
	c.factor = (const float *)q->scale.data + SCALE_FACTOR;
	c.scale = q->scale;
	if (q->kind == QUANTISE_CURRENT)
		set_current(st, q, c);
	if (q->kind == QUANTISE_DELAYED)
		c.amax = (int *)q->amax.data;
	if (q->kind == QUANTISE_BLOCK)
		PICK(q->x.dtype, lines)(st, &c);
	else
		PICK(q->x.dtype, whole)(st, &c);
}
