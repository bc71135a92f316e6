/*
 * hf_decode.c - quantised tensors of Hugging Face's files, which are decoded when they are read
 *
 * Which tensors belong together is told by their names, and where a factor's block lies by the
 * config alone: a matrix of 576 rows has 5 rows of factors for blocks of 128, which its shape does
 * not tell. Rows are decoded a part at a time, which stays in a processor's cache.
 */
#include "lib/base/int64.h"
#include "lib/base/map.h"
#include "lib/ckpt/hf_decode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 256, GROUP = 32, PART = 4096 /* elements of a row at a time */ };

/* Of an exponent of MXFP4: 6 times the factor of a larger one is beyond BF16 and FP32. */
enum { LARGEST_EXPONENT = 252 };

/* --- finding ---------------------------------------------------------------------------------- */

/* State of a search. */
struct finder {
	struct hfdir_tensor *tensor;
	int count;
	const struct config_quantised *how;
	struct mem_pool *pool;
	bool *taken;    /* factors that are a part of another tensor */
	float *numbers; /* of the codes of fp8 */
};

static int
compare_name(const void *name, const void *tensor)
{
	return strcmp(name, ((const struct hfdir_tensor *)tensor)->name);
}

/* The tensor named by the first n bytes of a name and a suffix; or NULL. */
static struct hfdir_tensor *
find(const struct finder *f, const char *name, size_t n, const char *suffix)
{
	char other[256];

	if (n + strlen(suffix) >= sizeof other)
		return NULL;
	memcpy(other, name, n);
	memcpy(other + n, suffix, strlen(suffix) + 1);
	return bsearch(other, f->tensor, (size_t)f->count, sizeof *f->tensor, compare_name);
}

/* Keeps the reason why a tensor is not decoded. */
static int
refuse(const struct finder *f, struct hfdir_tensor *t, const struct str *why)
{
	t->why = mem_pool_strndup(f->pool, why->buf, why->len);
	t->view.dtype = DTYPE_NONE;
	return -1;
}

/* What the type of the factors is; false for one that is none of theirs. */
static bool
take_scale_type(struct hf_decode *d, const struct hfdir_tensor *scales)
{
	bool e8m0 = !strcmp(scales->dtype_name, "F8_E8M0");

	d->scale_dtype = e8m0 ? DTYPE_U8 : scales->view.dtype;
	d->exponent_255 = e8m0 ? NAN : INFINITY;
	return scales->is_dense && !scales->why &&
	    (d->scale_dtype == DTYPE_U8 || dtype_is_float(d->scale_dtype));
}

/* Whether the factors have one dimension for each of the first n of a tensor, of the same size, and
 * then these sizes. */
static bool
has_shape(const struct hfdir_tensor *t, const int64_t *first, int n, const int64_t grid[2])
{
	return t->ndim == n + 2 && !memcmp(t->shape, first, (size_t)n * sizeof *first) &&
	    !memcmp(t->shape + n, grid, 2 * sizeof *grid);
}

/* The blocks of fp8, whose sizes the config has; without them one block is the tensor. */
static int
take_fp8(const struct finder *f, struct hfdir_tensor *t, const struct hfdir_tensor *scales)
{
	struct hf_decode *d = &t->decode;
	bool one = !f->how->block[0] && scales->bytes && scales->ndim <= 1 &&
	    (scales->ndim == 0 || scales->shape[0] == 1);
	struct str why = { 0 };
	int n = t->ndim - 2, rc;

	for (int k = 0; k < 2; k++) {
		int64_t size = t->shape[n + k], block = f->how->block[k];

		d->block[k] = block ? block : size + !size;
		d->grid[k] = size / d->block[k] + (size % d->block[k] != 0);
	}
	if (!take_scale_type(d, scales))
		str_addf(&why, "its factors '%s' are %s", scales->name, scales->dtype_name);
	else if (f->how->block[0] && !has_shape(scales, t->shape, n, d->grid))
		str_addf(&why, "its factors '%s' do not have the shape of blocks of %lld x %lld",
		    scales->name, (long long)d->block[0], (long long)d->block[1]);
	else if (!f->how->block[0] && !one)
		str_addf(&why,
		    "its factors '%s' are not one number, and config.json has no "
		    "\"weight_block_size\"",
		    scales->name);
	rc = why.len ? refuse(f, t, &why) : 0;
	d->ndim = t->ndim;
	memcpy(d->shape, t->shape, sizeof d->shape);
	d->numbers = f->numbers;
	d->one_factor = one;
	str_release(&why);
	return rc;
}

