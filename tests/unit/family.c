/* family.c - tests of model families: their configs are read, written and refused as they should
 * be, and every parameter has its place in their files */
#include "lib/model/family.h"
#include "lib/base/outfile.h"
#include "tests/check.h"

#include <math.h>
#include <unistd.h>

static struct err reason; /* of the last config.json that was refused, without the file's name */

/* Reads a config.json from memory; false when it is refused. */
static bool
read_text(const char *json, struct model_config *c)
{
	char path[] = "/tmp/family-test-XXXXXX";
	int fd = mkstemp(path);
	const struct family *f;
	struct err e;

	CHECK(fd >= 0);
	close(fd);
	CHECK(outfile_write(path, json, strlen(json), &e) == 0);
	f = family_read_config(path, c, NULL, &e);
	if (!f)
		snprintf(reason.msg, sizeof reason.msg, "%s", e.msg + strlen(path) + 2);
	unlink(path);
	return f != NULL;
}

/* True when every member of a is in b, with the same value. */
static bool
contains(const struct json_value *a, const struct json_value *b)
{
	if (!b || a->type != b->type)
		return a->type == JSON_NULL && !b;
	switch (a->type) {
	case JSON_BOOL: return a->boolean == b->boolean;
	case JSON_INT:
	case JSON_FLOAT: return json_number(a) == json_number(b);
	case JSON_STRING: return !strcmp(a->string, b->string);
	case JSON_NULL: return true;
	default: break;
	}
	for (size_t i = 0; i < a->len; i++) {
		const struct json_value *x = &a->item[i];

		if (!contains(x,
			a->type == JSON_OBJECT ? json_get(b, x->key)
			    : i < b->len       ? &b->item[i]
					       : NULL)) {
			fprintf(stderr, "member '%s' differs\n", x->key ? x->key : "?");
			return false;
		}
	}
	return true;
}

/* Reads a config.json, writes it, and expects every member back. */
static void
round_trip(const char *path, const char *model_type, struct model_config *c)
{
	struct err e = { "" };
	const struct family *f = family_read_config(path, c, NULL, &e);
	struct str s = { 0 };
	struct json *a, *b;

	CHECK_STR(e.msg, "");
	CHECK(f != NULL);
	if (!f)
		return;
	CHECK_STR(f->model_type, model_type);
	CHECK(family_of(c, &e) == f);
	family_write_config(f, c, "bfloat16", &s);
	a = json_read(path, 1 << 20, &e);
	b = json_parse(s.buf, s.len, "written", &e);
	CHECK(a && b && contains(json_root(a), json_root(b)));
	json_free(a);
	json_free(b);
	str_release(&s);
}

/* Every parameter has a place in Hugging Face's files, and the places cover each file tensor
 * once. */
static void
test_places(const struct family *f, const struct model_config *c)
{
	struct param *p;
	int n = model_params(c, &p);
	int64_t sum = 0, qkv = 0;

	for (int i = 0; i < n; i++) {
		struct family_place place;
		struct err e;

		CHECK(family_place(f, c, &p[i], &place, &e) == 0);
		CHECK(slice_inside(&place.slice, place.ndim, place.shape));
		CHECK(slice_elements(&place.slice) * place.runs == param_elements(&p[i]));
		sum += slice_elements(&place.slice) * place.runs;
		place.slice.start[place.dim[0]] += (place.runs - 1) * place.apart;
		CHECK(slice_inside(&place.slice, place.ndim, place.shape));
		place.slice.start[place.dim[0]] -= (place.runs - 1) * place.apart;
		if (!strcmp(place.name, "transformer.h.3.attn.c_attn.weight")) {
			CHECK(place.transposed && place.shape[0] == c->hidden_size &&
			    place.shape[1] == 3 * c->hidden_size);
			CHECK(place.slice.start[1] == qkv);
			qkv += place.slice.count[1];
		}
	}
	CHECK(sum == model_num_parameters(c));
	CHECK(qkv == 0 || qkv == 3 * c->hidden_size);
	free(p);
}

/* In GPT-NeoX each head of q is followed by those of k and v: [n, 3, d] rows. */
static void
test_turns(const struct model_config *c)
{
	static const char *const names[] = { "self_attention.linear_q.weight",
		"self_attention.linear_k.weight", "self_attention.linear_v.weight",
		"self_attention.linear_q.bias", "self_attention.linear_k.bias",
		"self_attention.linear_v.bias" };
	struct param *p;
	int n = model_params(c, &p), found = 0;

	for (int i = 0; i < n; i++)
		for (int k = 0; k < 6; k++) {
			struct family_place place;
			struct err e;

			if (!param_is(&p[i], names[k]) ||
			    family_place(family_find("gpt_neox"), c, &p[i], &place, &e) < 0)
				continue;
			CHECK(place.runs == 4 && place.apart == 24 && place.shape[0] == 96);
			CHECK(place.slice.start[0] == 8 * (k % 3) && place.slice.count[0] == 8);
			found++;
		}
	CHECK(found == 6 * 2);
	free(p);
}

/* Of a head of 8 elements 6 rotate, as pairs (0, 1), (2, 3), (4, 5) here, and as (0, 3), (1, 4),
 * (2, 5) in a family's files; nothing else is in another order. */
static void
test_pairs(struct model_config c)
{
	static const int64_t stored[8] = { 0, 3, 1, 4, 2, 5, 6, 7 };
	struct param *p;
	int n, found = 0;

	c.rotary_percent = 0.75;
	c.rotary_interleaved = true;
	n = model_params(&c, &p);
	for (int i = 0; i < n; i++) {
		bool turns = param_is(&p[i], "self_attention.linear_q.weight") ||
		    param_is(&p[i], "self_attention.linear_k.weight");
		struct family_place at;
		struct err e;

		CHECK(family_place(family_find("llama"), &c, &p[i], &at, &e) == 0);
		for (int64_t row = 0; row < p[i].shape[0]; row++) {
			int64_t to = family_stored_row(&at, row);

			CHECK(to == (turns ? row - row % 8 + stored[row % 8] : row));
			CHECK(family_row_of(&at, to) == row);
		}
		found += turns;
	}
	CHECK(found == 2 * c.num_layers);
	free(p);
}

