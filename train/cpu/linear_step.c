/* linear_step.c - a linear layer with what is around it, an operation after the other */
#include "train/cpu/real.h"

void
cpu_name(linear_step)(struct stream *st, const struct linear_step *l)
{
	const struct residual sum = { .y = l->y, .x = l->product, .residual = l->residual };
	struct gemm g = { .c = l->product.data ? l->product : l->y,
		.a = l->x,
		.b = l->weight,
		.trans_b = true,
		.alpha = 1,
		.bias = l->bias };

	ops_require(linear_step_fits(l));
	if (l->norm.weight.data) {
		cpu_name(norm_fwd)(st, &l->norm);
		g.a = l->norm.y;
	}
	cpu_name(gemm)(st, &g);
	if (l->act.x.data)
		cpu_name(act_fwd)(st, &l->act);
	else if (l->residual.data)
		cpu_name(residual_fwd)(st, &sum);
}
