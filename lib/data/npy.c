/*
 * npy.c - NumPy arrays: a header that is a line of Python, then the elements
 *
 * The header is a dictionary literal. Only what NumPy itself writes for arrays of numbers is
 * understood, in any order and with any blanks: no escapes in strings, no negative sizes, no
 * nesting. Everything else is refused with the reason, so that a file of another program is never
 * misread.
 */
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/data/npy.h"

#include <stdlib.h>
#include <string.h>

/* Room that NumPy leaves for the first dimension to grow (GROWTH_AXIS_MAX_DIGITS), and the unit of
 * the header's length. */
enum { GROWTH_DIGITS = 21, ALIGN = 64 };

static const char magic[6] = "\x93NUMPY";

/* NumPy's codes; types without one are absent. */
static const char *const code[DTYPE_COUNT] = {
	[DTYPE_F64] = "<f8",
	[DTYPE_F32] = "<f4",
	[DTYPE_F16] = "<f2",
	[DTYPE_I64] = "<i8",
	[DTYPE_I32] = "<i4",
	[DTYPE_I16] = "<i2",
	[DTYPE_I8] = "|i1",
	[DTYPE_U64] = "<u8",
	[DTYPE_U32] = "<u4",
	[DTYPE_U16] = "<u2",
	[DTYPE_U8] = "|u1",
	[DTYPE_BOOL] = "|b1",
};

/* The rest of the header's text, and the keys read so far. */
struct cursor {
	const char *p, *end;
	const char *path; /* of the file, for messages */
	unsigned seen;    /* a bit for each of descr, fortran_order, shape */
	bool fortran;
};

/* Skips blanks between the parts of the header. */
static void
skip_blanks(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t'))
		c->p++;
}

/* Takes one character if it comes next, after any blanks. */
static bool
take(struct cursor *c, char want)
{
	skip_blanks(c);
	if (c->p == c->end || *c->p != want)
		return false;
	c->p++;
	return true;
}

/* Takes a word such as True. */
static bool
take_word(struct cursor *c, const char *word)
{
	size_t n = strlen(word);

	skip_blanks(c);
	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n))
		return false;
	c->p += n;
	return true;
}

/* Takes a quoted string without escapes into out, cut to its size. */
static bool
take_string(struct cursor *c, char *out, size_t cap)
{
	char quote;
	size_t n = 0;

	skip_blanks(c);
	if (c->p == c->end || (*c->p != '\'' && *c->p != '"'))
		return false;
	quote = *c->p++;
	for (; c->p < c->end && *c->p != quote; c->p++)
		if (n + 1 < cap)
			out[n++] = *c->p;
	out[n] = '\0';
	return take(c, quote);
}

/* Takes digits; a number above 63 bits is refused. */
static bool
take_number(struct cursor *c, int64_t *out)
{
	int64_t v = 0;
	const char *start;

	skip_blanks(c);
	for (start = c->p; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->p - '0', &v))
			return false;
	*out = v;
	return c->p > start;
}

/* The element type of a code such as "<i4"; one-byte types may carry any byte order. */
static enum dtype
type_of(const char *descr)
{
	for (int t = 0; t < DTYPE_COUNT; t++) {
		if (!code[t] || strlen(descr) != 3 || strcmp(descr + 1, code[t] + 1))
			continue;
		if (descr[0] == '<' || descr[0] == '=' || dtype_size((enum dtype)t) == 1)
			return (enum dtype)t;
	}
	return DTYPE_NONE;
}

/* A tuple of sizes: (), (3,), (3, 4). */
static int
parse_shape(struct npy *a, struct cursor *c, struct err *e)
{
	bool comma = true;

	if (!take(c, '('))
		return err_at(e, c->path, 0, "the header's shape is not a tuple");
	a->ndim = 0;
	while (!take(c, ')')) {
		int64_t n;

		if (!comma || !take_number(c, &n))
			return err_at(e, c->path, 0, "the header's shape is not a tuple of sizes");
		if (a->ndim == NPY_DIMS)
			return err_at(e, c->path, 0, "more than %d dimensions", NPY_DIMS);
		a->shape[a->ndim++] = n;
		comma = take(c, ',');
	}
	return 0;
}

/* One "key: value" of the header. */
static int
parse_item(struct npy *a, struct cursor *c, struct err *e)
{
	char key[32], descr[16];

	if (!take_string(c, key, sizeof key) || !take(c, ':'))
		return err_at(e, c->path, 0, "the header is not a dictionary");
	if (!strcmp(key, "descr")) {
		c->seen |= 1;
		if (!take_string(c, descr, sizeof descr))
			return err_at(
			    e, c->path, 0, "the element type is structured; only numbers are read");
		a->dtype = type_of(descr);
		if (a->dtype == DTYPE_NONE)
			return err_at(e, c->path, 0,
			    "element type '%s' is not a little-endian number", descr);
	} else if (!strcmp(key, "fortran_order")) {
		c->seen |= 2;
		c->fortran = take_word(c, "True");
		if (!c->fortran && !take_word(c, "False"))
			return err_at(
			    e, c->path, 0, "the header's fortran_order is neither True nor False");
	} else if (!strcmp(key, "shape")) {
		c->seen |= 4;
		return parse_shape(a, c, e);
	} else {
		return err_at(e, c->path, 0, "unknown key '%s' in the header", key);
	}
	return 0;
}

