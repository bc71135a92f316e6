/*
 * family_rope.c - the rotary settings and the layer types of a config.json
 *
 * Two generations: members at the top with rope_scaling, and rope_parameters, which may have a
 * dictionary for each kind of layer. Both are resolved as transformers 5 resolves them, and both
 * are written, so that old and new versions of transformers load the result. Source:
 * modeling_rope_utils.py and the classes of configs of huggingface/transformers.
 */
#include "lib/base/mem.h"
#include "lib/model/family.h"
#include "lib/model/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* original_max_position_embeddings, the positions before they were stretched: all of them, where
 * nothing else is said. */
static int64_t
all_positions(const struct model_config *c)
{
	return c->max_position_embeddings;
}

/* Defaults are those of transformers. */
static const struct key rope_keys[] = {
	{ "rope_theta", KEY_NUMBER, KEY_OFF(rotary_base), .written_only = true },
	{ "factor", KEY_NUMBER, KEY_OFF(rope_factor), 0 },
};
static const struct key llama3_keys[] = {
	{ "low_freq_factor", KEY_NUMBER, KEY_OFF(rope_low_freq_factor), 1 },
	{ "high_freq_factor", KEY_NUMBER, KEY_OFF(rope_high_freq_factor), 4 },
	{ "original_max_position_embeddings", KEY_INT, KEY_OFF(rope_original_positions),
	    .derive = all_positions },
};
static const struct key yarn_keys[] = {
	{ "beta_fast", KEY_NUMBER, KEY_OFF(yarn_beta_fast), 32 },
	{ "beta_slow", KEY_NUMBER, KEY_OFF(yarn_beta_slow), 1 },
	{ "original_max_position_embeddings", KEY_INT, KEY_OFF(rope_original_positions),
	    .derive = all_positions },
};

static const struct key longrope_keys[] = {
	{ "original_max_position_embeddings", KEY_INT, KEY_OFF(rope_original_positions),
	    .derive = all_positions },
};

/* By enum rope_scaling: the name, how many of the common keys apply, and the keys of its own. */
static const struct rope {
	const char *type;
	int common;
	const struct key *own;
	int num_own;
} ropes[] = {
	[ROPE_SCALING_NONE] = { "default", 1, NULL, 0 },
	[ROPE_SCALING_LINEAR] = { "linear", 2, NULL, 0 },
	[ROPE_SCALING_LLAMA3] = { "llama3", 2, llama3_keys,
	    sizeof llama3_keys / sizeof *llama3_keys },
	[ROPE_SCALING_YARN] = { "yarn", 2, yarn_keys, sizeof yarn_keys / sizeof *yarn_keys },
	[ROPE_SCALING_LONGROPE] = { "longrope", 1, longrope_keys, 1 },
};

/* What Python takes for false. */
bool
family_is_off(const struct json_value *v)
{
	switch (v ? v->type : JSON_NULL) {
	case JSON_BOOL: return !v->boolean;
	case JSON_INT: return v->integer == 0;
	case JSON_FLOAT: return v->number == 0;
	case JSON_STRING:
	case JSON_ARRAY:
	case JSON_OBJECT: return v->len == 0;
	default: return true;
	}
}

/* An old-style dictionary replaces the new one, unless it is empty. */
const struct json_value *
family_rope_of(const struct json_value *config)
{
	const struct json_value *old = json_get(config, "rope_scaling");

	return family_is_off(old) ? json_get(config, "rope_parameters") : old;
}

/* A number of the dictionary, else of the top of the file; *x stays where neither has it. The one
 * that does not count may be anything. */
static int
read_number(const struct json_value *dict, const char *name, const struct json_value *config,
    const char *top, double *x, struct err *e)
{
	return json_get(dict, name) ? json_double(dict, name, *x, x, e)
				    : json_double(config, top, *x, x, e);
}

/* Where truncate is null, Python takes it for false. */
static int
read_rounding(struct model_config *c, const struct json_value *v, struct err *e)
{
	bool rounded;

	if (json_bool(v, "truncate", !json_get(v, "truncate"), &rounded, e) < 0)
		return -1;
	c->yarn_unrounded_range = !rounded;
	return 0;
}

