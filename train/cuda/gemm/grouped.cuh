/*
 * grouped.cuh - what kernels of grouped GEMMs share: where the rows of each expert are, and the
 * tiles of the result that follow from it
 *
 * The numbers of rows are on the device alone, so a grid has the size of the GPU and each block
 * counts for itself: it takes every gridDim.x-th tile of an order that all blocks derive alike.
 * Every element of the result has one owner and one order of its sum.
 */
#ifndef TRAIN_CUDA_GEMM_GROUPED_CUH
#define TRAIN_CUDA_GEMM_GROUPED_CUH

#include "train/cuda/kernel.cuh"

/* Tiles of a band: as many lines of A as stay in the L2 cache while those of B come by. */
enum { GROUPED_BAND = 16 };

/* A part of the result: of expert i, whose rows of the round are [begin, end), the lines from
 * `row` on, counted from begin or from the first of its matrix, and `wide` columns from `column`
 * on. */
struct grouped_tile {
	int expert, begin, end, row, column, wide;
};

/* Where a block is in the order of tiles. */
struct grouped_walk {
	/* in shared memory: where the rows of each expert end; which comes first, or NULL: 0 */
	const int *ends, *order;
	int experts, turn;  /* their number; how many of them come before the next tile's */
	int height, across; /* lines of an expert's matrix; tiles in a line of the result */
	int lines, passed;  /* lines of an expert's result, 0: its rows; tiles before it */
	int down, wide;     /* lines and columns of a tile */
	int band;           /* tiles of one column that are taken before those of the next */
	int whole, parts;   /* tiles before the first that is cut; parts of the others' columns */
};

/* Ends of the experts' rows in the round, from their numbers. All threads of the block call it,
 * and may read `ends` after it. */
static __device__ inline void
grouped_ends(const struct grouped &g, int *ends)
{
	int experts = (int)g.counts.shape[1], cells = (int)g.counts.shape[0] * experts;
	int64_t at = -g.first, rows = g.a.shape[0];

	for (int i = threadIdx.x; i < experts; i += blockDim.x)
		ends[i] = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < cells; i += blockDim.x)
		atomicAdd(
		    ends + i % experts, row_of<const int32_t>(g.counts, i / experts)[i % experts]);
	__syncthreads();
	for (int i = threadIdx.x; threadIdx.x < 32 && i - (int)threadIdx.x < experts; i += 32) {
		int64_t end = at + warp_scan<int64_t>(i < experts ? ends[i] : 0);

		at = __shfl_sync(0xffffffffu, end, 31);
		if (i < experts)
			ends[i] = (int)(end < 0 ? 0 : end < rows ? end : rows);
	}
	__syncthreads();
}

/* The walk over tiles of down x wide. */
static __device__ inline struct grouped_walk
grouped_start(const struct grouped &g, const int *ends, int down, int wide)
{
	bool weight = g.kind == GROUPED_WEIGHT;
	struct grouped_walk w;

	w.ends = ends;
	w.order = NULL;
	w.experts = (int)g.counts.shape[1];
	w.turn = 0;
	w.height = (int)((weight ? g.c : g.b).shape[0] / w.experts);
	w.across = ((int)g.c.shape[1] + wide - 1) / wide;
	w.lines = weight ? w.height : 0;
	w.passed = 0;
	w.down = down;
	w.wide = wide;
	w.band = GROUPED_BAND;
	w.whole = INT_MAX;
	w.parts = 1;
	return w;
}

/* Tiles of a result of so many lines that lie above each other. */
static __device__ inline int
grouped_tall(const struct grouped_walk &w, int expert)
{
	int begin = expert ? w.ends[expert - 1] : 0;

	return ((w.lines ? w.lines : w.ends[expert] - begin) + w.down - 1) / w.down;
}

/* Cuts the tiles of the last round of all blocks, if those are few, so that more blocks share it.
 * All threads of a warp call it. */
