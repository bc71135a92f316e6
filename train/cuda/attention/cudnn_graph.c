/*
 * cudnn_graph.c - causal attention as a graph of operations that cuDNN compiles into one kernel
 *
 * The library recognises attention by the shape and the order of the operations, so both are kept
 * to exactly: 14 operations forward, 22 backward, two more with grouped heads and two more where
 * queries are fewer than keys. Tensors have the dims (b, heads, s, d), and strides say where they
 * lie in memory: rows of tokens with the sample fastest, so the next sample is one row away and the
 * next position b rows. Scores are virtual: names for values that never reach memory. Source:
 * docs/gpu.md 1.2 to 1.4.
 */
#include "train/cuda/attention/cudnn.h"

#include <stddef.h>

/* clang-format off */
#define VALUES(...) (const struct dnn_value[]){ __VA_ARGS__, { 0 } }
#define VALUE(attr, type, count, value) { DNN_ATTR_##attr, DNN_##type, count, value }
#define DESC(attr, x) VALUE(attr, DESCRIPTOR, (x) != NULL, &(dnn_desc){ x })
#define DTYPE(attr, x) VALUE(attr, DATA_TYPE, 1, &(int32_t){ x })
/* clang-format on */

/* Keeps the first failure. */
static void
note(struct sdpa_graph *gr, int status)
{
	if (gr->status == 0)
		gr->status = status;
}

/* Absent attributes are left out. After a failure nothing more is made, so a builder need not check
 * each step. */
dnn_desc
dnn_create(struct sdpa_graph *gr, enum dnn_kind kind, const struct dnn_value *values)
{
	dnn_desc x = NULL;

	if (gr->status == 0)
		note(gr, gr->api->create_descriptor((int)kind, &x));
	if (gr->status != 0)
		return NULL;
	gr->all[gr->num_all++] = x;
	for (const struct dnn_value *v = values; v->value; v++)
		if (v->count > 0)
			note(gr,
			    gr->api->set_attribute(
				x, (int)v->attr, (int)v->type, v->count, v->value));
	return x;
}

/* The same, and finalised. */
dnn_desc
dnn_make(struct sdpa_graph *gr, enum dnn_kind kind, const struct dnn_value *values)
{
	dnn_desc x = dnn_create(gr, kind, values);

	if (gr->status == 0)
		note(gr, gr->api->finalize(x));
	return x;
}

