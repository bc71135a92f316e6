/*
 * attention.c - which implementation of attention serves a call, and the calls to cuDNN
 *
 *   Hopper  bf16 and half on compute capability 9.0, heads of a multiple of 8 up to 256, no
 *           dropout; where it was measured to be the fastest, or asked for by name: hopper.c
 *   cuDNN   bf16 and half, no documents, no dropout, no softcap, no sinks: the fastest where the
 *           library is there
 *   tiled   bf16 and half, heads of a multiple of 8 up to 256, all of these too, where a block
 *           has the shared memory: flash.cu
 *   plain   the rest, and all of it on a GPU before compute capability 8.0: attention_plain.cu
 *
 * Values of another width than queries and keys are for the last three.
 *
 * The choice depends on the shapes, the device and the library alone, and a plan is made once for
 * each shape, so every step and every run takes the same kernels. A plan that needs more memory
 * than the call offers is not used. Gradients of sinks are one more kernel after any of them:
 * attention_sink.cu.
 */
#include "lib/base/mem.h"
#include "lib/model/hopper.h"
#include "train/cuda/attention/attention.h"
#include "train/cuda/attention/cudnn.h"
#include "train/cuda/attention/hopper.h"
#include "train/cuda/impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A requested shape, with its plan when the library has one. */
struct entry {
	struct sdpa_shape shape;
	struct sdpa_plan plan;
	bool usable;
};

struct attention_cache {
	struct cudnn *dnn;               /* NULL: not found, or not wanted */
	struct hopper_attention *hopper; /* the same */
	enum attention_choice choice;
	bool deterministic;
	struct hopper_run run;
	/* capability CU_TILED: the tiled kernels run here */
	bool tensor_cores;
	int64_t shared; /* most bytes of shared memory of a block */
	struct entry *entry;
	size_t count, room;
};

/* One call of either pass; g is NULL forward. */
struct call {
	const struct attention *t;
	const struct attention_grad *g;
};

/* True for the types of tensor cores, which F32 is not. */
static bool
is_half(enum dtype t)
{
	return t == DTYPE_BF16 || t == DTYPE_F16;
}

/* The library's context where it can be used; NULL with a reason. */
static struct cudnn *
open_library(
    const struct attention_cache *c, enum dtype dtype, cudaStream_t stream, struct err *why)
{
	if (is_half(dtype) && c->tensor_cores)
		return cudnn_open(stream, why);
	err_set(why, "%s", is_half(dtype) ? "needs compute capability 8.0" : "needs 16 bits");
	return NULL;
}

/* Opens what the choice may need. A failure only when it was asked for by name. */
static int
open_choice(struct attention_cache *c, const struct device_config *config, int capability,
    cudaStream_t stream, struct err *e)
{
	struct err why;

	if (c->choice == ATTENTION_BEST || c->choice == ATTENTION_HOPPER)
		c->hopper = hopper_attention_new(capability, &why);
	if (!c->hopper && c->choice == ATTENTION_HOPPER)
		return err_set(e, "attention for Hopper: %s", why.msg);
	if (c->choice == ATTENTION_TILED || c->choice == ATTENTION_PLAIN)
		return 0;
	c->dnn = open_library(c, config->dtype, stream, &why);
	if (!c->dnn && c->choice == ATTENTION_LIBRARY)
		return err_set(e, "attention by cuDNN: %s", why.msg);
	return 0;
}

