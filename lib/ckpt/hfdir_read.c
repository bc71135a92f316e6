/* hfdir_read.c - reads boxes of the tensors of a Hugging Face directory, whatever their form */
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/ckpt/hf_decode.h"
#include "lib/ckpt/hfdir.h"

#include <stdlib.h>
#include <string.h>

enum { COMPARED = 1 << 16 /* elements at once */ };

/* A box of a row-major tensor, whose pages are given back. */
static void
read_dense(const struct hfdir_tensor *t, const struct slice *slice, void *dst)
{
	struct slice whole = slice_whole(t->ndim, t->shape);
	size_t size = dtype_size(t->view.dtype);
	int64_t first, n = slice_span(slice, &whole, &first);
	const unsigned char *bytes = t->view.data + (size_t)first * size;

	map_will_need(bytes, (uint64_t)n * size);
	slice_copy(dst, slice, t->view.data, &whole, slice, size);
	map_forget_part(bytes, (uint64_t)n * size);
}

/* A box in the order of the file. */
static int
read_box(const struct hfdir_tensor *t, const struct slice *slice, enum dtype as, void *dst,
    struct err *e)
{
	struct err why;

	if (t->decode.code != HF_STORED)
		return hf_decode_read(&t->decode, slice, as, dst, &why) == 0
		    ? 0
		    : err_set(e, "tensor '%s': %s", t->name, why.msg);
	if (t->is_dense)
		read_dense(t, slice, dst);
	else
		torch_tensor_read(&t->view, slice, dst);
	return 0;
}

static void
swap_last(struct slice *s)
{
	int64_t start = s->start[s->ndim - 1], count = s->count[s->ndim - 1];

	s->start[s->ndim - 1] = s->start[s->ndim - 2];
	s->count[s->ndim - 1] = s->count[s->ndim - 2];
	s->start[s->ndim - 2] = start;
	s->count[s->ndim - 2] = count;
}

const void *
hfdir_find_box(const struct hfdir_tensor *t, const struct hfdir_box *box, uint64_t *bytes)
{
	struct slice whole = slice_whole(t->ndim, t->shape), slice = box->slice;
	size_t size = dtype_size(t->view.dtype);
	int64_t first, n;

	if (t->decode.code != HF_STORED || !t->is_dense || box->transposed != t->turned)
		return NULL;
	if (t->turned)
		swap_last(&slice);
	n = slice_span(&slice, &whole, &first);
	*bytes = (uint64_t)n * size;
	return n == slice_elements(&slice) ? t->view.data + (size_t)first * size : NULL;
}

/* Copied first and transposed afterwards, so that the copy runs along rows. */
int
hfdir_read(const struct hfdir_tensor *t, const struct hfdir_box *box, void *dst, struct err *e)
{
	struct slice slice = box->slice;
	size_t size = dtype_size(box->as);
	char *stored, *to = dst;
	int64_t rows, cols, matrices;
	int rc;

	if (t->turned)
		swap_last(&slice);
	if (box->transposed == t->turned)
		return read_box(t, &slice, box->as, dst, e);
	rows = slice.count[slice.ndim - 2];
	cols = slice.count[slice.ndim - 1];
	matrices = rows > 0 && cols > 0 ? slice_elements(&slice) / (rows * cols) : 0;
	stored = mem_alloc((size_t)slice_elements(&slice), size);
	rc = read_box(t, &slice, box->as, stored, e);
	for (int64_t i = 0; rc == 0 && i < matrices; i++) {
		size_t at = (size_t)(i * rows * cols) * size;

		slice_transpose(to + at, stored + at, rows, cols, size);
	}
	free(stored);
	return rc;
}

/* The numbers of a box in double, which holds every number of the types of weights. */
static bool
read_double(const struct hfdir_tensor *t, const struct slice *slice, double *out)
{
	const struct hfdir_box box = { .slice = *slice, .as = t->view.dtype };
	int64_t n = slice_elements(slice);
	char *raw = mem_alloc((size_t)n, dtype_size(t->view.dtype));
	bool read = hfdir_read(t, &box, raw, NULL) == 0;

	if (read)
		dtype_convert(out, DTYPE_F64, raw, t->view.dtype, n);
	free(raw);
	return read;
}

static bool
same_numbers(const struct hfdir_tensor *a, const struct hfdir_tensor *b, const struct slice *box)
{
	int64_t n = slice_elements(box);
	double *x = mem_alloc((size_t)n, sizeof *x), *y = mem_alloc((size_t)n, sizeof *y);
	bool same =
	    read_double(a, box, x) && read_double(b, box, y) && dtype_same(x, y, DTYPE_F64, n);

	free(x);
	free(y);
	return same;
}

bool
hfdir_same(const struct hfdir_tensor *a, const struct hfdir_tensor *b)
{
	struct slice whole, box[SLICE_FLAT_MAX];
	int64_t total;
	bool same = true;

	if (!dtype_is_float(a->view.dtype) || !dtype_is_float(b->view.dtype) ||
	    a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape))
		return false;
	if (a->view.data == b->view.data && a->view.dtype == b->view.dtype &&
	    a->is_dense == b->is_dense)
		return true;
	whole = slice_whole(a->ndim, a->shape);
	total = a->ndim ? slice_elements(&whole) : 0;
	for (int64_t at = 0; same && at < total; at += COMPARED) {
		int n = slice_flat(&whole, at, total - at < COMPARED ? total - at : COMPARED, box);

		for (int i = 0; same && i < n; i++)
			same = same_numbers(a, b, &box[i]);
	}
	return same;
}
