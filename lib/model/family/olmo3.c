/*
 * olmo3.c - OLMo 3: OLMo 2 with a sliding window in three of four layers, whose rotary angles are
 * not scaled
 *
 * Source: the config and tensor names of Olmo3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#include <string.h>

static const struct family_name names[] = {
	NAMES_OLMO,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_OLMO("olmo3"),
	KEY_WINDOW,
};

/* The base of a file that says none. */
static const double base = 500000;

/* One base at the top is that of all layers to transformers 4, and of those without the window to
 * 5; one in a dictionary for all layers is none to 5. Both are refused where they would differ. */
static int
check_base(const struct json_value *v, struct err *e)
{
	const struct json_value *both = json_get(v, "rope_parameters");
	double top = base, flat = base;

	if (json_double(v, "rope_theta", base, &top, e) < 0)
		return -1;
	if (both && both->type == JSON_OBJECT && !json_get(both, "full_attention") &&
	    !json_get(both, "sliding_attention") &&
	    json_double(both, "rope_theta", base, &flat, e) < 0)
		return -1;
	if (flat != base || (!both && top != base && family_is_of_4(v)))
		return err_set(e,
		    "\"rope_theta\" is %g; to transformers 5 layers with the window have the base "
		    "%g: say both in \"rope_parameters\", by \"full_attention\" and "
		    "\"sliding_attention\"",
		    flat != base ? flat : top, base);
	return 0;
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	int rc = family_read_layer_types(c, v, e);

	if (rc < 0 || check_base(v, e) < 0)
		return -1;
	if (!c->window_size)
		return err_set(e, "\"sliding_window\" is null; olmo3 has a window");
	if (rc == 0)
		c->window_attn_skip_freq = pattern_every(4);
	if (pattern_count(&c->window_attn_skip_freq, c->num_layers) == 0)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
	c->rotary_base = c->sliding_window_rope_base = base;
	if (family_read_olmo(c, e) < 0 || family_read_rope_by_layer(c, v, NULL, e) < 0)
		return -1;
	if (!(c->sliding_window_rope_base >= 1))
		return err_set(e, "\"rope_theta\" of \"sliding_attention\" must be at least 1");
	/* one base without scaling is the same in all layers */
	if (c->rope_scaling == ROPE_SCALING_NONE && c->sliding_window_rope_base == c->rotary_base)
		c->sliding_window_rope_base = 0;
	return 0;
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	struct model_config said = *c;

	if (!(said.sliding_window_rope_base > 0))
		said.sliding_window_rope_base = said.rotary_base;
	family_write_layer_types(&said, out);
	family_write_rope_by_layer(&said, out);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", NULL };

const struct family family_olmo3 = {
	.model_type = "olmo3",
	.architecture = "Olmo3ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
