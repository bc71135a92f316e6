/*
 * quantise.cuh - tiles of 8-bit copies: how a block of CU_THREADS threads turns SIDE x SIDE
 * elements into codes, by rows and by columns
 *
 * A thread has 4 rows and 8 columns of the tile, twice. Its codes of four rows are transposed
 * within registers to a word a column, the words cross shared memory, where no two lanes meet in a
 * bank, and go out 16 rows at once: lines of 128 bytes are written whole, both ways.
 */
#ifndef TRAIN_CUDA_QUANTISE_CUH
#define TRAIN_CUDA_QUANTISE_CUH

#include "train/cuda/float8.cuh"

enum {
	SIDE = 128, /* of a tile */
	ROWS = 4,
	COLUMNS = 8, /* of a thread's part of half a tile */
	HALVES = 2,
	GROUPS = SIDE / COLUMNS, /* of columns; neighbouring lanes */
	QUADS = SIDE / ROWS,
};
static_assert(CU_THREADS * ROWS * COLUMNS * HALVES == SIDE * SIDE, "parts make a tile");

/* A grid of so many blocks for each tile, which follow each other; then the next to the right. */
static inline dim3
tiles_of(unsigned blocks, int64_t rows, int64_t columns)
{
	return dim3(
	    blocks, (unsigned)int64_div_up(columns, SIDE), (unsigned)int64_div_up(rows, SIDE));
}

/* A thread's part of the tile: the columns of its group, and of either half of the rows a quad. */
struct place {
	int64_t row, column; /* of x: of the first half; the second is SIDE / 2 further down */
	int group, quad;
};

static __device__ inline struct place
place_of(void)
{
	struct place p;

	p.group = threadIdx.x % GROUPS;
	p.quad = threadIdx.x / GROUPS;
	p.row = blockIdx.z * (int64_t)SIDE + p.quad * ROWS;
	p.column = blockIdx.y * (int64_t)SIDE + p.group * COLUMNS;
	return p;
}

/* --- largest numbers -------------------------------------------------------------------------- */

/* The bits of |x|: of finite numbers in their order, then infinity, then NaN. */
template <typename T>
static __device__ inline uint32_t
magnitude(T x)
{
	return __float_as_uint(to_float(x)) & 0x7fffffffu;
}

template <typename T, int N>
static __device__ inline uint32_t
largest_of(const pack<T, N> &x)
{
	uint32_t most = 0;

#pragma unroll
	for (int k = 0; k < N; k++)
		most = max(most, magnitude(x.at[k]));
	return most;
}

/* Magnitudes as they are stored, two to a word where they have 16 bits: numbers in their order,
 * then infinity, then NaN. */
template <typename T> struct magnitudes {
	enum { WORDS = COLUMNS * sizeof(T) / 4 };
	uint32_t at[WORDS];
};

/* The larger of one number, or of two each. */
template <typename T>
static __device__ inline uint32_t
larger(uint32_t a, uint32_t b)
{
	return sizeof(T) == 2 ? __vmaxu2(a, b) : max(a, b);
}

template <typename T>
static __device__ inline struct magnitudes<T>
magnitudes_of(const pack<T, COLUMNS> &x) {
	struct magnitudes<T> m;

#pragma unroll
	for (int i = 0; i < magnitudes<T>::WORDS; i++)
		m.at[i] =
		    ((const uint32_t *)x.at)[i] & (sizeof(T) == 2 ? 0x7fff7fffu : 0x7fffffffu);
	return m;
}

/* The largest of all, in the lower half where it has 16 bits. */
template <typename T>
static __device__ inline uint32_t
largest_stored(const struct magnitudes<T> &m)
{
	uint32_t most = m.at[0];

#pragma unroll
	for (int i = 1; i < magnitudes<T>::WORDS; i++)
		most = larger<T>(most, m.at[i]);
	return sizeof(T) == 2 ? max(most >> 16, most & 0xffffu) : most;
}

/* The bits of the same number as a float. */
template <typename T>
static __device__ inline uint32_t
as_float_bits(uint32_t stored)
{
	T x;

	memcpy(&x, &stored, sizeof x);
	return __float_as_uint(to_float(x));
}

/* Over the lanes that differ in the bits from first to last, of stored magnitudes. */
template <typename T>
static __device__ inline uint32_t
lanes_largest(uint32_t most, int first, int last)
{
	for (int lane = first; lane <= last; lane *= 2)
		most = larger<T>(most, __shfl_xor_sync(0xffffffffu, most, lane));
	return most;
}

