/*
 * safetensors.c - the reader: maps a file and checks its whole header
 *
 * All rules of the format are checked on opening: the frame, the JSON, each tensor's type and
 * sizes, unique names, and that the tensors fill the body without hole or overlap. An entry can
 * then be used without further checks, and its data pointer points into the map. Types that we do
 * not compute with are legal, too; their entries have dtype NONE. A header may have a million
 * tensors, whose tree would take gigabytes, so it is parsed in pieces of whole members. Source:
 * safetensors/src/tensor.rs of huggingface/safetensors.
 */
#include "lib/base/json.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/ckpt/safetensors.h"
#include "lib/ckpt/torchzip.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 100000000, PIECE = 1 << 20 };

/* Every legal type, with its size; dtype.h knows those that we compute with. */
static const struct {
	const char *name;
	int bits;
} types[] = {
	{ "BOOL", 8 },
	{ "F4", 4 },
	{ "F6_E2M3", 6 },
	{ "F6_E3M2", 6 },
	{ "U8", 8 },
	{ "I8", 8 },
	{ "F8_E5M2", 8 },
	{ "F8_E4M3", 8 },
	{ "F8_E8M0", 8 },
	{ "F8_E4M3FNUZ", 8 },
	{ "F8_E5M2FNUZ", 8 },
	{ "I16", 16 },
	{ "U16", 16 },
	{ "F16", 16 },
	{ "BF16", 16 },
	{ "I32", 32 },
	{ "U32", 32 },
	{ "F32", 32 },
	{ "C64", 64 },
	{ "F64", 64 },
	{ "I64", 64 },
	{ "U64", 64 },
};

struct safetensors {
	struct map map;
	struct mem_pool names;
	int count, cap;
	struct safetensors_entry *entry; /* in the order of the header */
	struct safetensors_entry **by_offset, **by_name;
};

/* State of opening. */
struct opening {
	struct safetensors *s;
	const char *path;
	const char *text, *end; /* the header's members, without the braces around them */
	uint64_t body;          /* offset of the first tensor */
	bool metadata;          /* already read */
	struct err *e;
};

/*
 * Checks the frame of the file and finds its header. 100 MB is the bound of the reference; UTF-8
 * is checked before parsing, as the strings are printed in reasons.
 */
static int
find_header(struct opening *o)
{
	const struct map *m = &o->s->map;
	uint64_t n = 0;
	const char *text;
	size_t len, good;

	if (m->size < 8)
		return err_at(o->e, o->path, 0, "shorter than the 8 bytes of the header length");
	for (int i = 0; i < 8; i++)
		n |= (uint64_t)m->base[i] << (8 * i);
	if (n > HEADER_MAX)
		return err_at(o->e, o->path, 0, "header length %llu is above %d",
		    (unsigned long long)n, HEADER_MAX);
	if (n > m->size - 8)
		return err_at(o->e, o->path, 0,
		    "header of %llu bytes reaches past the end of the file", (unsigned long long)n);
	text = (const char *)m->base + 8;
	len = (size_t)n;
	while (len > 0 && text[len - 1] == ' ')
		len--;
	if (len == 0 || text[0] != '{')
		return err_at(o->e, o->path, 0, "header does not begin with '{'");
	if ((good = utf8_check((const unsigned char *)text, len)) < len)
		return err_at(o->e, o->path, 0, "header is not UTF-8 at byte %zu", good);
	if (text[len - 1] != '}')
		return err_at(o->e, o->path, 0, "header does not end with '}' and blanks");
	o->text = text + 1;
	o->end = text + len - 1;
	o->body = 8 + n;
	return 0;
}

/* A dimension or offset: an integer from 0 to 2^63 - 1. */
static bool
is_size(const struct json_value *v)
{
	return v->type == JSON_INT && v->integer >= 0;
}

/*
 * Reads the shape and computes the number of bits, checking the product; bits, because some types
 * have four or six, yet a tensor must have whole bytes.
 */
