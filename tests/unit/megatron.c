/* megatron.c - where parameters lie in Megatron-LM's tensors: names, order, rows, ranks */
#include "lib/ckpt/megatron.h"
#include "lib/model/fields.h"
#include "tests/check.h"

/* The models of golden checkpoints that Megatron-LM wrote. */
static struct model_config
llama(void)
{
	struct model_config c;

	model_defaults(&c, MODEL_BASE);
	c.num_layers = 2;
	c.hidden_size = 16;
	c.ffn_hidden_size = 24;
	c.num_attention_heads = 4;
	c.num_query_groups = 2;
	c.kv_channels = 4;
	c.vocab_size = 61;
	c.make_vocab_size_divisible_by = 8;
	c.normalization = NORMALIZATION_RMSNORM;
	c.activation = ACTIVATION_SWIGLU;
	c.position = POSITION_ROPE;
	c.untie_embeddings_and_output_weights = true;
	return c;
}

static struct model_config
gpt2(void)
{
	struct model_config c = llama();

	c.ffn_hidden_size = 64;
	c.num_query_groups = 4;
	c.vocab_size = 67;
	c.max_position_embeddings = 16;
	c.normalization = NORMALIZATION_LAYERNORM;
	c.activation = ACTIVATION_GELU_TANH;
	c.position = POSITION_LEARNED;
	c.untie_embeddings_and_output_weights = false;
	c.qkv_bias = c.proj_bias = c.mlp_bias = true;
	return c;
}

/* With the second layer without experts. */
static struct model_config
mixtral(void)
{
	struct model_config c = llama();

	c.num_experts = 2;
	c.moe_router_topk = 2;
	c.moe_ffn_hidden_size = 20;
	c.moe_layer_freq = pattern_every(2);
	return c;
}

/* With linear attention in the first layer, and a gate of attention in the second. */
static struct model_config
delta(void)
{
	struct model_config c = llama();

	c.linear_attention_freq = pattern_linear.number(2);
	c.linear_num_key_heads = 2;
	c.linear_num_value_heads = 4;
	c.linear_key_head_dim = 6;
	c.linear_value_head_dim = 4;
	c.linear_conv_kernel_dim = 3;
	c.attention_output_gate = c.apply_layernorm_1p = true;
	return c;
}

struct fixture {
	struct param *param;
	int count;
	struct megatron_map map;
};

static void
begin(struct fixture *f, const struct model_config *c, enum megatron_names names, int64_t ranks)
{
	struct err e;

	f->count = model_params(c, &f->param);
	CHECK(megatron_map_init(&f->map,
		  &(struct megatron_model){
		      c, f->param, f->count, names, megatron_padded_vocab(c, ranks) },
		  &e) == 0);
}

static void
end(struct fixture *f)
{
	megatron_map_release(&f->map);
	free(f->param);
}

/* One line per tensor up to the end of layer 0, and of those after the layers: name, shape, cut,
 * blocks; * for one that does not decay. */
static const char *
listed(const struct model_config *c, enum megatron_names names, int64_t ranks)
{
	static char text[8192];
	struct fixture f;
	size_t n = 0;

	begin(&f, c, names, ranks);
	for (int i = 0; i < f.map.count; i++) {
		const struct megatron_tensor *t = &f.map.tensor[i];
		const char *mark = strstr(t->name, "%d.");

		if (t->layer > 0 && t->layer < c->num_layers)
			continue;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s %lldx%lld %d %d%s\n",
		    mark ? mark + 3 : t->name, (long long)t->shape[0], (long long)t->shape[1],
		    t->cut, t->blocks, t->decay ? "" : " *");
	}
	end(&f);
	return text;
}

