/*
 * distcp.c - the file .metadata of torch.distributed.checkpoint
 *
 * The pickle has two dicts: what each name is, and where each chunk lies. Both are read into
 * arrays, and joined by sorting. Members are found by their names and not by their classes, which
 * move between versions.
 */
#include "lib/base/io.h"
#include "lib/ckpt/distcp.h"
#include "lib/ckpt/torchzip.h"

#include <stdlib.h>
#include <string.h>

/* Where a chunk, or an object (ndim -1), is stored. */
struct stored {
	const char *name, *path;
	int ndim;
	int64_t start[SLICE_DIMS];
	uint64_t offset, bytes;
};

struct reader {
	struct distcp *d;
	const char *name; /* for messages */
	struct err *e;
	int count;
	struct stored *stored; /* sorted by name and start */
};

/* --- values ----------------------------------------------------------------------------------- */

/* A torch.Size of at most SLICE_DIMS sizes that are not negative; -1 for anything else. */
static int
take_sizes(const struct pickle_value *v, int64_t out[SLICE_DIMS])
{
	memset(out, 0, SLICE_DIMS * sizeof *out);
	if (!v || (v->type != PICKLE_TUPLE && v->type != PICKLE_LIST) || v->len > SLICE_DIMS)
		return -1;
	for (uint32_t i = 0; i < v->len; i++)
		if (!pickle_int(pickle_item(v, i), &out[i]) || out[i] < 0)
			return -1;
	return (int)v->len;
}

/* Zero, or a number that another adds to without overflow. */
static bool
take_bytes(const struct pickle_value *v, uint64_t *out)
{
	int64_t x;

	if (!pickle_int(v, &x) || x < 0 || x > INT64_MAX / 2)
		return false;
	*out = (uint64_t)x;
	return true;
}

/* --- where things are stored ------------------------------------------------------------------ */

static int
compare_stored(const void *a, const void *b)
{
	const struct stored *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	if (by_name)
		return by_name;
	if (x->ndim != y->ndim)
		return x->ndim < y->ndim ? -1 : 1;
	for (int d = 0; d < SLICE_DIMS; d++)
		if (x->start[d] != y->start[d])
			return x->start[d] < y->start[d] ? -1 : 1;
	return 0;
}

