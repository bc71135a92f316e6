/*
 * hopper.cuh - what compute capability 9.0 has of its own: barriers in shared memory that count
 * bytes, copies of boxes of a matrix, and wgmma of a warpgroup, 4 warps, out of shared memory
 *
 * A box is 64 columns of 16-bit elements wide, 128 bytes a line, whose 16-byte pieces are permuted
 * within 8 lines so that columns too can be read without conflicts (swizzle of 128 bytes); it
 * begins on 1024 bytes. An operand of wgmma whose sums run along the lines ("dense") is one box of
 * as many lines as it has rows; one whose sums run down the columns is boxes of 64 lines, each for
 * 64 of its rows. Source: PTX ISA 8, "mbarrier", "cp.async.bulk.tensor", "wgmma".
 *
 * The instructions exist in code for sm_90a alone; elsewhere the host launches no kernel that comes
 * to them.
 */
#ifndef TRAIN_CUDA_HOPPER_CUH
#define TRAIN_CUDA_HOPPER_CUH

#include "train/cuda/async.cuh"
#include "train/cuda/box.h"

#include <cuda.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SM90A(...) asm volatile(__VA_ARGS__)
enum { SM90A_CODE = 1 };
#else
#define SM90A(...) __trap()
enum { SM90A_CODE = 0 };
#endif

enum { GROUP = 128 }; /* threads of a warpgroup */

/* The number of this thread's warpgroup among those that multiply; the first of a block copies. */
static __device__ inline int
own_group(void)
{
	return threadIdx.x / GROUP - 1;
}

/* Whether this is the thread of its warp that copies, always the same. All threads of the warp call
 * it. The compiler takes a lane chosen by elect for the only one; by another test it puts a loop
 * over lanes around each copy, and issuing copies then took half the time of a step. */
static __device__ inline bool
is_elected(void)
{
	uint32_t chosen = 0;

	SM90A("{\n"
	      ".reg .pred p;\n"
	      "elect.sync _|p, 0xffffffff;\n"
	      "selp.u32 %0, 1, 0, p;\n"
	      "}\n"
	      : "=r"(chosen));
	return chosen;
}

/* Whether it is the one of its warpgroup. */
static __device__ inline bool
is_copier(void)
{
	return threadIdx.x % GROUP < 32 && is_elected();
}

/* --- barriers --------------------------------------------------------------------------------- */

/* A barrier that is passed by so many arrivals; others see it after barriers_made and a barrier of
 * the block. */