/* Shapes as in the manifests of the golden checkpoints; the order is theirs. */
static void
test_tensors(void)
{
	const struct model_config l = llama(), g = gpt2();
	struct fixture f;
	char key[128];

	CHECK_STR(listed(&l, MEGATRON_ENGINE, 2),
	    "embedding.word_embeddings.weight 64x16 0 1\n"
	    "self_attention.linear_proj.weight 16x16 1 1\n"
	    "self_attention.linear_qkv.layer_norm_weight 16x0 -1 1 *\n"
	    "self_attention.linear_qkv.weight 32x16 0 1\n"
	    "mlp.linear_fc1.layer_norm_weight 16x0 -1 1 *\n"
	    "mlp.linear_fc1.weight 48x16 0 2\n"
	    "mlp.linear_fc2.weight 16x24 1 1\n"
	    "decoder.final_layernorm.weight 16x0 -1 1 *\n"
	    "output_layer.weight 64x16 0 1\n");
	CHECK_STR(listed(&g, MEGATRON_LOCAL, 2),
	    "embedding.word_embeddings.weight 80x16 0 1\n"
	    "embedding.position_embeddings.weight 16x16 -1 1\n"
	    "input_layernorm.weight 16x0 -1 1 *\n"
	    "input_layernorm.bias 16x0 -1 1 *\n"
	    "self_attention.linear_proj.weight 16x16 1 1\n"
	    "self_attention.linear_proj.bias 16x0 -1 1 *\n"
	    "self_attention.linear_qkv.weight 48x16 0 1\n"
	    "self_attention.linear_qkv.bias 48x0 0 1 *\n"
	    "pre_mlp_layernorm.weight 16x0 -1 1 *\n"
	    "pre_mlp_layernorm.bias 16x0 -1 1 *\n"
	    "mlp.linear_fc1.weight 64x16 0 1\n"
	    "mlp.linear_fc1.bias 64x0 0 1 *\n"
	    "mlp.linear_fc2.weight 16x64 1 1\n"
	    "mlp.linear_fc2.bias 16x0 -1 1 *\n"
	    "decoder.final_layernorm.weight 16x0 -1 1 *\n"
	    "decoder.final_layernorm.bias 16x0 -1 1 *\n");
	begin(&f, &l, MEGATRON_ENGINE, 1);
	megatron_key(&f.map.tensor[f.map.count / 2], 0, 0, key);
	CHECK_STR(key, "decoder.layers.1.self_attention.linear_proj.weight");
	megatron_key(&f.map.tensor[f.map.count / 2], 1, 0, key);
	CHECK_STR(key, "decoder.layers.0.self_attention.linear_proj.weight");
	end(&f);
}

/* The tensors of a layer with experts, from the norm before them on: name, shape, cut, blocks. */
static const char *
expert_names(enum megatron_names names, enum megatron_experts experts)
{
	static char text[1024];
	const struct model_config c = mixtral();
	struct param *p;
	int n = model_params(&c, &p);
	struct megatron_map m;
	size_t at = 0;
	struct err e;

	CHECK(megatron_map_init(&m, &(struct megatron_model){ &c, p, n, names, 64, experts }, &e) ==
	    0);
	for (int i = 0; i < m.count; i++) {
		const struct megatron_tensor *t = &m.tensor[i];
		char key[128];

		megatron_key(t, 0, 0, key);
		if (t->layer == 0 && strstr(key, "mlp"))
			at += (size_t)snprintf(text + at, sizeof text - at, "%s %lldx%lld %d %d\n",
			    key + strlen("decoder.layers.0."), (long long)t->shape[0],
			    (long long)t->shape[1], t->cut, t->blocks);
	}
	megatron_map_release(&m);
	free(p);
	return text;
}

