/*
 * adapted.c - a model with an adapter of PEFT merged into its weights
 *
 * An adapter names tensors as the model's files do, several of which may be rows of one: where a
 * parameter lies in them is family_place's answer.
 */
#include "ckpt/adapted.h"
#include "ckpt/adapter.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/model/family.h"

#include <stdlib.h>
#include <string.h>

static const char input_name[] = "embedding.word_embeddings.weight",
		  output_name[] = "output_layer.weight";

/* What the adapter does to a parameter. */
struct target {
	struct adapter_change *change; /* NULL: nothing */
	struct family_place place;     /* in the tensor of the change */
};

struct adapted {
	struct derived d;
	struct adapter *adapter;
	const struct family *family;
	const struct param *input; /* of the base */
	struct target target;      /* of the parameter that was read last */
	/* and its pair in fp64 */
	char name[128];
	double *a, *b;
	char how[64];
};

static const struct adapted_rule *
rule_of(const struct derived *d)
{
	return d->rule;
}

static bool
is_output(const struct param *p)
{
	return param_is(p, output_name);
}

/* --- matching --------------------------------------------------------------------------------- */

/* The place of a parameter of the new model in the tensors that the adapter names. */
static bool
find_target(const struct derived *d, const struct param *p, struct target *out)
{
	const struct adapted *x = (const struct adapted *)d;

	*out = (struct target){ 0 };
	if (family_place(x->family, &d->s.config, p, &out->place, NULL) < 0)
		return false;
	out->change = adapter_find(x->adapter, out->place.name);
	return out->change;
}

/* The sizes of a pair, or of what replaces a tensor, are those of the tensor. */
static int
check_sizes(const struct derived *d, const struct target *t, struct err *e)
{
	const struct adapter_change *c = t->change;
	const struct family_place *at = &t->place;
	bool turned = at->transposed || c->embedding;

	if (c->a.dtype != DTYPE_NONE &&
	    (at->ndim != 2 || c->a.shape[1] != at->shape[turned ? 0 : 1] ||
		c->b.shape[0] != at->shape[turned ? 1 : 0]))
		return err_at(e, rule_of(d)->adapter, 0,
		    "'%s': matrices of %lld to %lld do not fit the model's tensor", c->name,
		    (long long)c->a.shape[1], (long long)c->b.shape[0]);
	if (c->replacement.dtype == DTYPE_NONE)
		return 0;
	if (c->replacement.ndim == at->ndim &&
	    !memcmp(c->replacement.shape, at->shape, (size_t)at->ndim * sizeof *at->shape))
		return 0;
	return err_at(e, rule_of(d)->adapter, 0,
	    "tensor '%s' does not have the shape of the model's", c->name);
}

/* Whether all that an adapter changes is of this model, counted. */
static int
check_used(struct derived *d, struct err *e)
{
	struct adapted *x = (struct adapted *)d;
	struct param *p;
	int n = model_params(&d->s.config, &p), pairs = 0, replaced = 0, rc = 0;

	for (int i = 0; i < n && rc == 0; i++) {
		struct target t;

		if (!find_target(d, &p[i], &t))
			continue;
		t.change->used = true;
		rc = check_sizes(d, &t, e);
	}
	free(p);
	for (int i = 0; i < adapter_count(x->adapter) && rc == 0; i++) {
		const struct adapter_change *c = adapter_at(x->adapter, i);

		if (!c->used)
			rc = err_at(e, rule_of(d)->adapter, 0,
			    "'%s' is of no tensor of a %s model of this config", c->name,
			    x->family->model_type);
		pairs += c->a.dtype != DTYPE_NONE;
		replaced += c->replacement.dtype != DTYPE_NONE;
	}
	if (rc == 0)
		str_addf(&d->s.notes, "%d tensors: %d modules with a pair, %d tensors replaced\n",
		    adapter_num_tensors(x->adapter), pairs, replaced);
	return rc;
}

/* --- tables ----------------------------------------------------------------------------------- */

