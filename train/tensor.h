/*
 * tensor.h - a view of elements; owns nothing
 *
 * shape and stride are in elements; unused entries are 0. The last dimension is dense (stride 1) in
 * everything the operations take; the rows of a 2-D view may lie further apart (column slices of a
 * wider array). data NULL stands for "none".
 */
#ifndef TRAIN_TENSOR_H
#define TRAIN_TENSOR_H

#include "lib/base/dtype.h"

enum { TENSOR_DIMS = 4 };

struct tensor {
	void *data;
	enum dtype dtype;
	int ndim;
	int64_t shape[TENSOR_DIMS], stride[TENSOR_DIMS];
};

/* A dense 1-D or 2-D view of memory that the caller owns. */
static inline struct tensor
tensor_1d(void *data, enum dtype dtype, int64_t count)
{
	struct tensor t = { data, dtype, 1, { count, 0, 0, 0 }, { 1, 0, 0, 0 } };

	return t;
}

static inline struct tensor
tensor_2d(void *data, enum dtype dtype, int64_t rows, int64_t columns)
{
	struct tensor t = { data, dtype, 2, { rows, columns, 0, 0 }, { columns, 1, 0, 0 } };

	return t;
}

static inline int64_t
tensor_elements(const struct tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

static inline size_t
tensor_bytes(const struct tensor *t)
{
	return (size_t)tensor_elements(t) * dtype_size(t->dtype);
}

/* Columns [first, first + count) of a 2-D view; shares the memory. */
static inline struct tensor
tensor_columns(const struct tensor *t, int64_t first, int64_t count)
{
	struct tensor c = *t;

	c.data = (char *)t->data + (size_t)first * dtype_size(t->dtype);
	c.shape[1] = count;
	return c;
}

/* Rows [first, first + count) of a 1-D or 2-D view; shares the memory. */
static inline struct tensor
tensor_rows(const struct tensor *t, int64_t first, int64_t count)
{
	struct tensor r = *t;

	r.data = (char *)t->data + (size_t)(first * t->stride[0]) * dtype_size(t->dtype);
	r.shape[0] = count;
	return r;
}

/* As a matrix: a vector is one row, and so are more than two dimensions, which must be dense. */
static inline int64_t
tensor_num_rows(const struct tensor *t)
{
	return t->ndim == 2 ? t->shape[0] : 1;
}

static inline int64_t
tensor_num_columns(const struct tensor *t)
{
	return t->ndim == 2 ? t->shape[1] : tensor_elements(t);
}

/* Whether the two matrices have as many rows, and as many columns. */
static inline bool
tensor_same_shape(const struct tensor *a, const struct tensor *b)
{
	return tensor_num_rows(a) == tensor_num_rows(b) &&
	    tensor_num_columns(a) == tensor_num_columns(b);
}

/* All elements of a dense tensor as a column; shares the memory. */
static inline struct tensor
tensor_column(const struct tensor *t)
{
	return tensor_2d(t->data, t->dtype, tensor_elements(t), 1);
}

/* The same elements of a dense view under another shape of as many elements. */
static inline struct tensor
tensor_flat(const struct tensor *t)
{
	return tensor_1d(t->data, t->dtype, tensor_elements(t));
}

#endif
