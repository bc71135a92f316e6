/*
 * cudnn.h - attention by cuDNN: the library, found at run time, and plans of the two passes
 *
 * cuDNN is not needed to build: the few functions and numbers of its backend interface that are
 * used are declared here. They are part of its binary interface and the same in all of cuDNN 9.
 * Source: the enumerations of cudnn_graph.h, cuDNN 9.19; the graphs: NVIDIA, cuDNN backend API,
 * "scaled dot-product attention".
 */
#ifndef TRAIN_CUDA_ATTENTION_CUDNN_H
#define TRAIN_CUDA_ATTENTION_CUDNN_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* --- the interface of the library ------------------------------------------------------------- */

typedef void *dnn_desc; /* an object of the library */

enum dnn_kind {
	DNN_POINTWISE = 0,
	DNN_ENGINECFG = 3,
	DNN_ENGINEHEUR = 4,
	DNN_EXECUTION_PLAN = 5,
	DNN_OPERATION_POINTWISE = 13,
	DNN_OPERATIONGRAPH = 15,
	DNN_VARIANT_PACK = 16,
	DNN_TENSOR = 17,
	DNN_MATMUL = 18,
	DNN_OPERATION_MATMUL = 19,
	DNN_REDUCTION = 21,
	DNN_OPERATION_REDUCTION = 22,
	DNN_OPERATION_RESHAPE = 31,
};

/* Types of attributes. */
enum dnn_type {
	DNN_HANDLE = 0,
	DNN_DATA_TYPE = 1,
	DNN_BOOL = 2,
	DNN_INT64 = 3,
	DNN_VOID_PTR = 6,
	DNN_HEUR_MODE = 8,
	DNN_POINTWISE_MODE = 14,
	DNN_DESCRIPTOR = 15,
	DNN_REDUCTION_TYPE = 18,
};

enum dnn_attr {
	DNN_ATTR_POINTWISE_MODE = 0,
	DNN_ATTR_POINTWISE_MATH = 1,
	DNN_ATTR_POINTWISE_AXIS = 9,
	DNN_ATTR_HEUR_MODE = 200,
	DNN_ATTR_HEUR_GRAPH = 201,
	DNN_ATTR_HEUR_RESULTS = 202,
	DNN_ATTR_PLAN_HANDLE = 400,
	DNN_ATTR_PLAN_CONFIG = 401,
	DNN_ATTR_PLAN_WORKSPACE = 402,
	DNN_ATTR_PW_DESC = 750,
	DNN_ATTR_PW_X = 751,
	DNN_ATTR_PW_B = 752,
	DNN_ATTR_PW_Y = 753,
	DNN_ATTR_PW_T = 758,
	DNN_ATTR_GRAPH_HANDLE = 800,
	DNN_ATTR_GRAPH_OPS = 801,
	DNN_ATTR_TENSOR_ALIGNMENT = 900,
	DNN_ATTR_TENSOR_TYPE = 901,
	DNN_ATTR_TENSOR_DIMS = 902,
	DNN_ATTR_TENSOR_STRIDES = 903,
	DNN_ATTR_TENSOR_ID = 906,
	DNN_ATTR_TENSOR_VIRTUAL = 907,
	DNN_ATTR_TENSOR_BY_VALUE = 908,
	DNN_ATTR_PACK_IDS = 1000,
	DNN_ATTR_PACK_POINTERS = 1001,
	DNN_ATTR_PACK_WORKSPACE = 1003,
	DNN_ATTR_MATMUL_MATH = 1500,
	DNN_ATTR_MATMUL_A = 1520,
	DNN_ATTR_MATMUL_B = 1521,
	DNN_ATTR_MATMUL_C = 1522,
	DNN_ATTR_MATMUL_DESC = 1523,
	DNN_ATTR_REDUCTION_OPERATOR = 1600,
	DNN_ATTR_REDUCTION_MATH = 1601,
	DNN_ATTR_REDUCTION_X = 1610,
	DNN_ATTR_REDUCTION_Y = 1611,
	DNN_ATTR_REDUCTION_DESC = 1612,
	DNN_ATTR_RESHAPE_X = 2200,
	DNN_ATTR_RESHAPE_Y = 2201,
};

enum dnn_dtype { DNN_F32 = 0, DNN_F16 = 2, DNN_I32 = 4, DNN_BF16 = 9, DNN_BOOLEAN = 11 };

enum dnn_pointwise {
	DNN_ADD = 0,
	DNN_MUL = 1,
	DNN_DIV = 6,
	DNN_SUB = 9,
	DNN_EXP = 13,
	DNN_LOG = 15,
	DNN_IDENTITY = 21,
	DNN_CMP_GT = 302,
	DNN_CMP_GE = 303,
	DNN_GEN_INDEX = 501,
	DNN_SELECT = 601,
};

enum dnn_reduction { DNN_REDUCE_ADD = 0, DNN_REDUCE_MAX = 3 };
enum dnn_heuristics { DNN_HEUR_B = 1, DNN_HEUR_FALLBACK = 2, DNN_HEUR_A = 3 };

