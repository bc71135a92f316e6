/*
 * hfdir.c - the weights of a Hugging Face directory
 *
 * One model.safetensors, or an index and its shards: both appear as one sorted list of tensors. The
 * index repeats what the headers of the shards say, so the two are compared in full; its file names
 * must be plain, because they come from a download and are opened. Everything is mapped and nothing
 * copied.
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/ckpt/hfdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1400 };

static const size_t index_max = (size_t)1 << 28;

struct hfdir {
	int num_files, count;
	struct safetensors **file;
	const struct safetensors_entry **entry; /* sorted by name */
};

/* dir/name; an error when it does not fit, since a truncated path could name another file. */
static int
join(char out[PATH_BYTES], const char *dir, const char *name, struct err *e)
{
	return snprintf(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES
	    ? 0
	    : err_set(e, "path too long: '%.60s...'", dir);
}

/* Either file is enough; opening checks it. */
bool
hfdir_is(const char *dir)
{
	char path[PATH_BYTES];

	return (join(path, dir, "model.safetensors", NULL) == 0 && io_exists(path)) ||
	    (join(path, dir, "model.safetensors.index.json", NULL) == 0 && io_exists(path));
}

/* Order of tensors in the index. */
static int
compare_lines(const void *a, const void *b)
{
	return strcmp(
	    ((const struct hf_index_entry *)a)->tensor, ((const struct hf_index_entry *)b)->tensor);
}

/*
 * Takes the members of "weight_map", sorted by tensor; others, such as metadata, are ignored. The
 * strings stay in the tree, which lives as long as the index.
 */
int
hf_index_parse(struct hf_index *x, const char *text, size_t len, const char *name, struct err *e)
{
	const struct json_value *root, *map;

	memset(x, 0, sizeof *x);
	x->json = json_parse(text, len, name, e);
	if (!x->json)
		return -1;
	root = json_root(x->json);
	if (root->type != JSON_OBJECT)
		return err_at(e, name, 0, "not a JSON object");
	map = json_get(root, "weight_map");
	if (!map || map->type != JSON_OBJECT || map->len == 0 || map->len > INT32_MAX)
		return err_at(e, name, 0, "\"weight_map\" is missing or empty");
	x->entry = mem_alloc(map->len, sizeof *x->entry);
	for (size_t i = 0; i < map->len; i++) {
		const struct json_value *v = &map->item[i];

		/* A NUL would hide the rest of the name. */
		if (v->type != JSON_STRING || strlen(v->string) != v->len ||
		    !io_is_file_name(v->string))
			return err_at(e, name, 0, "tensor '%s': not a plain file name: '%.80s'",
			    v->key, v->type == JSON_STRING ? v->string : "");
		if (strlen(v->key) != v->key_len)
			return err_at(e, name, 0, "tensor '%s...': NUL in its name", v->key);
		x->entry[x->count++] = (struct hf_index_entry){ v->key, v->string };
	}
	qsort(x->entry, (size_t)x->count, sizeof *x->entry, compare_lines);
	for (int i = 1; i < x->count; i++)
		if (!strcmp(x->entry[i - 1].tensor, x->entry[i].tensor))
			return err_at(e, name, 0, "tensor '%s' twice", x->entry[i].tensor);
	return 0;
}

/* Also releases the result of a failed parse, and may be called twice. */
void
hf_index_release(struct hf_index *x)
{
	free(x->entry);
	json_free(x->json);
	memset(x, 0, sizeof *x);
}

/* Order of file names. */
static int
compare_strings(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The file names of an index, sorted, each once; the caller frees the array. */
static const char **
index_files(const struct hf_index *x, int *count)
{
	const char **name = mem_alloc((size_t)x->count, sizeof *name);
	int n = 0;

	for (int i = 0; i < x->count; i++)
		name[i] = x->entry[i].file;
	qsort(name, (size_t)x->count, sizeof *name, compare_strings);
	for (int i = 0; i < x->count; i++)
		if (n == 0 || strcmp(name[n - 1], name[i]))
			name[n++] = name[i];
	*count = n;
	return name;
}

/*
 * Reports all shards that the index names but the directory lacks, in one line and the first eight
 * by name: an unfinished download lacks many.
 */
static int
check_present(const char *dir, const char **name, int count, struct err *e)
{
	struct str missing = { 0 };
	int n = 0;

	for (int i = 0; i < count; i++) {
		char path[PATH_BYTES];

		if (join(path, dir, name[i], e) < 0)
			return -1;
		if (!io_exists(path) && ++n <= 8)
			str_addf(&missing, "%s%s", n > 1 ? ", " : "", name[i]);
	}
	if (n > 0)
		err_at(e, dir, 0, "%d shard%s missing: %s%s", n, n > 1 ? "s are" : " is",
		    missing.buf, n > 8 ? ", ..." : "");
	str_release(&missing);
	return n > 0 ? -1 : 0;
}

/*
 * Opens the files in order; num_files counts those that are open, so that closing after a failure
 * is right.
 */
static int
open_files(struct hfdir *h, const char *dir, const char **name, int count, struct err *e)
{
	h->file = mem_zalloc((size_t)count, sizeof *h->file);
	for (int i = 0; i < count; i++) {
		char path[PATH_BYTES];

		if (join(path, dir, name[i], e) < 0)
			return -1;
		h->file[i] = safetensors_open(path, e);
		if (!h->file[i])
			return -1;
		h->num_files++;
		h->count += safetensors_count(h->file[i]);
	}
	return 0;
}

/* Order of tensors over all files. */
static int
compare_entries(const void *a, const void *b)
{
	const struct safetensors_entry *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/*
 * Collects the tensors of all files, sorted by name; no name may be in two, or a loader's result
 * would depend on its order.
 */
static int
collect(struct hfdir *h, const char *dir, struct err *e)
{
	int n = 0;

	h->entry = mem_alloc((size_t)h->count, sizeof *h->entry);
	for (int f = 0; f < h->num_files; f++)
		for (int i = 0; i < safetensors_count(h->file[f]); i++)
			h->entry[n++] = safetensors_at(h->file[f], i);
	qsort(h->entry, (size_t)n, sizeof *h->entry, compare_entries);
	for (int i = 1; i < n; i++)
		if (!strcmp(h->entry[i - 1]->name, h->entry[i]->name))
			return err_at(e, dir, 0, "tensor '%s' is in two shards", h->entry[i]->name);
	return 0;
}

/* Every line of the index must be correct, and every tensor must be in it. name holds the files,
 * sorted as they were opened. */
static int
check_index(const struct hfdir *h, const struct hf_index *x, const char **name, const char *dir,
    struct err *e)
{
	for (int i = 0; i < x->count; i++) {
		const char **file = bsearch(
		    &x->entry[i].file, name, (size_t)h->num_files, sizeof *name, compare_strings);

		if (!safetensors_find(h->file[file - name], x->entry[i].tensor))
			return err_at(e, dir, 0,
			    "tensor '%s' is not in %s, where the index says it is",
			    x->entry[i].tensor, *file);
	}
	for (int i = 0; i < h->count; i++) {
		struct hf_index_entry key = { h->entry[i]->name, NULL };

		if (!bsearch(&key, x->entry, (size_t)x->count, sizeof *x->entry, compare_lines))
			return err_at(e, dir, 0, "tensor '%s' is not in the index", key.tensor);
	}
	return 0;
}

/* Opens the shards that the index names. */
static int
open_sharded(struct hfdir *h, const char *dir, const char *index, struct err *e)
{
	struct hf_index x = { 0 };
	const char **name = NULL;
	char *text = NULL;
	size_t len;
	int count, rc = -1;

	if (io_read_regular(index, index_max, &text, &len, e) < 0)
		return -1;
	if (hf_index_parse(&x, text, len, index, e) == 0) {
		name = index_files(&x, &count);
		if (check_present(dir, name, count, e) == 0 &&
		    open_files(h, dir, name, count, e) == 0 && collect(h, dir, e) == 0)
			rc = check_index(h, &x, name, dir, e);
	}
	free(name);
	free(text);
	hf_index_release(&x);
	return rc;
}

/* A single file takes precedence over an index, as in transformers. */
struct hfdir *
hfdir_open(const char *dir, struct err *e)
{
	static const char *single[] = { "model.safetensors" };
	struct hfdir *h = mem_zalloc(1, sizeof *h);
	char path[PATH_BYTES];
	int rc = -1, alone = join(path, dir, single[0], e) < 0 ? -1 : io_there(path, e);

	if (alone > 0)
		rc = open_files(h, dir, single, 1, e) < 0 ? -1 : collect(h, dir, e);
	else if (alone == 0 && join(path, dir, "model.safetensors.index.json", e) == 0)
		rc = io_exists(path)
		    ? open_sharded(h, dir, path, e)
		    : err_at(
			  e, dir, 0, "neither model.safetensors nor model.safetensors.index.json");
	if (rc == 0)
		return h;
	hfdir_close(h);
	return NULL;
}

/* Also closes a directory whose opening failed; NULL is ignored. Entries are invalid afterwards. */
void
hfdir_close(struct hfdir *h)
{
	if (!h)
		return;
	for (int i = 0; i < h->num_files; i++)
		safetensors_close(h->file[i]);
	free(h->file);
	free(h->entry);
	free(h);
}

/* Over all files. */
int
hfdir_count(const struct hfdir *h)
{
	return h->count;
}

/* By name in ascending order, over all files. Borrowed until close. */
const struct safetensors_entry *
hfdir_at(const struct hfdir *h, int i)
{
	return h->entry[i];
}

/* Binary search by name. */
const struct safetensors_entry *
hfdir_find(const struct hfdir *h, const char *name)
{
	const struct safetensors_entry key = { .name = name }, *p = &key;
	const struct safetensors_entry **hit =
	    bsearch(&p, h->entry, (size_t)h->count, sizeof *h->entry, compare_entries);

	return hit ? *hit : NULL;
}

/* 1 for a single file, else the shards; the index does not count. */
int
hfdir_num_files(const struct hfdir *h)
{
	return h->num_files;
}