/* What every family but GPT-2 needs. */
#define SIZES \
	"\"vocab_size\": 90, \"hidden_size\": 32, \"intermediate_size\": 56, " \
	"\"num_hidden_layers\": 2, \"num_attention_heads\": 8"

/* Reads a config.json of the corpus, and tries the places of its tensors. */
static struct model_config
family_config(const char *model_type)
{
	struct model_config c = { 0 };
	char path[100];

	snprintf(path, sizeof path, "tests/fuzz/corpus/config_json/%s.json", model_type);
	round_trip(path, model_type, &c);
	test_places(family_find(model_type), &c);
	return c;
}

/* A model of no family, and the reason of the nearest. */
static void
no_family(const struct model_config *c, const char *nearest)
{
	char want[400];
	struct err e;

	snprintf(
	    want, sizeof want, "no Hugging Face family has this model; the nearest: %s", nearest);
	CHECK(family_of(c, &e) == NULL);
	CHECK_STR(e.msg, want);
}

/* A model that is not of this family, and why. */
static void
not_of(const char *family, const struct model_config *c, const char *why)
{
	struct err e = { "" };

	CHECK(family_check(family_find(family), c, &e) < 0);
	CHECK_STR(e.msg, why);
}

/* Gemma and OLMo: what their configs say besides sizes. */
static void
test_recipes(void)
{
	struct model_config c = family_config("gemma2");

	CHECK(c.norm_placement == NORM_PLACEMENT_BOTH && c.apply_layernorm_1p);
	CHECK(c.scale_embeddings_by_hidden_size && c.activation == ACTIVATION_GEGLU_TANH);
	CHECK(c.attn_logit_softcapping == 50 && c.final_logit_softcapping == 30);
	CHECK(c.query_pre_attn_scalar == 10 && !c.untie_embeddings_and_output_weights);
	CHECK(layer_window(&c, 0) == 9 && layer_window(&c, 1) == 0 && layer_window(&c, 2) == 9);
	c.query_pre_attn_scalar = 0;
	not_of("gemma2", &c, "\"query_pre_attn_scalar\" must be at least 1");
	c = family_config("gemma3_text");
	CHECK(c.qk_layernorm && c.rotary_base == 1e6 && c.sliding_window_rope_base == 1e4);
	CHECK(c.rope_scaling == ROPE_SCALING_LINEAR && c.rope_factor == 8);
	CHECK(layer_window(&c, 1) == 9 && layer_window(&c, 2) == 0 && layer_window(&c, 3) == 9);
	CHECK(layer_rope_table(&c, 2) == ROPE_TABLE_MODEL);
	c.sliding_window_rope_base = 0;
	not_of("gemma3_text", &c, "\"rope_local_base_freq\" must be at least 1");
	c = family_config("olmo2");
	CHECK(c.norm_placement == NORM_PLACEMENT_POST && c.qk_layernorm_hidden_dim);
	CHECK(c.kv_channels == 8 && c.rotary_base == 5e5 && !c.apply_layernorm_1p);
	c.rope_scaling = ROPE_SCALING_LINEAR;
	c.rope_factor = 2;
	not_of("olmo2", &c, "scaled positions of olmo2 are not supported");
	c = family_config("gpt_neox");
	CHECK(c.use_parallel_residual && c.mlp_bias && c.qkv_bias && c.proj_bias);
	CHECK(model_rotary_dim(&c) == 2 && c.activation == ACTIVATION_GELU_ERF);
	test_turns(&c);
	c.num_query_groups = 2;
	not_of("gpt_neox", &c, "gpt_neox has 'num-query-groups 4', not 'num-query-groups 2'");
}