/* Frees every descriptor; a plan that is kept has left the list. */
void
sdpa_graph_free(struct sdpa_graph *gr)
{
	while (gr->num_all > 0)
		(void)gr->api->destroy_descriptor(gr->all[--gr->num_all]);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Dims and strides of a tensor. */
struct extent {
	int64_t dims[4], strides[4];
};

/* A tensor with one of our ids, or with id 0 a virtual one. */
static dnn_desc
tensor(struct sdpa_graph *gr, int id, int dtype, const struct extent *at)
{
	if (id)
		gr->ids[gr->num_ids++] = id;
	return dnn_make(gr, DNN_TENSOR,
	    VALUES(DTYPE(TENSOR_TYPE, dtype), VALUE(TENSOR_DIMS, INT64, 4, at->dims),
		VALUE(TENSOR_STRIDES, INT64, 4, at->strides),
		VALUE(TENSOR_ID, INT64, 1, &(int64_t){ id ? id : gr->next_virtual++ }),
		VALUE(TENSOR_ALIGNMENT, INT64, 1, &(int64_t){ 16 }),
		VALUE(TENSOR_VIRTUAL, BOOL, 1, &(bool){ id == 0 }),
		VALUE(TENSOR_BY_VALUE, BOOL, 1, &(bool){ id >= SDPA_SCALE })));
}

/* The library's name of the storage type. */
static int
storage(const struct sdpa_graph *gr)
{
	return gr->shape->dtype == DTYPE_BF16 ? DNN_BF16 : DNN_F16;
}

/* Columns of a head of values and outputs, and of queries and keys. */
static int64_t
head_width(const struct sdpa_shape *a, int like)
{
	bool values = like == SDPA_V || like == SDPA_OUT || like == SDPA_DOUT || like == SDPA_DV;

	return values ? a->dv : a->d;
}

/* num heads side by side in rows of tokens: (b, num, s, d), or as the right operand of a GEMM (b,
 * num, d, s). like: the id of the tensor whose rows it has. */
static dnn_desc
heads(struct sdpa_graph *gr, int id, int like, bool transposed)
{
	const struct sdpa_shape *a = gr->shape;
	bool keys = like == SDPA_K || like == SDPA_V || like == SDPA_DK || like == SDPA_DV;
	int64_t num = keys ? a->g : a->n, s = keys ? a->keys : a->queries;
	int64_t row = a->row[like], step = a->b * row, d = head_width(a, like);
	struct extent at = {
		{ a->b, num, transposed ? d : s, transposed ? s : d },
		{ row, d, transposed ? 1 : step, transposed ? step : 1 },
	};

	return tensor(gr, id, storage(gr), &at);
}

/* A dense (b, n, rows, last). */
static dnn_desc
dense_rows(struct sdpa_graph *gr, int id, int dtype, int64_t rows, int64_t last)
{
	const struct sdpa_shape *a = gr->shape;
	struct extent at = { { a->b, a->n, rows, last },
		{ a->n * rows * last, rows * last, last, 1 } };

	return tensor(gr, id, dtype, &at);
}

/* A row for each query: of scores, of a head, or with last 1 a number. */
static dnn_desc
dense(struct sdpa_graph *gr, int id, int dtype, int64_t last)
{
	return dense_rows(gr, id, dtype, gr->shape->queries, last);
}

/* Scores in F32, virtual. */
static dnn_desc
scores(struct sdpa_graph *gr)
{
	return dense(gr, 0, DNN_F32, gr->shape->keys);
}

/* A number for each query, virtual. */
static dnn_desc
row_values(struct sdpa_graph *gr)
{
	return dense(gr, 0, DNN_F32, 1);
}

/* A number that the host passes. */
static dnn_desc
number(struct sdpa_graph *gr, int id)
{
	static const struct extent one = { { 1, 1, 1, 1 }, { 1, 1, 1, 1 } };

	return tensor(gr, id, id < SDPA_NUM_QUERIES ? DNN_F32 : DNN_I32, &one);
}

/* --- operations ------------------------------------------------------------------------------- */

/* Appends an operation and returns its output. */
static dnn_desc
add_op(struct sdpa_graph *gr, enum dnn_kind kind, const struct dnn_value *values, dnn_desc result)
{
	dnn_desc op = dnn_make(gr, kind, values);

	gr->ops[gr->num_ops++] = op;
	return result;
}

/* y = mode(x, b), or t ? x : b. axis: of the index that is generated or added to, else -1. */
struct pointwise {
	enum dnn_pointwise mode;
	int math;
	int64_t axis;
	dnn_desc x, b, t, y;
};

/* Absent operands are NULL. */
static dnn_desc
pointwise(struct sdpa_graph *gr, const struct pointwise *p)
{
	dnn_desc how = dnn_make(gr, DNN_POINTWISE,
	    VALUES(VALUE(POINTWISE_MODE, POINTWISE_MODE, 1, &(int32_t){ (int32_t)p->mode }),
		DTYPE(POINTWISE_MATH, p->math),
		VALUE(POINTWISE_AXIS, INT64, p->axis >= 0, &p->axis)));

	return add_op(gr, DNN_OPERATION_POINTWISE,
	    VALUES(DESC(PW_DESC, how), DESC(PW_X, p->x), DESC(PW_B, p->b), DESC(PW_T, p->t),
		DESC(PW_Y, p->y)),
	    p->y);
}

/* y = mode(x, b) in F32. */
static dnn_desc
arithmetic(struct sdpa_graph *gr, enum dnn_pointwise mode, dnn_desc x, dnn_desc b, dnn_desc y)
{
	return pointwise(gr, &(struct pointwise){ mode, DNN_F32, -1, x, b, NULL, y });
}

/* The index of every score along an axis: 2 queries, 3 keys. */
static dnn_desc
score_index(struct sdpa_graph *gr, int64_t axis, dnn_desc x)
{
	dnn_desc y = dense(gr, 0, DNN_I32, gr->shape->keys);

	return pointwise(gr, &(struct pointwise){ DNN_GEN_INDEX, DNN_F32, axis, x, NULL, NULL, y });
}

/* x where a mode b, else -inf. */
static dnn_desc
keep_where(struct sdpa_graph *gr, dnn_desc x, enum dnn_pointwise mode, dnn_desc a, dnn_desc b)
{
	dnn_desc mask = dense(gr, 0, DNN_BOOLEAN, gr->shape->keys);

	pointwise(gr, &(struct pointwise){ mode, DNN_BOOLEAN, -1, a, b, NULL, mask });
	return pointwise(
	    gr, &(struct pointwise){ DNN_SELECT, DNN_F32, -1, x, gr->inf, mask, scores(gr) });
}

/* y = x reduced over the dims in which y has fewer entries. */
static dnn_desc
reduce(struct sdpa_graph *gr, enum dnn_reduction op, dnn_desc x, dnn_desc y)
{
	dnn_desc how = dnn_make(gr, DNN_REDUCTION,
	    VALUES(DTYPE(REDUCTION_MATH, DNN_F32),
		VALUE(REDUCTION_OPERATOR, REDUCTION_TYPE, 1, &(int32_t){ (int32_t)op })));

	return add_op(gr, DNN_OPERATION_REDUCTION,
	    VALUES(DESC(REDUCTION_DESC, how), DESC(REDUCTION_X, x), DESC(REDUCTION_Y, y)), y);
}

/* c = a b, sums in F32. */
static dnn_desc
matmul(struct sdpa_graph *gr, dnn_desc a, dnn_desc b, dnn_desc c)
{
	dnn_desc how = dnn_make(gr, DNN_MATMUL, VALUES(DTYPE(MATMUL_MATH, DNN_F32)));

	return add_op(gr, DNN_OPERATION_MATMUL,
	    VALUES(DESC(MATMUL_DESC, how), DESC(MATMUL_A, a), DESC(MATMUL_B, b), DESC(MATMUL_C, c)),
	    c);
}

/* y: the same storage as x with other dims or strides. */
static dnn_desc
reshape(struct sdpa_graph *gr, dnn_desc x, dnn_desc y)
{
	return add_op(gr, DNN_OPERATION_RESHAPE, VALUES(DESC(RESHAPE_X, x), DESC(RESHAPE_Y, y)), y);
}

/* --- the passes ------------------------------------------------------------------------------- */

/* scale q k^T. */
static dnn_desc
scaled_scores(struct sdpa_graph *gr)
{
	dnn_desc x = matmul(gr, gr->q, gr->kt, scores(gr));

	return arithmetic(gr, DNN_MUL, x, gr->scale, scores(gr));
}

/* The row's position, from its number: keys are added and queries taken away, in this order, as the
 * library looks for it. */
static dnn_desc
position_of_row(struct sdpa_graph *gr, dnn_desc row)
{
	dnn_desc sum = dense(gr, 0, DNN_I32, gr->shape->keys),
		 y = dense(gr, 0, DNN_I32, gr->shape->keys);

	pointwise(gr,
	    &(struct pointwise){ DNN_ADD, DNN_I32, 3, row, number(gr, SDPA_NUM_KEYS), NULL, sum });
	return pointwise(gr,
	    &(struct pointwise){ DNN_SUB, DNN_I32, 3, sum, number(gr, SDPA_NUM_QUERIES), NULL, y });
}

/* -inf where the key comes after the query, or `window` keys and more before it. */
static dnn_desc
masked(struct sdpa_graph *gr, dnn_desc x)
{
	dnn_desc row = score_index(gr, 2, x), column = score_index(gr, 3, x), end;

	if (gr->shape->keys != gr->shape->queries)
		row = position_of_row(gr, row);
	x = keep_where(gr, x, DNN_CMP_GE, row, column);
	if (gr->shape->window <= 0)
		return x;
	row = score_index(gr, 2, x);
	column = score_index(gr, 3, x);
	end = scores(gr);
	pointwise(gr,
	    &(struct pointwise){ DNN_ADD, DNN_F32, 3, column, number(gr, SDPA_WINDOW), NULL, end });
	return keep_where(gr, x, DNN_CMP_GT, end, row);
}

/* The weights are rounded to the storage type: they are an operand of the second GEMM. */
static void
build_forward(struct sdpa_graph *gr)
{
	dnn_desc x = masked(gr, scaled_scores(gr)), max, e, sum, p;

	max = reduce(gr, DNN_REDUCE_MAX, x, row_values(gr));
	x = arithmetic(gr, DNN_SUB, x, max, scores(gr));
	e = arithmetic(gr, DNN_EXP, x, NULL, scores(gr));
	sum = reduce(gr, DNN_REDUCE_ADD, e, row_values(gr));
	x = arithmetic(gr, DNN_LOG, sum, NULL, row_values(gr));
	arithmetic(gr, DNN_ADD, max, x, dense(gr, SDPA_LSE, DNN_F32, 1));
	p = arithmetic(gr, DNN_DIV, e, sum, dense(gr, 0, storage(gr), gr->shape->keys));
	matmul(gr, p, heads(gr, SDPA_V, SDPA_V, false), heads(gr, SDPA_OUT, SDPA_OUT, false));
}

/* dk or dv = x^T z for scores x and z (b, n, queries, d), summed over the query heads of a group.
 */
static void
gradient_of_keys(struct sdpa_graph *gr, dnn_desc x, dnn_desc z, int id)
{
	const struct sdpa_shape *a = gr->shape;
	struct extent transposed = { { a->b, a->n, a->keys, a->queries },
		{ a->n * a->queries * a->keys, a->queries * a->keys, 1, a->keys } };
	dnn_desc y = heads(gr, id, id, false), xt = tensor(gr, 0, storage(gr), &transposed);

	reshape(gr, x, xt);
	z = matmul(gr, xt, z,
	    a->n == a->g ? y : dense_rows(gr, 0, storage(gr), a->keys, head_width(a, id)));
	if (a->n != a->g)
		reduce(gr, DNN_REDUCE_ADD, z, y);
}

/* delta, the sum of dout out for each query; the multiplication by one takes the place of
 * dropout. */
static dnn_desc
build_delta(struct sdpa_graph *gr, dnn_desc dout)
{
	dnn_desc x = dense(gr, 0, DNN_F32, gr->shape->dv);

	arithmetic(gr, DNN_MUL, dout, heads(gr, SDPA_OUT, SDPA_OUT, false), x);
	x = reduce(gr, DNN_REDUCE_ADD, x, row_values(gr));
	return arithmetic(gr, DNN_MUL, x, number(gr, SDPA_ONE), dense(gr, SDPA_DELTA, DNN_F32, 1));
}

/* The fast form sums dq in F32 with atomics; without that sum in the graph the library takes its
 * deterministic kernel. */
static void
build_backward(struct sdpa_graph *gr)
{
	dnn_desc dout = heads(gr, SDPA_DOUT, SDPA_DOUT, false),
		 dq = heads(gr, SDPA_DQ, SDPA_DQ, false);
	dnn_desc delta = build_delta(gr, dout), x = scaled_scores(gr), p, ds, k;

	x = arithmetic(gr, DNN_SUB, x, dense(gr, SDPA_LSE, DNN_F32, 1), scores(gr));
	p = arithmetic(gr, DNN_EXP, masked(gr, x), NULL, scores(gr));
	gradient_of_keys(gr, p, dout, SDPA_DV);
	x = matmul(gr, dout, heads(gr, SDPA_V, SDPA_V, true), scores(gr));
	x = arithmetic(gr, DNN_SUB, x, delta, scores(gr));
	x = arithmetic(gr, DNN_MUL, x, p, scores(gr));
	ds = arithmetic(gr, DNN_MUL, x, gr->scale, scores(gr));
	gradient_of_keys(gr, ds, gr->q, SDPA_DK);
	k = reshape(gr, gr->kt, heads(gr, 0, SDPA_K, false));
	if (gr->shape->pass == SDPA_DETERMINISTIC) {
		matmul(gr, ds, k, dq);
		return;
	}
	x = matmul(gr, ds, k, dense(gr, SDPA_DQ_SUM, DNN_F32, gr->shape->d));
	arithmetic(gr, DNN_IDENTITY, x, NULL, dq);
}

/* Ids of virtual tensors begin after ours. */
void
sdpa_graph_build(struct sdpa_graph *gr, const struct dnn_api *api, const struct sdpa_shape *s)
{
	*gr = (struct sdpa_graph){ .api = api, .shape = s, .next_virtual = SDPA_IDS };
	gr->scale = number(gr, SDPA_SCALE);
	gr->inf = number(gr, SDPA_MINUS_INFINITY);
	gr->q = heads(gr, SDPA_Q, SDPA_Q, false);
	gr->kt = heads(gr, SDPA_K, SDPA_K, true);
	if (s->pass == SDPA_FORWARD)
		build_forward(gr);
	else
		build_backward(gr);
}