static int
read_shape(
    struct opening *o, struct safetensors_entry *t, const struct json_value *shape, uint64_t *bits)
{
	if (shape->type != JSON_ARRAY)
		return err_at(o->e, o->path, 0, "tensor '%s': shape is not an array", t->name);
	if (shape->len > SAFETENSORS_DIMS)
		return err_at(o->e, o->path, 0, "tensor '%s': more than %d dimensions", t->name,
		    SAFETENSORS_DIMS);
	t->ndim = (int)shape->len;
	for (int d = 0; d < t->ndim; d++) {
		if (!is_size(&shape->item[d]))
			return err_at(o->e, o->path, 0,
			    "tensor '%s': dimension %d is not a non-negative integer", t->name, d);
		t->shape[d] = shape->item[d].integer;
		if (mem_mul(*bits, (uint64_t)t->shape[d], bits) < 0)
			return err_at(o->e, o->path, 0,
			    "tensor '%s': the product of its shape overflows", t->name);
	}
	if (*bits % 8 != 0)
		return err_at(
		    o->e, o->path, 0, "tensor '%s': not a whole number of bytes", t->name);
	return 0;
}

/*
 * Reads the offsets and compares them with the size by shape and type. check_body checks that they
 * lie inside the file.
 */
static int
read_offsets(
    struct opening *o, struct safetensors_entry *t, const struct json_value *range, uint64_t bits)
{
	uint64_t begin, end;

	if (range->type != JSON_ARRAY || range->len != 2 || !is_size(&range->item[0]) ||
	    !is_size(&range->item[1]))
		return err_at(o->e, o->path, 0,
		    "tensor '%s': data_offsets are not two non-negative integers", t->name);
	begin = (uint64_t)range->item[0].integer;
	end = (uint64_t)range->item[1].integer;
	if (end < begin)
		return err_at(
		    o->e, o->path, 0, "tensor '%s': its data end before they begin", t->name);
	if (end - begin != bits / 8)
		return err_at(o->e, o->path, 0,
		    "tensor '%s': %llu bytes by its offsets, %llu by its shape and type", t->name,
		    (unsigned long long)(end - begin), (unsigned long long)(bits / 8));
	t->offset = o->body + begin;
	t->bytes = end - begin;
	return 0;
}

/* One member of the header: exactly the fields dtype, shape and data_offsets, each once. */
static int
read_tensor(struct opening *o, const struct json_value *v, struct safetensors_entry *t)
{
	const struct json_value *dtype = json_get(v, "dtype"), *shape = json_get(v, "shape");
	const struct json_value *range = json_get(v, "data_offsets");
	const size_t num_types = sizeof types / sizeof *types;
	uint64_t bits;
	size_t type = 0;

	t->name = mem_pool_strndup(&o->s->names, v->key, v->key_len);
	if (strlen(v->key) != v->key_len)
		return err_at(o->e, o->path, 0, "tensor '%s...': NUL in its name", t->name);
	if (!dtype || !shape || !range)
		return err_at(o->e, o->path, 0, "tensor '%s': no %s", t->name,
		    !dtype       ? "dtype"
			: !shape ? "shape"
				 : "data_offsets");
	if (v->len != 3)
		return err_at(
		    o->e, o->path, 0, "tensor '%s': a duplicate or unknown field", t->name);
	if (dtype->type != JSON_STRING || strlen(dtype->string) != dtype->len)
		type = num_types;
	while (type < num_types && strcmp(types[type].name, dtype->string))
		type++;
	if (type == num_types)
		return err_at(o->e, o->path, 0, "tensor '%s': unknown dtype '%.40s'", t->name,
		    dtype->type == JSON_STRING ? dtype->string : "");
	t->dtype_name = types[type].name;
	t->dtype = dtype_from_name(t->dtype_name);
	bits = (uint64_t)types[type].bits;
	return read_shape(o, t, shape, &bits) < 0 ? -1 : read_offsets(o, t, range, bits);
}

