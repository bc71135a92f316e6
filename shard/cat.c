/* cat.c - several datasets made one */
#include "shard/shard.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdlib.h>

enum { BATCH = 4096 };                  /* sequences handed on in one go */

/* From narrow to wide; the first whose range holds two others' is their common type. */
static const struct {
	enum dtype type;
	int64_t min, max;
} ranges[] = {
	{ DTYPE_U8, 0, UINT8_MAX }, { DTYPE_I8, INT8_MIN, INT8_MAX }, { DTYPE_U16, 0, UINT16_MAX },
	{ DTYPE_I16, INT16_MIN, INT16_MAX }, { DTYPE_I32, INT32_MIN, INT32_MAX }, { DTYPE_I64, INT64_MIN, INT64_MAX },
};

static int
range_of(enum dtype t)
{
	int i = 0;

	while (ranges[i].type != t)
		i++;
	return i;
}

static enum dtype
common_type(enum dtype a, enum dtype b)
{
	int ra = range_of(a), rb = range_of(b), i = 0;

	while (ranges[i].min > ranges[ra].min || ranges[i].min > ranges[rb].min || ranges[i].max < ranges[ra].max ||
	    ranges[i].max < ranges[rb].max)
		i++;
	return ranges[i].type;
}

/* The sequences [begin, end) as they are; *at is their byte in the .bin and is moved on. */
static int
copy_raw(const struct dataset *d, int64_t begin, int64_t end, uint64_t *at, struct dataset_writer *w, struct err *e)
{
	int32_t length[BATCH];
	uint64_t bytes;
	const char *bin = dataset_bin(d, &bytes);

	while (begin < end) {
		int64_t n = end - begin < BATCH ? end - begin : BATCH, tokens = 0;

		for (int64_t i = 0; i < n; i++) {
			length[i] = (int32_t)dataset_length(d, begin + i);
			tokens += length[i];
		}
		if (dataset_add_raw(w, tokens ? bin + *at : NULL, length, n, e) < 0)
			return -1;
		*at += (uint64_t)tokens * dtype_size(dataset_dtype(d));
		begin += n;
	}
	return 0;
}

/* The sequences [begin, end) one by one through 64-bit ids; buf holds the longest. */
static int
copy_widened(const struct dataset *d, int64_t begin, int64_t end, int64_t *buf, struct dataset_writer *w, struct err *e)
{
	for (int64_t s = begin; s < end; s++) {
		int64_t n = dataset_length(d, s);

		dataset_tokens(d, s, 0, n, buf);
		if (dataset_add_sequence(w, buf, n, e) < 0)
			return -1;
	}
	return 0;
}

/* All documents of one dataset. */
static int
append(const struct dataset *d, enum dtype type, struct dataset_writer *w, struct err *e)
{
	int64_t longest = 0, *buf = NULL;
	uint64_t at = 0;
	int rc = 0;

	if (type != dataset_dtype(d)) {
		for (int64_t s = 0; s < dataset_num_sequences(d); s++)
			if (dataset_length(d, s) > longest)
				longest = dataset_length(d, s);
		buf = mem_alloc((size_t)longest, sizeof *buf);
	}
	for (int64_t k = 0; rc == 0 && k < dataset_num_documents(d); k++) {
		int64_t begin = dataset_document_start(d, k), end = dataset_document_start(d, k + 1);

		rc = buf ? copy_widened(d, begin, end, buf, w, e) : copy_raw(d, begin, end, &at, w, e);
		if (rc == 0)
			rc = dataset_end_document(w, e);
	}
	free(buf);
	return rc;
}

/* Opens every input before anything is written, and finds the type of the result. */
static int
open_all(const struct cat_config *c, int count, char **prefix, struct dataset **d, enum dtype *type, struct err *e)
{
	for (int i = 0; i < count; i++) {
		enum dtype t;

		d[i] = dataset_open(prefix[i], e);
		if (!d[i])
			return -1;
		if (dataset_has_modes(d[i]))
			return err_at(e, prefix[i], 0, "has modes (multimodal data), which the result could not hold");
		t = dataset_dtype(d[i]);
		if (i > 0 && t != *type && !c->widen)
			return err_at(e, prefix[i], 0, "tokens of %s, but those of %s are %s; --widen merges them", dtype_torch_name(t),
			    prefix[0], dtype_torch_name(*type));
		*type = i > 0 ? common_type(*type, t) : t;
	}
	return 0;
}

/* Neither file of the result may be there already. */
static int
check_target(const char *prefix, struct err *e)
{
	static const char *const suffix[] = { ".idx", ".bin" };
	struct str path = { 0 };
	int rc = 0;

	for (int i = 0; i < 2 && rc == 0; i++) {
		str_clear(&path);
		str_addf(&path, "%s%s", prefix, suffix[i]);
		if (io_exists(path.buf))
			rc = err_at(e, path.buf, 0, "exists already; --force replaces it");
	}
	str_release(&path);
	return rc;
}

int
shard_cat(const struct cat_config *c, int count, char **prefix, struct err *e)
{
	struct dataset **d = mem_zalloc((size_t)count, sizeof *d);
	struct dataset_writer *w = NULL;
	enum dtype type = DTYPE_NONE;
	int rc = c->force ? 0 : check_target(c->output, e);

	if (rc == 0)
		rc = open_all(c, count, prefix, d, &type, e);
	if (rc == 0) {
		w = dataset_writer_new(c->output, type, e);
		rc = w ? 0 : -1;
	}
	for (int i = 0; rc == 0 && i < count; i++)
		rc = append(d[i], type, w, e);
	if (rc == 0)
		rc = dataset_commit(w, e);
	else
		dataset_abort(w);
	for (int i = 0; i < count; i++)
		dataset_close(d[i]);
	free(d);
	return rc;
}