/* Over the block, in all threads; a NaN counts as infinity. */
static __device__ inline float
block_largest(uint32_t most)
{
	return block_max(__uint_as_float(min(most, 0x7f800000u)));
}

/* The larger of *amax and most. Many blocks have nothing to say, and only look. */
static __device__ inline void
raise_amax(int *amax, float most)
{
	int bits = __float_as_int(most);

	if (threadIdx.x == 0 && bits > *(volatile int *)amax)
		atomicMax(amax, bits);
}

/* --- factors of lines ------------------------------------------------------------------------- */

/* The exponent of the largest power of two that keeps a block within its type, from the bits of its
 * largest number: floor(log2(448 or 57344 / largest)), the quotient of numbers that have their
 * exponents above their fractions. 0 where there is no number to keep, or none that is finite. */
template <int F8>
static __device__ inline int
block_exponent(uint32_t largest)
{
	int most = F8 == DTYPE_F8_E4M3 ? 0x43e00000 : 0x47600000;

	return largest == 0 || largest >= 0x7f800000u ? 0 : min((most - (int)largest) >> 23, 126);
}

static __device__ inline float
power(int exponent)
{
	return __int_as_float((127 + exponent) << 23);
}

/* The magnitudes of two rows' blocks, each of the lanes that hold it; two of 16 bits go together.
 */
template <typename T>
static __device__ inline uint2
rows_largest(const pack<T, COLUMNS> &x, const pack<T, COLUMNS> &y)
{
	uint32_t a = largest_stored(magnitudes_of(x)), b = largest_stored(magnitudes_of(y));

	if (sizeof(T) != 2)
		return make_uint2(
		    lanes_largest<T>(a, 1, GROUPS / 2), lanes_largest<T>(b, 1, GROUPS / 2));
	a = lanes_largest<T>(a | b << 16, 1, GROUPS / 2);
	return make_uint2(a & 0xffffu, a >> 16);
}

/* A factor for each of four rows, whose scales begin at `to` and are written where there are rows.
 */
template <typename T, int F8>
static __device__ inline void
row_factors(float (&by_row)[ROWS], const pack<T, COLUMNS> (&x)[ROWS], float *to, bool inside)
{
#pragma unroll
	for (int i = 0; i < ROWS; i += 2) {
		uint2 largest = rows_largest(x[i], x[i + 1]);
		int e = block_exponent<F8>(as_float_bits<T>(largest.x)),
		    f = block_exponent<F8>(as_float_bits<T>(largest.y));

		by_row[i] = power(e);
		by_row[i + 1] = power(f);
		if (threadIdx.x % GROUPS == 0 && inside)
			*(float2 *)(to + i) = make_float2(power(-e), power(-f));
	}
}

/* The larger of each. */
template <typename T>
static __device__ inline void
join(struct magnitudes<T> *a, const struct magnitudes<T> &b)
{
#pragma unroll
	for (int w = 0; w < magnitudes<T>::WORDS; w++)
		a->at[w] = larger<T>(a->at[w], b.at[w]);
}

/* The magnitudes of a tile's columns by warps, and their factors. */
template <typename T> struct column_room {
	uint32_t most[CU_THREADS / 32][GROUPS * magnitudes<T>::WORDS];
	float factor[SIDE];
};

/* A factor for each column, from what the threads have of it; the scales, of so many columns from
 * the tile's first on, are written to `to`. */
template <typename T, int F8>
static __device__ inline void
column_factors(
    struct column_room<T> *room, const struct magnitudes<T> &mine, float *to, int64_t columns)
{
	enum { WARPS = CU_THREADS / 32, WORDS = magnitudes<T>::WORDS, IN_WORD = 4 / sizeof(T) };
	int column = threadIdx.x;

#pragma unroll
	for (int w = 0; w < WORDS; w++) {
		uint32_t largest = lanes_largest<T>(mine.at[w], GROUPS, GROUPS);

		if (threadIdx.x % 32 < GROUPS)
			room->most[threadIdx.x / 32][threadIdx.x % GROUPS * WORDS + w] = largest;
	}
	__syncthreads();
	if (column < SIDE) {
		uint32_t largest = 0;
		int e;

		for (int i = 0; i < WARPS; i++)
			largest = larger<T>(largest, room->most[i][column / IN_WORD]);
		e = block_exponent<F8>(as_float_bits<T>(largest >> column % IN_WORD * 16));
		room->factor[column] = power(e);
		if (column < columns)
			to[column] = power(-e);
	}
	__syncthreads();
}

