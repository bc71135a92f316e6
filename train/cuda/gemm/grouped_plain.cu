/*
 * grouped_plain.cu - grouped GEMMs of any type and shape, in tiles of 64 x 64 that pass through
 * shared memory as floats
 */
#include "train/cuda/gemm/grouped.cuh"
#include "train/cuda/gemm/grouped.h"

enum { EDGE = 64, DEPTH = 16, EACH = 4, PAD = 4 };

/* A side's elements (line, k) of one step, transposed: lines[k][line], zeros where there are none.
 * Neighbouring threads read neighbours in memory: DENSE along k, or along the lines. */
template <bool DENSE, typename T>
static __device__ inline void
load_side(float (&lines)[DEPTH][EDGE + PAD], const grouped_side<T> &s, int first, int depth)
{
	for (int i = threadIdx.x; i < DEPTH * EDGE; i += CU_THREADS) {
		int line = DENSE ? i / DEPTH : i % EDGE, k = DENSE ? i % DEPTH : i / EDGE;
		int64_t at = DENSE ? line * s.step + first + k : (first + k) * s.step + line;

		lines[k][line] = line < s.size && first + k < depth ? to_float(s.at[at]) : 0;
	}
}

/* sum += a^T b of one step: each thread EACH x EACH elements, EDGE / EACH apart. */
static __device__ inline void
multiply(float (&sum)[EACH][EACH], const float (&a)[DEPTH][EDGE + PAD],
    const float (&b)[DEPTH][EDGE + PAD])
{
	int row = threadIdx.x / (EDGE / EACH), column = threadIdx.x % (EDGE / EACH);

#pragma unroll
	for (int k = 0; k < DEPTH; k++)
#pragma unroll
		for (int i = 0; i < EACH; i++)
#pragma unroll
			for (int j = 0; j < EACH; j++)
				sum[i][j] += a[k][row + i * (EDGE / EACH)] *
				    b[k][column + j * (EDGE / EACH)];
}

template <typename T, typename OUT>
static __device__ inline void
store_tile(const grouped_sides<T, OUT> &s, const float (&sum)[EACH][EACH], float beta)
{
	for (int i = 0; i < EACH; i++)
		for (int j = 0; j < EACH; j++) {
			int row = threadIdx.x / (EDGE / EACH) + i * (EDGE / EACH);
			int column = threadIdx.x % (EDGE / EACH) + j * (EDGE / EACH);
			OUT *c = s.c + row * s.c_step + column;

			if (row < s.a.size && column < s.b.size)
				put(c, sum[i][j] + (beta == 0 ? 0 : beta * to_float(*c)));
		}
}

template <typename T, typename OUT, enum grouped_kind KIND>
static __global__ void
__launch_bounds__(CU_THREADS) grouped_plain_kernel(const struct grouped g)
{
	extern __shared__ int ends[];
	__shared__ float a[DEPTH][EDGE + PAD], b[DEPTH][EDGE + PAD];
	struct grouped_tile tile;
	struct grouped_walk walk;

	grouped_ends(g, ends);
	walk = grouped_start(g, ends, EDGE, EDGE);
	for (int t = blockIdx.x; grouped_find(walk, t, tile); t += gridDim.x) {
		grouped_sides<T, OUT> s = grouped_sides_of<T, OUT, KIND>(g, tile);
		float sum[EACH][EACH] = {};

		for (int first = 0; first < s.depth; first += DEPTH) {
			load_side<KIND != GROUPED_WEIGHT>(a, s.a, first, s.depth);
			load_side<KIND == GROUPED_FORWARD>(b, s.b, first, s.depth);
			__syncthreads();
			multiply(sum, a, b);
			__syncthreads();
		}
		store_tile(s, sum, (float)g.beta);
	}
}

template <typename T>
static void
launch(struct stream *st, const struct grouped *g)
{
	grouped_launch(st, g, GROUPED_PICK(grouped_plain_kernel, T, g), 4);
}

void
grouped_plain(struct stream *st, const struct grouped *g)
{
	PICK(g->a.dtype, launch)(st, g);
}