/* Joins a tensor of fp8 with its factors. */
static int
join_fp8(const struct finder *f, struct hfdir_tensor *t)
{
	size_t n = strlen(t->name);
	struct hfdir_tensor *scales;
	struct str why = { 0 };
	int rc = 0;

	if (t->view.dtype != DTYPE_F8_E4M3 || t->ndim < 2 || !t->is_dense)
		return 0;
	t->decode = (struct hf_decode){ .code = HF_FP8, .codes = t->view.data };
	scales = find(f, t->name, n, "_scale_inv");
	if (!scales)
		scales = find(f, t->name, n, "_scale");
	if (!scales) {
		str_addf(&why, "there is no '%s_scale_inv'", t->name);
		rc = refuse(f, t, &why);
	} else {
		f->taken[scales - f->tensor] = true;
		t->decode.scales = scales->view.data;
		rc = take_fp8(f, t, scales);
	}
	str_release(&why);
	return rc < 0 ? -1 : 1;
}

/* Takes the shape of the groups, and of the decoded tensor. */
static int
take_mxfp4(const struct finder *f, struct hfdir_tensor *t, const struct hfdir_tensor *scales)
{
	struct hf_decode *d = &t->decode;
	int n = t->ndim - 1; /* dimensions of the scales, and of what is decoded */
	struct str why = { 0 };
	int rc;

	if (strcmp(t->dtype_name, "U8") || n < 2 || n > SLICE_DIMS || t->shape[n] != GROUP / 2 ||
	    t->shape[n - 1] > INT64_MAX / GROUP)
		str_adds(&why, "it is not groups of 16 bytes (U8)");
	else if (!scales || scales->why || strcmp(scales->dtype_name, "U8") || !scales->is_dense ||
	    scales->ndim != n || memcmp(scales->shape, t->shape, (size_t)n * sizeof *t->shape))
		str_addf(&why, "there is no '%.*s_scales' with a byte (U8) for each group",
		    (int)(strlen(t->name) - strlen("_blocks")), t->name);
	rc = why.len ? refuse(f, t, &why) : 0;
	str_release(&why);
	if (rc < 0)
		return rc;
	d->ndim = n;
	memcpy(d->shape, t->shape, (size_t)n * sizeof *t->shape);
	d->shape[n - 1] *= GROUP;
	d->scales = scales->view.data;
	return 0;
}

/* Joins the groups of MXFP4 with their factors, under the name of what they decode to, which is the
 * transpose: [..., input, output]. */
static int
join_mxfp4(const struct finder *f, struct hfdir_tensor *t)
{
	static const char suffix[] = "_blocks";
	size_t len = strlen(t->name), n = len - (sizeof suffix - 1);
	struct hfdir_tensor *scales;

	if (len < sizeof suffix || strcmp(t->name + n, suffix))
		return 0;
	scales = find(f, t->name, n, "_scales");
	if (find(f, t->name, n, ""))
		return 0;
	t->decode = (struct hf_decode){ .code = HF_MXFP4, .codes = t->view.data };
	if (scales)
		f->taken[scales - f->tensor] = true;
	if (take_mxfp4(f, t, scales) < 0)
		return -1;
	t->ndim = t->decode.ndim;
	memcpy(t->shape, t->decode.shape, sizeof t->decode.shape);
	t->shape[t->ndim - 2] = t->decode.shape[t->ndim - 1];
	t->shape[t->ndim - 1] = t->decode.shape[t->ndim - 2];
	t->turned = true;
	return 1;
}

