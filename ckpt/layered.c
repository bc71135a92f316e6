/* layered.c - layers of a model in another order, left out or repeated */
#include "ckpt/layered.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 100000 };

struct layered {
	struct derived d;
	int *layer; /* [s.config.num_layers]: the number of each in the old model */
	bool *anew; /* [s.config.num_layers]: to be zeroed, with zero_new */
};

static const struct layered *
layered_of(const struct derived *d)
{
	return (const struct layered *)d;
}

static const struct layered_rule *
rule_of(const struct derived *d)
{
	return d->rule;
}

/* --- the list --------------------------------------------------------------------------------- */

/* A number at *at, or `otherwise` where there is none; -1: it is no layer's. */
static int64_t
read_number(const char **at, int64_t otherwise, int64_t most)
{
	int64_t n = 0;

	if (!isdigit((unsigned char)**at))
		return otherwise;
	for (; isdigit((unsigned char)**at); ++*at)
		n = n > most ? n : 10 * n + (**at - '0');
	return n <= most ? n : -1;
}

/* One entry: "8:32", "8:", ":32" or "8". */
static int
read_range(const char **at, int64_t num_layers, int64_t range[2])
{
	bool digits = isdigit((unsigned char)**at);

	range[0] = read_number(at, 0, num_layers);
	range[1] = range[0] + 1;
	if (**at == ':') {
		++*at;
		range[1] = read_number(at, num_layers, num_layers);
	} else if (!digits) {
		return -1;
	}
	return range[0] >= 0 && range[1] <= num_layers && range[0] < range[1] ? 0 : -1;
}

/* The layers of a list in its order; the caller frees *out. Returns how many, or -1. */
static int
read_layers(const char *text, int64_t num_layers, int **out, struct err *e)
{
	const char *at = text;
	int64_t count = 0, range[2];

	*out = NULL;
	do {
		if (read_range(&at, num_layers, range) < 0 || (*at && *at != ','))
			return err_set(e,
			    "--layers %s: must be ranges A:B of layers from 0 to %lld, such as "
			    "0:%lld; "
			    "B itself is not of the range",
			    text, (long long)num_layers - 1, (long long)num_layers);
		if (count + range[1] - range[0] > LAYERS_MAX)
			return err_set(e, "--layers %s: above %d layers", text, LAYERS_MAX);
		*out = mem_realloc(*out, (size_t)(count + range[1] - range[0]), sizeof **out);
		for (int64_t i = range[0]; i < range[1]; i++)
			(*out)[count++] = (int)i;
	} while (*at++ == ',');
	return (int)count;
}

/* All layers but those of a list, in their order. */
static int
other_layers(int **list, int count, int num_layers)
{
	bool *left_out = mem_zalloc((size_t)num_layers, sizeof *left_out);
	int kept = 0;

	for (int i = 0; i < count; i++)
		left_out[(*list)[i]] = true;
	*list = mem_realloc(*list, (size_t)num_layers, sizeof **list);
	for (int i = 0; i < num_layers; i++)
		if (!left_out[i])
			(*list)[kept++] = i;
	free(left_out);
	return kept;
}

/* --- the model -------------------------------------------------------------------------------- */

/* The pattern of the new layers. */
static int
take_pattern(const struct layered *l, struct layer_pattern *p, const char *option, struct err *e)
{
	int n = (int)l->d.s.config.num_layers;
	bool skipped[PATTERN_MAX];

	if (p->period == 0)
		return 0;
	if (n > PATTERN_MAX)
		return err_at(e, l->d.s.path, 0,
		    "--%s says which layers differ: at most %d layers of such a model", option,
		    PATTERN_MAX);
	for (int i = 0; i < n; i++)
		skipped[i] = pattern_skips(p, l->layer[i]);
	*p = pattern_of(skipped, n);
	return 0;
}

/* Which layers have appeared before. */
static void
find_new(struct layered *l, int old_layers)
{
	int n = (int)l->d.s.config.num_layers;
	bool *seen = mem_zalloc((size_t)old_layers, sizeof *seen);

	l->anew = mem_zalloc((size_t)n, sizeof *l->anew);
	for (int i = 0; i < n; i++) {
		l->anew[i] = rule_of(&l->d)->zero_new && seen[l->layer[i]];
		seen[l->layer[i]] = true;
	}
	free(seen);
}

