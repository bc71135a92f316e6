/* megatron.c - property: the parameters of any model tile Megatron-LM's tensors, whatever the
 * ranks, except for the padded rows */
#include "lib/ckpt/megatron.h"
#include "lib/model/fields.h"
#include "tests/check.h"
#include "tests/random_box.h"

enum { RUNS = 200, RANKS_MAX = 8, ELEMENTS_MAX = 1 << 14 };

static void
add_linear(struct model_config *c)
{
	c->normalization = NORMALIZATION_RMSNORM;
	c->linear_attention_freq = pattern_linear.number(2);
	c->linear_num_key_heads = between(1, 4);
	c->linear_num_value_heads = c->linear_num_key_heads * between(1, 2);
	c->linear_key_head_dim = between(1, 9);
	c->linear_value_head_dim = between(1, 9);
	c->linear_conv_kernel_dim = between(2, 4);
}

static struct model_config
random_model(void)
{
	struct model_config c;
	int64_t rep = between(1, 3);

	model_defaults(&c, MODEL_BASE);
	c.num_layers = between(1, 2);
	c.num_query_groups = between(1, 3) * 2;
	c.num_attention_heads = c.num_query_groups * rep;
	c.kv_channels = between(1, 2) * 4;
	c.hidden_size = between(1, 3) * 8;
	c.ffn_hidden_size = between(1, 3) * 8;
	c.vocab_size = between(5, 40);
	c.make_vocab_size_divisible_by = between(1, 8);
	c.max_position_embeddings = between(1, 9);
	c.normalization = between(0, 1) ? NORMALIZATION_RMSNORM : NORMALIZATION_LAYERNORM;
	c.activation = between(0, 1) ? ACTIVATION_SWIGLU : ACTIVATION_GELU_ERF;
	c.position = between(0, 1) ? POSITION_LEARNED : POSITION_ROPE;
	c.qkv_bias = between(0, 1);
	c.proj_bias = c.mlp_bias = between(0, 1);
	c.qk_layernorm = between(0, 1);
	if (!c.mlp_bias && between(0, 1)) {
		c.num_experts = between(2, 3);
		c.moe_ffn_hidden_size = between(1, 3) * 8;
		c.moe_shared_expert_intermediate_size = between(0, 1) * 8;
		c.moe_layer_freq = pattern_every(between(2, 3));
	}
	c.untie_embeddings_and_output_weights = between(0, 1);
	c.mtp_num_layers = c.position == POSITION_ROPE ? between(0, 2) : 0;
	c.attention_output_gate = !c.qkv_bias && between(0, 1);
	if (!c.mtp_num_layers && between(0, 1))
		add_linear(&c);
	return c;
}

/* How often each element of a tensor was met, rank by rank. */
struct count {
	unsigned char met[ELEMENTS_MAX];
};

static void
meet(struct count *n, const struct megatron_tensor *t, struct megatron_ranks ranks,
    const struct megatron_piece *p)
{
	int64_t shape[SLICE_DIMS], width, size;
	bool matrix = t->ndim >= 2;
	int last = t->ndim - 1;

	megatron_rank_shape(t, ranks, shape);
	width = matrix ? shape[last] : 1;
	size = shape[0] * width;
	CHECK(slice_inside(&p->tensor, t->ndim, shape) && p->rank < megatron_num_ranks(t, ranks));
	CHECK(slice_elements(&p->tensor) == slice_elements(&p->param));
	for (int64_t r = 0; r < p->tensor.count[0]; r++)
		for (int64_t c = 0; c < (matrix ? p->tensor.count[last] : 1); c++)
			n->met[p->rank * size + (p->tensor.start[0] + r) * width +
			    (matrix ? p->tensor.start[last] + c : 0)]++;
}

/* Any two boxes that are one parameter give the same as all of it. */
static void
meet_param(struct count *n, const struct megatron_map *m, const struct param *p, int i,
    struct megatron_ranks ranks)
{
	struct slice half = slice_whole(p->ndim, p->shape);
	int64_t at = between(0, p->shape[0]);

	for (int k = 0; k < 2; k++) {
		struct megatron_piece it = { 0 };

		half.start[0] = k ? at : 0;
		half.count[0] = k ? p->shape[0] - at : at;
		while (megatron_next(m, i, ranks, &half, &it))
			meet(&n[m->rows[i].tensor], &m->tensor[m->rows[i].tensor], ranks, &it);
	}
}

static void
check_counts(const struct count *n, const struct megatron_map *m, int64_t vocab)
{
	for (int i = 0; i < m->count; i++) {
		const struct megatron_tensor *t = &m->tensor[i];
		int64_t width = t->ndim >= 2 ? t->shape[t->ndim - 1] : 1,
			total = t->shape[0] * width,
			want = strstr(t->name, "word_emb") || strstr(t->name, "output_layer")
		    ? vocab * width
		    : total;

		for (int64_t k = 0; k < total; k++)
			CHECK(n[i].met[k] == (k < want));
	}
}

int
main(void)
{
	mt19937_seed(&rng, (uint32_t)check_seed());
	for (int run = 0; run < RUNS; run++) {
		const struct model_config c = random_model();
		const struct megatron_ranks ranks = { between(0, 3) ? 2 : between(1, RANKS_MAX),
			between(1, RANKS_MAX) };
		struct megatron_map m;
		struct param *p;
		struct err e;
		int count = model_params(&c, &p);
		struct count *n;

		CHECK(megatron_map_init(&m,
			  &(struct megatron_model){ &c, p, count,
			      between(0, 1) ? MEGATRON_ENGINE : MEGATRON_LOCAL,
			      megatron_padded_vocab(&c, ranks.tensor),
			      (enum megatron_experts)between(MEGATRON_SEQUENTIAL, MEGATRON_STACKED),
			      (enum megatron_later)between(0, 1) },
			  &e) == 0);
		n = calloc((size_t)m.count, sizeof *n);
		if (megatron_check_ranks(&m, ranks, &e) == 0) {
			for (int i = 0; i < count; i++)
				meet_param(n, &m, &p[i], i, ranks);
			check_counts(n, &m, c.vocab_size);
		}
		free(n);
		megatron_map_release(&m);
		free(p);
	}
	return check_done();
}
