/*
 * gemm.h - what the files of matrix products share: a product as its plan sees it, plans, their
 * choice
 */
#ifndef TRAIN_CUDA_GEMM_GEMM_H
#define TRAIN_CUDA_GEMM_GEMM_H

#include "train/cuda/impl.h"

#include <cublasLt.h>

/* What is done beside a product; a plan leaves some of it to the library. */
enum { BESIDE_BIAS = 1, BESIDE_GELU = 2, BESIDE_GELU_GRAD = 4, BESIDE_DBIAS = 8 };

/* All that a choice may depend on; compared as bytes, also in a file, so zeroed before it is
 * filled. */
struct gemm_key {
	int64_t m, n, k, lda, ldb, ldc;
	int32_t trans_a, trans_b, in, out, accumulate;
	uint32_t beside, fusable; /* what is wanted, and what the library may be asked for */
	uint32_t align_a, align_b, align_c;
};

/* A product made ready: the library's descriptions of it and the algorithm that was chosen. */
struct gemm_plan {
	struct gemm_key key;
	uint32_t fused; /* of key.beside, done by the library */
	cublasLtMatmulDesc_t product;
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

/* The choices of one GPU model and library version, also those of earlier runs. path is empty where
 * there is no place for a file. */
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

/* gemm.c: the library's part of a planned product with what follows it, queued on st. */
cublasStatus_t gemm_run(struct stream *st, const struct gemm_plan *p, const struct gemm *g);

/* gemm_plan.c */
/* Fills the descriptions of a plan that has its key and what is fused; false when the library
 * refuses, and then it is for the caller to release. */
bool gemm_describe(struct gemm_plan *p, const struct gemm *g);
/* Gives back the library's objects of a plan, those that were made. */
void gemm_plan_release(struct gemm_plan *p);
/* Makes a plan for p->key: by measuring, from the file, or, where results must not depend on
 * either, by the library's first answer. false: the device has failed. */
bool gemm_choose(struct stream *st, struct gemm_plan *p, const struct gemm *g);

/* gemm_file.c: best effort, a file that cannot be read or written is as none. */
void gemm_choices_load(struct gemm_choices *c, const char *gpu);
void gemm_choices_release(struct gemm_choices *c);
/* NULL when there is none. */
const struct gemm_choice *gemm_choices_find(
    const struct gemm_choices *c, const struct gemm_key *key);
/* Adds one and writes the file, with what other processes have added meanwhile. */
void gemm_choices_add(struct gemm_choices *c, const struct gemm_choice *choice);

#endif
