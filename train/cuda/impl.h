/*
 * impl.h - shared by the files of train/cuda: the device, its streams, failures, the operations
 *
 * C and C++. The host side (backend.c, gemm.c, ops.c) is C over the CUDA runtime and cuBLASLt; a
 * .cu file holds kernels and the functions that launch them. The device keeps the first failure of
 * any call, which surfaces in sync().
 */
#ifndef TRAIN_CUDA_IMPL_H
#define TRAIN_CUDA_IMPL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/base/err.h"
#include "lib/base/int64.h"
#include "lib/model/gpu.h"
#include "train/cuda/device.h"
#include "train/ops.h"

enum {
	/* bytes for one operation of the compute stream: cuBLASLt, partial sums, sorting */
	CU_WORKSPACE = DEVICE_WORKSPACE,
	/* and after them, for what a GEMM hands to the next kernel */
	CU_SIDE = DEVICE_SIDE,
	CU_HEAD_MAX = 256, /* largest head size */
	CU_EXPERTS = 1024, /* most experts that a router chooses among */
	CU_THREADS = 256,  /* of a block, in every kernel */
	/* least compute capability (8.0) for tiled attention, cuDNN's, and bf16 GEMMs */
	CU_TILED = 80,
	CU_FLOAT8 = 89, /* and for 8-bit floats */
	CU_HOPPER = 90, /* that of kernels for sm_90a */
};

struct gemm_cache;
struct attention_cache;
struct grouped_cache;
struct nvml;

/* What failed first, or NULL, and why. */
struct failure {
	const char *what;
	char reason[256];
};

struct device {
	int index;   /* the runtime's number of the GPU */
	int num_sms; /* for the size of grids; no result depends on it */
	/* bytes of shared memory of an SM, and the most of a block */
	int shared_sm, shared_block;
	bool deterministic;
	bool float8; /* it computes with 8-bit floats */
	bool early;  /* a kernel may begin before the one before it has ended */
	struct cu_stream stream[STREAM_COUNT];
	void *workspace; /* CU_WORKSPACE + CU_SIDE bytes, of the compute stream */
	struct gemm_cache *gemms;
	struct attention_cache *attention;
	struct grouped_cache *grouped;
	struct nvml *nvml;    /* NULL: no meters */
	struct event *events; /* list of all events */
	const char *last;     /* operation queued last */
	struct failure failure;
	bool recording;         /* calls are kept, and their failures no failure of the device */
	struct failure refusal; /* of those that are kept */
};

/* After a kernel launch: notes its name and keeps its failure. */
void cu_launched(struct stream *st, const char *name);
/* The device's workspace, for operations on the compute stream alone; and the CU_SIDE bytes after
 * it, which belong to a GEMM while it runs. */
void *cu_workspace(struct stream *st);
void *cu_side(struct stream *st);

/* Compute capability of a GPU, 80 for 8.0; 0 if the runtime does not tell. backend.c */
int cu_capability(int index);

/* The plans of GEMMs; made at open, freed at close. gemm.c */
struct gemm_cache *gemm_cache_new(struct device *d, struct err *e);
void gemm_cache_free(struct gemm_cache *c);

/* A GEMM of few rows by a matrix that is stored along the sum, of 16 bits and without more than a
 * bias; false, with nothing done, where it is another. gemm_rows.cu */
bool gemm_rows(struct stream *st, const struct gemm *g);

/* A GEMM of a real a by a b of 16 bits, without its epilogue. gemm_split.cu */
void gemm_split(struct stream *st, const struct gemm *g);

/* The choice of an implementation of attention; made at open, freed at close, when the device has
 * finished. attention.c */
struct attention_cache *attention_cache_new(
    const struct device_config *c, cudaStream_t stream, struct err *e);
void attention_cache_free(struct attention_cache *c);

/* Whether GEMMs of so many experts read 8-bit operands on a GPU of this capability, the current
 * one. gemm/grouped.c */
