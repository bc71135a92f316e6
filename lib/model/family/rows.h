/*
 * rows.h - rows that Llama and its descendants share: names of tensors and members of config.json
 *
 * The tables of such a family are made of these and of rows of its own. Only the files of families
 * need this header.
 */
#ifndef MODEL_FAMILY_ROWS_H
#define MODEL_FAMILY_ROWS_H

#include "lib/model/family.h"

/* clang-format off */
#define NAMES_ENDS \
	{ "embedding.word_embeddings.weight", "model.embed_tokens.weight", false }, \
	{ "decoder.final_layernorm.weight", "model.norm.weight", false }, \
	{ "output_layer.weight", "lm_head.weight", false }, \
	{ NULL, NULL, false }
/* Of layers that predict later tokens, which are numbered on from the model's. */
#define NAMES_MTP \
	{ "enorm.weight", "model.layers.%d.enorm.weight", false }, \
	{ "hnorm.weight", "model.layers.%d.hnorm.weight", false }, \
	{ "eh_proj.weight", "model.layers.%d.eh_proj.weight", false }, \
	{ "final_layernorm.weight", "model.layers.%d.shared_head.norm.weight", false }
#define NAMES_NORMS \
	{ "input_layernorm.weight", "model.layers.%d.input_layernorm.weight", false }, \
	{ "pre_mlp_layernorm.weight", "model.layers.%d.post_attention_layernorm.weight", false }
#define NAMES_NORM_BIASES \
	{ "input_layernorm.bias", "model.layers.%d.input_layernorm.bias", false }, \
	{ "pre_mlp_layernorm.bias", "model.layers.%d.post_attention_layernorm.bias", false }, \
	{ "decoder.final_layernorm.bias", "model.norm.bias", false }
#define NAMES_QKV \
	{ "self_attention.linear_q.weight", "model.layers.%d.self_attn.q_proj.weight", false }, \
	{ "self_attention.linear_k.weight", "model.layers.%d.self_attn.k_proj.weight", false }, \
	{ "self_attention.linear_v.weight", "model.layers.%d.self_attn.v_proj.weight", false }
#define NAMES_QKV_BIASES \
	{ "self_attention.linear_q.bias", "model.layers.%d.self_attn.q_proj.bias", false }, \
	{ "self_attention.linear_k.bias", "model.layers.%d.self_attn.k_proj.bias", false }, \
	{ "self_attention.linear_v.bias", "model.layers.%d.self_attn.v_proj.bias", false }
#define NAMES_QK_NORMS \
	{ "self_attention.q_layernorm.weight", "model.layers.%d.self_attn.q_norm.weight", false }, \
	{ "self_attention.k_layernorm.weight", "model.layers.%d.self_attn.k_norm.weight", false }
#define NAMES_PROJ \
	{ "self_attention.linear_proj.weight", "model.layers.%d.self_attn.o_proj.weight", false }
#define NAMES_PROJ_BIAS \
	{ "self_attention.linear_proj.bias", "model.layers.%d.self_attn.o_proj.bias", false }
/* Of attention with biases or without, after a norm. */
#define NAMES_ATTENTION NAMES_NORMS, NAMES_QKV, NAMES_QKV_BIASES, NAMES_PROJ, NAMES_PROJ_BIAS
#define NAMES_MLP \
	{ "mlp.linear_up.weight", "model.layers.%d.mlp.up_proj.weight", false }, \
	{ "mlp.linear_down.weight", "model.layers.%d.mlp.down_proj.weight", false }
#define NAMES_MLP_BIASES \
	{ "mlp.linear_up.bias", "model.layers.%d.mlp.up_proj.bias", false }, \
	{ "mlp.linear_down.bias", "model.layers.%d.mlp.down_proj.bias", false }
#define NAMES_GATED_MLP \
	{ "mlp.linear_gate.weight", "model.layers.%d.mlp.gate_proj.weight", false }, \
	NAMES_MLP
#define NAMES_GATED_MLP_BIASES \
	{ "mlp.linear_gate.bias", "model.layers.%d.mlp.gate_proj.bias", false }, \
	NAMES_MLP_BIASES

/* Llama, and what adds no tensors to it. */
#define NAMES_LLAMA NAMES_ATTENTION, NAMES_GATED_MLP, NAMES_GATED_MLP_BIASES, NAMES_ENDS

