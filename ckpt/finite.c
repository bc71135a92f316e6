/*
 * finite.c - parameters that hold NaN or infinity
 *
 * Such a model has no finite loss, and the run that would notice may be days away; verify and
 * import read all weights anyway.
 */
#include "ckpt/finite.h"
#include "ckpt/slab.h"
#include "lib/base/mem.h"
#include "lib/base/relay.h"

#include <stdlib.h>

int
finite_report(struct str *problems, const struct source *s, const struct param *p, int64_t bad)
{
	if (bad)
		str_addf(problems, "%s: tensor '%s': %lld of %lld elements are not finite\n",
		    s->path, p->name, (long long)bad, (long long)param_elements(p));
	return bad > 0;
}

/* State of a check. */
struct check {
	struct source *s;
	struct slabs slabs;
	int64_t *bad; /* of each parameter */
};

static int
fill(void *ctx, int64_t i, void *buffer, struct err *e)
{
	struct check *c = ctx;
	const struct source_part *p = &c->slabs.item[i];

	return source_read(c->s, p, source_dtype(c->s, p->param, NULL), buffer, e);
}

static int
count(void *ctx, int64_t i, const void *buffer, struct err *e)
{
	struct check *c = ctx;
	const struct source_part *p = &c->slabs.item[i];

	(void)e;
	c->bad[p->param - c->s->param] += dtype_count_nonfinite(
	    buffer, source_dtype(c->s, p->param, NULL), slice_elements(&p->slice));
	return 0;
}

int
finite_check(struct source *s, struct str *problems, struct err *e)
{
	struct check c = { .s = s, .bad = mem_zalloc((size_t)s->count, sizeof *c.bad) };
	struct relay relay = {
		.bytes = SLAB_ELEMENTS * sizeof(double), .fill = fill, .empty = count, .ctx = &c
	};
	int wrong = 0, rc;

	for (int i = 0; i < s->count; i++) {
		struct source_part whole = { .param = &s->param[i],
			.slice = slice_whole(s->param[i].ndim, s->param[i].shape) };

		slabs_add(&c.slabs, &whole);
	}
	relay.count = c.slabs.count;
	rc = relay_run(&relay, e);
	for (int i = 0; i < s->count && rc == 0; i++)
		wrong += finite_report(problems, s, &s->param[i], c.bad[i]);
	slabs_release(&c.slabs);
	free(c.bad);
	return rc < 0 ? rc : wrong;
}