/* By bytes, for sorting the keys of the metadata. */
static int
compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Metadata maps strings to strings, no key twice; none of it is kept. */
static int
read_metadata(struct opening *o, const struct json_value *v)
{
	const char **key, *twice = NULL;

	if (o->metadata)
		return err_at(o->e, o->path, 0, "__metadata__ twice");
	if (v->type != JSON_OBJECT)
		return err_at(o->e, o->path, 0, "__metadata__ is not an object");
	for (size_t i = 0; i < v->len; i++)
		if (v->item[i].type != JSON_STRING)
			return err_at(
			    o->e, o->path, 0, "__metadata__ '%s' is not a string", v->item[i].key);
	key = mem_alloc(v->len, sizeof *key);
	for (size_t i = 0; i < v->len; i++)
		key[i] = v->item[i].key;
	qsort(key, v->len, sizeof *key, compare_strings);
	for (size_t i = 1; i < v->len && !twice; i++)
		twice = strcmp(key[i - 1], key[i]) ? NULL : key[i];
	free(key);
	if (twice)
		return err_at(o->e, o->path, 0, "__metadata__ '%s' twice", twice);
	o->metadata = true;
	return 0;
}

/* Turns the members of a piece of the header into entries, in the order of the text; copies names.
 * The number of entries is not known before the last one has been read. Frees the piece. */
static int
read_members(struct opening *o, struct json *piece)
{
	const struct json_value *root = json_root(piece);
	struct safetensors *s = o->s;
	int rc = 0;

	for (size_t i = 0; i < root->len && rc == 0; i++) {
		const struct json_value *v = &root->item[i];

		if (!strcmp(v->key, "__metadata__") && v->key_len == strlen(v->key)) {
			rc = read_metadata(o, v);
			continue;
		}
		if (s->count == s->cap) {
			s->cap = 2 * s->cap + 64;
			s->entry = mem_realloc(s->entry, (size_t)s->cap, sizeof *s->entry);
		}
		s->entry[s->count] = (struct safetensors_entry){ 0 };
		rc = read_tensor(o, v, &s->entry[s->count++]);
	}
	json_free(piece);
	return rc;
}

/* The end of the string whose first byte after the quote is p: after its closing quote, or
 * `end`. */
static const char *
string_end(const char *p, const char *end)
{
	while (p < end && *p != '"')
		p += *p == '\\' && end - p > 1 ? 2 : 1;
	return p < end ? p + 1 : end;
}

/*
 * The next comma between two members from at least PIECE bytes on, or the end. Each piece is then
 * parsed by itself, so brackets need only be counted here, not matched. Numbers of a header carry
 * no sign; a minus outside a string would otherwise pass as "-0". NULL with a reason.
 */
static const char *
piece_end(struct opening *o)
{
	const char *p = o->text;
	int depth = 0;

	while (p < o->end) {
		char c = *p++;

		if (c == '"')
			p = string_end(p, o->end);
		else if (c == '{' || c == '[')
			depth++;
		else if ((c == '}' || c == ']') && depth-- == 0)
			break;
		else if (c == '-')
			break;
		else if (c == ',' && depth == 0 && p - o->text > PIECE)
			return p - 1;
	}
	if (p == o->end && depth >= 0 && (p == o->text || p[-1] != '-'))
		return p;
	err_at(o->e, o->path, 0,
	    p[-1] == '-' ? "a number of the header has a sign"
			 : "not valid JSON: text after the header's '}'");
	return NULL;
}

/* Reads the header, a piece at a time. A comma without a member after it would be lost between two
 * pieces. */
static int
read_header(struct opening *o)
{
	bool first = true, last = false;
	struct str text = { 0 };
	int rc = 0;

	for (; rc == 0 && !last; first = false) {
		const char *end = piece_end(o);
		struct json *piece = NULL;

		str_clear(&text);
		if (end) {
			last = end == o->end;
			str_addc(&text, '{');
			str_add(&text, o->text, (size_t)(end - o->text));
			str_addc(&text, '}');
			piece = json_parse(text.buf, text.len, o->path, o->e);
			o->text = end + 1;
		}
		if (piece && json_root(piece)->len == 0 && !(first && last))
			rc = err_at(
			    o->e, o->path, 0, "not valid JSON: a comma without a member after it");
		if (rc < 0)
			json_free(piece);
		else
			rc = piece ? read_members(o, piece) : -1;
	}
	str_release(&text);
	return rc;
}