/* Router and experts, and the same in the form that transformers 5 has in memory. */
#define NAMES_QWEN_EXPERTS \
	{ "mlp.router.weight", "model.layers.%d.mlp.gate.weight", false }, \
	{ "mlp.experts.%d.linear_gate.weight", \
	    "model.layers.%d.mlp.experts.%d.gate_proj.weight", false }, \
	{ "mlp.experts.%d.linear_up.weight", \
	    "model.layers.%d.mlp.experts.%d.up_proj.weight", false }, \
	{ "mlp.experts.%d.linear_down.weight", \
	    "model.layers.%d.mlp.experts.%d.down_proj.weight", false }
#define NAMES_STACKED_EXPERTS \
	{ "mlp.router.weight", "model.layers.%d.mlp.gate.weight", false }, \
	{ "mlp.experts.%d.linear_gate.weight", \
	    "model.layers.%d.mlp.experts.gate_up_proj", false }, \
	{ "mlp.experts.%d.linear_up.weight", "model.layers.%d.mlp.experts.gate_up_proj", false }, \
	{ "mlp.experts.%d.linear_down.weight", "model.layers.%d.mlp.experts.down_proj", false }

/* One that all tokens are sent to, with its weight. */
#define NAMES_SHARED_EXPERT \
	{ "mlp.shared_experts.gate_weight", "model.layers.%d.mlp.shared_expert_gate.weight", \
	    false }, \
	{ "mlp.shared_experts.linear_gate.weight", \
	    "model.layers.%d.mlp.shared_expert.gate_proj.weight", false }, \
	{ "mlp.shared_experts.linear_up.weight", \
	    "model.layers.%d.mlp.shared_expert.up_proj.weight", false }, \
	{ "mlp.shared_experts.linear_down.weight", \
	    "model.layers.%d.mlp.shared_expert.down_proj.weight", false }

/* Sizes without a default are 0 and refused by model_check. */
#define KEYS_SIZES KEYS_SIZES_OF(ffn_hidden_size)
#define KEYS_SIZES_OF(width) \
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 0 }, \
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 0 }, \
	{ "intermediate_size", KEY_INT, KEY_OFF(width), 0 }, \
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 0 }, \
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 0 }
/* The next two are written even where they equal their defaults, so that readers need not know
 * those. */
#define KEY_GROUPS(...) \
	{ "num_key_value_heads", KEY_INT, KEY_OFF(num_query_groups), __VA_ARGS__ }
#define KEY_HEAD_DIM(...) \
	{ "head_dim", KEY_INT, KEY_OFF(kv_channels), __VA_ARGS__ }
#define KEY_SILU(family) \
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = family_silu, \
	    .why = family " has 'silu'" }
#define KEY_RELU2(family) \
	{ "hidden_act", KEY_WORD, KEY_OFF(activation), .words = family_relu2, \
	    .why = family " has 'relu2'" }
#define KEYS_RATES(epsilon) \
	{ "rms_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), epsilon }, \
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 }, \
	KEY_ROPE_THETA
/* Read with the rotary dictionaries, since a dictionary counts before it. */
#define KEY_ROPE_THETA \
	{ "rope_theta", KEY_NUMBER, KEY_OFF(rotary_base), .written_only = true }
/* transformers adds the loss of the coefficient where it is asked for the router's logits. */
#define KEYS_ROUTER(topk, balance) \
	{ "num_experts_per_tok", KEY_INT, KEY_OFF(moe_router_topk), topk }, \
	{ "router_aux_loss_coef", KEY_NUMBER, KEY_OFF(moe_aux_loss_coeff), balance }, \
	{ "output_router_logits", KEY_FIXED, .def = false, .written_only = true }
#define KEY_WINDOW \
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 4096 }
/* Read by family_read_window where use_sliding_window says that it counts. */
#define KEY_WINDOW_IF_USED \
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), .written_only = true }
/* The layers of Gemma 2 and later ones, whose attention has a switch for its four biases. */
#define NAMES_GEMMA \
	{ "input_layernorm.weight", "model.layers.%d.input_layernorm.weight", false }, \
	{ "post_self_attn_layernorm.weight", \
	    "model.layers.%d.post_attention_layernorm.weight", false }, \
	{ "pre_mlp_layernorm.weight", "model.layers.%d.pre_feedforward_layernorm.weight", false }, \
	{ "post_mlp_layernorm.weight", \
	    "model.layers.%d.post_feedforward_layernorm.weight", false }, \
	NAMES_QKV, \
	NAMES_QKV_BIASES, \
	NAMES_PROJ, \
	NAMES_PROJ_BIAS, \
	NAMES_GATED_MLP
