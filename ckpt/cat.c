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

/* The whole box, some rows at a time: as text, whose columns are separated by tabs, or after the
 * header of .npy. 9 digits tell floats apart, and 17 doubles. */
static int
print_box(const struct cat *c, struct err *e)
{
	struct source_part rows = c->part;
	int64_t *start = &rows.slice.start[0], *count = &rows.slice.count[0], all = *count,
		end = *start + all, row = slice_elements(&rows.slice) / all,
		step = row < CHUNK ? CHUNK / row : 1;
	size_t size = dtype_size(c->dtype);
	char *buffer = mem_alloc((size_t)(row * (step < all ? step : all)), size), header[256];
	int rc = 0, digits = c->dtype == DTYPE_F64 ? 17 : 9;

	if (c->npy)
		fwrite(header, 1, npy_header(header, c->dtype, rows.slice.ndim, rows.slice.count),
		    c->out);
	for (; *start < end && rc == 0; *start += step) {
		int64_t n;

		*count = end - *start < step ? end - *start : step;
		rc = source_read(c->s, &rows, c->dtype, buffer, e);
		n = rc < 0 ? 0 : *count * row;
		if (c->npy)
			fwrite(buffer, size, (size_t)n, c->out);
		for (int64_t i = 0; i < n && !c->npy; i++) {
			double x;

			dtype_convert(&x, DTYPE_F64, buffer + (size_t)i * size, c->dtype, 1);
			fprintf(c->out, "%.*g%c", digits, x, (i + 1) % row ? '\t' : '\n');
		}
	}
	free(buffer);
	return rc;
}

/* Finds the tensor and the box. BF16, which NumPy does not have, is read as floats. */
static int
cat(struct cat *c, const char *name, const char *slice, struct err *e)
{
	struct source_tensor *all;
	int count = source_tensors(c->s, &all), i = 0, rc = 0;
	struct err why;

	while (i < count && strcmp(all[i].name, name))
		i++;
	if (i == count) {
		rc = c->s->num_problems
		    ? err_at(e, c->s->path, 0,
			  "no tensor '%s' that can be read; mckpt verify lists what is wrong here",
			  name)
		    : err_at(e, c->s->path, 0, "no tensor '%s'; mckpt info --tensors lists them",
			  name);
	} else {
		const struct source_tensor *t = &all[i];
		const struct param *p = t->part.param;

		c->part = t->part;
		c->dtype = t->stored.dtype == DTYPE_BF16 ? DTYPE_F32 : t->stored.dtype;
		if (slice && slice_parse(slice, p->ndim, p->shape, &c->part.slice, &why) < 0) {
			err_set(e, "--slice %s", why.msg);
			rc = CLI_USAGE;
		}
	}
	free(all);
	return rc ? rc : print_box(c, e);
}

static const struct opt cat_opts[] = {
	TEXT(struct cat_config, "slice", slice, "A:B,C:D",
	    "rows A to B, columns C to D; each end may be left out; one number is one index"),
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
