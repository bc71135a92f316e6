/*
 * diff.c - mckpt diff
 *
 * Tensors are parameters and their states, whatever the formats, so a checkpoint can be compared
 * with a Hugging Face directory. Both lists are sorted by name and walked together, so the output
 * is sorted. Bytes decide equality, and are compared first: only tensors that differ are converted,
 * for their distance, which tells how far apart two float tensors of any width are. Memory is a few
 * slabs per side, whatever the size of the tensors.
 */
#include "ckpt/diff.h"
#include "ckpt/verbs.h"
#include "ckpt/slab.h"
#include "lib/base/mem.h"
#include "lib/base/relay.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 13 }; /* elements converted at a time */

struct side {
	struct source *s;
	struct source_tensor *tensor; /* sorted by name */
	int count;
};

/* The result of comparing two tensors. */
struct distance {
	bool same_bytes;
	double max_abs, diff2, norm2; /* the largest |a - b|, sum (a - b)^2, sum b^2 */
};

struct diff {
	const struct diff_options *o;
	struct side side[2];
	FILE *out;
	const char *head; /* printed before the first line; NULL afterwards */
	int compared, different;
	/* of the two tensors that are being compared */
	const struct source_tensor *a, *b;
	struct slabs slabs;
	struct distance x;
	struct err *e;
};

/* Lists what a side has of its model, and says what else is there. */
static int
open_side(struct side *d, const char *path, struct str *warnings, struct err *e)
{
	d->s = source_open(path, e);
	if (!d->s)
		return -1;
	str_add(warnings, d->s->problems.buf, d->s->problems.len);
	d->count = source_tensors(d->s, &d->tensor);
	return 0;
}

/* Of one side, in the first or the second half of a buffer. */
static size_t
half_bytes(const struct diff *d)
{
	return (size_t)d->slabs.largest * sizeof(double);
}

/* Reads a slab of both sides into the halves of the buffer. */
static int
fill(void *ctx, int64_t i, void *buffer, struct err *e)
{
	struct diff *d = ctx;
	struct source_part a = d->slabs.item[i], b = a;
	char *second = (char *)buffer + half_bytes(d);

	b.param = d->b->part.param;
	return source_read(d->side[0].s, &a, d->a->stored.dtype, buffer, e) < 0
	    ? -1
	    : source_read(d->side[1].s, &b, d->b->stored.dtype, second, e);
}

/* Compares their bytes, which costs less than to convert them; the first that differ end it, as a
 * failure. */
static int
compare_bytes(void *ctx, int64_t i, const void *buffer, struct err *e)
{
	struct diff *d = ctx;
	int64_t n = slice_elements(&d->slabs.item[i].slice);
	const char *a = buffer, *b = a + half_bytes(d);

	d->x.same_bytes = !memcmp(a, b, (size_t)n * dtype_size(d->a->stored.dtype));
	return d->x.same_bytes ? 0 : err_set(e, "the bytes differ");
}

/* Measures their distance. A NaN makes it NaN and keeps it so. */
static int
measure(void *ctx, int64_t i, const void *buffer, struct err *e)
{
	struct diff *d = ctx;
	int64_t n = slice_elements(&d->slabs.item[i].slice);
	enum dtype ta = d->a->stored.dtype, tb = d->b->stored.dtype;
	const char *a = buffer, *b = a + half_bytes(d);
	struct distance *x = &d->x;
	double va[CHUNK], vb[CHUNK];

	(void)e;
	for (int64_t at = 0, k; at < n; at += k) {
		k = n - at < CHUNK ? n - at : CHUNK;
		dtype_convert(va, DTYPE_F64, a + (size_t)at * dtype_size(ta), ta, k);
		dtype_convert(vb, DTYPE_F64, b + (size_t)at * dtype_size(tb), tb, k);
		for (int64_t j = 0; j < k; j++) {
			double gap = va[j] == vb[j] ? 0 : fabs(va[j] - vb[j]);

			if (!(gap <= x->max_abs))
				x->max_abs = gap > x->max_abs || isnan(gap) ? gap : x->max_abs;
			x->diff2 += gap * gap;
			x->norm2 += vb[j] * vb[j];
		}
	}
	return 0;
}

/*
 * Prints numbers only when values were compared. The relative distance is to b, the reference, and
 * infinite when b is all zeroes and a is not.
 */
static void
print_line(struct diff *d, const char *verdict, const struct distance *x)
{
	const struct source_tensor *some = d->a ? d->a : d->b;
	double relative = !x || x->diff2 == 0 ? 0 : sqrt(x->diff2 / x->norm2);

	fprintf(d->out, "%s%s\t%s\t%s\t%s\t%lld", d->head, some->name, verdict,
	    d->a ? dtype_name(d->a->stored.dtype) : "-",
	    d->b ? dtype_name(d->b->stored.dtype) : "-",
	    (long long)param_elements(some->part.param));
	d->head = "";
	if (x)
		fprintf(d->out, "\t%.6g\t%.6g\n", x->max_abs, relative);
	else
		fputs("\t-\t-\n", d->out);
}

