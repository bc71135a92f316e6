/*
 * cache.c - sets of arrays under Megatron-LM's cache names, with a key of our own
 *
 * Megatron-LM accepts any complete set. The key holds what its names leave out and the checksum of
 * each array, so that a damaged or stale set counts as missing, and a sound one is accepted after
 * one pass over its bytes.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/data/samples_impl.h"

#include <stdlib.h>
#include <string.h>

/* Files up to this size are copied: a process may have some 65,000 maps, and blends have thousands
 * of corpora. */
enum { COPIED = 64 << 10, KEY_MAX = 1 << 16 };

/* DIR/HASH-CLASS-SPLIT-NAME. */
static char *
cache_path(const struct cache_place *p, const char *name)
{
	struct str path = { 0 };

	str_adds(&path, p->dir);
	if (name)
		str_addf(&path, "/%s-%s-%s-%s", p->hash, p->class_name, split_name[p->which], name);
	return str_detach(&path);
}

/* DIR/HASH-CLASS-SPLIT-NAME.npy */
static char *
array_path(const struct cache_place *p, const struct cache_array *a)
{
	char name[64];

	snprintf(name, sizeof name, "%s.npy", a->name);
	return cache_path(p, name);
}

/* Maps one array if its file has the right shape. */
static bool
load_array(const struct cache_place *p, const struct cache_array *a)
{
	struct index_map *m = a->map;
	char *path = array_path(p, a);
	struct npy *f = &m->file;
	bool fits = npy_open(f, path, NULL) == 0;

	free(path);
	m->dtype = f->dtype;
	m->data = f->data;
	return fits &&
	    (f->dtype == DTYPE_I16 || f->dtype == DTYPE_I32 || f->dtype == DTYPE_U32 ||
		f->dtype == DTYPE_I64) &&
	    f->ndim == (a->rows ? 2 : 1) && f->shape[0] == a->count &&
	    (!a->rows || f->shape[1] == 2);
}

/* Megatron-LM's criterion of a hit: all files exist, whatever their contents. */
static bool
arrays_exist(const struct cache_place *p)
{
	bool complete = true;

	for (int i = 0; i < p->count && complete; i++) {
		char *path = array_path(p, &p->array[i]);

		complete = io_exists(path);
		free(path);
	}
	return complete;
}

/* Compares the text whose hash is in the names: another one means a collision or a damaged file. It
 * is looked for once, and first: it gets its name after the arrays, so that a set that another
 * process is about to complete is none yet. The caller checks the contents of the arrays. */
enum cache_found
cache_load(const struct cache_place *p, const struct str *description)
{
	char *path = cache_path(p, "description.txt"), *text;
	size_t len;
	bool there = io_exists(path), fits = false;

	if (there && io_read_regular(path, CACHE_DESCRIPTION_MAX, &text, &len, NULL) == 0) {
		fits = len == description->len && !memcmp(text, description->buf, len);
		free(text);
	}
	free(path);
	for (int i = 0; i < p->count && fits; i++)
		fits = load_array(p, &p->array[i]);
	if (fits)
		return CACHE_LOADED;
	cache_release(p);
	return there && arrays_exist(p) ? CACHE_UNFIT : CACHE_ABSENT;
}

/* The arrays belong to the caller. */
void
cache_release(const struct cache_place *p)
{
	for (int i = 0; i < p->count; i++)
		index_map_release(p->array[i].map);
}

/* The header and the elements of an array that was built. */
static size_t
array_header(const struct cache_array *a, char header[256])
{
	int64_t shape[2] = { a->count, 2 };

	return npy_header(header, a->map->dtype, a->rows ? 2 : 1, shape);
}

static size_t
array_bytes(const struct cache_array *a)
{
	return (size_t)a->count * (a->rows ? 2 : 1) * dtype_size(a->map->dtype);
}