/* The same of families that only combine what others have. */
static void
test_combinations(void)
{
	struct model_config c = family_config("arcee");
	struct err e;

	CHECK(c.activation == ACTIVATION_RELU2 && c.qkv_bias && c.proj_bias && !c.mlp_bias);
	c = family_config("nemotron");
	CHECK(c.apply_layernorm_1p && model_norm_means(&c) && model_rotary_dim(&c) == 4);
	c = family_config("starcoder2");
	CHECK(c.qkv_bias && c.proj_bias && c.mlp_bias && model_norm_means(&c));
	CHECK(c.hidden_dropout == 0.1 && c.window_size == 9);
	c.mlp_bias = false;
	not_of("starcoder2", &c,
	    "starcoder2 has 'linear-biases qkv proj mlp', not 'linear-biases qkv proj'");
	c = family_config("seed_oss");
	CHECK(!c.qkv_bias && c.proj_bias && c.kv_channels == 8);
	c = family_config("gemma");
	CHECK(c.apply_layernorm_1p && c.scale_embeddings_by_hidden_size && !model_post_norm(&c));
	CHECK(c.activation == ACTIVATION_GEGLU_TANH);
	c = family_config("olmoe");
	CHECK(c.num_experts == 5 && c.qk_layernorm_hidden_dim && c.moe_router_pre_softmax);
	c = family_config("qwen2_moe");
	CHECK(c.moe_shared_expert_gate && c.moe_shared_expert_intermediate_size == 24);
	CHECK(c.qkv_bias && !c.proj_bias && c.moe_router_pre_softmax && !layer_has_experts(&c, 1));
	CHECK(layer_window(&c, 0) == 9 && layer_window(&c, 2) == 0);
	c.moe_shared_expert_gate = false;
	not_of("qwen2_moe", &c, "qwen2_moe needs 'moe-shared-expert-gate'");
	CHECK(read_text("{\"model_type\": \"qwen2_moe\", " SIZES ", \"num_key_value_heads\": 8, "
			"\"use_sliding_window\": true}",
	    &c));
	CHECK(layer_window(&c, 0) == 4096 && layer_window(&c, 1) == 0);
	c = family_config("gpt_oss");
	CHECK(c.softmax_type == SOFTMAX_LEARNABLE && c.activation == ACTIVATION_QUICK_GEGLU);
	CHECK(c.activation_func_clamp_value == 2 && c.glu_linear_offset == 1);
	CHECK(c.mlp_bias && c.qkv_bias && c.proj_bias && c.moe_aux_loss_coeff == 0.9);
	CHECK(layer_window(&c, 0) == 9 && layer_window(&c, 1) == 0);
	CHECK(read_text("{\"model_type\": \"gpt_oss\", " SIZES "}", &c));
	CHECK(c.rope_scaling == ROPE_SCALING_YARN && c.rope_factor == 32 && c.yarn_unrounded_range);
	CHECK(c.rotary_base == 150000 && c.kv_channels == 64 && c.window_size == 128);
	CHECK(c.moe_aux_loss_coeff == 0);
	c.softmax_type = SOFTMAX_OFF_BY_ONE;
	not_of(
	    "gpt_oss", &c, "gpt_oss has 'softmax-type learnable', not 'softmax-type off-by-one'");
	c = family_config("qwen3_next");
	CHECK(c.attention_output_gate && c.apply_layernorm_1p && c.moe_shared_expert_gate);
	CHECK(layer_is_linear(&c, 0) && !layer_is_linear(&c, 1) && c.linear_num_key_heads == 2);
	CHECK(read_text("{\"model_type\": \"qwen3_next\", " SIZES "}", &c));
	CHECK(c.rotary_percent == 0.25 && c.num_experts == 512 && c.linear_num_value_heads == 32);
	CHECK(layer_is_linear(&c, 0) && layer_is_linear(&c, 1));
	c.attention_output_gate = false;
	not_of("qwen3_next", &c, "qwen3_next needs 'attention-output-gate'");
	c = family_config("ministral");
	CHECK(layer_window(&c, 0) == 9 && layer_window(&c, 1) == 0);
	c = family_config("olmo3");
	CHECK(c.norm_placement == NORM_PLACEMENT_POST && c.rope_scaling == ROPE_SCALING_YARN);
	CHECK(layer_window(&c, 2) == 9 && layer_window(&c, 3) == 0);
	CHECK(layer_rope_table(&c, 2) == ROPE_TABLE_WINDOW);
	c = family_config("smollm3");
	CHECK(layer_rope_table(&c, 2) == ROPE_TABLE_NONE && layer_window(&c, 2) == 9);
	CHECK(layer_rope_table(&c, 3) == ROPE_TABLE_MODEL && layer_window(&c, 3) == 0);
	c = family_config("exaone4");
	CHECK(layer_rope_table(&c, 3) == ROPE_TABLE_NONE && layer_window(&c, 3) == 0);
	CHECK(layer_rope_table(&c, 0) == ROPE_TABLE_MODEL && layer_window(&c, 0) == 9);
	CHECK(c.norm_placement == NORM_PLACEMENT_POST && !c.qk_layernorm_hidden_dim);
	c = family_config("granite");
	CHECK(c.embedding_multiplier == 12 && c.residual_multiplier == 0.22);
	CHECK(c.logits_scaling == 8 && model_score_scale(&c) == 0.3);
	CHECK(read_text("{\"model_type\": \"granite\", " SIZES "}", &c));
	CHECK(c.embedding_multiplier == 0 && model_score_scale(&c) == 1);
	c.attention_multiplier = 0;
	CHECK(family_of(&c, NULL) == family_find("llama"));
	c = family_config("ministral3");
	CHECK(c.query_scaling_beta == 0.1 && model_longest(&c) == 12);
	CHECK(model_check_length(&c, 12, NULL) == 0);
	CHECK(model_check_length(&c, 13, &e) < 0);
	CHECK_STR(e.msg,
	    "a sequence of 13: must be at most --rope-original-positions 12 with "
	    "--query-scaling-beta: queries beyond these are scaled, which is not supported");
}

/* Command R7B: its pairs are interleaved in the file too, and its logits are multiplied. */
static void
test_cohere(void)
{
	struct model_config c = family_config("cohere2");
	struct param *p;
	int n = model_params(&c, &p);

	CHECK(c.use_parallel_residual && c.shared_parallel_norm && c.norm_without_bias);
	CHECK(model_norm_means(&c) && !model_norm_biases(&c) && c.logits_scaling == 4);
	CHECK(layer_rope_table(&c, 3) == ROPE_TABLE_NONE && layer_window(&c, 3) == 0);
	CHECK(layer_rope_table(&c, 0) == ROPE_TABLE_MODEL && layer_window(&c, 0) == 9);
	for (int i = 0; i < n; i++) {
		struct family_place at;
		struct err e;

		CHECK(!strstr(p[i].name, "pre_mlp_layernorm") && !strstr(p[i].name, ".bias"));
		CHECK(family_place(family_find("cohere2"), &c, &p[i], &at, &e) == 0 && !at.rotary);
	}
	free(p);
	for (int i = 1; i < 997; i++) {
		c.logits_scaling = 1 / (i / 997.0);
		CHECK(family_check(family_find("cohere2"), &c, NULL) == 0);
	}
	c.logits_scaling = 4;
	c.rotary_interleaved = false;
	not_of("cohere2", &c, "cohere2 needs 'rotary-interleaved'");
}

/* Positions of Phi-3: those before the scaling are said at the top of the file, or 4096. */
static void
test_longrope(void)
{
	struct model_config c;

	round_trip("tests/fuzz/corpus/config_json/longrope.json", "phi3", &c);
	CHECK(c.rope_scaling == ROPE_SCALING_LONGROPE && c.rope_original_positions == 32);
	CHECK(c.longrope_short_factor.count == 3 && c.longrope_short_factor.factor[1] == 1.25);
	CHECK(c.longrope_long_factor.count == 3 && c.longrope_long_factor.factor[2] == 60);
	CHECK(c.longrope_attention_factor == 1.1875);
	CHECK(
	    read_text("{\"model_type\": \"phi3\", " SIZES ", \"max_position_embeddings\": 131072, "
		      "\"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1, 2], "
		      "\"long_factor\": [3, 4.5], "
		      "\"original_max_position_embeddings\": 7}}",
		&c));
	CHECK(c.rope_original_positions == 4096 && c.longrope_long_factor.factor[1] == 4.5);
	CHECK(fabs(c.longrope_attention_factor - sqrt(1 + log(32) / log(4096))) < 1e-15);
}

