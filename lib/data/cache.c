/*
 * cache.c - sets of arrays under Megatron-LM's cache names, with a key of our own
 *
 * Megatron-LM accepts any complete set. The key, a line of a file of keys, holds what its names
 * leave out and the checksum of each array, so that a damaged or stale set counts as missing, and a
 * sound one is accepted after one pass over its bytes.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/data/samples_impl.h"

#include <stdlib.h>
#include <string.h>

/* Files up to this size are copied: a process may have some 65,000 maps, and blends have thousands
 * of corpora. */
enum { COPIED = 64 << 10 };

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

/* A small file is copied into memory with its header, because checksums are of whole files. */
static void
copy_small(struct index_map *m)
{
	const unsigned char *base = m->file.map.base;
	size_t size = m->file.map.size;

	if (size > COPIED)
		return;
	m->own = mem_alloc(size, 1);
	memcpy(m->own, base, size);
	m->header = (size_t)((const unsigned char *)m->file.data - base);
	m->data = (char *)m->own + m->header;
	npy_close(&m->file);
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
	for (int i = 0; i < p->count && fits; i++)
		copy_small(p->array[i].map);
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

/* The checksum of the file that holds, or will hold, an array in memory. */
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

/* The checksum of any file there; that of an unreadable one is of no bytes. */
static uint64_t
file_checksum(const struct cache_place *p, const struct cache_array *a)
{
	char *path = array_path(p, a);
	struct map file = { 0 };
	uint64_t sum;

	(void)map_open(&file, path, NULL);
	sum = hash_xxh3(file.base, file.size);
	map_close(&file);
	free(path);
	return sum;
}

/* The sums of a key; of the files where no arrays are in memory. */
static void
add_sums(const struct cache_place *p, struct str *out)
{
	char digits[17];

	for (int i = 0; i < p->count; i++) {
		const struct cache_array *a = &p->array[i];

		str_addf(out, " %s",
		    hash_text(a->map->data ? checksum(a) : file_checksum(p, a), digits));
	}
}

/* set has room for the name. */
static struct map_key
key_of(const struct cache_place *p, char set[80])
{
	snprintf(set, 80, "%s-%s-%s", p->hash, p->class_name, split_name[p->which]);
	return (struct map_key){ set, p->data, p->options };
}

enum key_verdict
cache_verdict(const struct cache_place *p)
{
	char set[80];
	struct map_key key = key_of(p, set);
	struct str sums = { 0 };
	enum key_verdict verdict;

	if (!p->trust)
		add_sums(p, &sums);
	verdict = map_cache_verdict(p->cache, p->dir, &key, p->trust ? "" : sums.buf);
	str_release(&sums);
	return verdict;
}

/* Adds one array to the files. */
static int
store_array(
    const struct cache_place *p, const struct cache_array *a, struct file_set *set, struct err *e)
{
	char *path = array_path(p, a), header[256];
	struct iovec piece[2] = {
		{ header, array_header(a, header) },
		{ (void *)(uintptr_t)a->map->data, array_bytes(a) },
	};
	int rc = file_set_add(set, path, piece, 2, e);

	free(path);
	return rc;
}

/* Makes the directory when it is missing. */
int
cache_store(const struct cache_place *p, const struct str *description, struct err *e)
{
	struct file_set *set = map_cache_files(p->cache);
	char *path = cache_path(p, "description.txt");
	int rc = io_is_dir(p->dir) ? 0 : io_mkdir_p(p->dir, e);

	for (int i = 0; i < p->count && rc == 0; i++)
		rc = store_array(p, &p->array[i], set, e);
	if (rc == 0)
		rc = file_set_add(
		    set, path, &(struct iovec){ description->buf, description->len }, 1, e);
	if (rc == 0)
		cache_store_key(p);
	free(path);
	return rc;
}

void
cache_store_key(const struct cache_place *p)
{
	char set[80];
	struct map_key key = key_of(p, set);
	struct str sums = { 0 };

	add_sums(p, &sums);
	map_cache_add(p->cache, p->dir, &key, sums.buf);
	str_release(&sums);
}
