/* rows.c - evaluates the sizes and conditions in the rows of blocks */
#include "lib/model/block/rows.h"
#include "lib/base/int64.h"
#include "lib/model/block/linears.h"
#include "lib/model/block/workspace.h"
#include "lib/model/capacity.h"

#include <string.h>

/* Must agree with the layers: a tensor that is absent here has no gradient and no place in a
 * checkpoint. */
bool
model_meets(const struct model_config *c, enum condition when)
{
	bool layer = c->normalization == NORMALIZATION_LAYERNORM,
	     pre = c->norm_placement != NORM_PLACEMENT_POST,
	     post = c->norm_placement != NORM_PLACEMENT_PRE;

	switch (when) {
	case ALWAYS: return true;
	case IF_LEARNED: return c->position == POSITION_LEARNED;
	case IF_ROPE: return c->position == POSITION_ROPE;
	case IF_WINDOW_ROPE: return c->position == POSITION_ROPE && c->sliding_window_rope_base > 0;
	case IF_LAYERNORM: return layer;
	case IF_PRE_NORM: return pre;
	case IF_PRE_LAYERNORM: return pre && layer;
	case IF_POST_NORM: return post;
	case IF_POST_LAYERNORM: return post && layer;
	case IF_QKV_BIAS: return c->qkv_bias;
	case IF_PROJ_BIAS: return c->proj_bias;
	case IF_MLP_BIAS: return c->mlp_bias;
	case IF_GATED: return model_gated(c);
	case IF_GATED_BIAS: return model_gated(c) && c->mlp_bias;
	case IF_PARALLEL: return c->use_parallel_residual;
	case IF_SERIAL: return !c->use_parallel_residual;
	case IF_EXPERT_BIAS: return c->moe_router_enable_expert_bias;
	case IF_SHARED: return c->moe_shared_expert_intermediate_size > 0;
	case IF_SHARED_GATED: return c->moe_shared_expert_intermediate_size > 0 && model_gated(c);
	case IF_UNTIED: return c->untie_embeddings_and_output_weights;
	case IF_QK_NORM: return c->qk_layernorm;
	case IF_QK_LAYERNORM: return c->qk_layernorm && layer;
	default: return false;
	}
}

/* Without padding, which depends on the layout; checkpoints must not. */
void
dims_whole(int64_t d[D_COUNT], const struct model_config *c)
{
	memset(d, 0, D_COUNT * sizeof *d);
	d[D_VOCAB] = c->vocab_size;
	d[D_POSITIONS] = c->max_position_embeddings;
	d[D_HIDDEN] = c->hidden_size;
	d[D_Q] = c->num_attention_heads * c->kv_channels;
	d[D_KV] = c->num_query_groups * c->kv_channels;
	d[D_FFN] = c->ffn_hidden_size;
	d[D_EXPERTS] = c->num_experts;
	d[D_EXPERT_FFN] = c->moe_ffn_hidden_size;
	d[D_SHARED_FFN] = c->moe_shared_expert_intermediate_size;
	d[D_Q_NORM] = c->qk_layernorm_hidden_dim ? d[D_Q] : c->kv_channels;
	d[D_K_NORM] = c->qk_layernorm_hidden_dim ? d[D_KV] : c->kv_channels;
}

/* k and v go to all other ranks in each pass, and their gradients back. Of heads q, k, v and the
 * output change places in the forward pass; backward these, the gradient of the output, and those
 * of q, k and v. */
static void
dims_context(int64_t d[D_COUNT], const struct layout *l, bool heads)
{
	int64_t c = l->context_parallel_size, piece = d[D_ALL_TOKENS] / (STRETCHES * c);

	d[D_KEYS_PARTIAL] = 3 * c * piece;
	d[D_KEYS_OTHERS] = (c - 1) * piece;
	d[D_SENT] = d[D_TOKENS] * (c - 1) * 3 * (heads ? (d[D_QKV] + d[D_Q]) / c : d[D_PAIR]);
}

