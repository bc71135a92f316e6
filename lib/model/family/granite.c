/*
 * granite.c - Granite: Llama with multipliers of embeddings, attention, branches and logits
 *
 * Source: the config and tensor names of GraniteForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_LLAMA,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("granite"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
};

/* What the file says, and without it that nothing is multiplied: also not by the root of the width
 * of a head. */
static const struct key multipliers[] = {
	{ "embedding_multiplier", KEY_NUMBER, KEY_OFF(embedding_multiplier), 1 },
	{ "residual_multiplier", KEY_NUMBER, KEY_OFF(residual_multiplier), 1 },
	{ "attention_multiplier", KEY_NUMBER, KEY_OFF(attention_multiplier), 1 },
	{ "logits_scaling", KEY_NUMBER, KEY_OFF(logits_scaling), 1 },
};
enum { MULTIPLIERS = sizeof multipliers / sizeof *multipliers };

static double *
field(struct model_config *c, int i)
{
	return (double *)(void *)((char *)c + multipliers[i].off);
}

/* What a field of 0 stands for. */
static double
plain(const struct model_config *c, int i)
{
	struct model_config without = *c;

	without.attention_multiplier = 0;
	return field(&without, i) == &without.attention_multiplier ? model_score_scale(&without)
								   : 1;
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	c->proj_bias = c->qkv_bias;
	if (family_read_llama(c, v, e) < 0 || keys_read(multipliers, MULTIPLIERS, v, c, e) < 0)
		return -1;
	for (int i = 0; i < MULTIPLIERS; i++) {
		double *x = field(c, i);

		if (!(*x > 0))
			return err_set(e, "\"%s\" is %g; must be above 0", multipliers[i].name, *x);
		if (*x == plain(c, i))
			*x = 0;
	}
	return 0;
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	struct model_config said = *c;

	for (int i = 0; i < MULTIPLIERS; i++)
		if (!(*field(&said, i) > 0))
			*field(&said, i) = plain(c, i);
	keys_write(multipliers, MULTIPLIERS, &said, "  ", out);
	family_write_rope(c, out);
}

static const char *const others[] = { OTHERS_ROPE, "embedding_multiplier", "residual_multiplier",
	"attention_multiplier", "logits_scaling", NULL };

const struct family family_granite = {
	.model_type = "granite",
	.architecture = "GraniteForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
