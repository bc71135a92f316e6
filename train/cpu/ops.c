/*
 * ops.c - the table of operations in one arithmetic
 *
 * Compiled twice, as cpu_ops_f32 and cpu_ops_f64: every file that includes real.h is (see the
 * Makefile). The contract of each entry is in train/ops.h.
 */
#include "train/cpu/real.h"

const struct ops cpu_name(ops) = {
	.gemm = cpu_name(gemm),
	.norm_fwd = cpu_name(norm_fwd),
	.norm_bwd = cpu_name(norm_bwd),
	.rope = cpu_name(rope),
	.attention_fwd = cpu_name(attention_fwd),
	.attention_bwd = cpu_name(attention_bwd),
	.attention_max = cpu_name(attention_max),
	.act_fwd = cpu_name(act_fwd),
	.act_bwd = cpu_name(act_bwd),
	.residual_fwd = cpu_name(residual_fwd),
	.dropout_bwd = cpu_name(dropout_bwd),
	.embedding_fwd = cpu_name(embedding_fwd),
	.embedding_bwd = cpu_name(embedding_bwd),
	.xent_stats = cpu_name(xent_stats),
	.xent_loss = cpu_name(xent_loss),
	.add = cpu_name(add),
	.sum = cpu_name(sum),
	.axpby = cpu_name(axpby),
	.fill = cpu_name(fill),
	.normal = cpu_name(normal),
	.cast = cpu_name(cast),
	.split = cpu_name(split),
	.dot = cpu_name(dot),
	.count_nonfinite = cpu_name(count_nonfinite),
	.count_zero = cpu_name(count_zero),
	.hash = cpu_name(hash),
	.adamw = cpu_name(adamw),
	.sgd = cpu_name(sgd),
	.route = cpu_name(route),
	.route_grad = cpu_name(route_grad),
	.drop_rows = cpu_name(drop_rows),
	.rows_by = cpu_name(rows_by),
	.grouped = cpu_name(grouped),
	.expert_act = cpu_name(expert_act),
	.expert_act_grad = cpu_name(expert_act_grad),
	.balance = cpu_name(balance),
	.quantise = cpu_name(quantise),
	.scales = cpu_name(scales),
	.average = cpu_name(average),
};
