/*
 * gemm.h - shared by the GEMM files: keys, plans, and how a plan is chosen
 */
#ifndef TRAIN_CUDA_GEMM_GEMM_H
#define TRAIN_CUDA_GEMM_GEMM_H

#include "train/cuda/impl.h"

#include <cublasLt.h>

/* Parts of a GEMM's epilogue; a plan says which of them the library fuses. */
enum { EPILOGUE_BIAS = 1, EPILOGUE_GELU = 2, EPILOGUE_GELU_GRAD = 4, EPILOGUE_DBIAS = 8 };

/* All that a choice may depend on; compared as bytes, also in a file, so zeroed before it is
 * filled. */
struct gemm_key {
	int64_t m, n, k, lda, ldb, ldc;
	int32_t trans_a, trans_b, in_a, in_b, out, accumulate;
	int32_t fast, scale_a, scale_b; /* of 8 bits: fast accumulation; enum scale_kind */
	uint32_t epilogue, fusable;     /* requested, and what the library could fuse */
	uint32_t align_a, align_b, align_c;
};

/* A GEMM ready to run: the library's descriptors and the chosen algorithm. */
struct gemm_plan {
	struct gemm_key key;
	uint32_t fused; /* the part of key.epilogue that the library does */
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algo;
	size_t workspace;
};

/* A choice as it is kept in a file. */
struct gemm_choice {
	struct gemm_key key;
	uint32_t fused, unused;
	cublasLtMatmulAlgo_t algo;
};

/* The choices of one GPU model and library version, including those of earlier runs. path is empty
 * if there is nowhere to keep a file. */
struct gemm_choices {
	char path[1024];
	struct gemm_choice *choice;
	size_t count;
};

/* All plans of a device; they stay until it is closed. */
struct gemm_cache {
	cublasLtHandle_t handle;
	cudaEvent_t begin, end; /* of a measurement */
	struct gemm_plan *plan;
	size_t count, room;
	struct gemm_choices choices;
};

/* gemm.c: queues a planned GEMM and the unfused part of its epilogue on st. */
cublasStatus_t gemm_run(struct stream *st, const struct gemm_plan *p, const struct gemm *g);

/* gemm_plan.c */
/* Fills the descriptors of a plan whose key and fused are set; false when the library refuses. The
 * caller releases the plan either way. */
bool gemm_describe(struct gemm_plan *p, const struct gemm *g);
/* Tells the library where the scales of 8-bit operands are, which differs from call to call. */
bool gemm_set_scales(const struct gemm_plan *p, const struct gemm *g);
/* Frees the library's objects of a plan, complete or not. */
void gemm_plan_release(struct gemm_plan *p);
/* Makes a plan for p->key: by measuring, from the file, or, where results must not depend on
 * either, by the library's first answer. false: the device has failed. */
bool gemm_choose(struct stream *st, struct gemm_plan *p, const struct gemm *g);

/* gemm_file.c: best effort; a file that cannot be read or written counts as missing. */
void gemm_choices_load(struct gemm_choices *c, const char *gpu);
void gemm_choices_release(struct gemm_choices *c);
/* NULL when there is none. */
const struct gemm_choice *gemm_choices_find(
    const struct gemm_choices *c, const struct gemm_key *key);
/* Adds one and writes the file, with what other processes have added meanwhile. */
void gemm_choices_add(struct gemm_choices *c, const struct gemm_choice *choice);

#endif
