/*
 * weights.c - the tensors of an export: their parameters, shards and bytes
 *
 * A tensor of the export may be made of several parameters (q, k and v of GPT-2) and may be stored
 * transposed. It is assembled some rows at a time, so that memory does not grow with the model;
 * shards are filled in model order, and their tensors sorted by name, as the reference writer does
 * it.
 */
#include "export/hf.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/relay.h"
#include "lib/ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 21 }; /* elements in memory at a time; at least one row */

/* Parameters of one tensor are adjacent in the table, so one pass is enough. */
int
weights_plan(struct hf_export *x, uint64_t max_shard_bytes, struct err *e)
{
	struct hf_tensor *t = NULL;
	uint64_t bytes = 0;

	x->tensor = mem_zalloc((size_t)x->src->count, sizeof *x->tensor);
	for (int i = 0; i < x->src->count; i++) {
		struct family_place place;

		if (family_place(x->family, &x->src->config, &x->src->param[i], &place, e) < 0)
			return -1;
		if (t && !strcmp(t->name, place.name)) {
			t->count++;
			continue;
		}
		t = &x->tensor[x->count++];
		*t = (struct hf_tensor){
			.ndim = place.ndim, .bytes = dtype_size(x->dtype), .first = i, .count = 1
		};
		snprintf(t->name, sizeof t->name, "%s", place.name);
		memcpy(t->shape, place.shape, sizeof t->shape);
		for (int d = 0; d < t->ndim; d++)
			if (mem_mul(t->bytes, (uint64_t)t->shape[d], &t->bytes) < 0)
				return err_set(e, "tensor '%s' is too large", t->name);
	}
	/* In model order; a shard is closed before the tensor that would exceed the limit. */
	for (int i = 0; i < x->count; i++) {
		if (i > 0 &&
		    (bytes > max_shard_bytes || x->tensor[i].bytes > max_shard_bytes - bytes)) {
			x->num_shards++;
			bytes = 0;
		}
		bytes += x->tensor[i].bytes;
		x->tensor[i].shard = x->num_shards;
	}
	x->num_shards++;
	return 0;
}

/* The source belongs to the caller. */
void
weights_release(struct hf_export *x)
{
	free(x->tensor);
}

/* A run of a parameter's rows, and where it lies. */
struct run {
	int param;
	int64_t first; /* of its rows in the parameter */
	struct slice slice;
	const struct family_place *place;
};

/* Reads rows of a parameter in the order in which they are stored, dense. */
static int
read_rows(struct hf_export *x, const struct run *r, const struct source_part *want, void *dst,
    struct err *e)
{
	struct source_part one = *want;
	int64_t count = want->slice.count[0];
	size_t row = (size_t)(slice_elements(&want->slice) / count) * dtype_size(x->dtype);
	int rc = 0;

	if (!r->place->rotary)
		return source_read(x->src, want, x->dtype, dst, e);
	one.slice.count[0] = 1;
	for (int64_t i = 0; rc == 0 && i < count; i++) {
		one.slice.start[0] = family_row_of(r->place, want->slice.start[0] + i);
		rc = source_read(x->src, &one, x->dtype, (char *)dst + (size_t)i * row, e);
	}
	return rc;
}

/* Copies a run's part of `rows` (a box of whole rows of its tensor) into dst, which holds those
 * rows. */
static int
read_run(
    struct hf_export *x, const struct run *r, const struct slice *rows, void *dst, struct err *e)
{
	struct source_part want = { .param = &x->src->param[r->param], .state = x->state };
	struct slice part;
	size_t size = dtype_size(x->dtype);
	void *read;
	int rc;

	if (!slice_intersect(rows, &r->slice, &part))
		return 0;
	want.slice.ndim = want.param->ndim;
	for (int d = 0; d < want.param->ndim; d++) {
		int from = r->place->dim[d];

		want.slice.start[d] = part.start[from] - r->slice.start[from];
		want.slice.count[d] = part.count[from];
	}
	want.slice.start[0] += r->first;
	if (!r->place->transposed && slice_elements(&part) == slice_elements(rows))
		return read_rows(x, r, &want, dst, e);
	read = mem_alloc((size_t)slice_elements(&part), size);
	rc = read_rows(x, r, &want, read, e);
	if (rc == 0 && r->place->transposed) {
		void *transposed = mem_alloc((size_t)slice_elements(&part), size);

		slice_transpose(transposed, read, want.slice.count[0], want.slice.count[1], size);
		free(read);
		read = transposed;
	}
	if (rc == 0)
		slice_copy(dst, rows, read, &part, &part, size);
	free(read);
	return rc;
}

/* Some rows of a tensor: they are read and written at once. */
struct window {
	const struct hf_tensor *tensor;
	struct slice rows;
};

/* The shard that is being written. */
struct shard_job {
	struct hf_export *x;
	struct safetensors_writer *w;
	struct window *window;
	int64_t count, most; /* windows; elements of the largest */
};

/* Appends a tensor's windows: whole rows, at least one, and no more than CHUNK elements otherwise.
 */