struct attention_cache *
attention_cache_new(const struct device_config *config, cudaStream_t stream, struct err *e)
{
	struct attention_cache *c = mem_zalloc(1, sizeof *c);
	int device = 0, shared = 0, capability;

	c->choice = config->attention;
	c->deterministic = config->deterministic;
	c->run.in_order = true;
	if (cudaGetDevice(&device) == cudaSuccess)
		(void)cudaDeviceGetAttribute(
		    &shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
	capability = cu_capability(device);
	c->shared = shared;
	c->tensor_cores = capability >= CU_TILED;
	if (open_choice(c, config, capability, stream, e) == 0)
		return c;
	attention_cache_free(c);
	return NULL;
}

/* NULL is allowed. */
void
attention_cache_free(struct attention_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		sdpa_plan_free(c->dnn, &c->entry[i].plan);
	cudnn_close(c->dnn);
	hopper_attention_free(c->hopper);
	free(c->entry);
	free(c);
}

void
cuda_attention_run(struct device *d, struct hopper_run how)
{
	d->attention->run = how;
}

/* --- which shapes an implementation takes ----------------------------------------------------- */

/* A window of all keys counts as none. */
static int64_t
window_of(const struct attention *t)
{
	return t->window > 0 && t->window < attention_keys(t) ? t->window : 0;
}

/* Rows that 16-byte accesses reach. */
static bool
is_aligned(const struct tensor *t)
{
	return (uintptr_t)t->data % 16 == 0 && t->stride[0] % 8 == 0;
}

/* All tensors of 16 bits, rows aligned, heads of whole 16 bytes. */
static bool
fits_tensor_cores(const struct call *c)
{
	const struct attention *t = c->t;
	const struct attention_grad *g = c->g;

	return is_half(t->q.dtype) && t->head_dim % 8 == 0 && attention_value_dim(t) % 8 == 0 &&
	    is_aligned(&t->q) && is_aligned(&t->k) && is_aligned(&t->v) && is_aligned(&t->out) &&
	    (!g ||
		(is_aligned(&g->dout) && is_aligned(&g->dq) && is_aligned(&g->dk) &&
		    is_aligned(&g->dv)));
}

/* What the tiled kernels take; they count positions in 32 bits. */
static bool
fits_tiles(const struct attention_cache *cache, const struct call *c)
{
	int widest = (int)int64_max(c->t->head_dim, attention_value_dim(c->t));
	int64_t bytes = flash_attention_shared(widest, c->g != NULL);

	return cache->tensor_cores && fits_tensor_cores(c) && bytes >= 0 &&
	    bytes <= cache->shared && c->t->scale > 0 && attention_keys(c->t) < (int64_t)1 << 30;
}

/* Whether values are as wide as queries and keys. */
static bool
is_even(const struct attention *t)
{
	return attention_value_dim(t) == t->head_dim;
}

/* Whether the kernels for Hopper serve: what they take if they were asked for by name, otherwise
 * where they are the fastest. */
static bool
fits_hopper(const struct attention_cache *cache, const struct call *c)
{
	struct attention_kind k = { c->t->head_dim, c->t->first.data != NULL, c->t->softcap > 0,
		c->t->drop.p > 0 };

	if (!cache->hopper || !fits_tensor_cores(c) || !is_even(c->t) ||
	    (cache->choice != ATTENTION_HOPPER && !hopper_is_fastest(&k, c->g != NULL)))
		return false;
	return c->g ? hopper_attention_takes_bwd(c->g) : hopper_attention_takes(c->t);
}

/* True for what the library is asked to compute. It has no backward pass for a single query, its
 * dropout draws other numbers than ours, the graphs here have no softcap and no sinks, and 9.14.0
 * has a known bug with windows. */
static bool
fits_library(const struct attention_cache *cache, const struct call *c)
{
	const struct attention *t = c->t;
	int64_t s = attention_queries(t);

	return cache->dnn && fits_tensor_cores(c) && !t->first.data && t->drop.p == 0 &&
	    t->softcap == 0 && !t->sink.data && s > 1 &&
	    (window_of(t) == 0 || cache->dnn->version != 91400) && t->lse.stride[0] == s &&
	    (!c->g || c->g->delta.stride[0] == s);
}

/* --- cuDNN ------------------------------------------------------------------------------------ */

/* Everything that a plan depends on. */
static struct sdpa_shape
shape_of(const struct attention_cache *cache, const struct call *c)
{
	const struct attention *t = c->t;
	struct sdpa_shape s;

	memset(&s, 0, sizeof s);
	s.b = t->micro_batch;
	s.queries = attention_queries(t);
	s.keys = attention_keys(t);
	s.n = t->num_heads;
	s.g = t->num_groups;
	s.d = t->head_dim;
	s.dv = attention_value_dim(t);
	s.window = window_of(t);
	s.dtype = (int32_t)t->q.dtype;
	s.row[SDPA_Q] = t->q.stride[0];
	s.row[SDPA_K] = t->k.stride[0];
	s.row[SDPA_V] = t->v.stride[0];
	s.row[SDPA_OUT] = t->out.stride[0];
	s.pass = SDPA_FORWARD;
	if (!c->g)
		return s;
	s.row[SDPA_DOUT] = c->g->dout.stride[0];
	s.row[SDPA_DQ] = c->g->dq.stride[0];
	s.row[SDPA_DK] = c->g->dk.stride[0];
	s.row[SDPA_DV] = c->g->dv.stride[0];
	s.pass = cache->deterministic ? SDPA_DETERMINISTIC : SDPA_BACKWARD;
	return s;
}

/* Bytes of the sum of dq, ahead of the plan's own workspace. */
static int64_t
sum_bytes(const struct sdpa_shape *s)
{
	return s->pass == SDPA_BACKWARD
	    ? int64_div_up(4 * s->b * s->n * s->queries * s->d, 256) * 256
	    : 0;
}

/* Where a call's plan may work: the device's workspace, and in the backward pass what the caller
 * gives. */
static struct tensor
workspace_of(struct stream *st, const struct call *c)
{
	return c->g ? c->g->work
		    : tensor_2d(cu_workspace(st), DTYPE_F32, 1, CU_WORKSPACE / sizeof(float));
}

/* The entry, if its plan can work in that much. */
static const struct entry *
fitting(const struct entry *n, const struct tensor *work)
{
	int64_t room = work->data ? (int64_t)tensor_bytes(work) : 0;

	return n->usable && n->plan.workspace + sum_bytes(&n->shape) <= room ? n : NULL;
}

/* The plan of a shape, made at the first request; NULL when the library has none or it needs more
 * memory than there is. */
static const struct entry *
find_plan(struct attention_cache *cache, const struct call *c, const struct tensor *work)
{
	struct entry n;
	struct err why;

	memset(&n, 0, sizeof n);
	n.shape = shape_of(cache, c);
	for (size_t i = 0; i < cache->count; i++)
		if (memcmp(&cache->entry[i].shape, &n.shape, sizeof n.shape) == 0)
			return fitting(&cache->entry[i], work);
	n.usable = sdpa_plan_new(cache->dnn, &n.shape, &n.plan, &why) == 0;
	if (cache->count == cache->room) {
		cache->room = 2 * cache->room + 4;
		cache->entry = mem_realloc(cache->entry, cache->room, sizeof *cache->entry);
	}
	cache->entry[cache->count++] = n;
	return fitting(&cache->entry[cache->count - 1], work);
}

/* The library reads the numbers before the call returns. */
static void
run_plan(struct stream *st, const struct entry *p, const struct call *c, const struct tensor *work)
{
	struct attention_cache *cache = st->device->attention;
	float scale = (float)c->t->scale, minus_infinity = -INFINITY, one = 1,
	      window = (float)(p->shape.window - p->shape.keys + p->shape.queries);
	int32_t num_queries = (int32_t)p->shape.queries, num_keys = (int32_t)p->shape.keys;
	void *memory[SDPA_IDS] = {
		[SDPA_Q] = c->t->q.data,
		[SDPA_K] = c->t->k.data,
		[SDPA_V] = c->t->v.data,
		[SDPA_OUT] = c->t->out.data,
		[SDPA_LSE] = c->t->lse.data,
		[SDPA_SCALE] = &scale,
		[SDPA_MINUS_INFINITY] = &minus_infinity,
		[SDPA_ONE] = &one,
		[SDPA_WINDOW] = &window,
		[SDPA_NUM_QUERIES] = &num_queries,
		[SDPA_NUM_KEYS] = &num_keys,
	};
	struct err why;

	ops_require(st == &st->device->stream[STREAM_COMPUTE].base);
	if (c->g) {
		memory[SDPA_DOUT] = c->g->dout.data;
		memory[SDPA_DQ] = c->g->dq.data;
		memory[SDPA_DK] = c->g->dk.data;
		memory[SDPA_DV] = c->g->dv.data;
		memory[SDPA_DELTA] = c->g->delta.data;
		memory[SDPA_DQ_SUM] = work->data;
	}
	if (sdpa_run(
		cache->dnn, &p->plan, memory, (char *)work->data + sum_bytes(&p->shape), &why) < 0)
		cu_fail(st->device, c->g ? "attention_bwd" : "attention_fwd", why.msg);
}

/* --- the operations --------------------------------------------------------------------------- */

/* Shapes of the forward pass. */
static void
check(const struct attention *t)
{
	ops_require(t->head_dim > 0 && t->head_dim <= CU_HEAD_MAX && attention_value_dim(t) > 0 &&
	    attention_value_dim(t) <= CU_HEAD_MAX);
	ops_require(attention_shapes_fit(t) && t->lse.dtype == DTYPE_F32);
}

/* Whether an implementation may serve a pass. A backward pass that Hopper's kernels do not take is
 * served by the best of the others. */
static bool
may_serve(const struct attention_cache *cache, const struct call *c, enum attention_choice which)
{
	return cache->choice == which || cache->choice == ATTENTION_BEST ||
	    (cache->choice == ATTENTION_HOPPER && c->g);
}

/* Tries those for Hopper, the library, then the tiled, then the plain kernels; or uses only the one
 * that the device was opened with, which fails for shapes that it does not support. */
static void
run(struct stream *st, const struct call *c)
{
	struct attention_cache *cache = st->device->attention;
	const char *name = c->g ? "attention_bwd" : "attention_fwd";
	const struct entry *plan = NULL;
	struct tensor work = workspace_of(st, c);

	st->device->last = name;
	if (fits_hopper(cache, c)) {
		c->g ? hopper_attention_bwd(st, cache->hopper, c->g, cache->run)
		     : hopper_attention_fwd(st, cache->hopper, c->t);
		return;
	}
	if (may_serve(cache, c, ATTENTION_LIBRARY) && fits_library(cache, c))
		plan = find_plan(cache, c, &work);
	if (plan)
		run_plan(st, plan, c, &work);
	else if (may_serve(cache, c, ATTENTION_TILED) && fits_tiles(cache, c))
		c->g ? flash_attention_bwd(st, c->g) : flash_attention_fwd(st, c->t);
	else if (may_serve(cache, c, ATTENTION_PLAIN))
		c->g ? plain_attention_bwd(st, c->g) : plain_attention_fwd(st, c->t);
	else
		cu_fail(st->device, name,
		    "does not take this shape; --attention-backend auto takes what does");
}

/* Everything that the kernels assume is checked here or where they are chosen. */
void
cuda_attention_fwd(struct stream *st, const struct attention *t)
{
	struct call c = { t, NULL };

	check(t);
	if (attention_queries(t) > 0)
		run(st, &c);
}

/* dq, dk and dv are written, not added to; delta [b n, s] is scratch of the caller's. Without cuDNN
 * it holds the sums that the gradients of sinks need. */
void
cuda_attention_bwd(struct stream *st, const struct attention_grad *t)
{
	struct call c = { &t->fwd, t };

	check(&t->fwd);
	ops_require(attention_gradients_fit(t) && t->delta.dtype == DTYPE_F32);
	if (attention_queries(&t->fwd) == 0)
		return;
	run(st, &c);
	if (t->dsink.data)
		attention_sink_bwd(st, t);
}

/* Plain kernels alone. */
void
cuda_attention_max(struct stream *st, const struct attention_max *m)
{
	const struct attention *a = &m->fwd;

	ops_require(a->micro_batch > 0 && a->head_dim <= CU_HEAD_MAX &&
	    a->q.shape[1] == (int64_t)a->num_heads * a->head_dim &&
	    a->k.shape[1] == (int64_t)a->num_groups * a->head_dim);
	ops_require(m->max.dtype == DTYPE_F32 && m->max.shape[0] == a->num_heads);
	plain_attention_max(st, m);
}
