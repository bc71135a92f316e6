/*
 * hopper.h - attention for compute capability 9.0: which calls it takes, and its kernels
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_H
#define TRAIN_CUDA_ATTENTION_HOPPER_H

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/model/hopper.h"
#include "train/cuda/attention/hopper_run.h"
#include "train/cuda/attention/turns.h"
#include "train/cuda/impl.h"
#include "train/cuda/mask.h"

#include <cuda.h>

/* The forward pass: keys of a block, of wide heads and of others, and queries of a tile, of narrow
 * heads and of others. */
enum {
	HOPPER_KEYS = 128,
	HOPPER_KEYS_256 = 80,
	HOPPER_QUERIES_64 = 192,
	HOPPER_QUERIES_128 = 128,
	HOPPER_ROWS = 16, /* of results that a warp stores */
};

/* A forward pass, with its operands in boxes. */
struct hopper_call {
	CUtensorMap q, k, v, out;
	struct attention t;
	int queries, before; /* positions with a query, and positions before these */
	int window;          /* 0: none */
	/* What a score is multiplied by to be an exponent of 2; of capped scores what their caps
	 * are, and before it what scores are, and what their tangents are. */
	float factor, cap_in, cap_out;
	struct mask drop;
	struct tile_order order;
	/* Tiles that blocks have claimed beyond their first, and blocks that have ended: both are 0
	 * before a call and after it. */
	unsigned *claimed, *ended;
};

/* A backward pass. */
struct backward_call {
	struct hopper_call fwd; /* without a map of out */
	CUtensorMap dout, dq;
	struct tensor dout_rows, dk, dv;
	struct tensor delta; /* of the call, where gradients of sinks need it; or none */
	float scale;
	struct row_tiles rows;
	struct column_order order;
	int heads; /* of a column: all of a group, or one, whose parts of dk and dv then go to */
	float *parts[2];
	/* Of every row tile: the sum of dq; lse to the base 2, delta and first keys; how many
	 * columns were added, of wide heads to either half of dq. Of every block of keys of a
	 * sample the last query that sees it; and with documents, which otherwise is NULL, the
	 * blocks in the order of work. Columns that were claimed. */
	float *sums, *statistics;
	unsigned *turns;
	int32_t *last, *places;
	unsigned *claimed;
	struct hopper_run run;
};

/* Heads of a multiple of 8 elements, to the width of the name; addresses and rows of whole 16
 * bytes. hopper_64.cu, and so on */
void hopper_attention_64(struct stream *st, const struct hopper_call *call);
void hopper_attention_96(struct stream *st, const struct hopper_call *call);
void hopper_attention_128(struct stream *st, const struct hopper_call *call);
void hopper_attention_256(struct stream *st, const struct hopper_call *call);
/* The backward pass. hopper_bwd_64.cu, and so on */
void hopper_attention_bwd_64(struct stream *st, const struct backward_call *call);
void hopper_attention_bwd_96(struct stream *st, const struct backward_call *call);
void hopper_attention_bwd_128(struct stream *st, const struct backward_call *call);
void hopper_attention_bwd_256(struct stream *st, const struct backward_call *call);
/* Whether this build has their code for the current GPU. hopper_128.cu */
bool hopper_attention_present(void);

/* What the kernels need for as long as a device is open; NULL: they do not serve, with a reason.
 * hopper.c */
struct hopper_attention;
struct hopper_attention *hopper_attention_new(int capability, struct err *why);
void hopper_attention_free(struct hopper_attention *h);
/* Whether a call's forward pass is served; its tensors are of 16 bits with rows of whole 16 bytes.
 */
bool hopper_attention_takes(const struct attention *t);
/* The same of the backward pass, also by its work. */
bool hopper_attention_takes_bwd(const struct attention_grad *t);
void hopper_attention_fwd(
    struct stream *st, const struct hopper_attention *h, const struct attention *t);

void hopper_attention_bwd(struct stream *st, const struct hopper_attention *h,
    const struct attention_grad *t, struct hopper_run how);

#ifdef __cplusplus
}
#endif

#endif