/* YaRN's members without a row. The attention factor is a number, or follows from two others; the
 * sign of what cosines and sines are multiplied by does not matter. */
static int
read_yarn(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *given = json_get(v, "attention_factor");
	double one, all, *factor = &c->yarn_attention_factor;

	if (json_double(v, "attention_factor", 0, factor, e) < 0 ||
	    json_double(v, "mscale", 0, &one, e) < 0 ||
	    json_double(v, "mscale_all_dim", 0, &all, e) < 0 || read_rounding(c, v, e) < 0)
		return -1;
	if (given && given->type != JSON_NULL && *factor == 0)
		return err_set(e, "\"attention_factor\" is 0: no position would count");
	if (*factor == 0 && one != 0 && all != 0)
		*factor = yarn_default_factor(c->rope_factor, one) /
		    yarn_default_factor(c->rope_factor, all);
	*factor = fabs(*factor);
	if (c->yarn_beta_fast == 0)
		c->yarn_beta_fast = 32;
	if (c->yarn_beta_slow == 0)
		c->yarn_beta_slow = 1;
	return 0;
}

/* One of the two lists of longrope. */
static int
read_factors(struct rope_factors *f, const struct json_value *v, const char *name, struct err *e)
{
	const struct json_value *list = json_get(v, name);

	if (!list || list->type != JSON_ARRAY || list->len > ROPE_FACTORS_MAX)
		return err_set(
		    e, "\"%s\" must be a list of at most %d numbers", name, ROPE_FACTORS_MAX);
	for (size_t i = 0; i < list->len; i++) {
		if (list->item[i].type != JSON_INT && list->item[i].type != JSON_FLOAT)
			return err_set(e, "\"%s\" must be a list of numbers", name);
		f->factor[i] = json_number(&list->item[i]);
	}
	f->count = (int)list->len;
	return 0;
}

/* What longrope multiplies cosines and sines by, where the file does not say it: by the quotient of
 * the positions, or by a factor in its place. The sign does not matter. */
static int
read_longrope_scale(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *given = json_get(v, "attention_factor");
	double original = (double)c->rope_original_positions, scale, factor;

	if (json_double(v, "attention_factor", 0, &scale, e) < 0 ||
	    json_double(v, "factor", (double)c->max_position_embeddings / original, &factor, e) < 0)
		return -1;
	if (given && given->type != JSON_NULL && scale == 0)
		return err_set(e, "\"attention_factor\" is 0: no position would count");
	if (scale == 0 && factor > 1 && original < 2)
		return err_set(e, "\"original_max_position_embeddings\" must be at least 2");
	if (scale == 0)
		scale = factor > 1 ? sqrt(1 + log(factor) / log(original)) : 1;
	c->longrope_attention_factor = fabs(scale) == 1 ? 0 : fabs(scale);
	return 0;
}

/* The number of a type. mrope is that of models of images, whose three positions are one in text,
 * so its angles are plain; su is the old name of longrope. -1: unknown. */
static int
kind_of(const char *type)
{
	int n = sizeof ropes / sizeof *ropes;

	if (!strcmp(type, "mrope"))
		return ROPE_SCALING_NONE;
	if (!strcmp(type, "su"))
		return ROPE_SCALING_LONGROPE;
	while (n-- > 0 && strcmp(type, ropes[n].type))
		continue;
	return n;
}

/*
 * All of a dictionary but the base. "type" is the old name of "rope_type". Unsupported rules are
 * refused by name, because a model with wrong angles fails silently.
 */
