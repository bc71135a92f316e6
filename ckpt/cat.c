/*
 * cat.c - mckpt cat
 *
 * Rows along the first dimension are read and printed a few at a time, so a table of any size can
 * be looked into. Numbers are printed so that they read back as the same.
 */
#include "ckpt/verbs.h"
#include "lib/base/mem.h"
#include "lib/ckpt/source.h"
#include "lib/data/npy.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 20 }; /* elements in memory at a time; at least one row */

struct cat_config {
	const char *slice;
	bool npy;
};

/* State of one cat. */
struct cat {
	struct source *s;
	struct source_part part;
	enum dtype dtype; /* in which numbers are read and, as .npy, written */
	bool npy;
	FILE *out;
};

/* The tensor of this name; NULL with a reason. */
static const struct source_tensor *
find(const struct source_tensor *t, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(t[i].name, name))
			return &t[i];
	return NULL;
}

/* A row as text, separated by tabs. 9 digits tell floats apart, and 17 doubles. */
static void
print_row(const struct cat *c, const char *row, int64_t n)
{
	int digits = c->dtype == DTYPE_F64 ? 17 : 9;

	for (int64_t i = 0; i < n; i++) {
		double x;

		dtype_convert(&x, DTYPE_F64, row + (size_t)i * dtype_size(c->dtype), c->dtype, 1);
		fprintf(c->out, "%s%.*g", i ? "\t" : "", digits, x);
	}
	fputc('\n', c->out);
}

/* Some whole rows of the box. */
static int
print_rows(const struct cat *c, const struct slice *rows, char *buffer, struct err *e)
{
	struct source_part part = c->part;
	int64_t n = slice_elements(rows), row = n / rows->count[0];
	size_t size = dtype_size(c->dtype);

	part.box = *rows;
	if (source_read(c->s, &part, c->dtype, buffer, e) < 0)
		return -1;
	if (c->npy)
		fwrite(buffer, size, (size_t)n, c->out);
	for (int64_t i = 0; i < rows->count[0] && !c->npy; i++)
		print_row(c, buffer + (size_t)(i * row) * size, row);
	return 0;
}

/* The whole box, after the header of .npy. */
static int
print_box(const struct cat *c, struct err *e)
{
	struct slice rows = c->part.box;
	int64_t all = rows.count[0], end = rows.start[0] + all, row = slice_elements(&rows) / all,
		step = row < CHUNK ? CHUNK / row : 1;
	char *buffer = mem_alloc((size_t)(row * (step < all ? step : all)), dtype_size(c->dtype)),
	     header[256];
	int rc = 0;

	if (c->npy)
		fwrite(header, 1, npy_header(header, c->dtype, rows.ndim, rows.count), c->out);
	for (; rows.start[0] < end && rc == 0; rows.start[0] += step) {
		rows.count[0] = end - rows.start[0] < step ? end - rows.start[0] : step;
		rc = print_rows(c, &rows, buffer, e);
	}
	free(buffer);
	return rc;
}

/* Finds the tensor and the box. BF16, which NumPy does not have, is read as floats. */
static int
cat(struct cat *c, const char *name, const char *slice, struct err *e)
{
	struct source_tensor *all;
	int count = source_tensors(c->s, &all), rc = 0;
	const struct source_tensor *t = find(all, count, name);
	struct err why;

	if (!t) {
		rc = err_at(
		    e, c->s->path, 0, "no tensor '%s'; mckpt info --tensors lists them", name);
	} else {
		const struct param *p = t->part.param;

		c->part = t->part;
		c->dtype = t->stored.dtype == DTYPE_BF16 ? DTYPE_F32 : t->stored.dtype;
		if (slice && slice_parse(slice, p->ndim, p->shape, &c->part.box, &why) < 0) {
			err_set(e, "--slice %s", why.msg);
			rc = CLI_USAGE;
		}
	}
	free(all);
	return rc ? rc : print_box(c, e);
}

static const struct opt cat_opts[] = {
	TEXT(struct cat_config, "slice", slice, "A:B,C:D",
	    "rows A to B, columns C to D; each end may be left out, and an index stands alone"),
	FLAG(struct cat_config, "npy", npy, "a NumPy array instead of text; BF16 becomes FP32"),
	OPT_END,
};

static int
run_cat(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct cat_config *o = cfg;
	struct cat c = { .npy = o->npy, .out = stdout };
	int rc = cli_operands(argc, 2, "DIR TENSOR", e);

	if (rc)
		return rc;
	c.s = source_open(argv[0], e);
	if (!c.s)
		return CLI_FAILED;
	rc = cat(&c, argv[1], o->slice, e);
	source_close(c.s);
	return rc;
}

const struct verb verb_cat = { .name = "cat",
	.operands = "DIR TENSOR",
	.summary = "print a tensor, or a box of it",
	.opts = cat_opts,
	.cfg_size = sizeof(struct cat_config),
	.run = run_cat };