static int
parse_header(struct npy *a, struct cursor *c, struct err *e)
{
	bool comma = true;

	if (!take(c, '{'))
		return err_at(e, c->path, 0, "the header is not a dictionary");
	while (!take(c, '}')) {
		if (!comma)
			return err_at(e, c->path, 0, "the header is not a dictionary");
		if (parse_item(a, c, e) < 0)
			return -1;
		comma = take(c, ',');
	}
	skip_blanks(c);
	if (c->p != c->end)
		return err_at(e, c->path, 0, "text after the header's dictionary");
	if (c->seen != 7)
		return err_at(e, c->path, 0, "the header lacks descr, fortran_order or shape");
	if (c->fortran && a->ndim > 1)
		return err_at(e, c->path, 0, "the array is in Fortran order; only C order is read");
	return 0;
}

/* Finds the header's text and where the elements begin. */
static int
find_header(const struct map *m, struct cursor *c, uint64_t *data, struct err *e)
{
	uint64_t len, start;

	if (m->size < 12 || memcmp(m->base, magic, sizeof magic))
		return err_at(e, c->path, 0, "not a .npy file");
	if (m->base[6] < 1 || m->base[6] > 3)
		return err_at(
		    e, c->path, 0, "format version %d.%d; 1 to 3 are read", m->base[6], m->base[7]);
	len = m->base[8] | (uint64_t)m->base[9] << 8;
	start = 10;
	if (m->base[6] > 1) {
		len |= (uint64_t)m->base[10] << 16 | (uint64_t)m->base[11] << 24;
		start = 12;
	}
	if (len > m->size - start)
		return err_at(e, c->path, 0, "the file ends inside its header");
	c->p = (const char *)m->base + start;
	c->end = c->p + len;
	*data = start + len;
	return 0;
}

/*
 * The shape must match the file size exactly: extra bytes show a wrong header just as missing ones
 * do.
 */
static int
check_size(struct npy *a, uint64_t have, const char *path, struct err *e)
{
	uint64_t count = 1, bytes;

	for (int i = 0; i < a->ndim; i++)
		if (mem_mul(count, (uint64_t)a->shape[i], &count) < 0)
			return err_at(
			    e, path, 0, "the shape has more elements than 64 bits can count");
	if (mem_mul(count, dtype_size(a->dtype), &bytes) < 0 || bytes > have)
		return err_at(e, path, 0,
		    "the file ends inside the array: %llu elements do not fit %llu bytes",
		    (unsigned long long)count, (unsigned long long)have);
	if (bytes < have)
		return err_at(
		    e, path, 0, "%llu bytes follow the array", (unsigned long long)(have - bytes));
	a->count = (int64_t)count;
	return 0;
}

/* Points data at the elements. A header may have any length, so they are copied where a load from
 * the map would not be aligned; files from NumPy and from this suite are always aligned. */
static void
set_data(struct npy *a, uint64_t data)
{
	a->data = a->map.base + data;
	if (data % dtype_size(a->dtype) == 0)
		return;
	a->copy = mem_alloc((size_t)a->count, dtype_size(a->dtype));
	memcpy(a->copy, a->data, (size_t)a->count * dtype_size(a->dtype));
	a->data = a->copy;
}

/* Checks the header in place, then the size. */
int
npy_open(struct npy *a, const char *path, struct err *e)
{
	struct cursor c = { .path = path };
	uint64_t data = 0;

	memset(a, 0, sizeof *a);
	if (map_open(&a->map, path, e) < 0)
		return -1;
	if (find_header(&a->map, &c, &data, e) < 0 || parse_header(a, &c, e) < 0 ||
	    check_size(a, a->map.size - data, path, e) < 0) {
		npy_close(a);
		return -1;
	}
	set_data(a, data);
	return 0;
}

/* A struct that failed to open, or a struct of zeroes, is allowed. */
void
npy_close(struct npy *a)
{
	map_close(&a->map);
	free(a->copy);
	a->data = a->copy = NULL;
}

/* NumPy pads for the first dimension to grow to 21 digits, then to a multiple of 64, always by at
 * least one. */
size_t
npy_header(char out[256], enum dtype t, int ndim, const int64_t *shape)
{
	size_t n = 10, total;
	int digits;

	if (!code[t] || ndim < 0 || ndim > NPY_DIMS)
		BUG("a .npy array cannot have %d dimensions of %s", ndim, dtype_name(t));
	n +=
	    (size_t)sprintf(out + n, "{'descr': '%s', 'fortran_order': False, 'shape': (", code[t]);
	for (int i = 0; i < ndim; i++)
		n += (size_t)sprintf(out + n, "%s%lld", i ? ", " : "", (long long)shape[i]);
	n += (size_t)sprintf(out + n, "%s), }", ndim == 1 ? "," : "");
	digits = ndim ? snprintf(NULL, 0, "%lld", (long long)shape[0]) : GROWTH_DIGITS;
	total = n + (size_t)(GROWTH_DIGITS - digits) + 1;
	total += ALIGN - total % ALIGN;
	memset(out + n, ' ', total - n);
	out[total - 1] = '\n';
	memcpy(out, magic, sizeof magic);
	out[6] = 1;
	out[7] = 0;
	out[8] = (char)((total - 10) & 0xff);
	out[9] = (char)((total - 10) >> 8);
	return total;
}

/* Writes header and elements; the file appears whole. */
int
npy_write(
    const char *path, enum dtype t, int ndim, const int64_t *shape, const void *data, struct err *e)
{
	struct outfile o;
	char header[256];
	size_t count = 1, n = npy_header(header, t, ndim, shape);

	for (int i = 0; i < ndim; i++)
		count *= (size_t)shape[i];
	if (outfile_open(&o, path, e) < 0)
		return -1;
	fwrite(header, 1, n, o.f);
	if (count)
		fwrite(data, dtype_size(t), count, o.f);
	return outfile_commit(&o, e);
}
