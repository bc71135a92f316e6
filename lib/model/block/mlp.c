/* mlp.c - the MLP block: what norm, up projection (with its gate), activation and down projection
 * hold */
#include "lib/model/block/mlp.h"
#include "lib/model/block/linears.h"
#include "lib/model/work.h"

#include <stddef.h>

/* Gate and up are cut along their outputs, down along its input. */
static const struct param_row params[] = {
	FFN_NORM_PARAMS,
	{ "decoder.layers.%d.mlp.linear_gate.weight", ROLE_GATE, IF_GATED, { D_FFN, D_HIDDEN },
	    SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_up.weight", ROLE_UP, ALWAYS, { D_FFN, D_HIDDEN },
	    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_gate.bias", ROLE_GATE_BIAS, IF_GATED_BIAS, { D_FFN },
	    SHARD_EQUAL, 0, INIT_ZERO, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_up.bias", ROLE_UP_BIAS, IF_MLP_BIAS, { D_FFN }, SHARD_EQUAL,
	    0, INIT_ZERO, PARAM_JOINED, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_down.weight", ROLE_DOWN, ALWAYS, { D_HIDDEN, D_FFN },
	    SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_down.bias", ROLE_DOWN_BIAS, IF_MLP_BIAS, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	FFN_POST_NORM_PARAMS,
	{ .name = NULL },
};

static int64_t
ffn(const struct sizes *z)
{
	return z->model->ffn_hidden_size / z->layout->tensor_model_parallel_size;
}

/* The output of a gated activation is never saved: its backward pass recomputes it over the
 * gradient that it reads, so it needs no place of its own. One that is made in 8 bits has none. */
static void
buffers(struct buffer_list *to, const struct sizes *z)
{
	const struct fp8 *fp8 = &z->shape->fp8;
	bool gated = model_gated(z->model), wide = !fp8_makes_activations(z->model, z->layout, fp8);
	int64_t t = z->tokens, f = ffn(z);
	/* clang-format off */
	const struct buffer_row rows[] = {
		{ "fc1 output", MLP_FC1_OUT, LAYER, true, ACT, { t, sizes_gated(z, f) },
		    FWD | MLP_BWD, RECOMPUTE_MLP },
		{ "activation output", MLP_ACT_OUT, LAYER, wide && !gated, ACT, { t, f },
		    FWD | MLP_BWD, RECOMPUTE_MLP | RECOMPUTE_ACTIVATION },
		{ "activation output", MLP_ACT_OUT, STEP, wide && gated, ACT, { t, f }, FWD },
		/* at the activation's output, or at its input when that is fused */
		{ "activation gradient", MLP_DACT, STEP, z->trains, ACT, { t, f }, MLP_BWD },
	};
	/* clang-format on */

	ffn_buffers(to, z, MLP_INPUT, !fp8_makes_norms(z->layout, fp8));
	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Gate and up are one operand. */
static void
linears(struct linear_list *to, const struct sizes *z)
{
	enum role first = model_gated(z->model) ? ROLE_GATE : ROLE_UP;
	int64_t h = z->hidden, f = ffn(z);
	const struct linear_row rows[] = {
		{ FP8_FC1, first, ROLE_UP, sizes_gated(z, f), h, 1 },
		{ FP8_FC2, ROLE_DOWN, ROLE_DOWN, h, f, 1, .waits = true },
	};

	state_linears(to, rows, sizeof rows / sizeof *rows);
}

static const struct block_norm norm = FFN_NORM(MLP_INPUT), post = FFN_POST_NORM(MLP_INPUT);
static const struct block_residual residual = { ROLE_DOWN_BIAS };

/* In layers without experts. */
static bool
in(const struct model_config *c, int64_t layer)
{
	return layer >= 0 && layer < c->num_layers && !layer_has_experts(c, layer);
}

/* Norm, activation and residual sum, with twice as many passes backward as forward, hence the 3.
 * Collectives as in attention.c. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	int64_t rows = dim[D_TOKENS], h = dim[D_HIDDEN], fc1 = dim[D_FC1], f = dim[D_FFN];

	work_gemm(w, rows, fc1, h);
	w->gemm[0].recompute = RECOMPUTE_MLP;
	work_gemm(w, rows, h, f);
	w->elements =
	    3 * (2 * (double)h * (double)dim[D_ROWS] + ((double)fc1 + (double)f) * (double)rows);
	w->stream = 3 * 2 * (double)h * (double)dim[D_ROWS];
	w->kernels = 3;
	work_post_norm(w, c, dim);
	w->reductions = 2;
	w->scatters = 5;
	w->overlap = true;
}

const struct block_kind block_mlp = { "mlp", in, params, buffers, MLP_INPUT, &norm, &post,
	&residual, work, linears };
