/*
 * hfdir.c - the weights of a Hugging Face directory
 *
 * One file, or an index and its shards, of safetensors or of torch.save: all appear as one sorted
 * list of tensors. The index says which files there are, whose names must be plain, because they
 * come from a download and are opened; which tensors these hold, they say themselves. Everything is
 * mapped and nothing copied.
 */
#include "lib/base/hub.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/ckpt/hf_bin.h"
#include "lib/ckpt/hf_decode.h"
#include "lib/ckpt/hf_front.h"
#include "lib/ckpt/hfdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = IO_PATH + 400 };

static const size_t index_max = (size_t)1 << 28;

/* A file of either kind. */
struct weights_file {
	struct safetensors *tensors;
	struct hf_bin *bin;
};

struct hfdir {
	struct hf_front front;
	int num_files, count, room;
	struct weights_file *file;
	char **name;                 /* of the files */
	struct hfdir_tensor *tensor; /* sorted by name */
	struct hf_index index;       /* nothing for a single file */
	struct mem_pool pool;        /* of what is decoded */
};

/* dir/name; an error when it does not fit, since a truncated path could name another file. */
static int
join(char out[PATH_BYTES], const char *dir, const char *name, struct err *e)
{
	return snprintf(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES
	    ? 0
	    : err_set(e, "path too long: '%.60s...'", dir);
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

/* A tensor of more dimensions than a slice has is kept for reports. */
static void
take_safetensors(struct hfdir *h, int file, const struct safetensors_entry *s)
{
	struct hfdir_tensor *t = &h->tensor[h->count++];

	*t = (struct hfdir_tensor){ .name = s->name,
		.file = h->name[file],
		.dtype_name = s->dtype_name,
		.ndim = s->ndim,
		.bytes = s->bytes,
		.is_dense = true };
	memcpy(t->shape, s->shape, sizeof t->shape);
	safetensors_view(s, &t->view);
}

static void
take_bin(struct hfdir *h, int file, const struct hf_bin_entry *b)
{
	struct hfdir_tensor *t = &h->tensor[h->count++];

	*t = (struct hfdir_tensor){ .name = b->name,
		.file = h->name[file],
		.dtype_name = b->why ? "not a tensor" : dtype_name(b->tensor.dtype),
		.why = b->why,
		.ndim = b->tensor.ndim,
		.view = b->tensor };
	if (b->why)
		return;
	memcpy(t->shape, b->tensor.shape, sizeof b->tensor.shape);
	t->bytes = (uint64_t)torch_tensor_elements(&b->tensor) * dtype_size(b->tensor.dtype);
	t->is_dense = torch_tensor_is_dense(&b->tensor);
}

/* Opens one file; num_files counts those that are open, so that closing after a failure is
 * right. */
static int
open_file(struct hfdir *h, const char *name, struct err *e)
{
	struct weights_file *f = &h->file[h->num_files];
	char path[PATH_BYTES];
	int n;

	if (join(path, h->front.dir, name, e) < 0 || hub_check_pointer(path, e) < 0)
		return -1;
	if (h->front.is_bin)
		f->bin = hf_bin_open(path, e);
	else
		f->tensors = safetensors_open(path, e);
	if (!f->bin && !f->tensors)
		return -1;
	h->name[h->num_files++] = mem_strndup(name, strlen(name));
	n = f->bin ? hf_bin_count(f->bin) : safetensors_count(f->tensors);
	h->tensor = mem_realloc(h->tensor, (size_t)h->count + (size_t)n + 1, sizeof *h->tensor);
	for (int i = 0; i < n; i++)
		if (f->bin)
			take_bin(h, h->num_files - 1, hf_bin_at(f->bin, i));
		else
			take_safetensors(h, h->num_files - 1, safetensors_at(f->tensors, i));
	return 0;
}

static int
open_files(struct hfdir *h, const char **name, int count, struct err *e)
{
	h->file = mem_zalloc((size_t)count, sizeof *h->file);
	h->name = mem_zalloc((size_t)count, sizeof *h->name);
	for (int i = 0; i < count; i++)
		if (open_file(h, name[i], e) < 0)
			return -1;
	return 0;
}

/* Order of tensors over all files; of equal names that of the files. */
static int
compare_tensors(const void *a, const void *b)
{
	const struct hfdir_tensor *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->file, y->file);
}

/* A copy in another file: of one type, with the same bytes. */
static bool
is_copy(const struct hfdir_tensor *a, const struct hfdir_tensor *b)
{
	if (strcmp(a->dtype_name, b->dtype_name) || a->ndim != b->ndim || a->bytes != b->bytes ||
	    memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape))
		return false;
	return a->is_dense && b->is_dense ? !memcmp(a->view.data, b->view.data, a->bytes)
					  : hfdir_same(a, b);
}

