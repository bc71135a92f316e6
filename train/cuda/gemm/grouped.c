/*
 * grouped.c - GEMMs of experts: which implementation serves a GEMM, and how operands are copied
 * in boxes
 */
#include "lib/base/mem.h"
#include "train/cuda/box.h"
#include "train/cuda/gemm/grouped.h"
#include "train/cuda/maps.h"

#include <stdio.h>
#include <stdlib.h>

struct grouped_cache {
	struct maps maps; /* not open: Hopper's kernel does not serve */
	int capability;
};

bool
cu_has_float8_experts(int capability, int64_t experts)
{
	return capability == CU_HOPPER && grouped_hopper_present() &&
	    experts <= GROUPED_HOPPER_EXPERTS;
}

struct grouped_cache *
grouped_cache_new(const struct device *d)
{
	struct grouped_cache *c = mem_zalloc(1, sizeof *c);

	c->capability = cu_capability(d->index);
	if (c->capability == CU_HOPPER && grouped_hopper_present())
		(void)maps_open(&c->maps);
	return c;
}

/* NULL is ignored. */
void
grouped_cache_free(struct grouped_cache *c)
{
	if (c)
		maps_close(&c->maps);
	free(c);
}

/* Shapes and types; the numbers of rows are only known to the device. */
static void
check_shapes(const struct grouped *g)
{
	bool weight = g->kind == GROUPED_WEIGHT;
	const struct tensor *stack = weight ? &g->c : &g->b, *other = weight ? &g->b : &g->c;
	int64_t experts = g->counts.shape[1], m = stack->shape[0] / experts, n = stack->shape[1];

	ops_require(g->counts.dtype == DTYPE_I32 && g->counts.ndim == 2);
	ops_require(experts > 0 && experts <= GROUPED_EXPERTS && stack->shape[0] == experts * m);
	ops_require(g->a.ndim == 2 && g->b.ndim == 2 && g->c.ndim == 2);
	ops_require(g->a.shape[0] == other->shape[0] && g->a.shape[0] <= INT32_MAX / 2);
	ops_require(stack->shape[0] <= INT32_MAX / 2 && n <= INT32_MAX / 2);
	ops_require(g->a.shape[1] == (g->kind == GROUPED_FORWARD ? n : m));
	ops_require(other->shape[1] == (g->kind == GROUPED_FORWARD ? m : n));
	ops_require(g->b.dtype == g->a.dtype);
	ops_require(g->c.dtype == g->a.dtype || (weight && g->c.dtype == DTYPE_F32));
	ops_require(g->beta == 0 || (weight && g->beta == 1));
}

/* Whether every row is on 16 bytes, and holds whole 16 bytes. */
static bool
in_pieces(const struct tensor *t)
{
	size_t size = dtype_size(t->dtype);

	return (uintptr_t)t->data % 16 == 0 && (size_t)t->stride[0] * size % 16 == 0 &&
	    (size_t)t->shape[1] * size % 16 == 0;
}

/* The shapes and types of 8-bit operands, with their scales. */
static void
check_in_8(const struct grouped *g)
{
	bool forward = g->kind == GROUPED_FORWARD;
	int64_t experts = g->counts.shape[1], along = forward ? 0 : 1,
		m = g->b.shape[along] / experts, n = g->b.shape[1 - along];
	enum scale_kind rows = scale_kind(&g->scale_a, &g->a);

	ops_require(g->kind != GROUPED_WEIGHT && g->beta == 0 && g->c.dtype == DTYPE_BF16);
	ops_require(g->b.dtype == DTYPE_F8_E4M3 && dtype_is_float8(g->a.dtype));
	ops_require(g->counts.dtype == DTYPE_I32 && g->counts.ndim == 2 && experts > 0);
	ops_require(g->b.shape[along] == experts * m && m % 16 == 0 && n % 16 == 0);
	ops_require(g->a.shape[0] == g->c.shape[0] && g->a.shape[0] <= INT32_MAX / 2);
	ops_require(g->b.shape[along] <= INT32_MAX / 2 && n <= INT32_MAX / 2);
	ops_require(g->a.shape[1] == (forward ? n : m) && g->c.shape[1] == (forward ? m : n));
	ops_require(in_pieces(&g->a) && in_pieces(&g->b) && in_pieces(&g->c));
	ops_require(rows != SCALE_SQUARES);
	ops_require(rows == SCALE_TENSOR
		? g->scale_b.ndim < 2
		: scale_kind(&g->scale_b, &g->b) == SCALE_SQUARES && m % SCALE_BLOCK == 0);
}

