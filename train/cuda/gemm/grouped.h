/*
 * grouped.h - shared by the files of grouped GEMMs: their implementations
 */
#ifndef TRAIN_CUDA_GEMM_GROUPED_H
#define TRAIN_CUDA_GEMM_GROUPED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "train/cuda/impl.h"

#include <cuda.h>

enum {
	/* Whose ends fit the shared memory of any GPU besides a tile. */
	GROUPED_EXPERTS = 8192,
	/* And besides tiles for tensor cores. */
	GROUPED_TILED_EXPERTS = 1024,
	/* And besides the rings of the kernels for Hopper. */
	GROUPED_HOPPER_EXPERTS = CU_FLOAT8_EXPERTS,
	/* Lines and columns of their tiles. */
	GROUPED_HIGH = 128,
	GROUPED_WIDE = 256,
	GROUPED_WIDE_WEIGHT = 192,
	GROUPED_WIDE_FLOAT8 = 192,
	/* Lines of a tile of sums in memory that are asked for at once. */
	GROUPED_ASKED = 16,
};

/* A GEMM for Hopper, with its operands in boxes; and a result in F32, in the boxes that are stored
 * and in lines of a tile, which are asked for. */
struct grouped_call {
	CUtensorMap a, b, c, c_lines;
	struct grouped g;
};

/* Any type and shape. grouped_plain.cu */
void grouped_plain(struct stream *st, const struct grouped *g);

/* BF16 and F16 on GPUs of capability CU_TILED: rows and addresses of whole 16 bytes, at most
 * GROUPED_TILED_EXPERTS. grouped_mma.cu */
void grouped_mma(struct stream *st, const struct grouped *g);

/* On compute capability 9.0, rows and addresses of whole 16 bytes, at least one row. */

/* BF16: forward, and gradients of inputs. grouped_rows.cu */
void grouped_rows(struct stream *st, const struct grouped_call *call);
/* BF16, into BF16 or F32: gradients of weights. grouped_weight.cu */
void grouped_weight(struct stream *st, const struct grouped_call *call);
/* The first two of 8-bit operands into BF16. grouped_float8.cu */
void grouped_float8(struct stream *st, const struct grouped_call *call);
/* Whether this build has their code for the current GPU. */
bool grouped_hopper_present(void);

#ifdef __cplusplus
}
#endif

#endif
