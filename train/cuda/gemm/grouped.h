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
	/* And besides the ring of the kernel for Hopper. */
	GROUPED_HOPPER_EXPERTS = CU_FLOAT8_EXPERTS,
	/* lines and columns of its tiles */
	GROUPED_HIGH = 128,
	GROUPED_WIDE = 192,
};

/* A GEMM for Hopper, with its operands in boxes, and a result in F32 too. */
struct grouped_call {
	CUtensorMap a, b, c;
	struct grouped g;
};

/* Any type and shape. grouped_plain.cu */
void grouped_plain(struct stream *st, const struct grouped *g);

/* BF16 and F16 on GPUs of capability CU_TILED: rows and addresses of whole 16 bytes, at most
 * GROUPED_TILED_EXPERTS. grouped_mma.cu */
void grouped_mma(struct stream *st, const struct grouped *g);

/* BF16, with gradients of weights in F32 too, on compute capability 9.0: rows and addresses of
 * whole 16 bytes, at least one row. grouped_hopper.cu */
void grouped_hopper(struct stream *st, const struct grouped_call *call);
/* 8-bit operands into BF16, on the same GPUs: rows and addresses of whole 16 bytes, at least one
 * row. grouped_float8.cu */
void grouped_float8(struct stream *st, const struct grouped_call *call);
/* Whether this build has their code for the current GPU. */
bool grouped_hopper_present(void);

#ifdef __cplusplus
}
#endif

#endif
