/*
 * ops.c - the table of operations
 *
 * The contract of each entry is in train/ops.h; the CPU's implementation is the reference for all
 * of them. No entry may be missing: the engine calls them unconditionally.
 */
#include "train/cuda/impl.h"

const struct ops cuda_ops = {
	.gemm = cuda_gemm,
	.norm_fwd = cuda_norm_fwd,
	.norm_bwd = cuda_norm_bwd,
	.rope = cuda_rope,
	.attention_fwd = cuda_attention_fwd,
	.attention_bwd = cuda_attention_bwd,
	.attention_max = cuda_attention_max,
	.act_fwd = cuda_act_fwd,
	.act_bwd = cuda_act_bwd,
	.residual_fwd = cuda_residual_fwd,
	.dropout_bwd = cuda_dropout_bwd,
	.embedding_fwd = cuda_embedding_fwd,
	.embedding_bwd = cuda_embedding_bwd,
	.xent_stats = cuda_xent_stats,
	.xent_loss = cuda_xent_loss,
	.add = cuda_add,
	.sum = cuda_sum,
	.axpby = cuda_axpby,
	.fill = cuda_fill,
	.normal = cuda_normal,
	.cast = cuda_cast,
	.split = cuda_split,
	.dot = cuda_dot,
	.count_nonfinite = cuda_count_nonfinite,
	.count_zero = cuda_count_zero,
	.hash = cuda_hash,
	.adamw = cuda_adamw,
	.sgd = cuda_sgd,
	.route = cuda_route,
	.route_grad = cuda_route_grad,
	.drop_rows = cuda_drop_rows,
	.rows_by = cuda_rows_by,
	.expert_act = cuda_expert_act,
	.expert_act_grad = cuda_expert_act_grad,
	.balance = cuda_balance,
	.grouped = cuda_grouped,
	.quantise = cuda_quantise,
	.scales = cuda_scales,
};
