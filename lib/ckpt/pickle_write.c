/* pickle_write.c - Python values as a pickle of protocol 2 */
#include "lib/base/err.h"
#include "lib/ckpt/pickle_write.h"

#include <stdio.h>
#include <string.h>

/* Opcodes, by the names of pickletools. */
enum {
	PROTO = 0x80,
	STOP = '.',
	MARK = '(',
	NONE = 'N',
	NEWTRUE = 0x88,
	NEWFALSE = 0x89,
	BININT = 'J',
	LONG1 = 0x8a,
	BINFLOAT = 'G',
	BINUNICODE = 'X',
	GLOBAL = 'c',
	TUPLE = 't',
	TUPLE1 = 0x85,
	EMPTY_TUPLE = ')',
	EMPTY_LIST = ']',
	APPENDS = 'e',
	EMPTY_DICT = '}',
	SETITEMS = 'u',
	REDUCE = 'R',
	NEWOBJ = 0x81,
	BUILD = 'b',
	BINPERSID = 'Q',
};

static void
put_op(struct str *out, int op)
{
	str_addc(out, (char)op);
}

/* The low n bytes, lowest first. */
static void
put_bytes(struct str *out, uint64_t x, int n)
{
	for (int i = 0; i < n; i++)
		str_addc(out, (char)(x >> 8 * i & 0xff));
}

void
pickle_begin(struct str *out)
{
	put_op(out, PROTO);
	put_op(out, 2);
}

void
pickle_end(struct str *out)
{
	put_op(out, STOP);
}

void
pickle_put_none(struct str *out)
{
	put_op(out, NONE);
}

void
pickle_put_bool(struct str *out, bool x)
{
	put_op(out, x ? NEWTRUE : NEWFALSE);
}

void
pickle_put_int(struct str *out, int64_t x)
{
	bool small = x >= INT32_MIN && x <= INT32_MAX;

	put_op(out, small ? BININT : LONG1);
	if (!small)
		put_op(out, 8);
	put_bytes(out, (uint64_t)x, small ? 4 : 8);
}

/* The only number whose highest byte comes first. */
void
pickle_put_double(struct str *out, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	put_op(out, BINFLOAT);
	for (int i = 7; i >= 0; i--)
		str_addc(out, (char)(bits >> 8 * i & 0xff));
}

void
pickle_put_text(struct str *out, const char *s)
{
	size_t n = strlen(s);

	put_op(out, BINUNICODE);
	put_bytes(out, n, 4);
	str_add(out, s, n);
}

static void
put_global(struct str *out, const char *module, const char *name)
{
	put_op(out, GLOBAL);
	str_addf(out, "%s\n%s\n", module, name);
}

void
pickle_put_dtype(struct str *out, enum dtype t)
{
	put_global(out, "torch", dtype_torch_name(t));
}

void
pickle_open_tuple(struct str *out)
{
	put_op(out, MARK);
}

void
pickle_close_tuple(struct str *out)
{
	put_op(out, TUPLE);
}

void
pickle_open_list(struct str *out)
{
	put_op(out, EMPTY_LIST);
	put_op(out, MARK);
}

void
pickle_close_list(struct str *out)
{
	put_op(out, APPENDS);
}

void
pickle_open_dict(struct str *out)
{
	put_op(out, EMPTY_DICT);
	put_op(out, MARK);
}

void
pickle_close_dict(struct str *out)
{
	put_op(out, SETITEMS);
}

/* An object as it is before it gets its state. */
static void
put_new(struct str *out, const char *module, const char *name)
{
	put_global(out, module, name);
	put_op(out, EMPTY_TUPLE);
	put_op(out, NEWOBJ);
}

void
pickle_open_object(struct str *out, const char *module, const char *name)
{
	put_new(out, module, name);
	pickle_open_dict(out);
}

void
pickle_close_object(struct str *out)
{
	pickle_close_dict(out);
	put_op(out, BUILD);
}

void
pickle_open_state(struct str *out, const char *module, const char *name)
{
	put_new(out, module, name);
	pickle_open_tuple(out);
}

void
pickle_close_state(struct str *out)
{
	pickle_close_tuple(out);
	put_op(out, BUILD);
}

void
pickle_open_call(struct str *out, const char *module, const char *name)
{
	put_global(out, module, name);
	pickle_open_tuple(out);
}

void
pickle_close_call(struct str *out)
{
	pickle_close_tuple(out);
	put_op(out, REDUCE);
}

static void
put_sizes(struct str *out, int n, const int64_t *size)
{
	pickle_open_tuple(out);
	for (int i = 0; i < n; i++)
		pickle_put_int(out, size[i]);
	pickle_close_tuple(out);
}

void
pickle_put_size(struct str *out, int n, const int64_t *size)
{
	put_global(out, "torch", "Size");
	put_sizes(out, n, size);
	put_op(out, TUPLE1);
	put_op(out, REDUCE);
}

/* The persistent id of a storage; torch.load finds its bytes by the key. */
static void
put_storage(struct str *out, enum dtype t, int64_t elements, int64_t key)
{
	const char *class;
	char text[24];

	switch (t) {
	case DTYPE_F64: class = "DoubleStorage"; break;
	case DTYPE_F32: class = "FloatStorage"; break;
	case DTYPE_BF16: class = "BFloat16Storage"; break;
	case DTYPE_F16: class = "HalfStorage"; break;
	default: BUG("no storage of %s is written", dtype_name(t));
	}
	snprintf(text, sizeof text, "%lld", (long long)key);
	pickle_open_tuple(out);
	pickle_put_text(out, "storage");
	put_global(out, "torch", class);
	pickle_put_text(out, text);
	pickle_put_text(out, "cpu");
	pickle_put_int(out, elements);
	pickle_close_tuple(out);
	put_op(out, BINPERSID);
}

/* The arguments of _rebuild_tensor_v2: storage, offset, size, stride, requires_grad, hooks. */
void
pickle_put_tensor(struct str *out, enum dtype t, int ndim, const int64_t *shape, int64_t key)
{
	int64_t stride[SLICE_DIMS], n = 1;

	for (int d = ndim - 1; d >= 0; d--) {
		stride[d] = n;
		n *= shape[d];
	}
	put_global(out, "torch._utils", "_rebuild_tensor_v2");
	pickle_open_tuple(out);
	put_storage(out, t, n, key);
	pickle_put_int(out, 0);
	put_sizes(out, ndim, shape);
	put_sizes(out, ndim, stride);
	pickle_put_bool(out, false);
	put_global(out, "collections", "OrderedDict");
	put_op(out, EMPTY_TUPLE);
	put_op(out, REDUCE);
	pickle_close_tuple(out);
	put_op(out, REDUCE);
}
