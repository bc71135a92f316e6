/*
 * mma.cuh - tensor cores and asynchronous copies of compute capability 8.0 and later, and the tiles
 * of rows in shared memory that feed them
 *
 * One instruction of a warp multiplies 16 by 8 by 16: c[16, 8] += a[16, 16] b[16, 8]. With group =
 * lane / 4 and pair = lane % 4, a lane holds of c the columns 2 pair, 2 pair + 1 of the rows group
 * and group + 8; of a the same columns, and those 8 further, of the same rows; of b the rows 2
 * pair, 2 pair + 1 and those 8 further of column group. So the c of one instruction, rounded, is
 * the a of the next. Source: PTX ISA 8, "mma.m16n8k16", "ldmatrix".
 */
#ifndef TRAIN_CUDA_MMA_CUH
#define TRAIN_CUDA_MMA_CUH

#include "train/cuda/async.cuh"

/* Four 8 by 8 matrices of 16-bit elements; lane 8 i + j gives the address of row j of matrix i. */
static __device__ inline void
load_matrices(uint32_t (&r)[4], uint32_t at)
{
	SM80("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
	     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
	     : "r"(at)
	     : "memory");
}

/* The same, each matrix transposed. */
static __device__ inline void
load_matrices_transposed(uint32_t (&r)[4], uint32_t at)
{
	SM80("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
	     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
	     : "r"(at)
	     : "memory");
}

/* c += a b, sums in float. The type that is not used only picks the instruction. */
static __device__ inline void
mma(bf16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
	SM80("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
	     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The other 16-bit type. */
static __device__ inline void
mma(half, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
	SM80("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
	     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 2^x by the special function unit, two units in the last place; 0 for -inf. */
static __device__ inline float
fast_exp2(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* Two floats as 16-bit neighbours, x first. */
static __device__ inline uint32_t
pack_halves(bf16, float x, float y)
{
	__nv_bfloat162 p = __floats2bfloat162_rn(x, y);
	uint32_t bits;

	memcpy(&bits, &p, sizeof bits);
	return bits;
}

/* The other 16-bit type. */
static __device__ inline uint32_t
pack_halves(half, float x, float y)
{
	__half2 p = __floats2half2_rn(x, y);
	uint32_t bits;

	memcpy(&bits, &p, sizeof bits);
	return bits;
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Bytes from row to row of a tile of D 16-bit columns: an odd multiple of 16, so that the 8 rows of
 * a matrix lie in different banks. */
template <int D>
static __host__ __device__ constexpr int
tile_step(void)
{
	return 2 * D + 16;
}

/* Starts to copy a tile of ROWS rows from `from` on, `step` elements apart; rows from `rows` on and
 * columns from d on become zeros. All threads of the block call it. A thread copies one column of
 * 16 bytes, so it advances one address; where their number is not a power of two some threads have
 * none. */
template <typename T, int D, int ROWS, int THREADS>
static __device__ inline void
copy_tile(uint32_t to, const T *from, int64_t step, int rows, int d)
{
	constexpr int PARTS = D > 128 ? 32 : D > 64 ? 16 : 8, STRIDE = THREADS / PARTS;
	int part = threadIdx.x % PARTS, row = threadIdx.x / PARTS;
	const T *p = from + row * step + 8 * part;

	static_assert(ROWS % STRIDE == 0, "every thread copies equally many rows");
	if (8 * part >= D)
		return;
	to += row * tile_step<D>() + 16 * part;
#pragma unroll
	for (int i = 0; i < ROWS; i += STRIDE) {
		bool present = row + i < rows && 8 * part < d;

		copy_16(to + i * tile_step<D>(), present ? p : from, present);
		p += STRIDE * step;
	}
}

/* The operand a of 16 rows by 16 columns at (row, column) of a tile. */
template <int D>
static __device__ inline void
load_a(uint32_t (&r)[4], uint32_t tile, int row, int column)
{
	int lane = threadIdx.x % 32;

	tile += lane % 16 * tile_step<D>() + lane / 16 * 16;
	load_matrices(r, tile + row * tile_step<D>() + 2 * column);
}

/* The operand a whose 16 rows are the tile's columns from `column` on, and whose 16 columns are its
 * rows. */
template <int D>
static __device__ inline void
load_a_by_columns(uint32_t (&r)[4], uint32_t tile, int row, int column)
{
	int lane = threadIdx.x % 32;

	tile += (lane / 16 * 8 + lane % 8) * tile_step<D>() + lane / 8 % 2 * 16;
	load_matrices_transposed(r, tile + row * tile_step<D>() + 2 * column);
}

/* The operands b of two instructions whose 16 columns are rows of the tile from `row` on, and whose
 * 16 rows are its columns: r[0], r[1] for the first 8. */
template <int D>
static __device__ inline void
load_b_by_rows(uint32_t (&r)[4], uint32_t tile, int row, int column)
{
	int lane = threadIdx.x % 32;

	tile += (lane / 16 * 8 + lane % 8) * tile_step<D>() + lane / 8 % 2 * 16;
	load_matrices(r, tile + row * tile_step<D>() + 2 * column);
}

/* The operands b of two instructions whose 16 rows are rows of the tile and whose 16 columns are
 * its columns from `column` on. */
template <int D>
static __device__ inline void
load_b(uint32_t (&r)[4], uint32_t tile, int row, int column)
{
	int lane = threadIdx.x % 32;

	tile += lane % 16 * tile_step<D>() + lane / 16 * 16;
	load_matrices_transposed(r, tile + row * tile_step<D>() + 2 * column);
}

/* Sums over the 4 lanes that share a row of c. */
static __device__ inline float
row_sum(float x)
{
	x += __shfl_xor_sync(0xffffffffu, x, 1);
	return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* The largest value of the 4 lanes. */
static __device__ inline float
row_max(float x)
{
	x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
	return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

#endif