static void
dims_experts(int64_t d[D_COUNT], const struct model_config *c, const struct layout *l,
    const struct train_shape *s)
{
	int64_t n = layout_expert_slices(l), both = model_gated(c) ? 2 : 1, k = c->moe_router_topk;

	d[D_EXPERTS] = c->num_experts;
	d[D_LOCAL_EXPERTS] = c->num_experts / layout_expert_ranks(l);
	d[D_SLICES] = c->num_experts * n;
	d[D_EXPERT_RANKS] = layout_expert_holders(l);
	d[D_TOPK] = k;
	d[D_TOPK_SLICES] = k * n;
	d[D_ROUTED] = d[D_ROWS] * k * n;
	d[D_ARRIVING] = capacity_arriving(c, l, s).window;
	d[D_SCOPES] =
	    c->moe_router_load_balancing_type == BALANCING_SEQ_AUX_LOSS ? s->micro_batch_size : 1;
	d[D_EXPERT_LAYERS] = model_expert_layers(c);
	d[D_ROUTER_SUMS] = c->num_experts + ROUTER_COLUMNS;
	d[D_EXPERT_FFN] = c->moe_ffn_hidden_size / n;
	d[D_EXPERT_FC1] = both * d[D_EXPERT_FFN];
	d[D_SHARED_FFN] = c->moe_shared_expert_intermediate_size / l->tensor_model_parallel_size;
	d[D_SHARED_FC1] = both * d[D_SHARED_FFN];
}

/* The layout has passed layout_check and layout_check_length, so all divisions are exact. */
void
dims_share(int64_t d[D_COUNT], const struct model_config *c, const struct layout *l,
    const struct train_shape *s)
{
	int64_t t = l->tensor_model_parallel_size, heads = c->num_attention_heads / t;

	memset(d, 0, D_COUNT * sizeof *d);
	d[D_ONE] = 1;
	d[D_THREE] = 3;
	d[D_SEQ] = s->seq_length;
	d[D_HELD] = layout_held(l, s->seq_length);
	d[D_TOKENS] = d[D_HELD] * s->micro_batch_size;
	d[D_ALL_TOKENS] = d[D_SEQ] * s->micro_batch_size;
	d[D_ROWS] = capacity_rows(l, s);
	d[D_LANDING] = 2 * d[D_ROWS];
	d[D_OTHERS] = d[D_TOKENS] - d[D_TOKENS] / t;
	d[D_HIDDEN] = c->hidden_size;
	d[D_ROTARY] = model_rotary_dim(c);
	d[D_Q] = heads * c->kv_channels;
	d[D_KV] = layout_local_groups(l, c) * c->kv_channels;
	d[D_QKV] = d[D_Q] + 2 * d[D_KV];
	d[D_QK] = d[D_Q] + d[D_KV];
	d[D_PAIR] = 2 * d[D_KV];
	d[D_Q_SOME] = d[D_Q] / l->context_parallel_size;
	d[D_PACKED] = d[D_QKV] + 2 * d[D_Q];
	d[D_DOCUMENTS] = s->context_form == CONTEXT_HEADS ? d[D_ALL_TOKENS] : d[D_TOKENS];
	d[D_NORMS] = c->qk_layernorm_hidden_dim ? 2 : heads + layout_local_groups(l, c);
	d[D_HEADS] = s->micro_batch_size * heads;
	d[D_FFN] = c->ffn_hidden_size / t;
	d[D_FC1] = d[D_FFN] * (model_gated(c) ? 2 : 1);
	d[D_VOCAB] = layout_vocab(l, c) / t;
	d[D_ATTN_WORK] = (int64_t)(attention_run_workspace(c, l, s) / sizeof(float));
	dims_context(d, l, s->context_form == CONTEXT_HEADS);
	dims_experts(d, c, l, s);
}