static void
test_experts(void)
{
	CHECK_STR(expert_names(MEGATRON_ENGINE, MEGATRON_SEQUENTIAL),
	    "pre_mlp_layernorm.weight 16x0 -1 1\n"
	    "mlp.router.weight 2x16 -1 1\n"
	    "mlp.experts.local_experts.0.linear_fc1.weight 40x16 0 2\n"
	    "mlp.experts.local_experts.0.linear_fc2.weight 16x20 1 1\n"
	    "mlp.experts.local_experts.1.linear_fc1.weight 40x16 0 2\n"
	    "mlp.experts.local_experts.1.linear_fc2.weight 16x20 1 1\n");
	CHECK_STR(expert_names(MEGATRON_LOCAL, MEGATRON_GROUPED),
	    "pre_mlp_layernorm.weight 16x0 -1 1\n"
	    "mlp.router.weight 2x16 -1 1\n"
	    "mlp.experts.linear_fc1.weight0 40x16 0 2\n"
	    "mlp.experts.linear_fc1.weight1 40x16 0 2\n"
	    "mlp.experts.linear_fc2.weight0 16x20 1 1\n"
	    "mlp.experts.linear_fc2.weight1 16x20 1 1\n");
	CHECK_STR(expert_names(MEGATRON_LOCAL_DIST, MEGATRON_STACKED),
	    "mlp.linear_fc1.layer_norm_weight 16x0 -1 1\n"
	    "mlp.router.weight 2x16 -1 1\n"
	    "mlp.experts.experts.linear_fc1.weight 40x16 0 2\n"
	    "mlp.experts.experts.linear_fc1.weight 40x16 0 2\n"
	    "mlp.experts.experts.linear_fc2.weight 16x20 1 1\n"
	    "mlp.experts.experts.linear_fc2.weight 16x20 1 1\n");
}

/* Names of the norms of a layer whose attention is of latents, and rows of projections down that a
 * rank of two has. */
static const char *
latent_names(enum megatron_names names)
{
	static char text[1024];
	struct model_config c = llama();
	struct fixture f;
	size_t at = 0;

	c.multi_latent_attention = c.qk_layernorm = true;
	c.num_query_groups = c.num_attention_heads;
	c.q_lora_rank = 12;
	c.kv_lora_rank = 6;
	c.qk_head_dim = c.v_head_dim = 4;
	c.qk_pos_emb_head_dim = 2;
	c.kv_channels = 6;
	begin(&f, &c, names, 1);
	for (int i = 0; i < f.map.count; i++) {
		const struct megatron_tensor *t = &f.map.tensor[i];
		int64_t shape[SLICE_DIMS];

		megatron_rank_shape(t, (struct megatron_ranks){ 2, 2 }, shape);
		if (t->layer == 0 && (strstr(t->name, "norm") || strstr(t->name, "_down_")))
			at += (size_t)snprintf(
			    text + at, sizeof text - at, "%s %lld\n", t->name, (long long)shape[0]);
	}
	end(&f);
	return text;
}

static void
test_latents(void)
{
	static const char local[] = "input_layernorm.weight 16\n"
				    "self_attention.linear_q_down_proj.weight 6\n"
				    "self_attention.linear_kv_down_proj.weight 4\n"
				    "self_attention.q_layernorm.weight 12\n"
				    "self_attention.kv_layernorm.weight 6\n"
				    "pre_mlp_layernorm.weight 16\n";

	CHECK_STR(latent_names(MEGATRON_ENGINE),
	    "input_layernorm.weight 16\n"
	    "self_attention.linear_q_down_proj.weight 12\n"
	    "self_attention.linear_q_up_proj.layer_norm_weight 12\n"
	    "self_attention.linear_kv_down_proj.weight 8\n"
	    "self_attention.linear_kv_up_proj.layer_norm_weight 6\n"
	    "mlp.linear_fc1.layer_norm_weight 16\n");
	CHECK_STR(latent_names(MEGATRON_LOCAL), local);
	CHECK_STR(latent_names(MEGATRON_LOCAL_DIST), local);
}

/* The tensors of the first layer before its MLP in torch_dist, with the sizes that are not 0; - for
 * one that is stored less 1. */
static const char *
delta_parts(const struct model_config *c)
{
	static char text[2048];
	struct param *p;
	int n = model_params(c, &p);
	struct megatron_map m;
	size_t at = 0;
	struct err e;

	CHECK(megatron_map_init(&m,
		  &(struct megatron_model){ c, p, n, MEGATRON_ENGINE, 64, MEGATRON_STACKED },
		  &e) == 0);
	for (int i = 0; i < m.count; i++) {
		const struct megatron_tensor *t = &m.tensor[i];

		if (t->layer != 0 || !strncmp(t->name, "mlp.", 4))
			continue;
		at += (size_t)snprintf(text + at, sizeof text - at, "%s", t->name);
		for (int d = 0; d < t->ndim; d++)
			at += (size_t)snprintf(text + at, sizeof text - at, "%c%lld", d ? 'x' : ' ',
			    (long long)t->shape[d]);
		at +=
		    (size_t)snprintf(text + at, sizeof text - at, "%s\n", t->less_one ? " -" : "");
	}
	megatron_map_release(&m);
	free(p);
	return text;
}