/* Published files leave out what is the default of the class. */
#define KEYS_GEMMA(family, tokens) \
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), tokens }, \
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 2304 }, \
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 9216 }, \
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 26 }, \
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 8 }, \
	KEY_GROUPS(4), \
	KEY_HEAD_DIM(256), \
	{ "hidden_activation", KEY_WORD, KEY_OFF(activation), .words = family_gelu, \
	    .why = family " has 'gelu_pytorch_tanh'" }, \
	{ "rms_norm_eps", KEY_NUMBER, KEY_OFF(norm_epsilon), 1e-6 }, \
	{ "attention_dropout", KEY_NUMBER, KEY_OFF(attention_dropout), 0 }, \
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false }, \
	{ "query_pre_attn_scalar", KEY_INT, KEY_OFF(query_pre_attn_scalar), 256 }, \
	KEY_NOT_BIDIRECTIONAL, \
	KEY_WINDOW
#define KEY_NOT_BIDIRECTIONAL \
	{ "use_bidirectional_attention", KEY_FIXED, .def = false, .read_only = true, \
	    .why = "\"use_bidirectional_attention\" is not supported" }
/* Mistral and Ministral. A config without sliding_window has the window of the first Mistral;
 * later ones say null. */
#define NAMES_MISTRAL NAMES_NORMS, NAMES_QKV, NAMES_PROJ, NAMES_GATED_MLP, NAMES_ENDS
#define KEYS_MISTRAL(family) \
	KEYS_SIZES, \
	KEY_GROUPS(8), \
	KEY_HEAD_DIM(.derive = family_head_width), \
	KEY_SILU(family), \
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 131072 }, \
	KEYS_RATES(1e-6), \
	KEY_WINDOW
/* Norms of branches, which OLMo 2 and later ones have alone. */
#define NAMES_POST_NORMS \
	{ "post_self_attn_layernorm.weight", \
	    "model.layers.%d.post_attention_layernorm.weight", false }, \
	{ "post_mlp_layernorm.weight", \
	    "model.layers.%d.post_feedforward_layernorm.weight", false }
#define NAMES_OLMO \
	NAMES_POST_NORMS, \
	NAMES_QKV, \
	NAMES_QKV_BIASES, \
	NAMES_QK_NORMS, \
	NAMES_PROJ, \
	NAMES_PROJ_BIAS, \
	NAMES_GATED_MLP
#define KEYS_OLMO(family) \
	KEYS_SIZES, \
	KEY_GROUPS(.derive = family_heads), \
	KEY_HEAD_DIM(.derive = family_head_width), \
	KEY_SILU(family), \
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 }, \
	KEYS_RATES(1e-5), \
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false }
/* Attention of latents, experts beside shared ones, and an MLP in the first layers. */
#define NAMES_LATENT_ATTENTION \
	{ "self_attention.linear_q_down_proj.weight", \
	    "model.layers.%d.self_attn.q_a_proj.weight", false }, \
	{ "self_attention.q_latent_layernorm.weight", \
	    "model.layers.%d.self_attn.q_a_layernorm.weight", false }, \
	{ "self_attention.linear_q_up_proj.weight", \
	    "model.layers.%d.self_attn.q_b_proj.weight", false }, \
	{ "self_attention.linear_q_proj.weight", \
	    "model.layers.%d.self_attn.q_proj.weight", false }, \
	{ "self_attention.linear_kv_down_proj.weight", \
	    "model.layers.%d.self_attn.kv_a_proj_with_mqa.weight", false }, \
	{ "self_attention.kv_latent_layernorm.weight", \
	    "model.layers.%d.self_attn.kv_a_layernorm.weight", false }, \
	{ "self_attention.linear_kv_up_proj.weight", \
	    "model.layers.%d.self_attn.kv_b_proj.weight", false }
#define NAMES_LATENTS \
	NAMES_NORMS, NAMES_LATENT_ATTENTION, NAMES_PROJ, NAMES_GATED_MLP, \
	{ "mlp.shared_experts.linear_gate.weight", \
	    "model.layers.%d.mlp.shared_experts.gate_proj.weight", false }, \
	{ "mlp.shared_experts.linear_up.weight", \
	    "model.layers.%d.mlp.shared_experts.up_proj.weight", false }, \
	{ "mlp.shared_experts.linear_down.weight", \
	    "model.layers.%d.mlp.shared_experts.down_proj.weight", false }
#define KEYS_LATENTS \
	{ "kv_lora_rank", KEY_INT, KEY_OFF(kv_lora_rank), 512 }, \
	{ "q_lora_rank", KEY_COUNT, KEY_OFF(q_lora_rank), 1536 }, \
	{ "qk_nope_head_dim", KEY_INT, KEY_OFF(qk_head_dim), 128 }, \
	{ "qk_rope_head_dim", KEY_INT, KEY_OFF(qk_pos_emb_head_dim), 64 }, \
	{ "v_head_dim", KEY_INT, KEY_OFF(v_head_dim), 128 }
