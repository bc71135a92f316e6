/*
 * diff.c - mckpt diff
 *
 * Both lists are sorted by name and walked together, so no table of names is needed and the output
 * is sorted. Bytes decide equality; the distance tells how far apart two float tensors of any width
 * are. Memory is two chunks per side, whatever the size of the tensors.
 */
#include "ckpt/diff.h"
#include "ckpt/source.h"
#include "lib/base/mem.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 18 }; /* elements compared at a time */

struct diff {
	const struct diff_options *o;
	struct named a, b;
	FILE *out;
	const char *head; /* printed before the first line; NULL afterwards */
	char *raw[2];     /* CHUNK elements of up to 8 bytes */
	double *value[2];
	int compared, different;
	struct err *e;
};

/* The result of comparing two tensors. */
struct distance {
	bool same_bytes;
	double max_abs, diff2, norm2; /* the largest |a - b|, sum (a - b)^2, sum b^2 */
};

/*
 * Shell patterns over the whole name. A tensor must match --only, if given, and must not match
 * --ignore.
 */
static bool
wanted(const struct diff_options *o, const char *name)
{
	if (o->only && fnmatch(o->only, name, 0))
		return false;
	return !o->ignore || fnmatch(o->ignore, name, 0) != 0;
}

/* Adds the values of one chunk. A NaN makes the distance NaN and keeps it so. */
static void
add_values(struct diff *d, struct distance *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double a = d->value[0][i], b = d->value[1][i], gap = a == b ? 0 : fabs(a - b);

		if (!(gap <= x->max_abs))
			x->max_abs = gap > x->max_abs || isnan(gap) ? gap : x->max_abs;
		x->diff2 += gap * gap;
		x->norm2 += b * b;
	}
}

/* Compares the elements of tensor ia of a with tensor ib of b; the shapes are equal. */
static int
measure(struct diff *d, int ia, int ib, struct distance *x)
{
	struct named_tensor a, b;
	bool values;

	named_at(&d->a, ia, &a);
	named_at(&d->b, ib, &b);
	values = dtype_is_float(a.dtype) && dtype_is_float(b.dtype);
	*x = (struct distance){ .same_bytes = !strcmp(a.dtype_name, b.dtype_name) };
	for (int64_t at = 0; at < a.elements; at += CHUNK) {
		int64_t n = a.elements - at < CHUNK ? a.elements - at : CHUNK;

		if (named_read(&d->a, ia, at, n, d->raw[0], d->e) < 0 ||
		    named_read(&d->b, ib, at, n, d->raw[1], d->e) < 0)
			return -1;
		if (x->same_bytes &&
		    memcmp(d->raw[0], d->raw[1], (size_t)n * (a.bytes / (uint64_t)a.elements)))
			x->same_bytes = false;
		if (!values)
			continue;
		dtype_convert(d->value[0], DTYPE_F64, d->raw[0], a.dtype, n);
		dtype_convert(d->value[1], DTYPE_F64, d->raw[1], b.dtype, n);
		add_values(d, x, n);
	}
	if (!values && !x->same_bytes)
		x->max_abs = x->diff2 = NAN;
	return 0;
}

/*
 * Prints numbers only when values were compared. The relative distance is to b, the reference, and
 * infinite when b is all zeroes and a is not.
 */
static void
print_line(struct diff *d, const struct named_tensor *a, const struct named_tensor *b,
    const char *verdict, const struct distance *x)
{
	const struct named_tensor *some = a ? a : b;
	double relative = !x || x->diff2 == 0 ? 0 : sqrt(x->diff2 / x->norm2);

	fprintf(d->out, "%s%s\t%s\t%s\t%s\t%lld", d->head, some->name, verdict,
	    a ? a->dtype_name : "-", b ? b->dtype_name : "-", (long long)some->elements);
	d->head = "";
	if (x)
		fprintf(d->out, "\t%.6g\t%.6g\n", x->max_abs, relative);
	else
		fputs("\t-\t-\n", d->out);
}

/*
 * A difference in shape ends the comparison of the pair but is a result, not a failure of the
 * program. --tolerance turns "differs" into "close", which does not count as different.
 */
static int
compare(struct diff *d, int ia, int ib)
{
	struct named_tensor a, b;
	struct distance x;
	const char *verdict = "equal";

	named_at(&d->a, ia, &a);
	named_at(&d->b, ib, &b);
	if (a.ndim != b.ndim || memcmp(a.shape, b.shape, sizeof a.shape)) {
		d->different++;
		print_line(d, &a, &b, "shape", NULL);
		return 0;
	}
	if (measure(d, ia, ib, &x) < 0)
		return -1;
	if (!x.same_bytes && d->o->tolerance >= 0 &&
	    (x.diff2 == 0 || sqrt(x.diff2 / x.norm2) <= d->o->tolerance)) {
		verdict = "close";
	} else if (!x.same_bytes) {
		verdict = "differs";
		d->different++;
	}
	print_line(d, &a, &b, verdict, &x);
	return 0;
}

/* Walks both sorted lists of names. */
static int
walk(struct diff *d)
{
	int na = named_count(&d->a), nb = named_count(&d->b), i = 0, k = 0;

	while (i < na || k < nb) {
		struct named_tensor a, b;
		int order;

		if (i < na)
			named_at(&d->a, i, &a);
		if (k < nb)
			named_at(&d->b, k, &b);
		order = i == na ? 1 : k == nb ? -1 : strcmp(a.name, b.name);
		if (!wanted(d->o, order <= 0 ? a.name : b.name)) {
			i += order <= 0;
			k += order >= 0;
			continue;
		}
		d->compared++;
		if (order == 0 && compare(d, i, k) < 0)
			return -1;
		if (order != 0) {
			d->different++;
			print_line(d, order < 0 ? &a : NULL, order > 0 ? &b : NULL,
			    order < 0 ? "only-a" : "only-b", NULL);
		}
		i += order <= 0;
		k += order >= 0;
	}
	return 0;
}

/* Opens both sides; they must be of the same kind, because names differ between kinds. */
static int
open_both(struct diff *d)
{
	if (named_open(&d->a, d->o->a, d->e) < 0 || named_open(&d->b, d->o->b, d->e) < 0)
		return -1;
	if (!d->a.hf != !d->b.hf)
		return err_set(d->e,
		    "'%s' is a checkpoint and '%s' a Hugging Face directory: mckpt import the "
		    "latter first",
		    d->a.hf ? d->o->b : d->o->a, d->a.hf ? d->o->a : d->o->b);
	return 0;
}

/* The buffers live for the whole comparison; everything is read through them. */
int
diff_sources(const struct diff_options *o, FILE *out, struct err *e)
{
	struct diff d = { .o = o,
		.out = out,
		.e = e,
		.head = "tensor\tverdict\tdtype_a\tdtype_b\telements\tmax_abs\trelative_l2\n" };
	int rc;

	for (int i = 0; i < 2; i++) {
		d.raw[i] = mem_alloc(CHUNK, 8);
		d.value[i] = mem_alloc(CHUNK, sizeof *d.value[i]);
	}
	rc = open_both(&d) < 0 ? -1 : walk(&d);
	if (rc == 0 && d.compared == 0)
		rc = err_set(e, "no tensor to compare: --only and --ignore leave none");
	for (int i = 0; i < 2; i++) {
		free(d.raw[i]);
		free(d.value[i]);
	}
	named_close(&d.a);
	named_close(&d.b);
	return rc < 0 ? -1 : d.different > 0;
}