static void
test_delta(void)
{
	struct model_config c = delta();
	struct fixture f;
	struct err e;

	CHECK(strstr(listed(&c, MEGATRON_ENGINE, 2),
	    "self_attention.dt_bias 4x0 0 1 *\n"
	    "self_attention.A_log 4x0 0 1 *\n"
	    "self_attention.in_proj.layer_norm_weight 16x0 -1 1 *\n"
	    "self_attention.in_proj.weight 64x16 0 6\n"
	    "self_attention.conv1d.weight 40x1 0 3\n"
	    "self_attention.out_norm.weight 4x0 -1 1 *\n"
	    "self_attention.out_proj.weight 16x16 1 1\n"
	    "mlp.linear_fc1.layer_norm_weight 16x0 -1 1 *\n"));
	CHECK_STR(delta_parts(&c),
	    "self_attention.dt_bias 4\n"
	    "self_attention.A_log 4\n"
	    "self_attention.in_proj.layer_norm_weight 16\n"
	    "self_attention.in_proj.weight.query 12x16\n"
	    "self_attention.in_proj.weight.key 12x16\n"
	    "self_attention.in_proj.weight.value 16x16\n"
	    "self_attention.in_proj.weight.z 16x16\n"
	    "self_attention.in_proj.weight.beta 4x16\n"
	    "self_attention.in_proj.weight.alpha 4x16\n"
	    "self_attention.conv1d.weight.query 12x1x3\n"
	    "self_attention.conv1d.weight.key 12x1x3\n"
	    "self_attention.conv1d.weight.value 16x1x3\n"
	    "self_attention.out_norm.weight 4 -\n"
	    "self_attention.out_proj.weight 16x16\n");
	c.apply_layernorm_1p = false;
	CHECK(strstr(delta_parts(&c), "out_norm.weight 4\n"));
	c.linear_num_key_heads = 1;
	begin(&f, &c, MEGATRON_ENGINE, 4);
	CHECK(megatron_check_ranks(&f.map, (struct megatron_ranks){ 2, 1 }, &e) == 0);
	CHECK(megatron_check_ranks(&f.map, (struct megatron_ranks){ 4, 1 }, &e) < 0);
	CHECK_STR(e.msg,
	    "4 tensor ranks cannot share 'decoder.layers.0.self_attention.in_proj.weight': 2 is "
	    "not a multiple of 4");
	end(&f);
}

/* The tensors after layer 1: name, shape, cut, blocks; @ and the layer that each is placed with. */
static const char *
later_names(const struct model_config *c, enum megatron_later later)
{
	static char text[4096];
	struct param *p;
	int n = model_params(c, &p);
	struct megatron_map m;
	size_t at = 0;
	struct err e;

	CHECK(megatron_map_init(&m,
		  &(struct megatron_model){
		      c, p, n, MEGATRON_ENGINE, 64, MEGATRON_SEQUENTIAL, later },
		  &e) == 0);
	for (int i = 0; i < m.count; i++) {
		const struct megatron_tensor *t = &m.tensor[i];
		char key[128];

		megatron_key(t, 1, 0, key);
		if (t->layer > 1)
			at += (size_t)snprintf(text + at, sizeof text - at,
			    "%s %lldx%lld %d %d @%d\n", key, (long long)t->shape[0],
			    (long long)t->shape[1], t->cut, t->blocks, t->placed);
	}
	megatron_map_release(&m);
	free(p);
	return text;
}

