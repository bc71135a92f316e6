/*
 * verify.c - mckpt verify
 *
 * Reports every problem, not only the first, to show how much is lost. A source that does not open
 * has just one problem, and values are looked at only where the tensors are those of the model.
 */
#include "ckpt/finite.h"
#include "ckpt/verbs.h"
#include "ckpt/verify.h"
#include "ckpt/slab.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Adds the reason in e; returns 1. */
static int
problem(struct str *problems, const struct err *e)
{
	str_addf(problems, "%s\n", e->msg);
	return 1;
}

/* Compares copy number `copy` of a tensor with copy 0, rounded to the copy's own type; returns the
 * number of lines added. */
static int
check_copy(struct source *s, const struct source_tensor *t, int copy, struct str *problems)
{
	struct source_part part = t->part;
	struct source_stored stored;
	struct slabs w = { 0 };
	void *buffer[2] = { mem_alloc(SLAB_ELEMENTS, sizeof(double)),
		mem_alloc(SLAB_ELEMENTS, sizeof(double)) };
	struct err e;
	int rc = 0;
	bool same = true;

	part.copy = copy;
	if (!s->kind->find(s, &part, &stored))
		BUG("copy %d of '%s' is not there", copy, part.param->name);
	slabs_add(&w, &part);
	for (int64_t i = 0; i < w.count && same && rc == 0; i++) {
		struct source_part first = w.item[i];

		first.copy = 0;
		if (source_read(s, &w.item[i], stored.dtype, buffer[0], &e) < 0 ||
		    source_read(s, &first, stored.dtype, buffer[1], &e) < 0)
			rc = -1;
		else
			same = dtype_same(
			    buffer[0], buffer[1], stored.dtype, slice_elements(&first.slice));
	}
	slabs_release(&w);
	free(buffer[0]);
	free(buffer[1]);
	if (rc < 0)
		return problem(problems, &e);
	if (!same)
		str_addf(problems,
		    "%s: tensor '%s': copy %d of %d does not hold the numbers of the first\n",
		    s->path, t->name, copy + 1, t->stored.copies);
	return !same;
}

/*
 * Values first: what they read, a kind need not read again to compare its bytes. A read that fails
 * is reported by that comparison, which says all that is damaged. At last every copy of every
 * tensor, where a format stores more than one.
 */
int
verify_dir(const char *dir, FILE *out, struct str *problems)
{
	struct err e;
	struct source *s = source_open(dir, &e);
	struct source_tensor *t;
	struct str values = { 0 };
	int wrong, bad, count;

	if (!s)
		return problem(problems, &e);
	wrong = s->num_problems;
	bad = wrong ? 0 : finite_check(s, &values, &e);
	if (s->kind->verify)
		wrong += s->kind->verify(s, problems);
	str_add(problems, s->problems.buf, s->problems.len);
	if (wrong == 0 && bad < 0)
		wrong += problem(problems, &e);
	if (wrong == 0) {
		str_add(problems, values.buf, values.len);
		wrong += bad;
		count = source_tensors(s, &t);
		for (int i = 0; i < count; i++)
			for (int copy = 1; copy < t[i].stored.copies; copy++)
				wrong += check_copy(s, &t[i], copy, problems);
		free(t);
	}
	if (wrong == 0)
		fprintf(
		    out, "%s: ok: %d tensors in %d files\n", s->path, s->num_tensors, s->num_files);
	str_release(&values);
	source_close(s);
	return wrong;
}

static const struct opt verify_opts[] = { OPT_END };

/* All operands are verified; the status is 1 when any has a problem. */
static int
run_verify(const void *cfg, int argc, char **argv, struct err *e)
{
	struct str problems = { 0 };

	(void)cfg;
	if (argc == 0)
		return cli_operands(argc, 1, "DIR...", e);
	for (int i = 0; i < argc; i++)
		verify_dir(argv[i], stdout, &problems);
	return cli_warnings(&problems) ? CLI_NO : CLI_DONE;
}

const struct verb verb_verify = { .name = "verify",
	.operands = "DIR ...",
	.summary =
	    "check every sum, every shape, the model that they make, and that its numbers are "
	    "finite",
	.opts = verify_opts,
	.cfg_size = 1,
	.run = run_verify };
