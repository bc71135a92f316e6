/*
 * phi3.c - Phi-3 and Phi-4: Llama whose files hold q, k and v in one tensor, and gate and up; part
 * of a head may rotate
 *
 * Source: the config and tensor names of Phi3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	{ "self_attention.linear_q.weight", "model.layers.%d.self_attn.qkv_proj.weight", false },
	{ "self_attention.linear_k.weight", "model.layers.%d.self_attn.qkv_proj.weight", false },
	{ "self_attention.linear_v.weight", "model.layers.%d.self_attn.qkv_proj.weight", false },
	NAMES_PROJ,
	{ "mlp.linear_gate.weight", "model.layers.%d.mlp.gate_up_proj.weight", false },
	{ "mlp.linear_up.weight", "model.layers.%d.mlp.gate_up_proj.weight", false },
	{ "mlp.linear_down.weight", "model.layers.%d.mlp.down_proj.weight", false },
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(.derive = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("phi3"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 4096 },
	KEYS_RATES(1e-5),
	{ "resid_pdrop", KEY_NUMBER, KEY_OFF(hidden_dropout), 0 },
	{ "embd_pdrop", KEY_NUMBER, KEY_OFF(embedding_dropout), 0 },
	{ "partial_rotary_factor", KEY_NUMBER, KEY_OFF(rotary_percent), .written_only = true },
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 0 },
};

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	static const struct rope_members top = { "rope_theta", "partial_rotary_factor", 4096 };

	if (family_read_llama(c, v, e) < 0 || family_read_share(c, v, &top, e) < 0)
		return -1;
	if (c->rope_scaling != ROPE_SCALING_NONE && c->rope_scaling != ROPE_SCALING_LONGROPE)
		return err_set(e, "phi3 scales positions by longrope alone");
	return 0;
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_phi3 = {
	.model_type = "phi3",
	.architecture = "Phi3ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