static bool
same_bytes(const struct torch_tensor *a, const struct torch_tensor *b)
{
	struct slice whole = slice_whole(a->ndim, a->shape);
	size_t bytes = (size_t)slice_elements(&whole) * dtype_size(a->dtype);
	char *x, *y;
	bool same;

	if (a->dtype != b->dtype || a->ndim != b->ndim ||
	    memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape))
		return false;
	x = mem_alloc(bytes, 1);
	y = mem_alloc(bytes, 1);
	torch_tensor_read(a, &whole, x);
	torch_tensor_read(b, &whole, y);
	same = !memcmp(x, y, bytes);
	free(x);
	free(y);
	return same;
}

/* The output table's name in the family's files. */
static struct adapter_change *
find_output(struct adapted *x)
{
	static const char *const heads[] = { "lm_head.weight", "embed_out.weight", NULL };
	struct adapter_change *c = NULL;

	for (int i = 0; heads[i] && !c; i++)
		c = adapter_find(x->adapter, heads[i]);
	return c;
}

/* Two tables that are one stay one where the adapter leaves both alone, or replaces both by the
 * same numbers. */
static int
set_tables(struct adapted *x, struct err *e)
{
	struct model_config *c = &x->d.s.config;
	struct adapter_change *out = find_output(x), *in;
	struct target t;

	x->input = source_param(derived_last(&x->d), input_name);
	if (c->untie_embeddings_and_output_weights)
		return rule_of(&x->d)->untie
		    ? err_at(e, x->d.s.path, 0, "--untie: the tables are untied already")
		    : 0;
	if (rule_of(&x->d)->untie) {
		c->untie_embeddings_and_output_weights = true;
		return 0;
	}
	in = find_target(&x->d, x->input, &t) ? t.change : NULL;
	if (!in && !out)
		return 0;
	if (in && out && in->a.dtype == DTYPE_NONE && out->a.dtype == DTYPE_NONE &&
	    same_bytes(&in->replacement, &out->replacement)) {
		out->used = true;
		return 0;
	}
	return err_at(e, rule_of(&x->d)->adapter, 0,
	    "'%s' is one of two tables that are tied in this model: --untie makes them two",
	    (in ? in : out)->name);
}

