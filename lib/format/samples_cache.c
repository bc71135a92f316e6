/*
 * samples_cache.c - index maps as files, under Megatron-LM's names
 *
 * A set of files counts only when it is complete and proves to belong to this dataset: the hash in
 * the names covers neither the content of the corpus nor the extra token nor the last partial
 * sample, so maps of another content may lie under the same name.
 *
 * Megatron-LM itself believes any set of four files. A damaged or stale set is no error here: it is
 * as if it were not there.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/format/samples_impl.h"

#include <stdlib.h>
#include <string.h>

/* DIRECTORY/HASH-GPTDataset-SPLIT-NAME; free() it. */
static char *
cache_path(const struct samples *s, const struct samples_config *c, const char *name)
{
	struct str path = { 0 };

	if (c->cache_dir)
		str_adds(&path, c->cache_dir);
	else
		str_addf(&path, "%s/cache/GPTDataset_indices", dataset_prefix(s->d));
	if (name)
		str_addf(&path, "/%s-GPTDataset-%s-%s", s->hash, split_name[c->which], name);
	return str_detach(&path);
}

/* Opens one map; its shape must be [count], or [count][2] for rows. */
static bool
load_map(struct index_map *m, const char *path, int64_t count, bool rows)
{
	struct npy *a = &m->file;

	if (npy_open(a, path, NULL) < 0)
		return false;
	m->dtype = a->dtype;
	m->data = a->data;
	if (a->dtype != DTYPE_I32 && a->dtype != DTYPE_U32 && a->dtype != DTYPE_I64)
		return false;
	return a->ndim == (rows ? 2 : 1) && a->shape[0] == count && (!rows || a->shape[1] == 2);
}

/* Only sequences of the split. */
static bool
document_index_fits(const struct samples *s)
{
	for (int64_t i = 0; i < s->num_positions; i++) {
		int64_t v = index_map_get(&s->document, i);

		if (v < s->begin || v >= s->end)
			return false;
	}
	return true;
}

/* Every row is where the walk over the document index puts it, which also proves lengths, extra
 * token and partial sample. */
static bool
sample_index_fits(const struct samples *s)
{
	struct walk w = { 0, 0 };

	for (int64_t i = 0; i <= s->count; i++) {
		int64_t position, offset;

		samples_sample_index(s, i, &position, &offset);
		if (position != w.position || offset != w.offset)
			return false;
		if (i < s->count && samples_walk(s, &w) < 0)
			return false;
	}
	return true;
}

/* A permutation of the samples. */
static bool
shuffle_index_fits(const struct samples *s)
{
	unsigned char *seen = mem_zalloc((size_t)s->count / 8 + 1, 1);
	bool fits = true;

	for (int64_t i = 0; i < s->count && fits; i++) {
		int64_t v = samples_shuffle_index(s, i);

		fits = v >= 0 && v < s->count && !(seen[v / 8] & 1 << v % 8);
		if (fits)
			seen[v / 8] |= (unsigned char)(1 << v % 8);
	}
	free(seen);
	return fits;
}

/* The description beside the maps is the text that their name is the hash of. */
static bool
description_fits(const char *path, const struct str *want)
{
	char *text;
	size_t len;
	bool fits;

	if (io_read_file(path, 1 << 20, &text, &len, NULL) < 0)
		return false;
	fits = len == want->len && !memcmp(text, want->buf, len);
	free(text);
	return fits;
}

/* On a miss the maps are left empty for building. */
bool
samples_load(struct samples *s, const struct samples_config *c, const struct str *description)
{
	char *text = cache_path(s, c, "description.txt"),
	     *document = cache_path(s, c, "document_index.npy");
	char *row = cache_path(s, c, "sample_index.npy"),
	     *shuffle = cache_path(s, c, "shuffle_index.npy");
	bool fits;

	fits = description_fits(text, description) &&
	    load_map(&s->document, document, s->num_positions, false) &&
	    load_map(&s->row, row, s->count + 1, true) &&
	    load_map(&s->shuffle, shuffle, s->count, false) && document_index_fits(s) &&
	    sample_index_fits(s) && shuffle_index_fits(s);
	if (!fits) {
		index_map_release(&s->document);
		index_map_release(&s->row);
		index_map_release(&s->shuffle);
	}
	free(text);
	free(document);
	free(row);
	free(shuffle);
	return fits;
}

/* Writes one map; takes the path over. */
static int
store_map(const struct index_map *m, char *path, int64_t count, bool rows, struct err *e)
{
	int64_t shape[2] = { count, 2 };
	int rc = npy_write(path, m->dtype, rows ? 2 : 1, shape, m->data, e);

	free(path);
	return rc;
}

/* The description goes last: Megatron-LM takes the four files for complete as soon as all exist. */
int
samples_store(const struct samples *s, const struct samples_config *c,
    const struct str *description, struct err *e)
{
	char *dir = cache_path(s, c, NULL), *text = cache_path(s, c, "description.txt");
	int rc = io_mkdir_p(dir, e);

	if (rc == 0)
		rc = store_map(&s->document, cache_path(s, c, "document_index.npy"),
		    s->num_positions, false, e);
	if (rc == 0)
		rc =
		    store_map(&s->row, cache_path(s, c, "sample_index.npy"), s->count + 1, true, e);
	if (rc == 0)
		rc = store_map(
		    &s->shuffle, cache_path(s, c, "shuffle_index.npy"), s->count, false, e);
	if (rc == 0)
		rc = io_write_file(text, description->buf, description->len, e);
	free(dir);
	free(text);
	return rc;
}