/* The checksum of the file that holds, or will hold, the array. */
static uint64_t
checksum(const struct cache_array *a)
{
	struct hash_stream *h;
	char header[256];

	if (a->map->file.map.base)
		return hash_xxh3(a->map->file.map.base, a->map->file.map.size);
	if (a->map->header)
		return hash_xxh3(a->map->own, a->map->header + array_bytes(a));
	h = hash_stream_new();
	hash_stream_add(h, header, array_header(a, header));
	hash_stream_add(h, a->map->data, array_bytes(a));
	return hash_stream_free(h);
}

/* The head and a line for each array. */
static void
key_text(const struct cache_place *p, const struct str *head, bool sums, struct str *out)
{
	char digits[17];

	str_add(out, head->buf, head->len);
	for (int i = 0; i < p->count && sums; i++)
		str_addf(
		    out, "%s %s\n", p->array[i].name, hash_text(checksum(&p->array[i]), digits));
}

/* 1 when the key is the text, or at least begins with it; 0 when there is no key; -1 otherwise. */
static int
compare_key(const struct cache_place *p, const struct str *want, bool beginning)
{
	char *path = cache_path(p, "key.txt"), *text;
	size_t len;
	int rc = 0;

	if (io_read_regular(path, KEY_MAX, &text, &len, NULL) == 0) {
		rc = len >= want->len && (beginning || len == want->len) &&
			!memcmp(text, want->buf, want->len)
		    ? 1
		    : -1;
		free(text);
	}
	free(path);
	return rc;
}

/* With trust, the key's checksums are accepted without reading the arrays. Small files are copied
 * into memory with their headers, because checksums are of whole files. */
int
cache_key_fits(const struct cache_place *p, const struct str *head, bool trust)
{
	struct str want = { 0 };
	int rc;

	key_text(p, head, !trust, &want);
	rc = compare_key(p, &want, trust);
	str_release(&want);
	for (int i = 0; i < p->count && rc >= 0; i++) {
		struct index_map *m = p->array[i].map;
		const unsigned char *base = m->file.map.base;
		size_t size = m->file.map.size;

		if (size > COPIED)
			continue;
		m->own = mem_alloc(size, 1);
		memcpy(m->own, base, size);
		m->header = (size_t)((const unsigned char *)m->file.data - base);
		m->data = (char *)m->own + m->header;
		npy_close(&m->file);
	}
	return rc;
}

int
cache_key_begins(const struct cache_place *p, const struct str *head)
{
	return compare_key(p, head, true);
}

/* Adds a text file to the set. */
static int
store_text(const struct cache_place *p, const char *name, const struct str *text,
    struct file_set *set, struct err *e)
{
	char *path = cache_path(p, name);
	struct iovec piece = { text->buf, text->len };
	int rc = file_set_add(set, path, &piece, 1, e);

	free(path);
	return rc;
}

/* Makes the directory when it is missing. */
int
cache_store(
    const struct cache_place *p, const struct str *description, struct file_set *set, struct err *e)
{
	int rc = io_is_dir(p->dir) ? 0 : io_mkdir_p(p->dir, e);

	for (int i = 0; i < p->count && rc == 0; i++) {
		const struct cache_array *a = &p->array[i];
		char *path = array_path(p, a), header[256];
		struct iovec piece[2] = {
			{ header, array_header(a, header) },
			{ (void *)(uintptr_t)a->map->data, array_bytes(a) },
		};

		rc = file_set_add(set, path, piece, 2, e);
		free(path);
	}
	return rc == 0 ? store_text(p, "description.txt", description, set, e) : -1;
}

/* The head and one checksum per array. */
int
cache_store_key(
    const struct cache_place *p, const struct str *head, struct file_set *set, struct err *e)
{
	struct str key = { 0 };
	int rc;

	key_text(p, head, true, &key);
	rc = store_text(p, "key.txt", &key, set, e);
	str_release(&key);
	return rc;
}
