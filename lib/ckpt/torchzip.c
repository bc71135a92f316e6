/*
 * torchzip.c - tensors of a torch.save file
 *
 * A tensor in the pickle is a call of one of torch's functions with a storage, an offset, a shape
 * and strides. All of it is checked when the tensor is asked for, so reading needs no checks. The
 * storage is looked up as the name of a record, never as a path.
 */
#include "lib/base/mem.h"
#include "lib/ckpt/torchzip.h"
#include "lib/ckpt/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* A view may repeat elements (stride 0); so many times those of its storage is a bomb. */
	EXPAND_MAX = 16,
	NESTED_MAX = 4, /* wrappers around a tensor */
	FOLDER_MAX = 512,
	KEY_MAX = 64,
};

struct torchzip {
	struct zip zip;
	struct pickle *pickle;
	struct zip_record *root; /* of the pickle */
	char folder[FOLDER_MAX];
};

/* Storage classes, and the types themselves, by torch's names. */
static const struct {
	const char *storage, *name, *short_name;
	enum dtype dtype;
} types[] = {
	{ "torch.DoubleStorage", "torch.float64", "torch.double", DTYPE_F64 },
	{ "torch.FloatStorage", "torch.float32", "torch.float", DTYPE_F32 },
	{ "torch.BFloat16Storage", "torch.bfloat16", "", DTYPE_BF16 },
	{ "torch.HalfStorage", "torch.float16", "torch.half", DTYPE_F16 },
	{ "", "torch.float8_e4m3fn", "", DTYPE_F8_E4M3 },
	{ "", "torch.float8_e5m2", "", DTYPE_F8_E5M2 },
	{ "torch.LongStorage", "torch.int64", "torch.long", DTYPE_I64 },
	{ "torch.IntStorage", "torch.int32", "torch.int", DTYPE_I32 },
	{ "torch.ShortStorage", "torch.int16", "torch.short", DTYPE_I16 },
	{ "torch.CharStorage", "torch.int8", "", DTYPE_I8 },
	{ "", "torch.uint64", "", DTYPE_U64 },
	{ "", "torch.uint32", "", DTYPE_U32 },
	{ "", "torch.uint16", "", DTYPE_U16 },
	{ "torch.ByteStorage", "torch.uint8", "", DTYPE_U8 },
	{ "torch.BoolStorage", "torch.bool", "", DTYPE_BOOL },
	/* bytes; the tensor has the type */
	{ "torch.storage.UntypedStorage", "", "", DTYPE_U8 },
	{ "torch.UntypedStorage", "", "", DTYPE_U8 },
};
enum { TYPES = sizeof types / sizeof *types };

/* Functions that make a tensor of (storage, offset, shape, strides, ...): where the type is, when
 * the storage does not have it. */
static const struct {
	const char *global;
	uint32_t dtype; /* index of the argument; 0: none */
} rebuilds[] = {
	{ "torch._utils._rebuild_tensor", 0 },
	{ "torch._utils._rebuild_tensor_v2", 0 },
	{ "torch._utils._rebuild_tensor_v3", 6 },
};
enum { REBUILDS = sizeof rebuilds / sizeof *rebuilds };

/* --- opening ---------------------------------------------------------------------------------- */

/* The pickle is in the one top folder of the archive. */
static struct zip_record *
find_pickle(struct torchzip *z, struct err *e)
{
	struct zip_record *found = NULL;

	for (size_t i = 0; i < z->zip.count; i++) {
		struct zip_record *r = &z->zip.record[i];
		const char *slash = strchr(r->name, '/');

		if (!slash || strcmp(slash, "/data.pkl") || slash - r->name >= FOLDER_MAX)
			continue;
		if (found) {
			err_set(e, "both '%s' and '%s'", found->name, r->name);
			return NULL;
		}
		snprintf(z->folder, sizeof z->folder, "%.*s", (int)(slash - r->name), r->name);
		found = r;
	}
	if (!found)
		err_set(e, "no record 'FOLDER/data.pkl': torch.save did not write this");
	return found;
}