static __device__ inline void
barrier_make(uint32_t at, int arrivals)
{
	SM90A("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(at), "r"(arrivals) : "memory");
}

static __device__ inline void
barriers_made(void)
{
	SM90A("fence.mbarrier_init.release.cluster;" : : : "memory");
}

static __device__ inline void
barrier_arrive(uint32_t at)
{
	SM90A("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(at) : "memory");
}

/* Arrives, and holds the barrier until so many bytes have come as well. */
static __device__ inline void
barrier_expect(uint32_t at, int bytes)
{
	SM90A("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
	      :
	      : "r"(at), "r"(bytes)
	      : "memory");
}

/* Waits until the barrier has been passed an odd number of times (parity 0), or an even one, 0 too
 * (parity 1). */
static __device__ inline void
barrier_wait(uint32_t at, uint32_t parity)
{
	uint32_t passed = 0;

	while (!passed)
		SM90A("{\n"
		      ".reg .pred p;\n"
		      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
		      "selp.u32 %0, 1, 0, p;\n"
		      "}\n"
		      : "=r"(passed)
		      : "r"(at), "r"(parity)
		      : "memory");
}

/* A barrier of `threads` threads of the block by number, 0 being that of __syncthreads. */
static __device__ inline void
barrier_some(int number, int threads)
{
	SM90A("bar.sync %0, %1;" : : "r"(number), "r"(threads) : "memory");
}

/* Arrives at such a barrier without waiting: one of its threads that others wait for. */
static __device__ inline void
barrier_some_arrive(int number, int threads)
{
	SM90A("bar.arrive %0, %1;" : : "r"(number), "r"(threads) : "memory");
}

/* What this thread stored to shared memory is seen by the async proxy, copies and wgmma, after the
 * next barrier. */
static __device__ inline void
fence_async_proxy(void)
{
	SM90A("fence.proxy.async.shared::cta;" : : : "memory");
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Starts the copy of a box, from a column and a row of the matrix on; what lies outside of it comes
 * as zeros. All of its bytes count at the barrier. */
static __device__ inline void
copy_box(uint32_t to, const CUtensorMap *map, int column, int row, uint32_t barrier)
{
	SM90A("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
	      "[%0], [%1, {%2, %3}], [%4];"
	      :
	      : "r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier)
	      : "memory");
}

/* A copy of a box of an array of 4 dimensions, from an element of each on. */
static __device__ inline void
copy_box(uint32_t to, const CUtensorMap *map, int4 at, uint32_t barrier)
{
	SM90A("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
	      "[%0], [%1, {%2, %3, %4, %5}], [%6];"
	      :
	      : "r"(to), "l"(map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w), "r"(barrier)
	      : "memory");
}

/* Asks for a box of a stack of matrices to be in the L2 cache soon. */
static __device__ inline void
ask_box(const CUtensorMap *map, int3 at)
{
	SM90A("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];"
	      :
	      : "l"(map), "r"(at.x), "r"(at.y), "r"(at.z)
	      : "memory");
}

/* Starts to write a box of floats, 32 columns in lines of 128 bytes, to a column, row and matrix of
 * a stack, or to add it to those in memory; nothing is written outside of the matrix. An addition
 * in memory rounds like any other. */
static __device__ inline void
store_box(const CUtensorMap *map, uint32_t from, int3 at, bool add)
{
	if (add)
		SM90A("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
		      "[%0, {%1, %2, %3}], [%4];"
		      :
		      : "l"(map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(from)
		      : "memory");
	else
		SM90A("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
		      "[%0, {%1, %2, %3}], [%4];"
		      :
		      : "l"(map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(from)
		      : "memory");
}

/* Starts to write a box of an array of 4 dimensions, from an element of each on. */
static __device__ inline void
store_box(const CUtensorMap *map, uint32_t from, int4 at)
{
	SM90A("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group "
	      "[%0, {%1, %2, %3, %4}], [%5];"
	      :
	      : "l"(map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(at.w), "r"(from)
	      : "memory");
}

/* Ends a group of boxes of this thread. */
static __device__ inline void
boxes_commit(void)
{
	SM90A("cp.async.bulk.commit_group;" : : : "memory");
}

/* Waits until at most the last N groups are still read from shared memory. */
template <int N>
static __device__ inline void
groups_read_but(void)
{
	SM90A("cp.async.bulk.wait_group.read %0;" : : "n"(N) : "memory");
}

/* Waits until all of them are written. */
static __device__ inline void
boxes_written(void)
{
	SM90A("cp.async.bulk.wait_group 0;" : : : "memory");
}

/* --- registers -------------------------------------------------------------------------------- */
template <int N>
static __device__ inline void
registers_release(void)
{
	SM90A("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N));
}

template <int N>
static __device__ inline void
registers_claim(void)
{
	SM90A("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N));
}

/* --- wgmma ------------------------------------------------------------------------------------ */

/* An operand from an address in shared memory on. Along the sum its 8 lines or its 8 columns of 16
 * bytes follow each other at 1024 bytes; boxes that are not dense follow at `step` bytes. */
static __device__ inline uint64_t
operand_at(uint32_t at, int step = BOX_BYTES)
{
	return (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)(step >> 4) << 16 |
	    (at & 0x3ffff) >> 4;
}

/* The same, 16 elements of the sum further. */
template <bool DENSE>
static __device__ inline uint64_t
operand_next(uint64_t operand)
{
	return operand + (DENSE ? 32 >> 4 : 16 * BOX_LINE >> 4);
}

/* Before the first wgmma after other uses of the sums. */
static __device__ inline void
wgmma_fence(void)
{
	SM90A("wgmma.fence.sync.aligned;" : : : "memory");
}

/* Ends a group of wgmma. */
static __device__ inline void
wgmma_commit(void)
{
	SM90A("wgmma.commit_group.sync.aligned;" : : : "memory");
}

/* Waits until at most the last N groups are under way. */
template <int N>
static __device__ inline void
wgmma_wait(void)
{
	SM90A("wgmma.wait_group.sync.aligned %0;" : : "n"(N) : "memory");
}

#define SUMS_4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define SUMS_16_FROM(c, i) SUMS_4(c, i), SUMS_4(c, i + 4), SUMS_4(c, i + 8), SUMS_4(c, i + 12)
#define SUMS_16(c) SUMS_16_FROM(c, 0)
#define SUMS_32_FROM(c, i) SUMS_16_FROM(c, i), SUMS_16_FROM(c, i + 16)
#define SUMS_32(c) SUMS_32_FROM(c, 0)
#define SUMS_40(c) SUMS_32(c), SUMS_4(c, 32), SUMS_4(c, 36)
#define SUMS_48(c) SUMS_32(c), SUMS_16_FROM(c, 32)
#define SUMS_64(c) SUMS_32(c), SUMS_32_FROM(c, 32)
#define SUMS_96(c) SUMS_64(c), SUMS_32_FROM(c, 64)
#define SUMS_128(c) SUMS_96(c), SUMS_32_FROM(c, 96)

#define REGISTERS_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define REGISTERS_32 \
	REGISTERS_16 \
	",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define REGISTERS_40 REGISTERS_32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define REGISTERS_48 REGISTERS_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define REGISTERS_64 REGISTERS_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define REGISTERS_96 \
	REGISTERS_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
		     "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define REGISTERS_128 \
	REGISTERS_96 \
	",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
	"%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* c[64, N] = a[64, K] b[K, N], added to c if `add`; `form` has N, K and types. The operands after
 * the sums are a, b, add, and what `layout` names. With group = lane / 4 and pair = lane % 4, the
 * lane of warp w of the four holds in c[4 i + 2 h + j] column 8 i + 2 pair + j of row 16 w + group
 * + 8 h. */
#define MULTIPLY(form, registers, a, b, add, layout, sums, ...) \
	SM90A("{\n" \
	      ".reg .pred p;\n" \
	      "setp.ne.b32 p, " add ", 0;\n" \
	      "wgmma.mma_async.sync.aligned." form " {" registers "}, " a ", " b \
	      ", p, 1, 1" layout ";\n" \
	      "}\n" \
	      : sums(c) \
	      : __VA_ARGS__)

/* Of bf16 or half, into the first sums of c. */
#define MULTIPLY_16(form, ...) \
	do { \
		if constexpr (is_bf16<T>) \
			MULTIPLY(form "k16.f32.bf16.bf16", __VA_ARGS__); \
		else \
			MULTIPLY(form "k16.f32.f16.f16", __VA_ARGS__); \
	} while (0)
#define OPERANDS "l"(a), "l"(b), "r"(add), "n"(!A_DENSE), "n"(!B_DENSE)
#define OPERANDS_IN_REGISTERS \
	"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(!B_DENSE)

template <typename T> constexpr bool is_bf16 = false;
template <> constexpr bool is_bf16<bf16> = true;

template <int N, bool A_DENSE, bool B_DENSE, typename T = bf16, int SUMS>
static __device__ inline void
multiply(float (&c)[SUMS], uint64_t a, uint64_t b, int add)
{
	static_assert(
	    N <= 2 * SUMS && (N == 32 || N == 64 || N == 80 || N == 128 || N == 192 || N == 256));
	if constexpr (N == 32)
		MULTIPLY_16(
		    "m64n32", REGISTERS_16, "%16", "%17", "%18", ", %19, %20", SUMS_16, OPERANDS);
	else if constexpr (N == 64)
		MULTIPLY_16(
		    "m64n64", REGISTERS_32, "%32", "%33", "%34", ", %35, %36", SUMS_32, OPERANDS);
	else if constexpr (N == 80)
		MULTIPLY_16(
		    "m64n80", REGISTERS_40, "%40", "%41", "%42", ", %43, %44", SUMS_40, OPERANDS);
	else if constexpr (N == 128)
		MULTIPLY_16(
		    "m64n128", REGISTERS_64, "%64", "%65", "%66", ", %67, %68", SUMS_64, OPERANDS);
	else if constexpr (N == 192)
		MULTIPLY_16(
		    "m64n192", REGISTERS_96, "%96", "%97", "%98", ", %99, %100", SUMS_96, OPERANDS);
	else
		MULTIPLY_16("m64n256", REGISTERS_128, "%128", "%129", "%130", ", %131, %132",
		    SUMS_128, OPERANDS);
}

/* The same with 16 columns of a in registers, which must not change before the wgmma is done. A
 * lane holds in a[2 j + h] columns 2 pair + 8 j and the next of row 16 w + group + 8 h: sums of 16
 * neighbouring columns, rounded in their order. */
template <int N, bool B_DENSE, typename T, int SUMS>
static __device__ inline void
multiply_registers(float (&c)[SUMS], const uint32_t *a, uint64_t b, int add)
{
	static_assert(N <= 2 * SUMS && (N == 64 || N == 96 || N == 128 || N == 256));
	if constexpr (N == 64)
		MULTIPLY_16("m64n64", REGISTERS_32, "{%32, %33, %34, %35}", "%36", "%37", ", %38",
		    SUMS_32, OPERANDS_IN_REGISTERS);
	else if constexpr (N == 96)
		MULTIPLY_16("m64n96", REGISTERS_48, "{%48, %49, %50, %51}", "%52", "%53", ", %54",
		    SUMS_48, OPERANDS_IN_REGISTERS);
	else if constexpr (N == 128)
		MULTIPLY_16("m64n128", REGISTERS_64, "{%64, %65, %66, %67}", "%68", "%69", ", %70",
		    SUMS_64, OPERANDS_IN_REGISTERS);
	else
		MULTIPLY_16("m64n256", REGISTERS_128, "{%128, %129, %130, %131}", "%132", "%133",
		    ", %134", SUMS_128, OPERANDS_IN_REGISTERS);
}

#define MULTIPLY_8(types) \
	MULTIPLY("m64n192k32.f32." types, REGISTERS_96, "%96", "%97", "%98", "", SUMS_96, "l"(a), \
	    "l"(b), "r"(add))

/* Of 32 terms of 8 bits, b of E4M3 and a too, or of E5M2; both are dense. Sums are of fewer bits
 * than F32 has. */
template <int A>
static __device__ inline void
multiply_8_bits(float (&c)[96], uint64_t a, uint64_t b, int add)
{
	if (A == DTYPE_F8_E5M2)
		MULTIPLY_8("e5m2.e4m3");
	else
		MULTIPLY_8("e4m3.e4m3");
}

/* Sums whose wgmma is done may be read: no use of them is moved before this. */
template <int SUMS>
static __device__ inline void
sums_done(float (&c)[SUMS])
{
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		asm volatile("" : "+f"(c[i]) : : "memory");
}

/* --- results ---------------------------------------------------------------------------------- */

/* Lane q of four gets word q of each, in their order. */
static __device__ inline void
transpose_words(uint32_t (&w)[4])
{
#pragma unroll
	for (int step = 1; step < 4; step *= 2) {
		bool upper = threadIdx.x & step;

#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t other;

			if (i & step)
				continue;
			other = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[i + step], step);
			w[i] = upper ? other : w[i];
			w[i + step] = upper ? w[i + step] : other;
		}
	}
}

/* Where a tile goes, and how many lines and columns of it there are. */
struct corner {
	bf16 *at;
	int64_t step;
	int lines, columns;
};

/* A lane's first line of the 64 of a wgmma. */
static __device__ inline int
own_line(void)
{
	return threadIdx.x % GROUP / 32 * 16 + threadIdx.x % 32 / 4;
}

/* Piece i of a lane's sums of a wgmma, rounded: what it has of 32 columns in one of its lines, and
 * with the next i in the other. */
template <int SUMS>
static __device__ inline void
round_piece(uint32_t *words, const float (&c)[SUMS], int i)
{
#pragma unroll
	for (int j = 0; j < 4; j++) {
		int at = i / 2 * 16 + j * 4 + i % 2 * 2;

		put_two((bf16 *)&words[j], c[at], c[at + 1]);
	}
}

/* Stores four 8 x 8 matrices to shared memory: a lane gives two columns of a line of each, and the
 * address of line lane % 8 of matrix lane / 8. */
static __device__ inline void
store_matrices(uint32_t to, const uint32_t (&w)[4])
{
	SM90A("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
	      :
	      : "r"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
	      : "memory");
}

/* Stores it, 16 bytes of a lane at once, to the lines of a tile from `first` on. */
static __device__ inline void
store_piece(const struct corner &to, const uint32_t *words, int i, int first)
{
	int line = own_line() + first + i % 2 * 8, column = i / 2 * 32 + threadIdx.x % 4 * 8;
	uint32_t w[4] = { words[0], words[1], words[2], words[3] };

	transpose_words(w);
	if (line < to.lines && column < to.columns)
		*(uint4 *)(to.at + line * to.step + column) = make_uint4(w[0], w[1], w[2], w[3]);
}

#endif