/* A tensor of all experts of a layer, with gate above up in each. */
static void
test_stacked(void)
{
	const struct model_config c = family_config("qwen3_moe");
	struct family f = *family_find("qwen3_moe");
	struct param *p;
	int n = model_params(&c, &p), found = 0;

	f.names = f.other_names;
	for (int i = 0; i < n; i++) {
		struct family_place at;
		struct slice slice;
		struct err e;

		CHECK(family_place(&f, &c, &p[i], &at, &e) == 0);
		if (!param_is(&p[i], "mlp.experts.%d.linear_up.weight") || p[i].expert != 3 ||
		    p[i].layer != 2)
			continue;
		found++;
		CHECK_STR(at.name, "model.layers.2.mlp.experts.gate_up_proj");
		CHECK(at.ndim == 3 && at.shape[0] == 5 && at.shape[1] == 40 && at.shape[2] == 32);
		slice = family_stored_slice(&at, &(struct slice){ 2, { 7, 1 }, { 2, 30 } });
		CHECK(slice.start[0] == 3 && slice.start[1] == 27 && slice.start[2] == 1);
		CHECK(slice.count[0] == 1 && slice.count[1] == 2 && slice.count[2] == 30);
	}
	CHECK(found == 1);
	free(p);
}

/* Which layers have experts, and what those are. */
static void
test_experts(void)
{
	struct model_config c = family_config("mixtral"), q;
	struct err e;

	CHECK(c.num_experts == 3 && c.moe_router_topk == 2 && c.moe_ffn_hidden_size == 56);
	CHECK(!c.moe_router_pre_softmax && c.moe_aux_loss_coeff == 0.02 && c.rotary_base == 1e6);
	CHECK(family_of(&c, &e) == family_find("mixtral"));
	c.ffn_hidden_size = 999;
	CHECK(family_of(&c, &e) == family_find("mixtral"));
	not_of("llama", &c, "llama has no 'num-experts 3'");
	c.moe_shared_expert_intermediate_size = 8;
	not_of("mixtral", &c, "mixtral has no 'moe-shared-expert-intermediate-size 8'");
	c = family_config("llama");
	not_of("mixtral", &c, "the number of experts must be at least 1");
	c = family_config("qwen3_moe");
	CHECK(c.num_experts == 5 && c.moe_ffn_hidden_size == 20 && c.ffn_hidden_size == 56);
	CHECK(layer_has_experts(&c, 0) && !layer_has_experts(&c, 1) && layer_has_experts(&c, 2));
	not_of("mixtral", &c, "mixtral has 'ffn-hidden-size 20', not 'ffn-hidden-size 56'");
	CHECK(read_text("{\"model_type\": \"qwen3_moe\", " SIZES ", \"num_key_value_heads\": 2, "
			"\"decoder_sparse_step\": 2, \"num_local_experts\": 9}",
	    &q));
	CHECK(q.num_experts == 9 && q.moe_router_topk == 8 && q.moe_router_pre_softmax);
	CHECK(!layer_has_experts(&q, 0) && layer_has_experts(&q, 1));
	test_stacked();
}

/* Each family's config survives reading and writing; a model without a family gets the reason. */
static void
test_families(void)
{
	struct model_config l = family_config("llama"), g = family_config("gpt2"), c;

	CHECK(l.num_query_groups == 4 && l.kv_channels == 8 && l.pad_token_id == -1);
	CHECK(l.eos_token_id.count == 1 && l.eos_token_id.id[0] == 2);
	test_pairs(l);
	c = l;
	c.rotary_interleaved = true;
	CHECK(family_of(&c, NULL) == family_find("llama"));
	CHECK(g.max_position_embeddings == 96 && !g.untie_embeddings_and_output_weights &&
	    g.attention_dropout == 0);
	CHECK(family_find("t5") == NULL);
	c = family_config("mistral");
	CHECK(c.window_size == 32 && c.kv_channels == 6 && c.rotary_base == 1e6 && !c.qkv_bias);
	c = family_config("qwen2");
	CHECK(c.qkv_bias && !c.proj_bias && !c.window_size && c.kv_channels == 8 &&
	    !c.untie_embeddings_and_output_weights);
	c = family_config("qwen3");
	CHECK(c.qk_layernorm && !c.qkv_bias && c.window_size == 9 && c.kv_channels == 12);
	c = family_config("phi3");
	CHECK(c.rotary_percent == 0.75 && model_rotary_dim(&c) == 6 && !c.window_size);
	not_of("llama", &c, "llama has 'rotary-percent 1.0', not 'rotary-percent 0.75'");
	c = l;
	c.proj_bias = true;
	CHECK(family_of(&c, NULL) == family_find("seed_oss"));
	not_of("qwen3", &l, "qwen3 needs 'qk-layernorm'");
	c.proj_bias = false;
	c.qkv_bias = true;
	c.attn_logit_softcapping = 50;
	no_family(&c, "qwen2 has no 'attn-logit-softcapping 50.0'");
	c = l;
	c.use_parallel_residual = true;
	no_family(&c, "llama has no 'use-parallel-residual'");
	c = g;
	c.window_size = 8;
	no_family(&c, "gpt2 has no 'window-size 8'");
	c = g;
	c.activation = ACTIVATION_RELU2;
	no_family(&c, "gpt2 has 'activation gelu', not 'activation squared-relu'");
	c = l;
	c.num_attention_heads = c.num_query_groups = 5;
	CHECK(family_of(&c, NULL) == family_find("mistral"));
}

/* A window that a config.json does not name is that of the first Mistral, and null is none; the
 * layers of a Ministral have it where layer_types says so. In the Qwen families it applies only
 * where use_sliding_window says so, from the layer max_window_layers on, or in the layers that
 * layer_types lists. */