/* A name of MXFP4 loses its suffix only here, since the search is by the names of the files. */
static void
rename_decoded(const struct finder *f, struct hfdir_tensor *t)
{
	if (t->decode.code == HF_MXFP4)
		t->name = mem_pool_strndup(f->pool, t->name, strlen(t->name) - strlen("_blocks"));
	if (!t->why)
		t->view.dtype = DTYPE_BF16;
}

int
hf_decode_find(struct hfdir_tensor *tensor, int count, const struct config_quantised *how,
    struct mem_pool *pool, int *decoded)
{
	struct finder f = { tensor, count, how, pool, NULL, NULL };
	bool fp8 = !strcmp(how->method, "fp8"), mxfp4 = !strcmp(how->method, "mxfp4");
	unsigned char code[CODES];
	int n = 0;

	*decoded = 0;
	if (!fp8 && !mxfp4)
		return count;
	f.taken = mem_zalloc((size_t)count + 1, sizeof *f.taken);
	f.numbers = mem_pool_alloc(pool, CODES, sizeof *f.numbers);
	for (int i = 0; i < CODES; i++)
		code[i] = (unsigned char)i;
	dtype_convert(f.numbers, DTYPE_F32, code, DTYPE_F8_E4M3, CODES);
	for (int i = 0; i < count; i++)
		*decoded += (fp8 ? join_fp8 : join_mxfp4)(&f, &tensor[i]) > 0;
	for (int i = 0; i < count; i++)
		if (tensor[i].decode.code != HF_STORED)
			rename_decoded(&f, &tensor[i]);
	for (int i = 0; i < count; i++)
		if (!f.taken[i])
			tensor[n++] = tensor[i];
	free(f.taken);
	return n;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The factor of this number among those of the tensor. 2 to the -127 has no normal FP32. */
static float
factor(const struct hf_decode *d, int64_t i)
{
	size_t size = dtype_size(d->scale_dtype);
	const unsigned char *at = d->scales + (size_t)i * size;
	float x;

	if (d->scale_dtype == DTYPE_U8)
		return *at == 255 ? d->exponent_255 : ldexpf(1, *at - 127);
	dtype_convert(&x, DTYPE_F32, at, d->scale_dtype, 1);
	return x;
}

/* Elements [first, first + n) of a row, which is counted over all dimensions but the last. */
static void
decode_fp8(const struct hf_decode *d, int64_t row, int64_t first, int n, float *out)
{
	int64_t rows = d->shape[d->ndim - 2], cols = d->shape[d->ndim - 1];
	int64_t line = (row / rows * d->grid[0] + row % rows / d->block[0]) * d->grid[1], end;
	const unsigned char *code = d->codes + row * cols;

	for (int64_t c = first; c < first + n; c = end) {
		int64_t column = c / d->block[1];
		float by = factor(d, d->one_factor ? 0 : line + column);

		end = int64_min((column + 1) * d->block[1], first + n);
		for (int64_t k = c; k < end; k++)
			*out++ = d->numbers[code[k]] * by;
	}
}

/* The numbers of a group of MXFP4, whose factor is a power of two. */
static void
decode_group(const unsigned char code[GROUP / 2], float by, float out[GROUP])
{
	static const float numbers[16] = { 0, .5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -.5F, -1, -1.5F, -2,
		-3, -4, -6 };

	for (int i = 0; i < GROUP / 2; i++) {
		out[2 * i] = numbers[code[i] & 15] * by;
		out[2 * i + 1] = numbers[code[i] >> 4] * by;
	}
}

/* Elements [first, first + n) of a row; -1 when the exponent of a group is too large. */
static int
decode_mxfp4(const struct hf_decode *d, int64_t row, int64_t first, int n, float *out)
{
	int64_t groups = d->shape[d->ndim - 1] / GROUP, end;

	for (int64_t c = first; c < first + n; c = end) {
		int64_t g = row * groups + c / GROUP, from = c % GROUP;
		float group[GROUP];

		end = int64_min(c - from + GROUP, first + n);
		if (d->scales[g] > LARGEST_EXPONENT)
			return -1;
		decode_group(d->codes + g * (GROUP / 2), ldexpf(1, d->scales[g] - 127), group);
		memcpy(out, group + from, (size_t)(end - c) * sizeof *out);
		out += end - c;
	}
	return 0;
}

/* Tells the file's cache that the codes and factors of rows are needed soon, or no more. The
 * factors of blocks are few, and stay. */
static void
tell_cache(const struct hf_decode *d, const int64_t rows[2], void (*tell)(const void *, uint64_t))
{
	int64_t cols = d->shape[d->ndim - 1], groups = cols / GROUP, n = rows[1] - rows[0];
	int64_t bytes = d->code == HF_FP8 ? cols : cols / 2;

	tell(d->codes + rows[0] * bytes, (uint64_t)(n * bytes));
	if (d->code == HF_MXFP4)
		tell(d->scales + rows[0] * groups, (uint64_t)(n * groups));
}

/* The first row to forget. Single rows are too few bytes to tell the cache: after the last one of a
 * matrix the whole matrix is forgotten. */
static int64_t
forgotten_from(const struct hf_decode *d, const int64_t rows[2])
{
	int64_t matrix = d->shape[d->ndim - 2];

	return rows[1] % matrix ? rows[0] : int64_min(rows[0], rows[1] - matrix);
}

/* A part of a row, in the type that is asked for. */
static int
read_part(const struct hf_decode *d, int64_t row, int64_t first, int n, struct dtype_array to)
{
	float part[PART];

	if (d->code == HF_FP8)
		decode_fp8(d, row, first, n, part);
	else if (decode_mxfp4(d, row, first, n, part) < 0)
		return -1;
	dtype_convert((void *)to.data, to.type, part, DTYPE_F32, n);
	return 0;
}

/* The row of a place in a box, counted over all dimensions but the last. */
static int64_t
row_of(const struct hf_decode *d, const struct slice *box, const int64_t at[SLICE_DIMS])
{
	int64_t row = 0;

	for (int k = 0; k < d->ndim - 1; k++)
		row = row * d->shape[k] + box->start[k] + at[k];
	return row;
}

/* Decodes one row of a box, and moves the place to the next. */
static int
read_row(const struct hf_decode *d, const struct slice *box, int64_t at[SLICE_DIMS],
    struct dtype_array to)
{
	int64_t row = row_of(d, box, at), first = box->start[d->ndim - 1],
		cols = box->count[d->ndim - 1];