static int
read_scaling(struct model_config *c, const struct json_value *v, struct err *e)
{
	const char *type, *old;
	int kind;

	if (json_string(v, "type", "default", &old, e) < 0 ||
	    json_string(v, "rope_type", old, &type, e) < 0)
		return -1;
	kind = kind_of(type);
	if (kind < 0)
		return err_set(e,
		    "rope type '%s' is not supported; default, linear, llama3, yarn and longrope "
		    "are",
		    type);
	c->rope_scaling = (enum rope_scaling)kind;
	if (keys_read(rope_keys, ropes[kind].common, v, c, e) < 0 ||
	    keys_read(ropes[kind].own, ropes[kind].num_own, v, c, e) < 0)
		return -1;
	if (kind == ROPE_SCALING_YARN && json_get(v, "factor") && c->rope_factor == 0 &&
	    c->rope_original_positions > 0)
		c->rope_factor =
		    (double)c->max_position_embeddings / (double)c->rope_original_positions;
	if (kind == ROPE_SCALING_LONGROPE)
		return read_factors(&c->longrope_short_factor, v, "short_factor", e) < 0
		    ? -1
		    : read_factors(&c->longrope_long_factor, v, "long_factor", e);
	if (kind != ROPE_SCALING_NONE && c->rope_factor <= 0)
		return err_set(e, "rope scaling needs \"factor\" > 0");
	if (kind == ROPE_SCALING_LLAMA3 &&
	    (c->rope_low_freq_factor <= 0 || c->rope_high_freq_factor <= c->rope_low_freq_factor))
		return err_set(e, "rope scaling needs low_freq_factor < high_freq_factor");
	return kind == ROPE_SCALING_YARN ? read_yarn(c, v, e) : 0;
}

/* transformers takes no notice of a version that is no text. */
bool
family_is_of_4(const struct json_value *config)
{
	const struct json_value *version = json_get(config, "transformers_version");

	return version && version->type == JSON_STRING && !strncmp(version->string, "4.", 2);
}

/* The number at the top of the file counts before that of the dictionary: so transformers 5 takes
 * it, while 4 looks in the dictionary alone. A file that 4 wrote and that says both is refused. */
static int
read_original_positions(struct model_config *c, const struct json_value *config,
    const struct json_value *dict, struct err *e)
{
	static const char key[] = "original_max_position_embeddings";
	bool in_dict = json_get(dict, key) || c->rope_scaling == ROPE_SCALING_YARN;
	int64_t top;

	if (!json_get(config, key))
		return 0;
	if (keys_int(config, key, 0, &top, e) < 0)
		return -1;
	if (in_dict && top != c->rope_original_positions && family_is_of_4(config))
		return err_set(e,
		    "\"%s\" is %lld for transformers 5, which reads it at the top, and %lld for "
		    "transformers %s, which wrote the file",
		    key, (long long)top, (long long)c->rope_original_positions,
		    json_get(config, "transformers_version")->string);
	c->rope_original_positions = top;
	return 0;
}

/* The dictionary of a model whose layers share it. */
int
family_read_rope_as(struct model_config *c, const struct json_value *config,
    const struct rope_members *top, struct err *e)
{
	const struct json_value *v = family_rope_of(config);

	if (v && v->type != JSON_OBJECT && v->type != JSON_NULL)
		return err_set(e, "\"%s\" must be a dictionary", v->key);
	if (read_number(v, "rope_theta", config, top->base, &c->rotary_base, e) < 0 ||
	    (top->share &&
		read_number(v, "partial_rotary_factor", config, top->share, &c->rotary_percent, e) <
		    0))
		return -1;
	if (!v || v->type == JSON_NULL)
		return 0;
	if (read_scaling(c, v, e) < 0)
		return -1;
	if (c->rope_scaling < ROPE_SCALING_LLAMA3)
		return 0;
	if (read_original_positions(c, config, v, e) < 0)
		return -1;
	if (c->rope_scaling == ROPE_SCALING_LONGROPE && top->original &&
	    !json_get(config, "original_max_position_embeddings"))
		c->rope_original_positions = top->original;
	return c->rope_scaling == ROPE_SCALING_LONGROPE ? read_longrope_scale(c, v, e) : 0;
}

int
family_read_rope(struct model_config *c, const struct json_value *config, struct err *e)
{
	return family_read_rope_as(c, config, &(struct rope_members){ .base = "rope_theta" }, e);
}

/* The dictionary of a kind of layer: what a file without rope_parameters means, with the members of
 * an old-style one where these are of that kind. items has room for the members of both. */
static struct json_value
join_dicts(const struct json_value *a, const struct json_value *b, struct json_value *items)
{
	size_t n = a ? a->len : 0, more = b ? b->len : 0;

	if (n)
		memcpy(items, a->item, n * sizeof *items);
	if (more)
		memcpy(items + n, b->item, more * sizeof *items);
	return (struct json_value){ .type = JSON_OBJECT, .item = items, .len = n + more };
}