/* The functions by their names in the library less "cudnn" or "cudnnBackend"; 0 is success. */
struct dnn_api {
	size_t (*version)(void);
	const char *(*error_string)(int status);
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*set_stream)(void *handle, cudaStream_t);
	int (*create_descriptor)(int kind, dnn_desc *);
	int (*destroy_descriptor)(dnn_desc);
	int (*set_attribute)(dnn_desc, int attr, int type, int64_t count, const void *);
	int (*get_attribute)(dnn_desc, int attr, int type, int64_t room, int64_t *count, void *);
	int (*finalize)(dnn_desc);
	int (*execute)(void *handle, dnn_desc plan, dnn_desc pack);
};

/* --- the library, opened ---------------------------------------------------------------------- */

struct cudnn {
	struct dnn_api api;
	void *library, *handle;
	int version; /* 91900 is 9.19.0 */
};

/* Version of the library that would be used, 0 with a reason when there is none. Nothing stays
 * open. */
int cudnn_find(struct err *why);
/* For work on one stream; NULL with a reason. */
struct cudnn *cudnn_open(cudaStream_t stream, struct err *why);
void cudnn_close(struct cudnn *c);

/* --- plans of attention ----------------------------------------------------------------------- */

enum sdpa_pass { SDPA_FORWARD, SDPA_BACKWARD, SDPA_DETERMINISTIC };

/* Tensors in memory, and from SDPA_SCALE on numbers that the host passes: F32, and from
 * SDPA_NUM_QUERIES on I32, of passes whose queries are fewer than their keys. The window is that of
 * the keys less as many as are before the first query. */
enum sdpa_id {
	SDPA_Q = 1,
	SDPA_K,
	SDPA_V,
	SDPA_OUT,
	SDPA_LSE,
	SDPA_DOUT,
	SDPA_DQ,
	SDPA_DK,
	SDPA_DV,
	SDPA_DELTA,
	SDPA_DQ_SUM,
	SDPA_SCALE,
	SDPA_MINUS_INFINITY,
	SDPA_ONE,
	SDPA_WINDOW,
	SDPA_NUM_QUERIES,
	SDPA_NUM_KEYS,
	SDPA_IDS,
};

/* What a plan depends on; compared as bytes, so zeroed before it is filled. The queries of a sample
 * are the last of the positions of its keys. Token r of a sample is
 * row r b + sample of q, k, v, out and their gradients, row[id] elements from one to the next;
 * lse and delta are dense [b n, queries], F32; dq_sum dense [b, n, queries, d], F32, of the fast
 * backward pass alone. */
struct sdpa_shape {
	int64_t b, queries, keys, n, g, d, window;
	int64_t dv; /* columns of a head of values and outputs */
	int64_t row[SDPA_DELTA];
	int32_t pass, dtype; /* enum sdpa_pass, enum dtype */
};

struct sdpa_plan {
	dnn_desc plan;
	int64_t workspace; /* bytes */
	int64_t ids[SDPA_IDS];
	int num_ids;
};

/* Compiles the first engine that the library proposes: half a second. -1 with a reason. */
int sdpa_plan_new(
    const struct cudnn *c, const struct sdpa_shape *s, struct sdpa_plan *p, struct err *e);
void sdpa_plan_free(const struct cudnn *c, struct sdpa_plan *p);
/* Queues a pass; memory[id] for every id of the shape's pass, workspace 256-byte aligned. */
int sdpa_run(const struct cudnn *c, const struct sdpa_plan *p, void *const memory[SDPA_IDS],
    void *workspace, struct err *e);

/* A graph in the making: the operations of one pass; freed by sdpa_graph_free. cudnn_graph.c */
struct sdpa_graph {
	const struct dnn_api *api;
	const struct sdpa_shape *shape;
	dnn_desc all[256], ops[32]; /* all descriptors; among them the operations, in order */
	int num_all, num_ops, num_ids;
	int64_t ids[SDPA_IDS], next_virtual;
	int status;                 /* of the first call that failed */
	dnn_desc q, kt, scale, inf; /* used by several operations */
};

/* One attribute; a list of them ends with no value. */
struct dnn_value {
	enum dnn_attr attr;
	enum dnn_type type;
	int64_t count; /* 0: left out */
	const void *value;
};

/* Builds the operations of the pass; check status afterwards. */
void sdpa_graph_build(struct sdpa_graph *gr, const struct dnn_api *api, const struct sdpa_shape *s);
void sdpa_graph_free(struct sdpa_graph *gr);
/* A descriptor with its attributes, kept in gr->all; NULL once anything has failed. */
dnn_desc dnn_create(struct sdpa_graph *gr, enum dnn_kind kind, const struct dnn_value *values);
dnn_desc dnn_make(struct sdpa_graph *gr, enum dnn_kind kind, const struct dnn_value *values);

#endif