/* By place in the body; empty tensors come before what begins at the same byte. */
static int
compare_offsets(const void *a, const void *b)
{
	const struct safetensors_entry *x = *(struct safetensors_entry *const *)a,
				       *y = *(struct safetensors_entry *const *)b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* By bytes, for the lookup by name. */
static int
compare_names(const void *a, const void *b)
{
	const struct safetensors_entry *x = *(struct safetensors_entry *const *)a,
				       *y = *(struct safetensors_entry *const *)b;

	return strcmp(x->name, y->name);
}

/* The entries, sorted; the caller frees the array. */
static struct safetensors_entry **
sorted(const struct safetensors *s, int (*compare)(const void *, const void *))
{
	struct safetensors_entry **p = mem_alloc((size_t)s->count, sizeof *p);

	for (int i = 0; i < s->count; i++)
		p[i] = &s->entry[i];
	qsort(p, (size_t)s->count, sizeof *p, compare);
	return p;
}

/*
 * No two tensors may have the same name. The format requires that tensors cover the body without
 * gaps, from its first byte to the last of the file, which detects truncated files and hidden
 * bytes. The order decides the message: two tensors of one name usually overlap, and the name says
 * more than the overlap.
 */
static int
check_body(struct opening *o)
{
	struct safetensors *s = o->s;
	uint64_t at = o->body;

	s->by_name = sorted(s, compare_names);
	for (int i = 1; i < s->count; i++)
		if (!strcmp(s->by_name[i - 1]->name, s->by_name[i]->name))
			return err_at(o->e, o->path, 0, "tensor '%s' twice", s->by_name[i]->name);
	s->by_offset = sorted(s, compare_offsets);
	for (int i = 0; i < s->count; i++) {
		struct safetensors_entry *t = s->by_offset[i];

		if (t->offset > at)
			return err_at(o->e, o->path, 0, "a hole of %llu bytes before tensor '%s'",
			    (unsigned long long)(t->offset - at), t->name);
		if (t->offset < at)
			return err_at(o->e, o->path, 0, "tensors '%s' and '%s' overlap",
			    s->by_offset[i - 1]->name, t->name);
		if (t->bytes > s->map.size - at)
			return err_at(o->e, o->path, 0,
			    "tensor '%s' reaches past the end of the file", t->name);
		t->data = s->map.base + at;
		at += t->bytes;
	}
	if (at != s->map.size)
		return err_at(o->e, o->path, 0, "%llu bytes after the last tensor",
		    (unsigned long long)(s->map.size - at));
	return 0;
}

/* Each step relies on those before it. */
struct safetensors *
safetensors_open(const char *path, struct err *e)
{
	struct safetensors *s = mem_zalloc(1, sizeof *s);
	struct opening o = { .s = s, .path = path, .e = e };

	if (map_open(&s->map, path, e) < 0 || find_header(&o) < 0 || read_header(&o) < 0 ||
	    check_body(&o) < 0) {
		safetensors_close(s);
		return NULL;
	}
	map_small_pages(&s->map);
	return s;
}

/* Without the metadata. */
int
safetensors_count(const struct safetensors *s)
{
	return s->count;
}

/* Empty tensors come before the tensor that begins at the same byte. */
const struct safetensors_entry *
safetensors_at(const struct safetensors *s, int i)
{
	return s->by_offset[i];
}

/* Binary search; the key is an entry with nothing but a name. */
const struct safetensors_entry *
safetensors_find(const struct safetensors *s, const char *name)
{
	const struct safetensors_entry key = { .name = name }, *p = &key;
	struct safetensors_entry **hit =
	    bsearch(&p, s->by_name, (size_t)s->count, sizeof *s->by_name, compare_names);

	return hit ? *hit : NULL;
}

void
safetensors_view(const struct safetensors_entry *t, struct torch_tensor *out)
{
	*out = (struct torch_tensor){ .dtype = DTYPE_NONE, .data = t->data };
	if (t->ndim > SLICE_DIMS)
		return;
	out->dtype = t->dtype;
	out->ndim = t->ndim;
	memcpy(out->shape, t->shape, (size_t)t->ndim * sizeof *t->shape);
	torch_tensor_set_dense(out);
}

/* Also closes a file whose opening failed. */
void
safetensors_close(struct safetensors *s)
{
	if (!s)
		return;
	free(s->by_name);
	free(s->by_offset);
	free(s->entry);
	mem_pool_release(&s->names);
	map_close(&s->map);
	free(s);
}