/* An old-style dictionary is of layers without the window, and adds to the new one. Without
 * rope_parameters there is a rope_type already, so that "type" says nothing. */
static int
read_full(struct model_config *c, const struct json_value *config, const struct json_value *both,
    struct err *e)
{
	static const char kind[] = "rope_type";
	struct json_value plain = { .type = JSON_STRING,
		.key = kind,
		.key_len = sizeof kind - 1,
		.string = "default",
		.len = 7 };
	const struct json_value none = { .type = JSON_OBJECT, .item = &plain, .len = 1 };
	const struct json_value *old = json_get(config, "rope_scaling"),
				*full = both ? json_get(both, "full_attention") : &none;
	struct json_value dict, *items;
	int rc;

	if (old && old->type == JSON_NULL)
		old = NULL;
	if (full && full->type == JSON_NULL)
		full = NULL;
	if ((old && (old->type != JSON_OBJECT || !full)) || (full && full->type != JSON_OBJECT))
		return err_set(e,
		    "\"rope_scaling\" and \"full_attention\" of \"rope_parameters\" must be "
		    "dictionaries");
	items = mem_alloc((full ? full->len : 0) + (old ? old->len : 0) + 1, sizeof *items);
	dict = join_dicts(full, old, items);
	rc = read_number(&dict, "rope_theta", config, "rope_theta", &c->rotary_base, e);
	if (rc == 0)
		rc = read_scaling(c, &dict, e);
	free(items);
	if (rc == 0 && c->rope_scaling == ROPE_SCALING_LONGROPE)
		rc = err_set(e, "\"full_attention\": longrope is not supported there");
	/* transformers looks for this member beside the dictionaries, not in them */
	if (rc == 0 && c->rope_scaling == ROPE_SCALING_YARN)
		rc = read_rounding(c, both, e);
	return rc;
}

/* Layers of one kind alone leave what the file says of the other without effect. */
static int
read_sliding(struct model_config *c, const struct json_value *dict, const char *base,
    const struct json_value *config, struct err *e)
{
	struct model_config local = *c;
	double *x = &c->sliding_window_rope_base;

	local.rope_scaling = ROPE_SCALING_NONE;
	if (json_get(dict, "rope_theta") ? json_double(dict, "rope_theta", *x, x, e) < 0
					 : base && json_double(config, base, *x, x, e) < 0)
		return -1;
	if (dict && dict->type == JSON_OBJECT && read_scaling(&local, dict, e) < 0)
		return -1;
	return local.rope_scaling == ROPE_SCALING_NONE
	    ? 0
	    : err_set(e, "\"sliding_attention\": scaled positions are not supported there");
}

int
family_read_rope_by_layer(
    struct model_config *c, const struct json_value *config, const char *window_base, struct err *e)
{
	const struct json_value *both = json_get(config, "rope_parameters");
	int64_t full = c->window_size ? pattern_count(&c->window_attn_skip_freq, c->num_layers)
				      : c->num_layers;

	if (both && both->type == JSON_NULL)
		both = NULL;
	if (both && both->type != JSON_OBJECT)
		return err_set(e, "\"rope_parameters\" must be a dictionary");
	if (full > 0 && read_full(c, config, both, e) < 0)
		return -1;
	return full < c->num_layers
	    ? read_sliding(c, json_get(both, "sliding_attention"), window_base, config, e)
	    : 0;
}

static void
write_factors(const struct rope_factors *f, const char *name, struct str *out)
{
	str_addf(out, ",\n    \"%s\": [", name);
	for (int i = 0; i < f->count; i++) {
		str_adds(out, i ? ",\n      " : "\n      ");
		str_add_double(out, f->factor[i]);
	}
	str_adds(out, "\n    ]");
}

/* The same dictionary serves as rope_parameters and, when there is scaling, as rope_scaling; more:
 * members of it besides. */