/* Sorts the tensors of all files. Of copies the first stays; names of different tensors are an
 * error, or a loader's result would depend on its order. */
static int
collect(struct hfdir *h, struct err *e)
{
	int n = 0;

	if (h->count)
		qsort(h->tensor, (size_t)h->count, sizeof *h->tensor, compare_tensors);
	for (int i = 0; i < h->count; i++) {
		const struct hfdir_tensor *last = n ? &h->tensor[n - 1] : NULL, *t = &h->tensor[i];

		if (!last || strcmp(last->name, t->name))
			h->tensor[n++] = *t;
		else if (!is_copy(last, t))
			return err_at(e, h->front.dir, 0,
			    "tensor '%s' is in %s and another one in %s", t->name, last->file,
			    t->file);
	}
	h->count = n;
	return 0;
}

/* Opens the shards that the index names. */
static int
open_sharded(struct hfdir *h, const char *index, struct err *e)
{
	const char **name;
	char *text;
	size_t len;
	int count, rc = -1;

	if (hub_check_pointer(index, e) < 0 ||
	    io_read_regular(index, index_max, &text, &len, e) < 0)
		return -1;
	if (hf_index_parse(&h->index, text, len, index, e) == 0) {
		name = index_files(&h->index, &count);
		if (check_present(h->front.dir, name, count, e) == 0)
			rc = open_files(h, name, count, e);
		free(name);
	}
	free(text);
	return rc;
}

int
hfdir_decode(struct hfdir *h, const struct config_quantised *how)
{
	int decoded;

	h->count = hf_decode_find(h->tensor, h->count, how, &h->pool, &decoded);
	if (h->count)
		qsort(h->tensor, (size_t)h->count, sizeof *h->tensor, compare_tensors);
	return decoded;
}

struct hfdir *
hfdir_open(const char *path, struct err *e)
{
	struct hfdir *h = mem_zalloc(1, sizeof *h);
	char file[PATH_BYTES];
	int rc = -1;

	if (hf_front_open(&h->front, path, e) == 0 &&
	    join(file, h->front.dir, h->front.file, e) == 0)
		rc = h->front.is_index ? open_sharded(h, file, e)
				       : open_files(h, &h->front.file, 1, e);
	if (rc == 0 && collect(h, e) == 0)
		return h;
	hfdir_close(h);
	return NULL;
}

/* Also closes a directory whose opening failed; NULL is ignored. Tensors are invalid afterwards. */
void
hfdir_close(struct hfdir *h)
{
	if (!h)
		return;
	for (int i = 0; i < h->num_files; i++) {
		safetensors_close(h->file[i].tensors);
		hf_bin_close(h->file[i].bin);
		free(h->name[i]);
	}
	free(h->file);
	free(h->name);
	free(h->tensor);
	hf_index_release(&h->index);
	hf_front_release(&h->front);
	mem_pool_release(&h->pool);
	free(h);
}

const char *
hfdir_path(const struct hfdir *h)
{
	return h->front.dir;
}

const char *
hfdir_notes(const struct hfdir *h)
{
	return h->front.notes.len ? h->front.notes.buf : "";
}

int
hfdir_count(const struct hfdir *h)
{
	return h->count;
}

const struct hfdir_tensor *
hfdir_at(const struct hfdir *h, int i)
{
	return &h->tensor[i];
}

/* Order of a name and a tensor. */
static int
compare_name(const void *a, const void *b)
{
	return strcmp(a, ((const struct hfdir_tensor *)b)->name);
}

const struct hfdir_tensor *
hfdir_find(const struct hfdir *h, const char *name)
{
	return h->count
	    ? bsearch(name, h->tensor, (size_t)h->count, sizeof *h->tensor, compare_name)
	    : NULL;
}

const struct hf_index *
hfdir_index(const struct hfdir *h)
{
	return &h->index;
}

/* The index does not count. */
int
hfdir_num_files(const struct hfdir *h)
{
	return h->num_files;
}

int
hfdir_verify(const struct hfdir *h, struct str *problems)
{
	int n = 0;
	struct err e;

	for (int i = 0; i < h->num_files; i++)
		if (h->file[i].bin && hf_bin_verify(h->file[i].bin, &e) < 0) {
			str_addf(problems, "%s/%s: %s\n", h->front.dir, h->name[i], e.msg);
			n++;
		}
	return n;
}