enum { CU_FLOAT8_EXPERTS = 256 };
bool cu_has_float8_experts(int capability, int64_t experts);
/* How GEMMs of experts are served; made at open, freed at close. gemm/grouped.c */
struct grouped_cache *grouped_cache_new(const struct device *d);
void grouped_cache_free(struct grouped_cache *c);

/* Tiled attention on tensor cores. flash.cu
 *
 * A GPU of capability CU_TILED; bf16 and half; heads of a multiple of 8 elements, up to 256;
 * addresses and rows of whole 16 bytes, scale above 0, fewer than 2^30 positions.
 * flash_attention_shared gives the bytes of shared memory that a block of a pass needs, -1 for
 * heads that are too wide. */
int64_t flash_attention_shared(int head_dim, bool backward);
void flash_attention_fwd(struct stream *, const struct attention *);
void flash_attention_bwd(struct stream *, const struct attention_grad *);
/* Attention of any type and head size up to CU_HEAD_MAX. attention_plain.cu */
void plain_attention_fwd(struct stream *, const struct attention *);
void plain_attention_bwd(struct stream *, const struct attention_grad *);
void plain_attention_max(struct stream *, const struct attention_max *);
/* dsink, from lse and delta as a backward pass leaves them. attention_sink.cu */
void attention_sink_bwd(struct stream *, const struct attention_grad *);

/* Partial sums [parts, columns] F32, added in their order: out[c] = beta out[c] + sum. Arrays of
 * one shape, each `columns` after the one before it in every part. reduce.cu */
enum { CU_SUMS = 3 };
struct column_parts {
	float *out[CU_SUMS]; /* NULL: not wanted */
	const float *part;
	int64_t columns, part_stride; /* elements from one part to the next */
	int parts;
	float beta; /* 0: out is not read */
};
void cu_finish_columns(struct stream *st, const struct column_parts *c);
/* out [n] (F32) += sums over the rows of x [T, n]; out [T] (F32) += sums over the columns.
 * reduce.cu */
void cu_column_sum(struct stream *st, const struct tensor *out, const struct tensor *x);
void cu_row_sum(struct stream *st, const struct tensor *out, const struct tensor *x);
/* y [T, n] += bias [n], of any types. vector.cu */
void cu_bias_add(struct stream *st, const struct tensor *y, const struct tensor *bias);

/* Whether the GPU computes with 8-bit floats; if not, `what` has failed. quantise.cu */
bool cu_has_float8(struct stream *st, const char *what);
/* QUANTISE_CURRENT of what is made in kernels of another file: the place of the factor becomes 0
 * and is raised to the largest by them, and is shared; then the factor and its inverse follow, and
 * the amax of q if it has one. quantise.cu */
void cu_current_begin(struct stream *st, const struct quantise *q);
void cu_current_end(struct stream *st, const struct quantise *q);
/* The copies of a round of rows of experts. quantise_rows.cu */
void cu_quantise_rows(struct stream *st, const struct quantise *q);
/* The sums of q, if wanted, from x. quantise.cu */
void cu_quantise_sums(struct stream *st, const struct tensor *x, const struct quantise *q);
/* act_fwd and act_bwd with copies. act_copies.cu */
void cu_act_copies(struct stream *, const struct act *);
void cu_act_grad_copies(struct stream *, const struct act_grad *);
/* The copies of a norm whose statistics are there; and y with them, if nothing has stored it.
 * norm_copies.cu */
void cu_norm_copies(struct stream *, const struct norm *);

/* Whether kernels were compiled for this GPU: cudaSuccess, or why not. vector.cu */
cudaError_t cu_kernels_present(void);

/* --- the operations --------------------------------------------------------------------------- */
#define OPERATION(name, type) void cuda_##name(struct stream *, const struct type *);
#define OPERATION_CPU(name, type)
#include "train/ops_list.h"

extern const struct ops cuda_ops;

#ifdef __cplusplus
}
#endif

#endif