/* What the distance of two tensors means. --tolerance turns "differs" into "close", which does not
 * count as different. */
static const char *
verdict(struct diff *d)
{
	const struct distance *x = &d->x;

	if (x->same_bytes)
		return "equal";
	if (d->o->tolerance >= 0 && (x->diff2 == 0 || sqrt(x->diff2 / x->norm2) <= d->o->tolerance))
		return "close";
	d->different++;
	return "differs";
}

/* A difference in shape ends the comparison of the pair but is a result, not a failure of the
 * program. */
static int
compare(struct diff *d)
{
	struct relay relay = { .fill = fill, .empty = compare_bytes, .ctx = d };
	const struct param *b = d->b->part.param;
	int rc = 0;

	if (!param_has_shape(d->a->part.param, b->ndim, b->shape)) {
		d->different++;
		print_line(d, "shape", NULL);
		return 0;
	}
	d->x = (struct distance){ .same_bytes = d->a->stored.dtype == d->b->stored.dtype };
	slabs_add(&d->slabs, &d->a->part);
	relay.count = d->slabs.count;
	relay.bytes = 2 * half_bytes(d);
	if (d->x.same_bytes)
		rc = relay_run(&relay, d->e);
	relay.empty = measure;
	if (!d->x.same_bytes)
		rc = relay_run(&relay, d->e);
	slabs_release(&d->slabs);
	if (rc == 0)
		print_line(d, verdict(d), &d->x);
	return rc;
}

/* Walks both sorted lists of names. --only and --ignore are shell patterns over the whole name: a
 * tensor must match the one, if given, and not the other. */
static int
walk(struct diff *d)
{
	const char *only = d->o->only, *ignore = d->o->ignore;
	const struct source_tensor *a = d->side[0].tensor, *end_a = a + d->side[0].count,
				   *b = d->side[1].tensor, *end_b = b + d->side[1].count;

	while (a < end_a || b < end_b) {
		int order = a == end_a ? 1 : b == end_b ? -1 : strcmp(a->name, b->name);
		const char *name = order <= 0 ? a->name : b->name;

		d->a = order <= 0 ? a++ : NULL;
		d->b = order >= 0 ? b++ : NULL;
		if ((only && fnmatch(only, name, 0)) || (ignore && !fnmatch(ignore, name, 0)))
			continue;
		d->compared++;
		if (order == 0 && compare(d) < 0)
			return -1;
		if (order != 0) {
			d->different++;
			print_line(d, d->a ? "only-a" : "only-b", NULL);
		}
	}
	return d->compared ? 0
			   : err_set(d->e, "no tensor to compare: --only and --ignore leave none");
}

int
diff_sources(const struct diff_options *o, FILE *out, struct str *warnings, struct err *e)
{
	struct diff d = { .o = o,
		.out = out,
		.e = e,
		.head = "tensor\tverdict\tdtype_a\tdtype_b\telements\tmax_abs\trelative_l2\n" };
	int rc = -1;

	if (open_side(&d.side[0], o->a, warnings, e) == 0 &&
	    open_side(&d.side[1], o->b, warnings, e) == 0) {
		if (!o->only && !o->ignore)
			d.different = d.side[0].s->num_problems + d.side[1].s->num_problems;
		rc = walk(&d);
	}
	for (int i = 0; i < 2; i++) {
		source_close(d.side[i].s);
		free(d.side[i].tensor);
	}
	return rc < 0 ? -1 : d.different > 0;
}

struct diff_config {
	double tolerance;
	const char *only, *ignore;
};

static const struct opt diff_opts[] = {
	{ .name = "tolerance",
	    .type = OPT_NUMBER,
	    .off = offsetof(struct diff_config, tolerance),
	    .min = -1,
	    .max = 1e300,
	    .def = "-1",
	    .unit = "R",
	    .help = "largest relative L2 difference that counts as close; -1: equal bytes" },
	TEXT(struct diff_config, "only", only, "PATTERN",
	    "compare only tensors whose name matches the shell pattern"),
	TEXT(struct diff_config, "ignore", ignore, "PATTERN",
	    "leave out tensors whose name matches the shell pattern"),
	OPT_END,
};

/* Prints every tensor; the status says whether they differ. */
static int
run_diff(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct diff_config *c = cfg;
	int rc = cli_operands(argc, 2, "A B", e);
	struct diff_options o = { .tolerance = c->tolerance, .only = c->only, .ignore = c->ignore };
	struct str warnings = { 0 };

	if (rc)
		return rc;
	o.a = argv[0];
	o.b = argv[1];
	rc = diff_sources(&o, stdout, &warnings, e);
	cli_warnings(&warnings);
	return rc;
}

const struct verb verb_diff = { .name = "diff",
	.operands = "A B",
	.summary = "compare tensors",
	.opts = diff_opts,
	.cfg_size = sizeof(struct diff_config),
	.run = run_diff };