static void
test_sliding_window(void)
{
	static const struct {
		const char *family, *member;
		int64_t window;
	} cases[] = {
		{ "mistral", "", 4096 },
		{ "mistral", ", \"sliding_window\": null", 0 },
		{ "mistral", ", \"sliding_window\": 7", 7 },
		{ "mistral", ", \"sliding_window\": 7, \"layer_types\": null", 7 },
		{ "mistral",
		    ", \"sliding_window\": 7, \"layer_types\": "
		    "[\"full_attention\", \"full_attention\"]",
		    0 },
		{ "mistral",
		    ", \"sliding_window\": null, \"layer_types\": "
		    "[\"full_attention\", \"full_attention\"]",
		    0 },
		{ "mistral", ", \"layer_types\": [\"sliding_attention\", \"sliding_attention\"]",
		    4096 },
		{ "qwen2", ", \"sliding_window\": 7, \"max_window_layers\": 0", 0 },
		{ "qwen2", ", \"use_sliding_window\": true", 0 },
		{ "qwen2", ", \"use_sliding_window\": true, \"max_window_layers\": 0", 4096 },
		{ "qwen3", ", \"use_sliding_window\": true, \"sliding_window\": null", 0 },
		{ "qwen3",
		    ", \"use_sliding_window\": true, \"sliding_window\": 7, \"layer_types\": "
		    "[\"sliding_attention\", \"sliding_attention\"]",
		    7 },
		{ "qwen3",
		    ", \"use_sliding_window\": true, \"sliding_window\": 7, \"layer_types\": "
		    "[\"full_attention\", \"full_attention\"]",
		    0 },
		{ "qwen2",
		    ", \"use_sliding_window\": true, \"sliding_window\": 0, \"layer_types\": "
		    "[\"full_attention\", \"full_attention\"]",
		    0 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct model_config c = { 0 };
		char json[400];

		snprintf(json, sizeof json,
		    "{\"model_type\": \"%s\", " SIZES ", \"num_key_value_heads\": 2%s}",
		    cases[i].family, cases[i].member);
		CHECK(read_text(json, &c));
		CHECK(c.window_size == cases[i].window);
	}
}

/* The first max_window_layers layers of Qwen are without the window. */
static void
test_window_layers(void)
{
	struct model_config c = { 0 };

	CHECK(read_text("{\"model_type\": \"qwen2\", " SIZES ", \"num_key_value_heads\": 2, "
			"\"use_sliding_window\": true, \"max_window_layers\": 1}",
	    &c));
	CHECK(layer_window(&c, 0) == 0 && layer_window(&c, 1) == 4096);
}

/* Those that layer_types names in a Mistral, which is a Ministral then. */
static void
test_ministral(void)
{
	struct model_config c = { 0 };
	struct err e;

	CHECK(read_text("{\"model_type\": \"mistral\", " SIZES ", \"num_key_value_heads\": 2, "
			"\"sliding_window\": 8, \"layer_types\": [\"full_attention\", "
			"\"sliding_attention\"]}",
	    &c));
	CHECK(layer_window(&c, 0) == 0 && layer_window(&c, 1) == 8);
	CHECK(family_of(&c, &e) == family_find("ministral"));
	not_of("mistral", &c, "mistral has no 'window-attn-skip-freq [0,1]'");
}

/* The positions before they were stretched: those at the top of the file before those of the
 * dictionary, or all of them. Where layers have dictionaries of their own, the top is not read. */
static void
test_original_positions(void)
{
	static const struct {
		const char *type, *top, *dict;
		int64_t original;
	} cases[] = {
		{ "llama3", "", "", 256 },
		{ "llama3", "", ", \"original_max_position_embeddings\": 64", 64 },
		{ "llama3", ", \"original_max_position_embeddings\": 16", "", 16 },
		{ "llama3", ", \"original_max_position_embeddings\": 16",
		    ", \"original_max_position_embeddings\": 64", 16 },
		{ "yarn", "", "", 256 },
		{ "yarn", ", \"original_max_position_embeddings\": 16", "", 16 },
		{ "yarn",
		    ", \"original_max_position_embeddings\": 16, \"transformers_version\": "
		    "\"5.2.0\"",
		    ", \"original_max_position_embeddings\": 64", 16 },
		{ "llama3",
		    ", \"original_max_position_embeddings\": 64, \"transformers_version\": "
		    "\"4.57.3\"",
		    ", \"original_max_position_embeddings\": 64", 64 },
		{ "llama3",
		    ", \"original_max_position_embeddings\": 16, \"transformers_version\": 4",
		    ", \"original_max_position_embeddings\": 64", 16 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct model_config c = { 0 };
		char json[600];

		snprintf(json, sizeof json,
		    "{\"model_type\": \"llama\", " SIZES ", \"max_position_embeddings\": 256, "
		    "\"rope_scaling\": {\"rope_type\": \"%s\", \"factor\": 8.0%s}%s}",
		    cases[i].type, cases[i].dict, cases[i].top);
		CHECK(read_text(json, &c));
		CHECK(c.rope_original_positions == cases[i].original);
	}
}

/* Which dictionary counts, and which member of it: as in transformers 5.24. */
static void
test_rope(void)
{
	static const struct {
		const char *family, *members;
		enum rope_scaling scaling;
		double base, factor;
	} cases[] = {
		{ "llama", "", ROPE_SCALING_NONE, 1e4, 0 },
		{ "llama", "\"rope_theta\": 5.0", ROPE_SCALING_NONE, 5, 0 },
		{ "llama", "\"rope_theta\": \"x\", \"rope_parameters\": {\"rope_theta\": 7.0}",
		    ROPE_SCALING_NONE, 7, 0 },
		{ "llama",
		    "\"rope_scaling\": false, \"rope_parameters\": {\"type\": \"linear\", "
		    "\"factor\": 3.0}",
		    ROPE_SCALING_LINEAR, 1e4, 3 },
		{ "llama",
		    "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}, "
		    "\"rope_parameters\": {\"rope_theta\": 7.0, \"factor\": 3.0}",
		    ROPE_SCALING_LINEAR, 1e4, 2 },
		{ "llama", "\"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [1, 1, 2]}",
		    ROPE_SCALING_NONE, 1e4, 0 },
		{ "mixtral", "", ROPE_SCALING_NONE, 1e6, 0 },
		{ "mixtral", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}",
		    ROPE_SCALING_LINEAR, 1e6, 2 },
		{ "gpt_neox", "\"rotary_pct\": 0.5, \"rope_theta\": 5.0", ROPE_SCALING_NONE, 1e4,
		    0 },
		{ "gpt_neox", "\"rotary_pct\": 1, \"rotary_emb_base\": 5.0", ROPE_SCALING_NONE, 5,
		    0 },
		{ "gemma3_text", "", ROPE_SCALING_NONE, 1e6, 0 },
		{ "gemma3_text", "\"rope_parameters\": {\"rope_theta\": 7.0}", ROPE_SCALING_NONE,
		    1e6, 0 },
		{ "gemma3_text", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}",
		    ROPE_SCALING_NONE, 1e6, 0 },
		{ "gemma3_text",
		    "\"rope_theta\": 9.0, \"rope_parameters\": {\"full_attention\": "
		    "{\"rope_type\": "
		    "\"linear\", \"factor\": 4.0}}, \"rope_scaling\": {\"factor\": 2.0}",
		    ROPE_SCALING_LINEAR, 9, 2 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct model_config c = { 0 };
		char json[700];

		snprintf(json, sizeof json,
		    "{\"model_type\": \"%s\", " SIZES
		    ", \"num_key_value_heads\": 2, \"sliding_window_pattern\": 2%s%s}",
		    cases[i].family, *cases[i].members ? ", " : "", cases[i].members);
		CHECK(read_text(json, &c));
		CHECK(c.rope_scaling == cases[i].scaling && c.rotary_base == cases[i].base);
		CHECK(c.rope_scaling == ROPE_SCALING_NONE || c.rope_factor == cases[i].factor);
	}
}

/* Yarn's members that Python reads by rules of its own. */
static void
test_yarn(void)
{
	struct model_config c = { 0 };

	CHECK(read_text("{\"model_type\": \"llama\", " SIZES ", \"max_position_embeddings\": 64, "
			"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": null, "
			"\"original_max_position_embeddings\": 16, \"truncate\": null, "
			"\"beta_fast\": 0, \"attention_factor\": -2.0}}",
	    &c));
	CHECK(c.rope_factor == 4 && c.yarn_unrounded_range && c.yarn_beta_fast == 32);
	CHECK(c.yarn_attention_factor == 2);
}

/* What is said of members that nobody reads; "" of those that change nothing. */
static void
test_members(void)
{
	static const struct {
		const char *members, *notes;
	} cases[] = {
		{ "\"use_cache\": false, \"temperature\": 0.6, \"attention_bias\": false", "" },
		{ "\"time_step_limit\": [0.0, Infinity], \"x\": NaN, \"hidden_act\": \"swish\"",
		    "PATH: not read: time_step_limit, x\n" },
		{ "\"layer_types\": [\"full_attention\"], \"rope_scaling\": {\"rope_type\": "
		  "\"default\", \"unheard_of\": 1}",
		    "PATH: not read: layer_types, rope_scaling.unheard_of\n" },
		{ "\"rope_scaling\": {\"type\": \"mrope\", \"mrope_section\": [1, 1, 2]}",
		    "PATH: the positions of text are one number here, not three (mrope): its "
		    "angles are those\n" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char json[700], path[] = "/tmp/family-test-XXXXXX", want[300];
		int fd = mkstemp(path), skip = !strncmp(cases[i].notes, "PATH", 4) ? 4 : 0;
		struct model_config c;
		struct config_rest rest;
		struct err e;

		CHECK(fd >= 0);
		close(fd);
		snprintf(json, sizeof json, "{\"model_type\": \"llama\", " SIZES ", %s}",
		    cases[i].members);
		snprintf(want, sizeof want, "%s%s", skip ? path : "", cases[i].notes + skip);
		CHECK(outfile_write(path, json, strlen(json), &e) == 0);
		CHECK(family_read_config(path, &c, &rest, &e) == family_find("llama"));
		CHECK_STR(rest.notes.len ? rest.notes.buf : "", want);
		config_rest_release(&rest);
		unlink(path);
	}
}

/* The text's part of a model of images, to which the outer object lends what it lacks. */
static void
test_nested(void)
{
	struct model_config c = { 0 };

	CHECK(read_text("{\"model_type\": \"mistral3\", \"tie_word_embeddings\": true, "
			"\"bos_token_id\": 7, \"eos_token_id\": 8, \"vision_config\": {}, "
			"\"text_config\": {\"model_type\": \"mistral\", \"eos_token_id\": 9, " SIZES
			"}}",
	    &c));
	CHECK(!c.untie_embeddings_and_output_weights && c.bos_token_id == 7);
	CHECK(c.eos_token_id.count == 1 && c.eos_token_id.id[0] == 9 && c.window_size == 4096);
}

/* What a config.json says, or why it is refused. */
static const struct {
	const char *json, *reason;
} refusals[] = {
	{ "[]", "not a JSON object" },
	{ "{}", "\"model_type\" is missing" },
	{ "{\"model_type\": \"t5\"}",
	    "\"model_type\" is 't5'; known are llama, gpt2, mistral, mixtral, qwen2, qwen3, "
	    "qwen3_moe, phi3, gemma2, gemma3_text, olmo2, gpt_neox, arcee, nemotron, "
	    "starcoder2, seed_oss, gemma, olmoe, ministral, olmo3, smollm3, exaone4, granite, "
	    "ministral3, cohere2, qwen2_moe, deepseek_v2, deepseek_v3, gpt_oss, "
	    "qwen3_next" },
	{ "{\"model_type\": \"deepseek_v2\", \"topk_method\": \"noaux_tc\"}",
	    "\"topk_method\" is 'noaux_tc'; deepseek_v2 has 'greedy' and 'group_limited_greedy'" },
	{ "{\"model_type\": \"deepseek_v2\", \"scoring_func\": \"sigmoid\"}",
	    "\"scoring_func\" is 'sigmoid'; deepseek_v2 has 'softmax'" },
	{ "{\"model_type\": \"deepseek_v2\", \"norm_topk_prob\": true}",
	    "\"norm_topk_prob\" true is not supported: weights of experts are parts of the "
	    "softmax" },
	{ "{\"model_type\": \"deepseek_v2\", \"topk_method\": \"group_limited_greedy\", "
	  "\"n_group\": 4, \"topk_group\": 5}",
	    "\"n_group\" 4 and \"topk_group\" 5: must be at least 1, the second at most the "
	    "first" },
	{ "{\"model_type\": \"deepseek_v3\", \"topk_method\": \"greedy\"}",
	    "\"topk_method\" is 'greedy'; deepseek_v3 has 'noaux_tc'" },
	{ "{\"model_type\": \"deepseek_v3\", \"norm_topk_prob\": false}",
	    "\"norm_topk_prob\" false is not supported: weights of experts are divided by their "
	    "sum" },
	{ "{\"model_type\": \"deepseek_v3\", \"topk_group\": 9}",
	    "\"n_group\" 8 and \"topk_group\" 9: must be at least 1, the second at most the "
	    "first" },
	{ "{\"model_type\": \"deepseek_v3\", \"num_key_value_heads\": 4}",
	    "--multi-latent-attention: is not supported with --num-query-groups" },
	{ "{\"model_type\": \"gpt_oss\", " SIZES ", \"swiglu_alpha\": 1.5}",
	    "\"swiglu_alpha\" is 1.5; only 1.702 is supported" },
	{ "{\"model_type\": \"gpt_oss\", " SIZES ", \"swiglu_limit\": 0}",
	    "\"swiglu_limit\" is 0; must be above 0" },
	{ "{\"model_type\": \"gpt_oss\", " SIZES ", \"sliding_window\": null}",
	    "\"sliding_window\" is null; gpt_oss has a window" },
	{ "{\"model_type\": \"qwen2_moe\", " SIZES ", \"shared_expert_intermediate_size\": 0}",
	    "\"shared_expert_intermediate_size\" must be at least 1" },
	{ "{\"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 0}",
	    "the number of experts must be at least 1" },
	{ "{\"model_type\": \"mixtral\", \"vocab_size\": 90, \"hidden_size\": 32, "
	  "\"intermediate_size\": 56, \"num_attention_heads\": 8, \"num_hidden_layers\": 5, "
	  "\"num_local_experts\": 65536}",
	    "the model is larger than any this program can hold: check --num-layers, "
	    "--hidden-size, --num-experts and --vocab-size" },
	{ "{\"model_type\": \"qwen3_moe\", " SIZES ", \"mlp_only_layers\": 3}",
	    "\"mlp_only_layers\" must be a list of layers" },
	{ "{\"model_type\": \"qwen3_moe\", " SIZES ", \"mlp_only_layers\": [1, -1]}",
	    "\"mlp_only_layers\" must be a list of layers" },
	{ "{\"model_type\": \"qwen3_moe\", " SIZES ", \"decoder_sparse_step\": 0}",
	    "\"decoder_sparse_step\" is 0; must be at least 1" },
	{ "{\"model_type\": \"llama\"}", "\"num_attention_heads\" must be at least 1" },
	{ "{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}",
	    "\"activation_function\" is 'relu'; 'gelu_new' and 'gelu' are known" },
	{ "{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}",
	    "only \"scale_attn_weights\": true without \"scale_attn_by_inverse_layer_idx\" is "
	    "supported" },
	{ "{\"model_type\": \"gpt2\", \"n_layer\": 2.5}", "\"n_layer\" must be an integer" },
	{ "{\"model_type\": \"llama\", \"mlp_bias\": 1}", "\"mlp_bias\" must be true or false" },
	{ "{\"model_type\": \"llama\", \"num_attention_heads\": 4, \"hidden_act\": \"gelu\"}",
	    "\"hidden_act\" is 'gelu'; llama has 'silu'" },
	{ "{\"model_type\": \"gpt2\", \"n_embd\": 4611686018427387904}",
	    "\"n_embd\" is 4611686018427387904; must be from 1 to 1048576" },
	{ "{\"model_type\": \"gpt2\", \"tie_word_embeddings\": false}",
	    "\"tie_word_embeddings\" is false; gpt2 has a tied output" },
	{ "{\"model_type\": \"gpt2\", \"n_head\": 7}",
	    "\"n_embd\" must be a multiple of \"n_head\"" },
	{ "{\"model_type\": \"gpt2\", \"resid_pdrop\": 2.5}",
	    "--hidden-dropout 2.5: must be from 0 to 0.999" },
	{ "{\"model_type\": \"gpt2\", \"eos_token_id\": [1, \"x\"]}",
	    "\"eos_token_id\" must be an integer or a list of integers" },
	{ "{\"model_type\": \"gpt2\", \"eos_token_id\": [1, -2]}",
	    "\"eos_token_id\": -2: a token id must be at least 0" },
	{ "{\"model_type\": \"llama\", \"num_attention_heads\": 4, \"rope_scaling\": "
	  "{\"rope_type\": \"dynamic\", \"factor\": 2.0}}",
	    "rope type 'dynamic' is not supported; default, linear, llama3, yarn and longrope "
	    "are" },
	{ "{\"model_type\": \"phi3\", \"num_attention_heads\": 4, \"rope_scaling\": "
	  "{\"type\": \"longrope\"}}",
	    "\"short_factor\" must be a list of at most 256 numbers" },
	{ "{\"model_type\": \"llama\", \"num_attention_heads\": 4, \"rope_scaling\": "
	  "{\"rope_type\": \"yarn\"}}",
	    "rope scaling needs \"factor\" > 0" },
	{ "{\"model_type\": \"llama\", " SIZES ", \"max_position_embeddings\": 64, "
	  "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0, \"beta_fast\": 1}}",
	    "--yarn-beta-slow 1: must be above 0 and below --yarn-beta-fast 1; 1 and 32 are "
	    "usual" },
	{ "{\"model_type\": \"mistral\", \"num_attention_heads\": 4, \"num_hidden_layers\": "
	  "9000000000000000000}",
	    "--hidden-size 0: must be at least 1" },
	{ "{\"model_type\": \"mistral\", \"num_attention_heads\": 4, \"sliding_window\": 0}",
	    "\"sliding_window\" is 0; must be from 1 to 2^30, or null" },
	{ "{\"model_type\": \"gemma2\", " SIZES ", \"attn_logit_softcapping\": 0}",
	    "\"attn_logit_softcapping\" is 0; must be above 0, or null" },
	{ "{\"model_type\": \"gemma2\", " SIZES ", \"use_bidirectional_attention\": true}",
	    "\"use_bidirectional_attention\" is not supported" },
	{ "{\"model_type\": \"llama\", " SIZES ", \"per_layer_config\": {\"0\": {}}}",
	    "\"per_layer_config\" is set, which is not supported" },
	{ "{\"model_type\": \"llama\", " SIZES ", \"rope_scaling\": \"linear\"}",
	    "\"rope_scaling\" must be a dictionary" },
	{ "{\"model_type\": \"llama\", " SIZES ", \"rope_scaling\": {\"rope_type\": \"yarn\", "
	  "\"factor\": 4.0, \"attention_factor\": 0.0}}",
	    "\"attention_factor\" is 0: no position would count" },
	{ "{\"model_type\": \"gemma3_text\", " SIZES
	  ", \"sliding_window_pattern\": 2, \"rope_scaling\": {\"rope_type\": "
	  "\"linear\", \"factor\": 8.0}, \"rope_parameters\": {\"factor\": 2.0}}",
	    "\"rope_scaling\" and \"full_attention\" of \"rope_parameters\" must be "
	    "dictionaries" },
	{ "{\"model_type\": \"gemma3_text\", " SIZES ", \"sliding_window_pattern\": 0}",
	    "\"sliding_window_pattern\" is 0; must be from 1 to 128" },
	{ "{\"model_type\": \"gemma3_text\", " SIZES ", \"rope_parameters\": {"
	  "\"full_attention\": {\"rope_type\": \"default\"}, \"sliding_attention\": "
	  "{\"rope_type\": \"linear\", \"factor\": 2.0}}}",
	    "\"sliding_attention\": scaled positions are not supported there" },
	{ "{\"model_type\": \"olmo2\", " SIZES ", \"rope_scaling\": {\"type\": \"linear\", "
	  "\"factor\": 2.0}}",
	    "scaled positions of olmo2 are not supported" },
	{ "{\"model_type\": \"olmoe\", " SIZES ", \"clip_qkv\": 0.5}",
	    "\"clip_qkv\" is set, which is not supported" },
	{ "{\"model_type\": \"olmo3\", " SIZES ", \"sliding_window\": null}",
	    "\"sliding_window\" is null; olmo3 has a window" },
	{ "{\"model_type\": \"olmo3\", " SIZES ", \"rope_theta\": 10000, "
	  "\"transformers_version\": \"4.57.1\"}",
	    "\"rope_theta\" is 10000; to transformers 5 layers with the window have the base "
	    "500000: say both in \"rope_parameters\", by \"full_attention\" and "
	    "\"sliding_attention\"" },
	{ "{\"model_type\": \"olmo3\", " SIZES ", \"rope_parameters\": {\"full_attention\": {}, "
	  "\"sliding_attention\": {\"rope_theta\": 0.0}}}",
	    "\"rope_theta\" of \"sliding_attention\" must be at least 1" },
	{ "{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layers\": [1]}",
	    "\"no_rope_layers\" must be a list with 0 or 1 for each layer, for at most 128" },
	{ "{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layer_interval\": 0}",
	    "\"no_rope_layer_interval\" is 0; must be from 1 to 128" },
	{ "{\"model_type\": \"exaone4\", " SIZES ", \"sliding_window_pattern\": \"LLLG\"}",
	    "\"sliding_window_pattern\" must be an integer" },
	{ "{\"model_type\": \"granite\", " SIZES ", \"residual_multiplier\": 0}",
	    "\"residual_multiplier\" is 0; must be above 0" },
	{ "{\"model_type\": \"cohere2\", " SIZES ", \"logit_scale\": -1}",
	    "\"logit_scale\" is -1; must be above 0" },
	{ "{\"model_type\": \"cohere2\", " SIZES ", \"sliding_window_pattern\": 0}",
	    "\"sliding_window_pattern\" is 0; must be from 1 to 128" },
	{ "{\"model_type\": \"cohere2\", " SIZES ", \"sliding_window\": null}",
	    "\"sliding_window\" is null; cohere2 has a window" },
	{ "{\"model_type\": \"ministral3\", " SIZES "}",
	    "ministral3 needs positions scaled by yarn" },
	{ "{\"model_type\": \"ministral3\", " SIZES
	  ", \"rope_parameters\": {\"rope_type\": \"yarn\", "
	  "\"factor\": 2.0}}",
	    "\"llama_4_scaling_beta\" is missing beside the scaling of positions" },
	{ "{\"model_type\": \"qwen3\", " SIZES ", \"use_sliding_window\": true, "
	  "\"layer_types\": [\"full_attention\"]}",
	    "\"layer_types\" must be a list with a word for each layer, for at most 128" },
	{ "{\"model_type\": \"qwen3\", " SIZES ", \"use_sliding_window\": true, "
	  "\"layer_types\": [\"full_attention\", \"chunked_attention\"]}",
	    "\"layer_types\" has 'chunked_attention'; full_attention and sliding_attention are "
	    "known" },
	{ "{\"model_type\": \"mistral\", " SIZES ", \"sliding_window\": null, \"layer_types\": "
	  "[\"full_attention\", \"sliding_attention\"]}",
	    "\"layer_types\" has 'sliding_attention', but \"sliding_window\" is null" },
	{ "{\"model_type\": \"llama\", " SIZES ", \"transformers_version\": \"4.57.3\", "
	  "\"original_max_position_embeddings\": 16, \"rope_scaling\": {\"rope_type\": "
	  "\"llama3\", \"factor\": 8.0, \"original_max_position_embeddings\": 64}}",
	    "\"original_max_position_embeddings\" is 16 for transformers 5, which reads it at the "
	    "top, and 64 for transformers 4.57.3, which wrote the file" },
	{ "{\"model_type\": \"phi3\", " SIZES ", \"rope_parameters\": {\"rope_type\": "
	  "\"default\", \"partial_rotary_factor\": 0.25}}",
	    "\"partial_rotary_factor\" is 0.25; must leave an even number of \"head_dim\" 4 to "
	    "rotate" },
	{ "{\"model_type\": \"phi3\", " SIZES ", \"partial_rotary_factor\": 1.5}",
	    "--rotary-percent 1.5: must be above 0, at most 1" },
	{ "{\"model_type\": \"phi3\", " SIZES ", \"rope_scaling\": {\"type\": \"linear\", "
	  "\"factor\": 2.0}}",
	    "phi3 scales positions by longrope alone" },
};

/* Each bad config.json has its reason. */
static void
test_refusals(void)
{
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		struct model_config c;

		CHECK(!read_text(refusals[i].json, &c));
		CHECK_STR(reason.msg, refusals[i].reason);
	}
}

int
main(void)
{
	test_families();
	test_recipes();
	test_combinations();
	test_cohere();
	test_longrope();
	test_experts();
	test_sliding_window();
	test_window_layers();
	test_ministral();
	test_original_positions();
	test_rope();
	test_yarn();
	test_members();
	test_nested();
	test_refusals();
	return check_done();
}