static int
set_model(struct derived *d, struct err *e)
{
	struct adapted *x = (struct adapted *)d;
	const struct adapter_rule rule = { rule_of(d)->base_is_residual };
	struct err why;

	x->family = family_of(&d->s.config, &why);
	if (!x->family)
		return err_at(e, d->s.path, 0, "%s", why.msg);
	x->adapter = adapter_open(rule_of(d)->adapter, &rule, e);
	if (!x->adapter || set_tables(x, e) < 0 || check_used(d, e) < 0)
		return -1;
	snprintf(
	    x->how, sizeof x->how, "adapter %016llx", (unsigned long long)adapter_hash(x->adapter));
	d->how = x->how;
	return 0;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static double *
read_matrix(const struct torch_tensor *t)
{
	struct slice whole = slice_whole(t->ndim, t->shape);
	int64_t n = slice_elements(&whole);
	void *raw = mem_alloc((size_t)n, dtype_size(t->dtype));
	double *x = mem_alloc((size_t)n, sizeof *x);

	torch_tensor_read(t, &whole, raw);
	dtype_convert(x, DTYPE_F64, raw, t->dtype, n);
	free(raw);
	return x;
}

/* The pair of a change in fp64, unless it is the one that was read last. */
static void
need_pair(struct adapted *x, const struct adapter_change *c)
{
	if (!strcmp(x->name, c->name))
		return;
	free(x->a);
	free(x->b);
	x->a = read_matrix(&c->a);
	x->b = read_matrix(&c->b);
	snprintf(x->name, sizeof x->name, "%s", c->name);
}

/* Where an element of a parameter lies in the stored tensor. */
static void
stored_at(const struct family_place *at, int64_t row, int64_t column, int64_t out[2])
{
	int64_t height = at->slice.count[0];

	if (at->transposed) {
		out[0] = at->slice.start[0] + column;
		out[1] = at->slice.start[1] + row;
		return;
	}
	out[0] = at->slice.start[0] + row / height * at->apart + row % height;
	out[1] = at->slice.start[1] + column;
}

/* x += scale B A of elements of a row from `column` on. Each row is a sum of rows of A, or of an
 * embedding of B's columns. */
static void
add_pair(const struct adapted *x, int64_t row, int64_t column, int64_t n, double *dst)
{
	const struct adapter_change *c = x->target.change;
	int64_t r = c->a.shape[0], in = c->a.shape[1], at[2];
	bool turned = x->target.place.transposed;

	stored_at(&x->target.place, row, column, at);
	for (int64_t k = 0; k < r; k++) {
		int64_t stored = turned ? at[1] : at[0], first = turned ? at[0] : at[1];
		double f = c->scale * (c->embedding ? x->a[k * in + stored] : x->b[stored * r + k]);

		for (int64_t j = 0; j < n; j++)
			dst[j] += f *
			    (c->embedding ? x->b[(first + j) * r + k] : x->a[k * in + first + j]);
	}
}

/* Elements of a row of what replaces a tensor, of which it may be a column. */
static void
replace_row(const struct adapted *x, int64_t row, int64_t column, int64_t n, double *dst)
{
	const struct torch_tensor *from = &x->target.change->replacement;
	const struct family_place *place = &x->target.place;
	struct slice of = { .ndim = from->ndim, .count = { 1, 1 } };
	int64_t at[2];
	double raw[DERIVED_STRETCH];

	stored_at(place, row, column, at);
	of.start[0] = at[0];
	of.start[1] = of.ndim > 1 ? at[1] : 0;
	of.count[place->transposed ? 0 : of.ndim - 1] = n;
	torch_tensor_read(from, &of, raw);
	dtype_convert(dst, DTYPE_F64, raw, from->dtype, n);
}

/* Finds what the adapter does to the parameter, and reads the base where it is not replaced. */
static int
begin(struct derived *d, const struct source_part *p, struct err *e)
{
	struct adapted *x = (struct adapted *)d;
	struct source *base = derived_last(d);
	struct derived_term term = { base, *p, 1 };

	if (!find_target(d, p->param, &x->target))
		BUG("'%s' is not changed", p->param->name);
	if (x->target.change->a.dtype != DTYPE_NONE)
		need_pair(x, x->target.change);
	term.part.param = is_output(p->param) && !source_param(base, output_name)
	    ? x->input
	    : &base->param[source_index(base, p->param)];
	return derived_read(d, &term, x->target.change->replacement.dtype == DTYPE_NONE, e);
}

/* By the rows of the stretch. */
static void
numbers(const struct derived *d, const struct derived_stretch *s, double *dst)
{
	const struct adapted *x = (const struct adapted *)d;
	const struct adapter_change *c = x->target.change;
	const struct slice *box = &s->part->slice;
	int64_t width = box->ndim > 1 ? box->count[1] : 1, end = s->at + s->n;

	derived_sum(d, s, dst);
	for (int64_t at = s->at, n; at < end; at += n, dst += n) {
		int64_t row = box->start[0] + at / width,
			column = (box->ndim > 1 ? box->start[1] : 0) + at % width;

		n = int64_min(width - at % width, end - at);
		if (c->replacement.dtype != DTYPE_NONE)
			replace_row(x, row, column, n, dst);
		if (c->a.dtype != DTYPE_NONE)
			add_pair(x, row, column, n, dst);
	}
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	const struct adapted *x = (const struct adapted *)d;
	const struct source *base = derived_last(d);
	struct target t;

	if (p->state)
		return false;
	out->param = is_output(p->param) && !source_param(base, output_name)
	    ? x->input
	    : &base->param[source_index(base, p->param)];
	if (find_target(d, p->param, &t))
		out->dtype = source_dtype(base, out->param, NULL);
	else
		out->from = derived_last(d);
	return out->from || out->dtype != DTYPE_NONE;
}

static void
release(struct derived *d)
{
	struct adapted *x = (struct adapted *)d;

	adapter_close(x->adapter);
	free(x->a);
	free(x->b);
}

const struct derived_kind derived_adapted = {
	.name = "model with an adapter",
	.size = sizeof(struct adapted),
	.keeps = KEEPS_HISTORIES | KEEPS_RUN_OPTIONS,
	.model = set_model,
	.origin = find_origin,
	.begin = begin,
	.numbers = numbers,
	.release = release,
};
