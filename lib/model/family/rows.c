/*
 * rows.c - what Llama and its descendants share besides rows: the meaning of absent members, the
 * recipe, and the rules of a config that can be exported
 */
#include "lib/model/family/rows.h"

#include <string.h>

const struct key_word family_silu[] = { { "silu", ACTIVATION_SWIGLU }, { NULL, 0 } };

int64_t
family_heads(const struct model_config *c)
{
	return c->num_attention_heads;
}

/* family_read_llama refuses a model without heads. */
int64_t
family_head_width(const struct model_config *c)
{
	return c->num_attention_heads < 1 ? 0 : c->hidden_size / c->num_attention_heads;
}

int
family_read_llama(struct model_config *c, const struct json_value *config, struct err *e)
{
	if (c->num_attention_heads < 1)
		return err_set(e, "\"num_attention_heads\" must be at least 1");
	c->normalization = NORMALIZATION_RMSNORM;
	c->position = POSITION_ROPE;
	return family_read_rope(c, config, e);
}

int
family_check_llama(const struct model_config *c, struct err *e)
{
	if (c->normalization != NORMALIZATION_RMSNORM)
		return err_set(e, "needs --normalization RMSNorm");
	if (c->activation != ACTIVATION_SWIGLU)
		return err_set(e, "needs --swiglu");
	if (c->position != POSITION_ROPE || c->rotary_interleaved)
		return err_set(e, "needs --position-embedding-type rope, not interleaved");
	return 0;
}

int
family_check_whole(const struct model_config *c, struct err *e)
{
	if (family_check_llama(c, e) < 0)
		return -1;
	return c->rotary_percent == 1 ? 0 : err_set(e, "needs --rotary-percent 1");
}

/* How many layers have the window; -1 when layer_types is not a list of known words, one for each.
 * It overrides max_window_layers, which is the number of layers without. */
static int64_t
count_windows(const struct json_value *config, int64_t layers, struct err *e)
{
	const struct json_value *types = json_get(config, "layer_types");
	int64_t full, count = 0;

	if (json_int(config, "max_window_layers", 28, &full, e) < 0)
		return -1;
	if (!types || types->type == JSON_NULL)
		return full < layers ? layers - (full > 0 ? full : 0) : 0;
	if (types->type != JSON_ARRAY || (int64_t)types->len != layers)
		return err_set(e, "\"layer_types\" must be a list with a word for each layer");
	for (size_t i = 0; i < types->len; i++) {
		const char *word = types->item[i].type == JSON_STRING ? types->item[i].string : "";
		bool slides = !strcmp(word, "sliding_attention");

		if (!slides && strcmp(word, "full_attention"))
			return err_set(e,
			    "\"layer_types\" has '%s'; full_attention and sliding_attention are "
			    "known",
			    word);
		count += slides;
	}
	return count;
}

int
family_read_qwen(struct model_config *c, const struct json_value *config, struct err *e)
{
	int64_t count = count_windows(config, c->num_layers, e);
	bool use;

	if (count < 0 || json_bool(config, "use_sliding_window", false, &use, e) < 0)
		return -1;
	if (!use || count == 0)
		c->window_size = 0;
	if (c->window_size && count < c->num_layers)
		return err_set(e, "the window is for %lld of %lld layers; all or none are built",
		    (long long)count, (long long)c->num_layers);
	return family_read_llama(c, config, e);
}

void
family_write_qwen(const struct model_config *c, struct str *out)
{
	bool use = c->window_size > 0;

	str_addf(out, ",\n  \"use_sliding_window\": %s,\n  \"max_window_layers\": %lld",
	    use ? "true" : "false", use ? 0LL : (long long)c->num_layers);
	str_adds(out, ",\n  \"layer_types\": [");
	for (int64_t i = 0; i < c->num_layers; i++)
		str_addf(out, "%s\n    \"%s\"", i ? "," : "",
		    use ? "sliding_attention" : "full_attention");
	str_adds(out, "\n  ]");
	family_write_rope(c, out);
}