/* Those of the thread's own columns. */
template <typename T>
static __device__ inline void
take_factors(float (&by_column)[COLUMNS], const struct column_room<T> &room)
{
#pragma unroll
	for (int k = 0; k < COLUMNS; k++)
		by_column[k] = room.factor[threadIdx.x % GROUPS * COLUMNS + k];
}

/* --- codes ------------------------------------------------------------------------------------ */

/* The codes of four rows and eight columns. */
struct codes {
	uint32_t row[ROWS][COLUMNS / 4];
};

template <typename T, int F8>
static __device__ inline struct codes
encode(const pack<T, COLUMNS> (&x)[ROWS], const float (&by_row)[ROWS],
    const float (&by_column)[COLUMNS])
{
	struct codes out;

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		float v[COLUMNS];

		unpack(v, x[i]);
#pragma unroll
		for (int k = 0; k < COLUMNS; k++)
			v[k] *= by_row[i] * by_column[k];
#pragma unroll
		for (int k = 0; k < COLUMNS; k += 4)
			out.row[i][k / 4] = float8_four<F8>(v[k], v[k + 1], v[k + 2], v[k + 3]);
	}
	return out;
}

/* The shared tile of codes; each row is a column of x. Words of four rows are moved about within it
 * so that lanes of neighbouring groups, which write the same quad of columns eight apart, meet in
 * no bank; of an even number of words, so that runs of four stay together. */
struct alignas(16) transposed {
	uint32_t at[SIDE][QUADS];
};

static __device__ inline int
shift_of(int column)
{
	return 2 * (column / COLUMNS);
}

/* Puts the codes of a quad of rows there, bytes transposed, 4 x 4 at a time by permutes. */
static __device__ inline void
transpose(struct transposed *t, const struct codes &c, int quad, int group)
{
#pragma unroll
	for (int k = 0; k < COLUMNS / 4; k++) {
		uint32_t low01 = __byte_perm(c.row[0][k], c.row[1][k], 0x5140),
			 low23 = __byte_perm(c.row[2][k], c.row[3][k], 0x5140),
			 high01 = __byte_perm(c.row[0][k], c.row[1][k], 0x7362),
			 high23 = __byte_perm(c.row[2][k], c.row[3][k], 0x7362);
		int column = group * COLUMNS + 4 * k, at = quad ^ shift_of(column);

		t->at[column][at] = __byte_perm(low01, low23, 0x5410);
		t->at[column + 1][at] = __byte_perm(low01, low23, 0x7632);
		t->at[column + 2][at] = __byte_perm(high01, high23, 0x5410);
		t->at[column + 3][at] = __byte_perm(high01, high23, 0x7632);
	}
}

/* The tile's transpose goes out, 16 bytes a thread: as the rows from first on of qt, of which there
 * are so many. */
static __device__ inline void
write_transposed(const struct tensor &qt, const struct transposed *t, int64_t first, int64_t rows)
{
	enum { RUNS = SIDE / 16, PER_TURN = CU_THREADS / RUNS };
	int run = threadIdx.x % RUNS;
	int64_t at = blockIdx.z * (int64_t)SIDE + 16 * run;

#pragma unroll
	for (int i = 0; i < SIDE / PER_TURN; i++) {
		int mine = threadIdx.x / RUNS + i * PER_TURN, shift = shift_of(mine);
		int64_t row = blockIdx.y * (int64_t)SIDE + mine;
		uint4 v = *(const uint4 *)&t->at[mine][4 * (run ^ shift / 4)];

		if (shift & 2)
			v = make_uint4(v.z, v.w, v.x, v.y);
		if (at < qt.shape[1] && row < rows)
			*(uint4 *)(row_of<uint8_t>(qt, first + row) + at) = v;
	}
}

/* The rows of a quad go out as they are, from this row and column on. */
static __device__ inline void
write_rows(const struct tensor &q, const struct codes &v, int64_t row, int64_t column)
{
#pragma unroll
	for (int i = 0; i < ROWS; i++)
		*(uint2 *)(row_of<uint8_t>(q, row + i) + column) =
		    make_uint2(v.row[i][0], v.row[i][1]);
}

#endif