static int
set_model(struct derived *d, struct err *e)
{
	struct layered *l = (struct layered *)d;
	struct model_config *c = &d->s.config;
	const struct layered_rule *r = d->rule;
	int old = (int)c->num_layers,
	    n = read_layers(r->layers ? r->layers : ":", old, &l->layer, e);

	if (n < 0)
		return -1;
	if (r->drop)
		n = other_layers(&l->layer, n, old);
	if (n == 0)
		return err_set(e, "--layers %s: leaves no layer", r->layers);
	if (r->average && !derived_last(d)->averaged)
		return err_at(e, d->s.path, 0,
		    "holds no average of the weights, as a run with --ema-decay saves");
	c->num_layers = n;
	find_new(l, old);
	if (take_pattern(l, &c->window_attn_skip_freq, "window-attn-skip-freq", e) < 0 ||
	    take_pattern(l, &c->no_rope_freq, "no-rope-freq", e) < 0 ||
	    take_pattern(l, &c->linear_attention_freq, "linear-attention-freq", e) < 0)
		return -1;
	return take_pattern(l, &c->moe_layer_freq, "moe-layer-freq", e);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Whether a layer adds nothing where this tensor of it is 0. */
static bool
ends_branch(const struct model_config *c, const struct param *p)
{
	static const char *const linears[] = { "self_attention.linear_proj.weight",
		"self_attention.linear_proj.bias", "linear_attention.linear_proj.weight",
		"mlp.linear_down.weight", "mlp.linear_down.bias",
		"mlp.experts.%d.linear_down.weight", "mlp.experts.%d.linear_down.bias",
		"mlp.shared_experts.linear_down.weight", NULL },
				 *const norms[] = { "post_self_attn_layernorm.weight",
					 "post_self_attn_layernorm.bias",
					 "post_mlp_layernorm.weight", "post_mlp_layernorm.bias",
					 NULL };

	for (const char *const *name = model_post_norm(c) ? norms : linears; *name; name++)
		if (param_is(p, *name))
			return true;
	return false;
}

static bool
is_zeroed(const struct derived *d, const struct param *p)
{
	return p->layer >= 0 && p->layer < d->s.config.num_layers &&
	    layered_of(d)->anew[p->layer] && ends_branch(&d->s.config, p);
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	const struct source *old = derived_last(d);
	struct param of = *p->param;
	int i;

	if (of.layer >= d->s.config.num_layers)
		of.layer += (int)(old->config.num_layers - d->s.config.num_layers);
	else if (of.layer >= 0)
		of.layer = layered_of(d)->layer[of.layer];
	i = source_index(old, &of);
	if (i < 0)
		BUG("'%s' is of no parameter of the old model", p->param->name);
	out->param = &old->param[i];
	out->state = rule_of(d)->average ? STATE_AVERAGE : p->state;
	if (!is_zeroed(d, p->param))
		out->from = derived_last(d);
	else
		out->dtype = source_dtype(old, out->param, out->state);
	return out->from || out->dtype != DTYPE_NONE;
}

/* Zeros, of the states too. The weight of a norm may be stored less 1. */
static void
numbers(const struct derived *d, const struct derived_stretch *s, double *x)
{
	const struct source_part *p = s->part;
	bool weight = !p->state || !strcmp(p->state, STATE_AVERAGE);
	bool norm = strstr(p->param->in_layer, "layernorm.weight");

	for (int64_t i = 0; i < s->n; i++)
		x[i] = weight && norm ? -model_norm_shift(&d->s.config) : 0;
}

static void
release(struct derived *d)
{
	struct layered *l = (struct layered *)d;

	free(l->layer);
	free(l->anew);
}

/* clang-format off */
#define KIND(n, k) \
	{ .name = n, .size = sizeof(struct layered), .keeps = k, .model = set_model, \
	  .origin = find_origin, .numbers = numbers, .release = release }
/* clang-format on */

const struct derived_kind derived_layered =
    KIND("model of other layers", KEEPS_OPTIM | KEEPS_AVERAGE | KEEPS_RUN_OPTIONS);
const struct derived_kind derived_stripped =
    KIND("model without its optimizer", KEEPS_AVERAGE | KEEPS_RUN_OPTIONS);
const struct derived_kind derived_extracted = KIND("part of a model", KEEPS_RUN_OPTIONS);