static void
add_windows(struct shard_job *job, const struct hf_tensor *t)
{
	struct slice rows = slice_whole(t->ndim, t->shape);
	int64_t row = slice_elements(&rows) / t->shape[0], step = row < CHUNK ? CHUNK / row : 1;

	job->window = mem_realloc(job->window,
	    (size_t)(job->count + (t->shape[0] + step - 1) / step), sizeof *job->window);
	for (int64_t at = 0; at < t->shape[0]; at += step) {
		rows.start[0] = at;
		rows.count[0] = t->shape[0] - at < step ? t->shape[0] - at : step;
		job->window[job->count++] = (struct window){ t, rows };
		if (job->most < rows.count[0] * row)
			job->most = rows.count[0] * row;
	}
}

/* Reads a window: of all runs of all parameters that lie in its tensor. Runs in the thread that
 * alone reads the source. */
static int
fill(void *ctx, int64_t i, void *buffer, struct err *e)
{
	const struct shard_job *job = ctx;
	const struct window *w = &job->window[i];
	struct hf_export *x = job->x;
	int rc = 0;

	for (int p = w->tensor->first; p < w->tensor->first + w->tensor->count && rc == 0; p++) {
		struct family_place place;

		rc = family_place(x->family, &x->src->config, &x->src->param[p], &place, e);
		for (int64_t k = 0; rc == 0 && k < place.runs; k++) {
			int rows = place.dim[0];
			struct run r = { p, k * place.slice.count[rows], place.slice, &place };

			r.slice.start[rows] += k * place.apart;
			rc = read_run(x, &r, &w->rows, buffer, e);
		}
	}
	return rc;
}

static int
empty(void *ctx, int64_t i, const void *buffer, struct err *e)
{
	const struct shard_job *job = ctx;
	size_t size = dtype_size(job->x->dtype);

	return safetensors_write(
	    job->w, buffer, (size_t)slice_elements(&job->window[i].rows) * size, e);
}

/* File names as transformers numbers them. */
static void
shard_name(const struct hf_export *x, int shard, char out[64])
{
	if (x->num_shards == 1)
		snprintf(out, 64, "model.safetensors");
	else
		snprintf(out, 64, "model-%05d-of-%05d.safetensors", shard + 1, x->num_shards);
}

/* Order of names. */
static int
compare_tensors(const void *a, const void *b)
{
	const struct hf_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* The tensors of a shard (-1: of all), sorted by name as the reference writer does; the caller
 * frees the array. */
static const struct hf_tensor **
sorted(const struct hf_export *x, int shard, int *count)
{
	const struct hf_tensor **t = mem_alloc((size_t)x->count, sizeof *t);

	*count = 0;
	for (int i = 0; i < x->count; i++)
		if (shard < 0 || x->tensor[i].shard == shard)
			t[(*count)++] = &x->tensor[i];
	qsort(t, (size_t)*count, sizeof *t, compare_tensors);
	return t;
}

/* Declares all tensors, then writes them; an error leaves no file. */
static int
write_shard(struct hf_export *x, int shard, const char *dir, struct err *e)
{
	struct shard_job job = { .x = x };
	struct relay relay = { .fill = fill, .empty = empty, .ctx = &job };
	char path[1200], name[64];
	int n, rc;
	const struct hf_tensor **t;

	shard_name(x, shard, name);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	job.w = safetensors_writer_direct(path, e);
	if (!job.w)
		return -1;
	t = sorted(x, shard, &n);
	for (int i = 0; i < n; i++) {
		safetensors_declare(job.w, t[i]->name, x->dtype, t[i]->ndim, t[i]->shape);
		add_windows(&job, t[i]);
	}
	relay.count = job.count;
	relay.bytes = (size_t)job.most * dtype_size(x->dtype);
	rc = relay_run(&relay, e);
	free(t);
	free(job.window);
	if (rc == 0)
		return safetensors_commit(job.w, e);
	safetensors_abort(job.w);
	return -1;
}

/*
 * Sizes and names for loaders that open shards one by one; total_size counts the tensors' bytes
 * without headers.
 */
static int
write_index(const struct hf_export *x, const char *dir, struct err *e)
{
	struct str s = { 0 };
	char path[1200], name[64];
	uint64_t bytes = 0;
	int n, rc;
	const struct hf_tensor **t = sorted(x, -1, &n);

	for (int i = 0; i < n; i++)
		bytes += t[i]->bytes;
	str_addf(&s,
	    "{\n  \"metadata\": {\n    \"total_parameters\": %llu,\n    \"total_size\": %llu\n  "
	    "},\n  \"weight_map\": {",
	    (unsigned long long)(bytes / dtype_size(x->dtype)), (unsigned long long)bytes);
	for (int i = 0; i < n; i++) {
		shard_name(x, t[i]->shard, name);
		str_adds(&s, i ? ",\n    " : "\n    ");
		str_add_json(&s, t[i]->name, strlen(t[i]->name));
		str_addf(&s, ": \"%s\"", name);
	}
	str_adds(&s, "\n  }\n}\n");
	snprintf(path, sizeof path, "%s/model.safetensors.index.json", dir);
	rc = outfile_write(path, s.buf, s.len, e);
	str_release(&s);
	free(t);
	return rc;
}

/* Shards one after the other: memory stays that of one part of one tensor. */
int
weights_write(struct hf_export *x, const char *dir, struct err *e)
{
	for (int shard = 0; shard < x->num_shards; shard++)
		if (write_shard(x, shard, dir, e) < 0)
			return -1;
	return x->num_shards > 1 ? write_index(x, dir, e) : 0;
}