static void
write_rope_in(const struct model_config *c, const char *more, struct str *out)
{
	const struct rope *r = &ropes[c->rope_scaling];

	str_addf(out, "{\n    \"rope_type\": \"%s\"", r->type);
	keys_write(rope_keys, r->common, c, "    ", out);
	keys_write(r->own, r->num_own, c, "    ", out);
	if (c->rope_scaling == ROPE_SCALING_YARN && c->yarn_attention_factor > 0) {
		str_adds(out, ",\n    \"attention_factor\": ");
		str_add_double(out, c->yarn_attention_factor);
	}
	if (c->rope_scaling == ROPE_SCALING_YARN && c->yarn_unrounded_range)
		str_adds(out, ",\n    \"truncate\": false");
	if (c->rope_scaling == ROPE_SCALING_LONGROPE) {
		write_factors(&c->longrope_short_factor, "short_factor", out);
		write_factors(&c->longrope_long_factor, "long_factor", out);
		str_adds(out, ",\n    \"attention_factor\": ");
		str_add_double(
		    out, c->longrope_attention_factor > 0 ? c->longrope_attention_factor : 1);
	}
	str_addf(out, "%s\n  }", more);
}

/* Readers older than rope_parameters use rope_scaling. */
void
family_write_rope_with(const struct model_config *c, const char *more, struct str *out)
{
	str_adds(out, ",\n  \"rope_scaling\": ");
	if (c->rope_scaling == ROPE_SCALING_NONE)
		str_adds(out, "null");
	else
		write_rope_in(c, more, out);
	str_adds(out, ",\n  \"rope_parameters\": ");
	write_rope_in(c, more, out);
	/* transformers 4 looks here, and Phi-3 in 5 */
	if (c->rope_scaling == ROPE_SCALING_LONGROPE)
		str_addf(out, ",\n  \"original_max_position_embeddings\": %lld",
		    (long long)c->rope_original_positions);
}

void
family_write_rope(const struct model_config *c, struct str *out)
{
	family_write_rope_with(c, "", out);
}

void
family_write_rope_by_layer(const struct model_config *c, struct str *out)
{
	struct model_config local = *c;

	local.rotary_base = c->sliding_window_rope_base;
	local.rope_scaling = ROPE_SCALING_NONE;
	str_adds(out, ",\n  \"rope_scaling\": ");
	if (c->rope_scaling == ROPE_SCALING_NONE)
		str_adds(out, "null");
	else
		write_rope_in(c, "", out);
	str_adds(out, ",\n  \"rope_parameters\": {\n  \"full_attention\": ");
	write_rope_in(c, "", out);
	str_adds(out, ",\n  \"sliding_attention\": ");
	write_rope_in(&local, "", out);
	str_adds(out, "\n  }");
}

/* The two words of layer_types. */
static const char slides[] = "sliding_attention", full[] = "full_attention";

/* A list longer than any pattern is refused where it says something. */
int
family_read_layer_types(struct model_config *c, const struct json_value *config, struct err *e)
{
	const struct json_value *types = json_get(config, "layer_types");
	bool skipped[PATTERN_MAX] = { false };

	if (!types || types->type == JSON_NULL)
		return 0;
	if (types->type != JSON_ARRAY || (int64_t)types->len != c->num_layers ||
	    types->len > PATTERN_MAX || types->len == 0)
		return err_set(e,
		    "\"layer_types\" must be a list with a word for each layer, for at most %d",
		    PATTERN_MAX);
	for (size_t i = 0; i < types->len; i++) {
		const char *word = types->item[i].type == JSON_STRING ? types->item[i].string : "";

		skipped[i] = !strcmp(word, full);
		if (!skipped[i] && strcmp(word, slides))
			return err_set(
			    e, "\"layer_types\" has '%s'; %s and %s are known", word, full, slides);
	}
	c->window_attn_skip_freq = pattern_of(skipped, (int)types->len);
	return 1;
}

void
family_write_layer_types(const struct model_config *c, struct str *out)
{
	str_adds(out, ",\n  \"layer_types\": [");
	for (int64_t i = 0; i < c->num_layers; i++)
		str_addf(out, "%s\n    \"%s\"", i ? "," : "", layer_window(c, i) ? slides : full);
	str_adds(out, "\n  ]");
}