/* Whether tensor cores serve it, and whether Hopper's kernel does. */
static bool
mma_serves(const struct grouped_cache *c, const struct grouped *g)
{
	return c->capability >= CU_TILED && g->a.dtype != DTYPE_F32 &&
	    g->counts.shape[1] <= GROUPED_TILED_EXPERTS && in_pieces(&g->a) && in_pieces(&g->b) &&
	    in_pieces(&g->c);
}

static bool
hopper_serves(const struct grouped_cache *c, const struct grouped *g)
{
	return c->maps.library && g->a.dtype == DTYPE_BF16 && g->a.shape[0] > 0 &&
	    g->counts.shape[1] <= GROUPED_HOPPER_EXPERTS;
}

/* How a matrix is cut into boxes. */
struct boxes {
	int lines;
	int columns;     /* 0: 128 bytes, whose pieces are permuted */
	int64_t experts; /* as many matrices in a stack; 0: one */
};

static CUresult
map_of(const struct grouped_cache *c, CUtensorMap *map, const struct tensor *t,
    const struct boxes *boxes)
{
	size_t element = dtype_size(t->dtype);
	int64_t experts = boxes->experts, height = experts ? t->shape[0] / experts : t->shape[0],
		columns = boxes->columns ? boxes->columns : (int64_t)(BOX_LINE / element);
	const cuuint64_t size[] = { (cuuint64_t)t->shape[1], (cuuint64_t)height,
		(cuuint64_t)experts };
	const cuuint64_t line = (cuuint64_t)t->stride[0] * element,
			 step[] = { line, line * size[1] };
	const cuuint32_t box[] = { (cuuint32_t)columns, (cuuint32_t)boxes->lines, 1 },
			 each[] = { 1, 1, 1 };

	return c->maps.encode(map,
	    element == 1                ? CU_TENSOR_MAP_DATA_TYPE_UINT8
		: t->dtype == DTYPE_F32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
					: CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
	    experts ? 3 : 2, t->data, size, step, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
	    boxes->columns ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
	    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* The maps of the operands, and of a result in F32. */
static CUresult
make_maps(const struct grouped_cache *c, struct grouped_call *call)
{
	const struct grouped *g = &call->g;
	bool weight = g->kind == GROUPED_WEIGHT, in_8 = dtype_is_float8(g->a.dtype);
	const struct boxes a = { .lines = weight ? BOX : GROUPED_HIGH },
			   b = { .lines = in_8 ? GROUPED_WIDE_FLOAT8 : BOX },
			   out = { .lines = BOX, .experts = g->counts.shape[1] },
			   lines = { GROUPED_ASKED, GROUPED_WIDE_WEIGHT, out.experts };
	CUresult rc = map_of(c, &call->a, &g->a, &a);

	if (rc == CUDA_SUCCESS)
		rc = map_of(c, &call->b, &g->b, &b);
	if (rc != CUDA_SUCCESS || !weight || g->c.dtype != DTYPE_F32)
		return rc;
	rc = map_of(c, &call->c, &g->c, &out);
	return rc == CUDA_SUCCESS ? map_of(c, &call->c_lines, &g->c, &lines) : rc;
}

static void
run_hopper(struct stream *st, const struct grouped_cache *c, const struct grouped *g)
{
	struct grouped_call call = { .g = *g };
	CUresult rc = make_maps(c, &call);
	char reason[64];

	if (rc == CUDA_SUCCESS) {
		(dtype_is_float8(g->a.dtype)        ? grouped_float8
			: g->kind == GROUPED_WEIGHT ? grouped_weight
						    : grouped_rows)(st, &call);
		return;
	}
	snprintf(reason, sizeof reason, "error %d of the driver", (int)rc);
	cu_fail(st->device, "map of a tensor", reason);
}

/* Opening the device has checked what the run needs. */
static void
run_in_8(struct stream *st, const struct grouped_cache *c, const struct grouped *g)
{
	if (c->maps.library && g->counts.shape[1] <= GROUPED_HOPPER_EXPERTS)
		run_hopper(st, c, g);
	else
		cu_fail(st->device, "grouped", "8-bit operands are for compute capability 9.0");
}

void
cuda_grouped(struct stream *st, const struct grouped *g)
{
	const struct grouped_cache *c = st->device->grouped;
	bool in_8 = dtype_is_float8(g->a.dtype);

	(in_8 ? check_in_8 : check_shapes)(g);
	if (tensor_elements(&g->c) == 0)
		return;
	if (in_8)
		run_in_8(st, c, g);
	else if (!mma_serves(c, g))
		grouped_plain(st, g);
	else if (!hopper_serves(c, g))
		grouped_mma(st, g);
	else
		run_hopper(st, c, g);
	cu_launched(st, "grouped");
}