/* The output table is registered last, and the final norm is on the stage of the last layer. */
static void
test_later(void)
{
	struct model_config c = llama();

	c.mtp_num_layers = 1;
	CHECK_STR(later_names(&c, MEGATRON_MODEL_LAYER),
	    "decoder.final_layernorm.weight 16x0 -1 1 @1\n"
	    "mtp.layers.0.enorm.weight 16x0 -1 1 @2\n"
	    "mtp.layers.0.hnorm.weight 16x0 -1 1 @2\n"
	    "mtp.layers.0.eh_proj.weight 16x32 0 1 @2\n"
	    "mtp.layers.0.mtp_model_layer.self_attention.linear_proj.weight 16x16 1 1 @2\n"
	    "mtp.layers.0.mtp_model_layer.self_attention.linear_qkv.layer_norm_weight 16x0 -1 1 "
	    "@2\n"
	    "mtp.layers.0.mtp_model_layer.self_attention.linear_qkv.weight 32x16 0 1 @2\n"
	    "mtp.layers.0.mtp_model_layer.mlp.linear_fc1.layer_norm_weight 16x0 -1 1 @2\n"
	    "mtp.layers.0.mtp_model_layer.mlp.linear_fc1.weight 48x16 0 2 @2\n"
	    "mtp.layers.0.mtp_model_layer.mlp.linear_fc2.weight 16x24 1 1 @2\n"
	    "mtp.layers.0.final_layernorm.weight 16x0 -1 1 @2\n"
	    "output_layer.weight 64x16 0 1 @2\n");
	CHECK(strstr(later_names(&c, MEGATRON_TRANSFORMER_LAYER),
	    "\nmtp.layers.0.transformer_layer.mlp.linear_fc2.weight 16x24 "));
}

/* Copies as "key of the tensor on stage v", with * for an idle one. */
static const char *
copies(bool tied, int64_t later, struct megatron_stages stages)
{
	static char text[256];
	struct model_config c = llama();
	struct megatron_copy copy[MEGATRON_COPIES];
	struct fixture f;
	size_t at = 0;
	int n;

	c.untie_embeddings_and_output_weights = !tied;
	c.mtp_num_layers = later;
	begin(&f, &c, MEGATRON_ENGINE, 1);
	n = megatron_copies(&f.map, &c, &stages, copy);
	text[0] = '\0';
	for (int k = 0; k < n; k++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s %d %d%s%s\n", copy[k].key,
		    copy[k].tensor, copy[k].virtual_stage, copy[k].output ? " output" : "",
		    copy[k].idle ? " *" : "");
	end(&f);
	return text;
}

static void
test_copies(void)
{
	static const struct megatron_stages one = { 0, 0 }, four = { 3, 3 }, apart = { 2, 3 };

	CHECK_STR(copies(false, 0, four), "");
	CHECK_STR(copies(true, 0, four), "output_layer.weight 0 3 output\n");
	CHECK_STR(copies(true, 1, one), "");
	CHECK_STR(copies(false, 1, four), "embedding.word_embeddings.weight 0 3\n");
	CHECK_STR(copies(true, 1, four),
	    "embedding.word_embeddings.weight 0 3\noutput_layer.weight 0 3 output *\n");
	CHECK_STR(copies(true, 1, apart),
	    "embedding.word_embeddings.weight 0 2\noutput_layer.weight 0 3 output\n");
}

/* The pieces of a whole parameter: "param rows > rank: rows", and columns where they are cut. */
static const char *
pieces(const struct model_config *c, const char *name, int64_t ranks)
{
	static char text[2048];
	struct megatron_piece p = { 0 };
	struct fixture f;
	struct slice slice;
	size_t n = 0;
	int i = 0;

	begin(&f, c, MEGATRON_ENGINE, ranks);
	while (!param_is(&f.param[i], name))
		i++;
	slice = slice_whole(f.param[i].ndim, f.param[i].shape);
	text[0] = '\0';
	while (megatron_next(&f.map, i, (struct megatron_ranks){ ranks, 2 }, &slice, &p))
		n += (size_t)snprintf(text + n, sizeof text - n, "%lld+%lld>%d:%lld,%lld ",
		    (long long)p.param.start[0], (long long)p.param.count[0], p.rank,
		    (long long)p.tensor.start[0], (long long)p.tensor.start[1]);
	end(&f);
	return text;
}