	for (int64_t c = 0, n; c < cols; c += n) {
		const struct dtype_array part = {
			(const char *)to.data + (size_t)c * dtype_size(to.type), to.type
		};

		n = int64_min(cols - c, PART);
		if (read_part(d, row, first + c, (int)n, part) < 0)
			return -1;
	}
	for (int k = d->ndim - 2; k >= 0 && ++at[k] == box->count[k] && k > 0; k--)
		at[k] = 0;
	return 0;
}

int
hf_decode_read(
    const struct hf_decode *d, const struct slice *box, enum dtype as, void *dst, struct err *e)
{
	int64_t at[SLICE_DIMS] = { 0 }, last[SLICE_DIMS], cols = box->count[d->ndim - 1],
		rows = cols ? slice_elements(box) / cols : 0, range[2];
	int rc = 0;

	if (rows == 0)
		return 0;
	for (int k = 0; k < d->ndim; k++)
		last[k] = box->count[k] - 1;
	range[0] = row_of(d, box, at);
	range[1] = row_of(d, box, last) + 1;
	tell_cache(d, range, map_will_need);
	for (int64_t r = 0; r < rows && rc == 0; r++)
		rc = read_row(d, box, at,
		    (struct dtype_array){ (char *)dst + (size_t)(r * cols) * dtype_size(as), as });
	range[0] = forgotten_from(d, range);
	tell_cache(d, range, map_forget_part);
	return rc < 0 ? err_set(e, "a factor is 2 to the %d or more, beyond BF16 and FP32",
			    LARGEST_EXPONENT + 1 - 127)
		      : 0;
}
