/*
 * cat.c - several datasets made one
 *
 * Tokens, lengths and document boundaries pass from the mapped inputs to the writer in batches;
 * nothing of the size of a dataset is held in memory, and the offsets are summed anew in 64 bits,
 * so that no old error in them survives.
 */
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

/* The row of a token type. */
static int
range_of(enum dtype t)
{
	int i = 0;

	while (ranges[i].type != t)
		i++;
	return i;
}

/* The narrowest type that holds the values of both. There always is one: I64 holds them all. */
static enum dtype
common_type(enum dtype a, enum dtype b)
{
	int ra = range_of(a), rb = range_of(b), i = 0;

	while (ranges[i].min > ranges[ra].min || ranges[i].min > ranges[rb].min ||
	    ranges[i].max < ranges[ra].max || ranges[i].max < ranges[rb].max)
		i++;
	return ranges[i].type;
}

/* Where the copying of one dataset stands. */
struct copy {
	const struct dataset *d;
	struct dataset_writer *w;
	int64_t *ids;                   /* room for the longest sequence when tokens are widened, else NULL */
	uint64_t at;                    /* byte of the .bin */
};

/* The sequences [begin, end) as they are. Tokens go from the mapping to the writer as bytes:
 * types are the same. */
static int
copy_raw(struct copy *c, int64_t begin, int64_t end, struct err *e)
{
	int32_t length[BATCH];
	uint64_t bytes;
	const char *bin = dataset_bin(c->d, &bytes);

	while (begin < end) {
		int64_t n = end - begin < BATCH ? end - begin : BATCH, tokens = 0;

		for (int64_t i = 0; i < n; i++) {
			length[i] = (int32_t)dataset_length(c->d, begin + i);
			tokens += length[i];
		}
		if (dataset_add_raw(c->w, tokens ? bin + c->at : NULL, length, n, e) < 0)
			return -1;
		c->at += (uint64_t)tokens * dtype_size(dataset_dtype(c->d));
		begin += n;
	}
	return 0;
}

/* The sequences [begin, end) one by one through 64-bit ids. The writer checks that each id fits
 * its type. */
static int
copy_widened(struct copy *c, int64_t begin, int64_t end, struct err *e)
{
	for (int64_t s = begin; s < end; s++) {
		int64_t n = dataset_length(c->d, s);

		dataset_tokens(c->d, s, 0, n, c->ids);
		if (dataset_add_sequence(c->w, c->ids, n, e) < 0)
			return -1;
	}
	return 0;
}

/* Memory for the ids of any one sequence; free() it. */
static int64_t *
room_for_longest(const struct dataset *d)
{
	int64_t longest = 0;

	for (int64_t s = 0; s < dataset_num_sequences(d); s++)
		if (dataset_length(d, s) > longest)
			longest = dataset_length(d, s);
	return mem_alloc((size_t)longest, sizeof longest);
}

/* All documents of one dataset. Document by document, so that boundaries come out as they went
 * in, empty documents too. */
static int
append(const struct dataset *d, enum dtype type, struct dataset_writer *w, struct err *e)
{
	struct copy c = {
		.d = d, .w = w, .ids = type == dataset_dtype(d) ? NULL : room_for_longest(d)
	};
	int rc = 0;

	for (int64_t k = 0; rc == 0 && k < dataset_num_documents(d); k++) {
		int64_t begin = dataset_document_start(d, k),
			end = dataset_document_start(d, k + 1);

		rc = c.ids ? copy_widened(&c, begin, end, e) : copy_raw(&c, begin, end, e);
		if (rc == 0)
			rc = dataset_end_document(w, e);
	}
	free(c.ids);
	return rc;
}

/* The type of the result: that of all inputs or, when widening, one that holds them all.
 * Rounding never happens: only wider integers are taken. */
static int
find_type(const struct cat_config *c, int count, struct dataset *const *d, enum dtype *type,
    struct err *e)
{
	*type = dataset_dtype(d[0]);
	for (int i = 1; i < count; i++) {
		enum dtype t = dataset_dtype(d[i]);

		if (t != *type && !c->widen)
			return err_at(e, dataset_prefix(d[i]), 0,
			    "tokens of %s, but those of %s are %s; --widen merges them",
			    dtype_torch_name(t), dataset_prefix(d[0]), dtype_torch_name(*type));
		*type = common_type(*type, t);
	}
	return 0;
}

/* Opens every input before anything is written. dataset_open has checked index, sizes and
 * offsets, so the copying trusts them. The caller closes what was opened, also after -1. */
static int
open_all(int count, char **prefix, struct dataset **d, struct err *e)
{
	for (int i = 0; i < count; i++) {
		d[i] = dataset_open(prefix[i], e);
		if (!d[i])
			return -1;
		if (dataset_has_modes(d[i]))
			return err_at(e, prefix[i], 0,
			    "has modes (multimodal data), which the result could not hold");
	}
	return 0;
}

/* Neither file of the result may be there already. For a message before the work; the writer
 * itself replaces files. */
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

/* Nothing is created unless all inputs are sound and fit together. On failure nothing of the
 * result is left and an old one is as it was. */
int
shard_cat(const struct cat_config *c, int count, char **prefix, struct err *e)
{
	struct dataset **d = mem_zalloc((size_t)count, sizeof *d);
	struct dataset_writer *w = NULL;
	enum dtype type = DTYPE_NONE;
	int rc = c->force ? 0 : check_target(c->output, e);

	if (rc == 0)
		rc = open_all(count, prefix, d, e);
	if (rc == 0)
		rc = find_type(c, count, d, &type, e);
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
