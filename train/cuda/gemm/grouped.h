/*
 * grouped.h - shared by the files of grouped products: their implementations
 */
#ifndef TRAIN_CUDA_GEMM_GROUPED_H
#define TRAIN_CUDA_GEMM_GROUPED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "train/cuda/impl.h"

/* Whose ends fit the shared memory of any GPU besides a tile. */
enum { GROUPED_EXPERTS = 8192 };

/* Any type and shape. grouped_plain.cu */
void grouped_plain(struct stream *st, const struct grouped *g);

#ifdef __cplusplus
}
#endif

#endif
