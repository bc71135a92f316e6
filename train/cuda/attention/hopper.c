/*
 * hopper.c - attention for compute capability 9.0: which calls it takes, and how its operands are
 * copied in boxes
 */
#include "train/cuda/attention/hopper.h"
#include "lib/base/mem.h"
#include "train/cuda/box.h"
#include "train/cuda/maps.h"

#include <stdio.h>
#include <stdlib.h>

struct hopper_attention {
	struct maps maps;
	unsigned *counters; /* of struct hopper_call */
};

enum {
	COUNTERS = 2,
	/* Keys and values of heads whose tiles are computed at the same time. */
	TOGETHER_BYTES = 32 << 20,
};

/* Why not, or NULL. */
static const char *
open_parts(struct hopper_attention *h, int capability)
{
	void *counters = NULL;

	if (capability != CU_HOPPER)
		return "needs compute capability 9.0";
	if (!hopper_attention_present())
		return "this build has no code for compute capability 9.0a";
	if (!maps_open(&h->maps))
		return "the driver makes no maps of tensors";
	if (cudaMalloc(&counters, COUNTERS * sizeof(unsigned)) == cudaSuccess)
		h->counters = counters;
	if (!counters || cudaMemset(counters, 0, COUNTERS * sizeof(unsigned)) != cudaSuccess)
		return "no memory on the device";
	return NULL;
}

struct hopper_attention *
hopper_attention_new(int capability, struct err *why)
{
	struct hopper_attention *h = mem_zalloc(1, sizeof *h);
	const char *reason = open_parts(h, capability);

	if (!reason)
		return h;
	err_set(why, "%s", reason);
	hopper_attention_free(h);
	return NULL;
}

/* NULL is ignored. */
void
hopper_attention_free(struct hopper_attention *h)
{
	if (!h)
		return;
	(void)cudaFree(h->counters);
	maps_close(&h->maps);
	free(h);
}

/* Kernels for heads of up to so many columns; of the forward pass queries of a tile and keys of a
 * block. */
static const struct width {
	int columns, queries, keys;
	void (*forward)(struct stream *, const struct hopper_call *);
	void (*backward)(struct stream *, const struct backward_call *);
} widths[] = {
	{ 64, HOPPER_QUERIES_64, HOPPER_KEYS, hopper_attention_64, hopper_attention_bwd_64 },
	{ 96, HOPPER_QUERIES_128, HOPPER_KEYS, hopper_attention_96, hopper_attention_bwd_96 },
	{ 128, HOPPER_QUERIES_128, HOPPER_KEYS, hopper_attention_128, hopper_attention_bwd_128 },
	{ 256, HOPPER_QUERIES_128, HOPPER_KEYS_256, hopper_attention_256,
	    hopper_attention_bwd_256 },
};

/* The narrowest that holds a call's heads; the widest holds all that are taken. */
static const struct width *
width_of(const struct attention *t)
{
	const struct width *w = widths;

	while (t->head_dim > w->columns && w < widths + sizeof widths / sizeof *widths - 1)
		w++;
	return w;
}

/* Positions and tiles are counted in 32 bits. */
bool
hopper_attention_takes(const struct attention *t)
{
	struct attention_kind k = { t->head_dim, t->first.data != NULL, t->softcap > 0,
		t->drop.p > 0 };
	int64_t tiles = int64_div_up(attention_queries(t), width_of(t)->queries);

	return hopper_takes(&k, t->drop.seq_length) && t->scale > 0 &&
	    attention_keys(t) < (int64_t)1 << 30 &&
	    tiles * t->micro_batch * t->num_heads < (int64_t)1 << 30;
}

/* --- the backward pass: what it takes, and where it works ------------------------------------- */

static struct row_tiles
rows_of(const struct attention *t)
{
	return (struct row_tiles){ (int)attention_first_query(t), (int)attention_keys(t),
		hopper_tiles_of(t->head_dim).rows };
}

/* As the memory plan counts. */
static struct attention_shape
shape_of(const struct attention *t)
{
	return (struct attention_shape){ .micro_batch_size = t->micro_batch,
		.num_queries = attention_queries(t),
		.num_keys = attention_keys(t),
		.num_heads = t->num_heads,
		.num_groups = t->num_groups,
		.head_dim = t->head_dim,
		.backward = true };
}

bool
hopper_attention_takes_bwd(const struct attention_grad *t)
{
	const struct attention *a = &t->fwd;
	struct attention_shape s = shape_of(a);
	struct hopper_work w = hopper_work_of(&s);

	return hopper_attention_takes(a) && t->work.data &&
	    (uint64_t)tensor_bytes(&t->work) >= hopper_workspace(&s) &&
	    w.turns < (int64_t)1 << 30 && w.last * a->num_groups < (int64_t)1 << 30;
}

/* --- the calls -------------------------------------------------------------------------------- */

