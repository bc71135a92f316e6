/* retold.c - the tensors of a model with other options, or other tables */
#include "ckpt/retold.h"
#include "ckpt/slab.h"
#include "lib/base/mem.h"
#include "lib/model/fields.h"
#include "lib/model/options.h"

#include <stdlib.h>
#include <string.h>

static const char input_name[] = "embedding.word_embeddings.weight",
		  output_name[] = "output_layer.weight";

struct retold {
	struct derived d;
	const struct param *input, *output; /* of the old model; output: NULL where they are tied */
};

static enum tie
tie_of(const struct derived *d)
{
	return ((const struct retold_rule *)d->rule)->tie;
}

/* --- the model -------------------------------------------------------------------------------- */

/* Whether a slab of both tables has the same numbers. */
static int
compare_slab(struct source *s, const struct source_part *in, const struct param *output,
    double *const room[2], struct err *e)
{
	struct source_part out = *in;
	size_t bytes = (size_t)slice_elements(&in->slice) * sizeof(double);

	out.param = output;
	if (source_read(s, in, DTYPE_F64, room[0], e) < 0 ||
	    source_read(s, &out, DTYPE_F64, room[1], e) < 0)
		return -1;
	return memcmp(room[0], room[1], bytes)
	    ? err_at(e, s->path, 0,
		  "the tables differ: --tie embedding, output or mean says which is kept")
	    : 0;
}

static int
check_equal(const struct retold *r, struct err *e)
{
	struct source_part whole = { .param = r->input,
		.slice = slice_whole(r->input->ndim, r->input->shape) };
	double *const room[2] = { mem_alloc(SLAB_ELEMENTS, sizeof(double)),
		mem_alloc(SLAB_ELEMENTS, sizeof(double)) };
	struct slabs w = { 0 };
	int rc = 0;

	slabs_add(&w, &whole);
	for (int64_t i = 0; i < w.count && rc == 0; i++)
		rc = compare_slab(derived_last(&r->d), &w.item[i], r->output, room, e);
	slabs_release(&w);
	free(room[0]);
	free(room[1]);
	return rc;
}

static int
set_tables(struct retold *r, struct err *e)
{
	struct model_config *c = &r->d.s.config;
	enum tie tie = tie_of(&r->d);
	const struct source *last = derived_last(&r->d);

	r->input = source_param(last, input_name);
	r->output = source_param(last, output_name);
	if (tie == TIE_NONE)
		return 0;
	if (!r->output == (tie != TIE_UNTIE))
		return err_at(
		    e, last->path, 0, "the tables are %s already", r->output ? "untied" : "tied");
	c->untie_embeddings_and_output_weights = tie == TIE_UNTIE;
	return tie == TIE_EQUAL ? check_equal(r, e) : 0;
}

/* A note of each option that has another value now. */
static void
note_changes(struct derived *d)
{
	struct str lines = { 0 };

	model_differences(&derived_last(d)->config, &d->s.config, &lines);
	for (const char *at = lines.buf; at && *at; at += strcspn(at, "\n") + 1) {
		const char *was = strchr(at, '\t') + 1, *is = strchr(was, '\t') + 1;

		str_addf(&d->s.notes, "%s: %.*s becomes %.*s\n", d->s.path, (int)(is - was - 1),
		    was, (int)strcspn(is, "\n"), is);
	}
	str_release(&lines);
}

static int
set_model(struct derived *d, struct err *e)
{
	const struct retold_rule *r = d->rule;
	const struct source *last = derived_last(d);
	struct model_config *c = &d->s.config;
	struct layout layout;
	struct str text = { 0 };
	struct err why;
	int rc;

	model_dump(&last->config, &text);
	str_adds(&text, r->lines);
	rc = model_from_text("options", text.buf, c, &layout, &why);
	str_release(&text);
	if (rc < 0)
		return err_at(e, d->s.path, 0, "%s", why.msg);
	if (c->position == POSITION_LEARNED &&
	    c->max_position_embeddings != last->config.max_position_embeddings)
		return err_at(
		    e, d->s.path, 0, "--max-position-embeddings: learned positions are a tensor");
	if (set_tables((struct retold *)d, e) < 0)
		return -1;
	note_changes(d);
	return 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* States of a table that is another one now are 0, and the mean is computed. */
static bool
is_computed(const struct derived *d, const struct source_part *p)
{
	enum tie tie = tie_of(d);
	bool state = p->state && strcmp(p->state, STATE_AVERAGE);

	if (tie == TIE_UNTIE)
		return state && param_is(p->param, output_name);
	if (tie <= TIE_EQUAL || !param_is(p->param, input_name))
		return false;
	return state || tie == TIE_MEAN;
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	const struct retold *r = (const struct retold *)d;
	const struct source *last = derived_last(d);
	enum tie tie = tie_of(d);

	if (tie == TIE_UNTIE && param_is(p->param, output_name))
		out->param = r->input;
	else if (tie == TIE_OUTPUT && param_is(p->param, input_name))
		out->param = r->output;
	else
		out->param = &last->param[source_index(last, p->param)];
	out->state = p->state;
	if (!is_computed(d, p))
		out->from = derived_last(d);
	else
		out->dtype = source_dtype(last, out->param, p->state);
	return out->from || out->dtype != DTYPE_NONE;
}

/* Both tables, or nothing, whose sum is 0. */
static int
begin(struct derived *d, const struct source_part *p, struct err *e)
{
	const struct retold *r = (const struct retold *)d;
	const struct derived_term half = { derived_last(d), *p, 0.5 };
	struct derived_term t[2] = { half, half };

	t[0].part.param = r->input;
	t[1].part.param = r->output;
	return derived_read(d, t, p->state && strcmp(p->state, STATE_AVERAGE) ? 0 : 2, e);
}

static bool
is_whole(const struct derived *d)
{
	return tie_of(d) == TIE_NONE;
}

const struct derived_kind derived_retold = {
	.name = "model with other options",
	.size = sizeof(struct retold),
	.keeps = KEEPS_OPTIM | KEEPS_AVERAGE | KEEPS_HISTORIES | KEEPS_RUN_OPTIONS,
	.model = set_model,
	.origin = find_origin,
	.begin = begin,
	.numbers = derived_sum,
	.is_whole = is_whole,
};