static struct zip_record *
find_record(const struct torchzip *z, const char *name)
{
	char path[FOLDER_MAX + KEY_MAX + 8];
	int n = snprintf(path, sizeof path, "%s/%s", z->folder, name);

	return n < (int)sizeof path ? zip_find(&z->zip, path) : NULL;
}

static int
read_all(struct torchzip *z, const unsigned char *bytes, uint64_t size, struct err *e)
{
	/* The bytes with which torch began its files before they were zips: a pickled number. */
	static const unsigned char legacy[] = { 0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
		0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
	const struct zip_record *r;

	if (size >= sizeof legacy && !memcmp(bytes, legacy, sizeof legacy))
		return err_set(e,
		    "written by torch.save before version 1.6 or without its zip file; load and "
		    "save it again");
	if (zip_read(&z->zip, bytes, size, e) < 0)
		return -1;
	r = z->root = find_pickle(z, e);
	if (!r || pickle_read(r->data, r->bytes, &pickle_limits_torch, &z->pickle, e) < 0)
		return -1;
	r = find_record(z, "byteorder");
	if (r && (r->bytes != 6 || memcmp(r->data, "little", 6) != 0))
		return err_set(e, "byte order '%.*s', only little is read",
		    r->bytes < 20 ? (int)r->bytes : 20, (const char *)r->data);
	return 0;
}

struct torchzip *
torchzip_open(const void *bytes, uint64_t size, const char *name, struct err *e)
{
	struct torchzip *z = mem_zalloc(1, sizeof *z);
	struct err why;

	if (read_all(z, bytes, size, &why) == 0)
		return z;
	err_at(e, name, 0, "%s", why.msg);
	torchzip_close(z);
	return NULL;
}

void
torchzip_close(struct torchzip *z)
{
	if (!z)
		return;
	pickle_free(z->pickle);
	zip_release(&z->zip);
	free(z);
}

const struct pickle_value *
torchzip_root(const struct torchzip *z)
{
	return pickle_root(z->pickle);
}

bool
torchzip_has_sums(const struct torchzip *z)
{
	return z->zip.sums;
}

int
torchzip_check_root(const struct torchzip *z, struct err *e)
{
	return z->zip.sums ? zip_check(z->root, NULL, e) : 0;
}

int
torchzip_verify(const struct torchzip *z, const struct map *file, struct err *e)
{
	for (size_t i = 0; z->zip.sums && i < z->zip.count; i++)
		if (zip_check(&z->zip.record[i], file, e) < 0)
			return -1;
	return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* A function and its arguments. */
struct call {
	const struct pickle_value *of, *args;
};

/* The call that rebuilds a tensor, inside those that wrap it as a Parameter or as another class. */
static bool
find_call(const struct pickle_value *v, struct call *c)
{
	static const char *const parameters[] = { "torch._utils._rebuild_parameter",
		"torch._utils._rebuild_parameter_with_state" };

	for (int i = 0; i < NESTED_MAX && v && v->type == PICKLE_OBJECT; i++) {
		bool is_parameter = pickle_is(v, parameters[0]) || pickle_is(v, parameters[1]);

		c->of = v->object->of;
		c->args = v->object->args;
		if (pickle_is(v, "torch._tensor._rebuild_from_type_v2")) {
			c->of = pickle_item(v, 0);
			c->args = pickle_item(v, 2);
			is_parameter =
			    pickle_is(c->of, parameters[0]) || pickle_is(c->of, parameters[1]);
		}
		if (!is_parameter)
			return c->of && c->args && c->args->type == PICKLE_TUPLE;
		v = pickle_item(c->args, 0);
	}
	return false;
}

/* The row of the function, or -1. */
static int
rebuild_of(const struct call *c)
{
	for (int i = 0; i < REBUILDS; i++)
		if (c->of->type == PICKLE_GLOBAL && pickle_is(c->of, rebuilds[i].global))
			return i;
	return -1;
}

bool
torch_is_tensor(const struct pickle_value *v)
{
	struct call c;

	return find_call(v, &c) && rebuild_of(&c) >= 0;
}

enum dtype
torch_dtype(const struct pickle_value *v)
{
	for (int i = 0; v && v->type == PICKLE_GLOBAL && i < TYPES; i++)
		if (pickle_is(v, types[i].name) || pickle_is(v, types[i].short_name))
			return types[i].dtype;
	return DTYPE_NONE;
}

static enum dtype
storage_dtype(const struct pickle_value *v, struct err *e)
{
	struct str text = { 0 };

	for (int i = 0; v && v->type == PICKLE_GLOBAL && i < TYPES; i++)
		if (pickle_is(v, types[i].storage))
			return types[i].dtype;
	pickle_print(v, &text);
	err_set(e, "a storage of %s, which is not read", text.buf);
	str_release(&text);
	return DTYPE_NONE;
}

/* The record of a persistent id ("storage", class, key, device, elements). */
static struct zip_record *
find_storage(
    const struct torchzip *z, const struct pickle_value *v, enum dtype *dtype, struct err *e)
{
	const struct pickle_value *id = v && v->type == PICKLE_PERSISTENT ? v->id : NULL;
	const char *word = pickle_string(pickle_item(id, 0)),
		   *key = pickle_string(pickle_item(id, 2));
	char name[KEY_MAX + 8];
	struct zip_record *r;
	int64_t elements;
	uint64_t bytes;

	if (!word || strcmp(word, "storage") || !key ||
	    !pickle_int(pickle_item(id, 4), &elements)) {
		err_set(e, "a tensor without a storage");
		return NULL;
	}
	*dtype = storage_dtype(pickle_item(id, 1), e);
	if (*dtype == DTYPE_NONE)
		return NULL;
	snprintf(name, sizeof name, "data/%.*s", KEY_MAX, key);
	r = strlen(key) <= KEY_MAX ? find_record(z, name) : NULL;
	if (!r) {
		err_set(e, "storage '%.40s' has no record", key);
		return NULL;
	}
	if (elements < 0 || mem_mul((uint64_t)elements, dtype_size(*dtype), &bytes) < 0 ||
	    bytes != r->bytes) {
		err_set(e, "storage '%.40s' has %lld elements of %s, but %llu bytes", key,
		    (long long)elements, dtype_name(*dtype), (unsigned long long)r->bytes);
		return NULL;
	}
	return r;
}

/* Non-negative integers; returns how many, or -1. */
static int
read_sizes(const struct pickle_value *v, int64_t out[SLICE_DIMS])
{
	if (!v || (v->type != PICKLE_TUPLE && v->type != PICKLE_LIST) || v->len > SLICE_DIMS)
		return -1;
	for (uint32_t i = 0; i < v->len; i++)
		if (!pickle_int(v->item[i], &out[i]) || out[i] < 0)
			return -1;
	return (int)v->len;
}

/* Whether the view lies inside its storage. Every product and sum is checked. */
static int
check_extent(const struct torch_tensor *t, uint64_t offset, uint64_t storage, struct err *e)
{
	uint64_t elements = 1, last = offset, step;

	for (int d = 0; d < t->ndim; d++)
		if (mem_mul(elements, (uint64_t)t->shape[d], &elements) < 0)
			return err_set(e, "the product of its shape overflows");
	if (elements == 0)
		return 0;
	if (elements / EXPAND_MAX > storage)
		return err_set(e, "%llu elements of a storage of %llu: more than %d times as many",
		    (unsigned long long)elements, (unsigned long long)storage, EXPAND_MAX);
	for (int d = 0; d < t->ndim; d++)
		if (mem_mul((uint64_t)t->shape[d] - 1, (uint64_t)t->stride[d], &step) < 0 ||
		    __builtin_add_overflow(last, step, &last))
			return err_set(e, "its strides overflow");
	if (last >= storage)
		return err_set(e, "its element %llu is outside its storage of %llu",
		    (unsigned long long)last, (unsigned long long)storage);
	return 0;
}

/* Fills in a tensor from the arguments of the call. */
static int
read_view(const struct torchzip *z, const struct call *c, uint32_t dtype_at, struct torch_tensor *t,
    struct err *e)
{
	enum dtype stored = DTYPE_NONE;
	struct zip_record *r = find_storage(z, pickle_item(c->args, 0), &stored, e);
	int64_t offset;

	if (!r)
		return -1;
	t->dtype = dtype_at ? torch_dtype(pickle_item(c->args, dtype_at)) : stored;
	if (t->dtype == DTYPE_NONE)
		return err_set(e, "a type of its elements that is not read");
	t->ndim = read_sizes(pickle_item(c->args, 2), t->shape);
	if (t->ndim < 0)
		return err_set(e, "its shape is not up to %d non-negative integers", SLICE_DIMS);
	if (read_sizes(pickle_item(c->args, 3), t->stride) != t->ndim)
		return err_set(e, "its strides are not %d non-negative integers", t->ndim);
	if (!pickle_int(pickle_item(c->args, 1), &offset) || offset < 0)
		return err_set(e, "its offset is not a non-negative integer");
	if (check_extent(t, (uint64_t)offset, r->bytes / dtype_size(t->dtype), e) < 0)
		return -1;
	t->data =
	    torch_tensor_elements(t) ? r->data + (size_t)offset * dtype_size(t->dtype) : r->data;
	t->storage = z->zip.sums ? r : NULL;
	return 0;
}

int
torchzip_tensor(
    const struct torchzip *z, const struct pickle_value *v, struct torch_tensor *out, struct err *e)
{
	struct str text = { 0 };
	struct call c;
	int row = find_call(v, &c) ? rebuild_of(&c) : -1;

	*out = (struct torch_tensor){ .dtype = DTYPE_NONE };
	if (row >= 0)
		return read_view(z, &c, rebuilds[row].dtype, out, e);
	pickle_print(v, &text);
	err_set(e, "%s is not a tensor", text.buf);
	str_release(&text);
	return -1;
}

int64_t
torch_tensor_elements(const struct torch_tensor *t)
{
	int64_t n = 1;

	for (int d = 0; d < t->ndim; d++)
		n *= t->shape[d];
	return n;
}

void
torch_tensor_set_dense(struct torch_tensor *t)
{
	int64_t step = 1;

	for (int d = t->ndim - 1; d >= 0; d--) {
		t->stride[d] = step;
		step *= t->shape[d];
	}
}

bool
torch_tensor_is_dense(const struct torch_tensor *t)
{
	struct torch_tensor dense = *t;

	torch_tensor_set_dense(&dense);
	return !memcmp(dense.stride, t->stride, sizeof dense.stride);
}

int
torch_tensor_check(const struct torch_tensor *t, struct err *e)
{
	const char *file;
	struct err why;

	if (!t->storage || zip_check(t->storage, NULL, &why) == 0)
		return 0;
	file = map_file(t->storage->data);
	return file ? err_at(e, file, 0, "%s", why.msg) : err_set(e, "%s", why.msg);
}

/* count elements, `step` elements apart. */
static void
copy_row(char *dst, const unsigned char *src, int64_t count, int64_t step, size_t size)
{
	if (step == 1) {
		memcpy(dst, src, (size_t)count * size);
		return;
	}
	for (int64_t i = 0; i < count; i++)
		memcpy(dst + (size_t)i * size, src + (size_t)(i * step) * size, size);
}

/* Row by row; at counts the rows like the wheels of an odometer. */
void
torch_tensor_read(const struct torch_tensor *t, const struct slice *slice, void *dst)
{
	int64_t at[SLICE_DIMS] = { 0 }, offset = 0, row;
	int last = t->ndim - 1, d;
	size_t size = dtype_size(t->dtype);
	char *out = dst;

	if (t->ndim == 0) {
		memcpy(dst, t->data, size);
		return;
	}
	if (slice_elements(slice) == 0)
		return;
	row = slice->count[last];
	for (d = 0; d <= last; d++)
		offset += slice->start[d] * t->stride[d];
	do {
		copy_row(out, t->data + (size_t)offset * size, row, t->stride[last], size);
		out += (size_t)row * size;
		for (d = last - 1; d >= 0; d--) {
			offset += t->stride[d];
			if (++at[d] < slice->count[d])
				break;
			offset -= at[d] * t->stride[d];
			at[d] = 0;
		}
	} while (d >= 0);
}