/* The map of rows of heads: boxes of 64 columns of a head, of so many positions of a sample. */
static CUresult
map_of(const struct hopper_attention *h, CUtensorMap *map, const struct tensor *t, int samples,
    int heads, int positions)
{
	cuuint64_t row = (cuuint64_t)t->stride[0] * 2, columns = (cuuint64_t)(t->shape[1] / heads);
	const cuuint64_t size[] = { columns, (cuuint64_t)heads, (cuuint64_t)samples,
		(cuuint64_t)(t->shape[0] / samples) };
	const cuuint64_t step[] = { 2 * columns, row, row * (cuuint64_t)samples };
	const cuuint32_t box[] = { BOX, 1, 1, (cuuint32_t)positions }, each[] = { 1, 1, 1, 1 };

	return h->maps.encode(map,
	    t->dtype == DTYPE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
				   : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
	    4, t->data, size, step, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
	    CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
	    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUresult
make_maps(const struct hopper_attention *h, struct hopper_call *call)
{
	const struct attention *t = &call->t;
	const struct width *w = width_of(t);
	int b = t->micro_batch;
	CUresult rc = map_of(h, &call->q, &t->q, b, t->num_heads, w->queries);

	if (rc == CUDA_SUCCESS)
		rc = map_of(h, &call->k, &t->k, b, t->num_groups, w->keys);
	if (rc == CUDA_SUCCESS)
		rc = map_of(h, &call->v, &t->v, b, t->num_groups, w->keys);
	return rc == CUDA_SUCCESS ? map_of(h, &call->out, &t->out, b, t->num_heads, HOPPER_ROWS)
				  : rc;
}

/* As many pairs of a sample and a group at a time as the cache holds keys and values of. */
static struct tile_order
order_of(const struct attention *t)
{
	int64_t pair = 4 * attention_keys(t) * t->head_dim, together = TOGETHER_BYTES / pair;
	int pairs = t->micro_batch * t->num_groups;

	return (struct tile_order){ .pairs = pairs,
		.heads = t->num_heads / t->num_groups,
		.tiles = (int)int64_div_up(attention_queries(t), width_of(t)->queries),
		.together = together < 1 ? 1
		    : together < pairs   ? (int)together
					 : pairs };
}

/* A call without its maps. */
static struct hopper_call
call_of(const struct hopper_attention *h, const struct attention *t)
{
	double log2_e = 1.4426950408889634, scale = t->scale, cap = t->softcap;

	return (struct hopper_call){ .t = *t,
		.queries = (int)attention_queries(t),
		.before = (int)attention_first_query(t),
		.window = t->window < attention_keys(t) ? (int)t->window : 0,
		.factor = (float)(cap > 0 ? log2_e : scale * log2_e),
		.cap_in = (float)(cap > 0 ? scale / cap : 0),
		.cap_out = (float)cap,
		.drop = mask_of(&t->drop),
		.order = order_of(t),
		.claimed = h->counters,
		.ended = h->counters + 1 };
}

/* The counters serve one call at a time, so all are on one stream. */
void
hopper_attention_fwd(struct stream *st, const struct hopper_attention *h, const struct attention *t)
{
	struct hopper_call call = call_of(h, t);
	CUresult rc = make_maps(h, &call);
	char reason[64];

	ops_require(st == &st->device->stream[STREAM_COMPUTE].base);
	if (rc == CUDA_SUCCESS) {
		width_of(t)->forward(st, &call);
		cu_launched(st, "attention_fwd");
		return;
	}
	snprintf(reason, sizeof reason, "error %d of the driver", (int)rc);
	cu_fail(st->device, "map of a tensor", reason);
}

/* A backward call without its maps. */
static struct backward_call
backward_call_of(
    const struct hopper_attention *h, const struct attention_grad *t, struct hopper_run how)
{
	const struct attention *a = &t->fwd;
	struct attention_shape s = shape_of(a);
	struct hopper_work w = hopper_work_of(&s);
	bool apart = w.parts > 0 && !how.together;
	int heads = apart ? 1 : a->num_heads / a->num_groups,
	    pairs = a->micro_batch * a->num_heads / heads, columns = (int)w.last / a->micro_batch;
	struct backward_call c = { .fwd = call_of(h, a),
		.dout_rows = t->dout,
		.dk = t->dk,
		.dv = t->dv,
		.delta = t->dsink.data ? t->delta : (struct tensor){ .data = NULL },
		.scale = (float)a->scale,
		.rows = rows_of(a),
		.order = { pairs, columns, pairs_together(pairs) },
		.heads = heads,
		.sums = t->work.data,
		.run = how };

	for (int i = 0; i < 2 && apart; i++)
		c.parts[i] = c.sums + w.sums + i * w.parts;
	c.statistics = c.sums + w.sums + 2 * w.parts;
	c.turns = (unsigned *)(c.statistics + w.statistics);
	c.last = (int32_t *)(c.turns + w.turns);
	c.places = a->first.data ? c.last + w.last : NULL;
	c.claimed = (unsigned *)(c.last + 2 * w.last);
	return c;
}

static CUresult
make_backward_maps(
    const struct hopper_attention *h, struct backward_call *call, const struct attention_grad *t)
{
	const struct attention *a = &t->fwd;
	int block = hopper_tiles_of(a->head_dim).block;
	const struct {
		CUtensorMap *map;
		const struct tensor *of;
		int heads, positions;
	} all[] = {
		{ &call->fwd.q, &a->q, a->num_heads, BOX },
		{ &call->dout, &t->dout, a->num_heads, BOX },
		{ &call->dq, &t->dq, a->num_heads, BOX },
		{ &call->fwd.k, &a->k, a->num_groups, block },
		{ &call->fwd.v, &a->v, a->num_groups, block },
	};
	CUresult rc = CUDA_SUCCESS;

	for (size_t i = 0; i < sizeof all / sizeof *all && rc == CUDA_SUCCESS; i++)
		rc = map_of(
		    h, all[i].map, all[i].of, a->micro_batch, all[i].heads, all[i].positions);
	return rc;
}

void
hopper_attention_bwd(struct stream *st, const struct hopper_attention *h,
    const struct attention_grad *t, struct hopper_run how)
{
	struct backward_call call = backward_call_of(h, t, how);
	CUresult rc = make_backward_maps(h, &call, t);
	char reason[64];

	if (rc == CUDA_SUCCESS) {
		width_of(&t->fwd)->backward(st, &call);
		cu_launched(st, "attention_bwd");
		return;
	}
	snprintf(reason, sizeof reason, "error %d of the driver", (int)rc);
	cu_fail(st->device, "map of a tensor", reason);
}