/* Members without a row of models that rotate, and what Qwen, Gemma and DeepSeek have besides. */
#define OTHERS_ROPE \
	"rope_scaling", "rope_parameters", "original_max_position_embeddings"
#define OTHERS_QWEN OTHERS_ROPE, "use_sliding_window", "max_window_layers", "layer_types"
#define OTHERS_GEMMA "layer_types", "hidden_act"
#define OTHERS_LATENTS \
	OTHERS_ROPE, "routed_scaling_factor", "n_group", "topk_group", "n_shared_experts", \
	    "first_k_dense_replace", "scoring_func", "topk_method", "head_dim", "qk_head_dim", \
	    "moe_layer_freq", "ep_size", "seq_aux", "aux_loss_alpha"
/* clang-format on */

/* The only word of hidden_activation, and those of hidden_act. */
extern const struct key_word family_gelu[];
extern const struct key_word family_silu[], family_relu2[];
/* What an absent member means: as many groups as heads; heads that share the hidden size, or 0
 * without heads. */
int64_t family_heads(const struct model_config *c);
int64_t family_head_width(const struct model_config *c);
/* Sets the recipe: RMSNorm and rotary positions, as the config says. Refuses a model without
 * heads. */
int family_read_llama(struct model_config *c, const struct json_value *config, struct err *e);
/* The same where attention_bias is that of q, k, v and the projection alike, and the width must be
 * a multiple of the heads whether or not there is a head_dim. */
int family_read_llama_evenly(struct model_config *c, const struct json_value *v, struct err *e);
/* As family_read_llama, with the window in the layers that layer_types lists, else in all. */
int family_read_mistral(struct model_config *c, const struct json_value *v, struct err *e);
/* Sets the recipe of OLMo 2 and later ones, but for positions. Refuses a model without heads. */
int family_read_olmo(struct model_config *c, struct err *e);
/* Sets the recipe of a family with experts; refuses a model without them. */
int family_read_experts(struct model_config *c, const struct json_value *config, struct err *e);
/* decoder_sparse_step and mlp_only_layers: layers of the list have an MLP, and so have those whose
 * number, from 1 on, the step does not divide. */
int family_read_sparse(struct model_config *c, const struct json_value *config, struct err *e);
void family_write_sparse(const struct model_config *c, struct str *out);
/* As family_read_rope_as; refuses a share that leaves an odd number of elements to rotate. */
int family_read_share(struct model_config *c, const struct json_value *config,
    const struct rope_members *top, struct err *e);
/* As family_read_layer_types; refuses layers with a window where there is none. */
int family_read_windows(struct model_config *c, const struct json_value *config, struct err *e);
/* As family_write_rope, with layer_types. */
void family_write_windows(const struct model_config *c, struct str *out);
/* Reads sliding_window_pattern: each layer whose number, from 1 on, it divides lacks the window. */
int family_read_window_pattern(
    struct model_config *c, const struct json_value *config, struct err *e);
/* No window and none in any layer are the same model, and so are all layers and no list of them. */
void family_settle_windows(struct model_config *c);
/* Reads use_sliding_window and, where it is true, the window; none otherwise. */
int family_read_window(struct model_config *c, const struct json_value *config, struct err *e);
/* As family_read_llama and family_write_rope, with use_sliding_window, max_window_layers and
 * layer_types: where the window of KEY_WINDOW_IF_USED applies. */
int family_read_qwen(struct model_config *c, const struct json_value *config, struct err *e);
void family_write_qwen(const struct model_config *c, struct str *out);
/* Sets the recipe of Gemma 2 and later ones, but for positions, with each layer number that `every`
 * divides, from 1 on, without the window where layer_types does not say. */
int family_read_gemma(
    struct model_config *c, const struct json_value *config, int64_t every, struct err *e);
/* Refuses a member that has another word than what the class does in any case. */
int family_read_only(const struct json_value *v, const char *family, const char *name,
    const char *only, struct err *e);
/* n_group and topk_group, and what absent ones mean; `scores` make that of a group. */
int family_read_groups(struct model_config *c, const struct json_value *v, const int64_t absent[2],
    int64_t scores, struct err *e);
/* What absent members mean: shared experts, first layers without experts, the factor of weights. */
struct family_latents {
	int64_t shared, dense;
	double scale;
};
/* Sets the recipe of attention of latents, with these members and those of rotation. */
int family_read_latents(struct model_config *c, const struct json_value *v,
    const struct family_latents *absent, struct err *e);
void family_write_latents(const struct model_config *c, struct str *out);

#endif
