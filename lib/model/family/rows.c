/*
 * rows.c - what Llama and its descendants share besides rows: the meaning of absent members, the
 * recipe, and the rules of a config that can be exported
 */
#include "lib/model/family/rows.h"

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
	if (c->position != POSITION_ROPE || c->rotary_percent != 1 || c->rotary_interleaved)
		return err_set(
		    e, "needs --position-embedding-type rope over whole heads, not interleaved");
	return 0;
}