/* One pair of storage_data: a MetadataIndex and a _StorageInfo. */
static int
read_stored(struct reader *r, const struct pickle_pair *p, struct stored *s)
{
	const struct pickle_value *start = pickle_get(p->key, "offset"),
				  *transform = pickle_get(p->value, "transform_descriptors");
	bool has_start = start && start->type != PICKLE_NONE,
	     plain = !transform || transform->type == PICKLE_NONE ||
	    ((transform->type == PICKLE_LIST || transform->type == PICKLE_TUPLE) &&
		transform->len == 0);

	s->name = pickle_string(pickle_get(p->key, "fqn"));
	s->path = pickle_string(pickle_get(p->value, "relative_path"));
	s->ndim = has_start ? take_sizes(start, s->start) : -1;
	if (!s->name || !s->path || (has_start && s->ndim < 0) ||
	    !take_bytes(pickle_get(p->value, "offset"), &s->offset) ||
	    !take_bytes(pickle_get(p->value, "length"), &s->bytes))
		return err_at(r->e, r->name, 0, "an entry of storage_data is not as expected");
	if (!io_is_file_name(s->path))
		return err_at(
		    r->e, r->name, 0, "'%s': not a plain file name: '%.80s'", s->name, s->path);
	if (!plain)
		return err_at(r->e, r->name, 0,
		    "'%s' is compressed or transformed; only plain chunks are read", s->name);
	return 0;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The places, and the sorted names of all files, each once. */
static int
read_storage(struct reader *r, const struct pickle_value *v)
{
	struct distcp *d = r->d;
	const char **name;

	if (!v || v->type != PICKLE_DICT)
		return err_at(r->e, r->name, 0, "no dict storage_data");
	r->stored = mem_zalloc(v->len, sizeof *r->stored);
	for (uint32_t i = 0; i < v->len; i++, r->count++)
		if (read_stored(r, &v->pair[i], &r->stored[i]) < 0)
			return -1;
	if (r->count > 0)
		qsort(r->stored, (size_t)r->count, sizeof *r->stored, compare_stored);
	for (int i = 1; i < r->count; i++)
		if (compare_stored(&r->stored[i - 1], &r->stored[i]) == 0)
			return err_at(
			    r->e, r->name, 0, "'%s': a place is stored twice", r->stored[i].name);
	name = mem_alloc((size_t)r->count, sizeof *name);
	for (int i = 0; i < r->count; i++)
		name[i] = r->stored[i].path;
	qsort(name, (size_t)r->count, sizeof *name, compare_names);
	d->file = mem_pool_alloc(&d->pool, (size_t)r->count, sizeof *d->file);
	for (int i = 0; i < r->count; i++)
		if (i == 0 || strcmp(name[i - 1], name[i]))
			d->file[d->num_files++] =
			    mem_pool_strndup(&d->pool, name[i], strlen(name[i]));
	free(name);
	return 0;
}

/* The file's number and the place of a chunk or object; NULL when it is not stored. */
static const struct stored *
find_stored(const struct reader *r, const struct stored *key, int *file)
{
	const struct stored *s = r->count > 0
	    ? bsearch(key, r->stored, (size_t)r->count, sizeof *key, compare_stored)
	    : NULL;

	if (s)
		*file = (int)((const char **)bsearch(&s->path, r->d->file, (size_t)r->d->num_files,
				  sizeof *r->d->file, compare_names) -
		    r->d->file);
	return s;
}

/* --- what there is ---------------------------------------------------------------------------- */

/* One chunk; at: its name and number of dimensions. A scalar becomes a vector of one element. */
static int
read_chunk(struct reader *r, const struct pickle_value *v, struct stored *at, struct ckpt_piece *p)
{
	const struct stored *s;
	int ndim = at->ndim;

	p->slice.ndim = ndim ? ndim : 1;
	if (take_sizes(pickle_get(v, "offsets"), p->slice.start) != ndim ||
	    take_sizes(pickle_get(v, "sizes"), p->slice.count) != ndim)
		return err_at(
		    r->e, r->name, 0, "tensor '%s': a chunk is not as expected", at->name);
	if (ndim == 0)
		p->slice.count[0] = 1;
	memcpy(at->start, p->slice.start, sizeof at->start);
	s = find_stored(r, at, &p->file);
	if (!s)
		return err_at(r->e, r->name, 0, "tensor '%s': a chunk is in no file", at->name);
	p->offset = s->offset;
	p->bytes = s->bytes;
	return 0;
}

static int
read_tensor(struct reader *r, const char *name, const struct pickle_value *v, struct ckpt_tensor *t)
{
	const struct pickle_value *chunks = pickle_get(v, "chunks"),
				  *properties = pickle_get(v, "properties");
	struct stored at = { .name = name, .ndim = take_sizes(pickle_get(v, "size"), t->shape) };
	struct ckpt_piece *piece;
	struct err why;
	uint64_t bytes = 8; /* of the widest type; they must fit, so that no later size overflows */
	bool fits = at.ndim >= 0 && chunks->type == PICKLE_LIST;

	t->name = mem_pool_strndup(&r->d->pool, name, strlen(name));
	t->ndim = at.ndim > 0 ? at.ndim : 1;
	t->dtype = properties && properties->type == PICKLE_OBJECT
	    ? torch_dtype(pickle_item(properties->object->state, 0))
	    : DTYPE_NONE;
	for (int d = 0; d < t->ndim && fits; d++)
		fits = mem_mul(bytes, (uint64_t)t->shape[d], &bytes) == 0 && bytes <= INT64_MAX;
	if (!fits)
		return err_at(r->e, r->name, 0,
		    "tensor '%s': not a list of chunks and a size of at most %d numbers", name,
		    SLICE_DIMS);
	if (at.ndim == 0)
		t->shape[0] = 1;
	t->num_pieces = (int)chunks->len;
	t->piece = piece = mem_pool_alloc(&r->d->pool, chunks->len, sizeof *piece);
	for (uint32_t i = 0; i < chunks->len; i++) {
		if (read_chunk(r, pickle_item(chunks, i), &at, &piece[i]) < 0)
			return -1;
		if (!slice_inside(&piece[i].slice, t->ndim, t->shape))
			return err_at(
			    r->e, r->name, 0, "tensor '%s': a chunk lies outside of it", name);
	}
	if (piece_check_tiles(t, &why) < 0)
		return err_at(r->e, r->name, 0, "%s", why.msg);
	return 0;
}

static int
read_object(struct reader *r, const char *name, struct distcp_object *o)
{
	const struct stored key = { .name = name, .ndim = -1 }, *s = find_stored(r, &key, &o->file);

	if (!s)
		return err_at(r->e, r->name, 0, "object '%s' is in no file", name);
	o->name = mem_pool_strndup(&r->d->pool, name, strlen(name));
	o->offset = s->offset;
	o->bytes = s->bytes;
	return 0;
}

/* Both structs begin with their name. */
static int
compare_first(const void *a, const void *b)
{
	return compare_names(a, b);
}

/* Sorts by name; -1 when one comes twice. */
static int
sort(struct reader *r, void *item, int count, size_t size)
{
	const char *p = item;

	if (count > 0)
		qsort(item, (size_t)count, size, compare_first);
	for (int i = 1; i < count; i++, p += size)
		if (compare_first(p, p + size) == 0)
			return err_at(r->e, r->name, 0, "two entries are called '%s'",
			    *(const char *const *)p);
	return 0;
}

static int
read_names(struct reader *r, const struct pickle_value *v)
{
	struct distcp *d = r->d;

	if (!v || v->type != PICKLE_DICT)
		return err_at(r->e, r->name, 0,
		    "not the metadata of torch.distributed.checkpoint: no dict "
		    "state_dict_metadata");
	d->tensor = mem_pool_alloc(&d->pool, v->len, sizeof *d->tensor);
	d->object = mem_pool_alloc(&d->pool, v->len, sizeof *d->object);
	for (uint32_t i = 0; i < v->len; i++) {
		const struct pickle_value *what = v->pair[i].value;
		const char *name = pickle_string(v->pair[i].key);
		int rc;

		if (!name)
			return err_at(
			    r->e, r->name, 0, "a key of state_dict_metadata is not a string");
		if (pickle_get(what, "chunks"))
			rc = read_tensor(r, name, what, &d->tensor[d->num_tensors++]);
		else
			rc = read_object(r, name, &d->object[d->num_objects++]);
		if (rc < 0)
			return -1;
	}
	if (sort(r, d->tensor, d->num_tensors, sizeof *d->tensor) < 0)
		return -1;
	return sort(r, d->object, d->num_objects, sizeof *d->object);
}

int
distcp_parse(struct distcp *d, const void *bytes, size_t len, const char *name, struct err *e)
{
	struct reader r = { .d = d, .name = name, .e = e };
	struct pickle *p = NULL;
	struct err why;
	int rc;

	memset(d, 0, sizeof *d);
	if (pickle_read(bytes, len, &pickle_limits_torch, &p, &why) < 0)
		return err_at(e, name, 0, "%s", why.msg);
	rc = read_storage(&r, pickle_get(pickle_root(p), "storage_data"));
	if (rc == 0)
		rc = read_names(&r, pickle_get(pickle_root(p), "state_dict_metadata"));
	free(r.stored);
	pickle_free(p);
	return rc;
}

void
distcp_release(struct distcp *d)
{
	mem_pool_release(&d->pool);
	memset(d, 0, sizeof *d);
}

/* The key stands for a struct that begins with its name. */
static const void *
find(const void *item, int count, size_t size, const char *name)
{
	return count > 0 ? bsearch(&name, item, (size_t)count, size, compare_first) : NULL;
}

const struct ckpt_tensor *
distcp_tensor(const struct distcp *d, const char *name)
{
	return find(d->tensor, d->num_tensors, sizeof *d->tensor, name);
}

const struct distcp_object *
distcp_object(const struct distcp *d, const char *name)
{
	return find(d->object, d->num_objects, sizeof *d->object, name);
}