static __device__ inline void
grouped_cut(struct grouped_walk &w)
{
	int tiles = 0, blocks = (int)gridDim.x;

	for (int i = threadIdx.x % 32; i < w.experts; i += 32)
		tiles += grouped_tall(w, i) * w.across;
	tiles = warp_sum(tiles);
	w.whole = tiles / blocks * blocks;
	w.parts = 4 * (tiles - w.whole) <= blocks ? 4 : 2 * (tiles - w.whole) <= blocks ? 2 : 1;
}

/* Tile number t, or a part of one, which is not before the last one asked for; false: there are no
 * more. */
static __device__ inline bool
grouped_find(struct grouped_walk &w, int t, struct grouped_tile &tile)
{
	int part = t < w.whole ? 0 : (t - w.whole) % w.parts;

	t = t < w.whole ? t : w.whole + (t - w.whole) / w.parts;
	for (; w.turn < w.experts; w.turn++) {
		int expert = w.order ? w.order[w.turn] : w.turn, tall = grouped_tall(w, expert);
		int i = t - w.passed, set = w.band * w.across, first = i / set * w.band;
		int high = min(w.band, tall - first);

		if (i < tall * w.across) {
			tile.expert = expert;
			tile.begin = expert ? w.ends[expert - 1] : 0;
			tile.end = w.ends[expert];
			tile.wide = w.wide / (t < w.whole ? 1 : w.parts);
			tile.row = (first + i % set % high) * w.down;
			tile.column = i % set / high * w.wide + part * tile.wide;
			return true;
		}
		w.passed += tall * w.across;
	}
	return false;
}

/* An operand of a tile: `size` lines or columns of it, from an address on whose rows are `step`
 * elements apart. */
template <typename T> struct grouped_side {
	T *at;
	int64_t step;
	int size;
};

/* All that a tile is made of; depth: of its sums. */
template <typename T, typename OUT> struct grouped_sides {
	grouped_side<const T> a, b;
	OUT *c;
	int64_t c_step;
	int depth;
};

/* a is dense along the sum but for gradients of weights, b in the forward pass. */
template <typename T, typename OUT, enum grouped_kind KIND>
static __device__ inline struct grouped_sides<T, OUT>
grouped_sides_of(const struct grouped &g, const struct grouped_tile &t)
{
	bool weight = KIND == GROUPED_WEIGHT;
	const struct tensor &stack = weight ? g.c : g.b;
	int64_t height = stack.shape[0] / g.counts.shape[1], above = t.expert * height;
	int64_t rows = t.begin + t.row;
	struct grouped_sides<T, OUT> s;

	s.a.at = weight ? row_of<const T>(g.a, t.begin) + t.row : row_of<const T>(g.a, rows);
	s.a.step = g.a.stride[0];
	s.a.size = weight ? (int)height - t.row : t.end - t.begin - t.row;
	s.b.at = KIND == GROUPED_FORWARD
	    ? row_of<const T>(g.b, above + t.column)
	    : row_of<const T>(g.b, weight ? t.begin : above) + t.column;
	s.b.step = g.b.stride[0];
	s.b.size = (int)g.c.shape[1] - t.column;
	s.c = row_of<OUT>(g.c, weight ? above + t.row : rows) + t.column;
	s.c_step = g.c.stride[0];
	s.depth = weight ? t.end - t.begin : (int)g.a.shape[1];
	return s;
}

/* Of a kernel template <operands, result, kind> the one for the call, whose operands are T. */
#define GROUPED_PICK(kernel, T, g) \
	((g)->kind == GROUPED_FORWARD        ? kernel<T, T, GROUPED_FORWARD> \
		: (g)->kind == GROUPED_INPUT ? kernel<T, T, GROUPED_INPUT> \
		: (g)->c.dtype == DTYPE_F32  ? kernel<T, float, GROUPED_WEIGHT> \
					     : kernel<T, T, GROUPED_WEIGHT>)

/* Launches it with so many blocks on a multiprocessor. */
static inline void
grouped_launch(
    struct stream *st, const struct grouped *g, void (*kernel)(const struct grouped), int blocks)
{
	kernel<<<(unsigned)(blocks * st->device->num_sms), CU_THREADS,
	    (size_t)g->counts.shape[1] * sizeof(int), cu_handle(st)>>>(*g);
}

#endif