/* Groups of 2 query heads, key, value, of 4 rows each, and 2 gates where there are any; gate and up
 * of 24 rows; of linear attention 12, 12, 16, 16, 4 and 4 rows. */
static void
test_rows(void)
{
	const struct model_config l = llama(), m = mixtral(), d = delta();

	CHECK_STR(pieces(&l, "self_attention.linear_q.weight", 1), "0+8>0:0,0 8+8>0:16,0 ");
	CHECK_STR(pieces(&l, "self_attention.linear_k.weight", 1), "0+4>0:8,0 4+4>0:24,0 ");
	CHECK_STR(pieces(&l, "self_attention.linear_v.weight", 1), "0+4>0:12,0 4+4>0:28,0 ");
	CHECK_STR(pieces(&l, "self_attention.linear_v.weight", 2), "0+4>0:12,0 4+4>1:12,0 ");
	CHECK_STR(pieces(&l, "self_attention.linear_q.weight", 4), "0+8>0:0,0 8+8>2:0,0 ");
	CHECK_STR(pieces(&l, "mlp.linear_gate.weight", 1), "0+24>0:0,0 ");
	CHECK_STR(pieces(&l, "mlp.linear_up.weight", 1), "0+24>0:24,0 ");
	CHECK_STR(pieces(&l, "mlp.linear_up.weight", 2), "0+12>0:12,0 12+12>1:12,0 ");
	CHECK_STR(pieces(&l, "mlp.linear_down.weight", 2), "0+16>0:0,0 0+16>1:0,0 ");
	CHECK_STR(pieces(&l, "output_layer.weight", 2), "0+32>0:0,0 32+29>1:0,0 ");
	CHECK_STR(pieces(&l, "decoder.final_layernorm.weight", 2), "0+16>0:0,0 ");
	CHECK_STR(pieces(&d, "self_attention.linear_gate.weight", 1), "0+8>0:8,0 8+8>0:32,0 ");
	CHECK_STR(pieces(&d, "self_attention.linear_v.weight", 2), "0+4>0:20,0 4+4>1:20,0 ");
	CHECK_STR(pieces(&d, "linear_attention.linear_gate.weight", 1), "0+16>0:40,0 ");
	CHECK_STR(pieces(&d, "linear_attention.linear_gate.weight", 2), "0+8>0:20,0 8+8>1:20,0 ");
	CHECK_STR(pieces(&d, "linear_attention.linear_decay.weight", 2), "0+2>0:30,0 2+2>1:30,0 ");
	CHECK_STR(pieces(&d, "linear_attention.conv_v.weight", 2), "0+8>0:12,0 8+8>1:12,0 ");
	/* which two ranks share, whatever the tensor ranks */
	CHECK_STR(pieces(&m, "mlp.experts.%d.linear_up.weight", 1), "0+10>0:10,0 10+10>1:10,0 ");
	CHECK_STR(pieces(&m, "mlp.experts.%d.linear_down.weight", 4), "0+16>0:0,0 0+16>1:0,0 ");
}

static void
test_refusals(void)
{
	const struct model_config l = llama();
	struct fixture f;
	struct err e;

	begin(&f, &l, MEGATRON_ENGINE, 3);
	CHECK(megatron_check_ranks(&f.map, (struct megatron_ranks){ 2, 3 }, &e) == 0);
	CHECK(megatron_check_ranks(&f.map, (struct megatron_ranks){ 3, 2 }, &e) < 0);
	CHECK_STR(e.msg,
	    "3 tensor ranks cannot share 'decoder.layers.0.self_attention.linear_proj.weight': 16 "
	    "is not a multiple of 3");
	megatron_map_release(&f.map);
	f.param[f.count - 1].in_layer = "another.weight";
	CHECK(megatron_map_init(&f.map,
		  &(struct megatron_model){ &l, f.param, f.count, MEGATRON_ENGINE, 64 }, &e) < 0);
	CHECK_STR(e.msg, "Megatron-LM has no tensor for 'output_layer.weight'");
	end(&f);
}

int
main(void)
{
	test_tensors();
	test_experts();
	test_latents();
	test_delta();
	test_later();
	test_copies();
	test_rows();
	test_refusals();
	return check_done();
}
