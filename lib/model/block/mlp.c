/* mlp.c - the MLP block: what norm, up projection (with its gate), activation and down projection
 * hold */
#include "lib/model/block/mlp.h"
#include "lib/model/block/linears.h"
#include "lib/model/work.h"

/* Gate and up are cut along their outputs, down along its input. */
static void
params(struct param_list *to, const struct model_config *c)
{
	bool gated = model_gated(c), bias = c->mlp_bias;
	int64_t h = c->hidden_size, f = c->ffn_hidden_size;
	const struct param_row rows[] = {
		{ "mlp.linear_gate.weight", MLP_GATE, gated, { f, h }, SHARD_EQUAL, 0, INIT_NORMAL,
		    0, { 0, 0 } },
		{ "mlp.linear_up.weight", MLP_UP, true, { f, h }, SHARD_EQUAL, 0, INIT_NORMAL,
		    PARAM_JOINED, { 0, 0 } },
		{ "mlp.linear_gate.bias", MLP_GATE_BIAS, gated && bias, { f }, SHARD_EQUAL, 0,
		    INIT_ZERO, 0, { 0, 0 } },
		{ "mlp.linear_up.bias", MLP_UP_BIAS, bias, { f }, SHARD_EQUAL, 0, INIT_ZERO,
		    PARAM_JOINED, { 0, 0 } },
		{ "mlp.linear_down.weight", MLP_DOWN, true, { h, f }, SHARD_EQUAL, 1, INIT_RESIDUAL,
		    0, { 0, 0 } },
		{ "mlp.linear_down.bias", MLP_DOWN_BIAS, bias, { h }, SHARD_NONE, 0, INIT_ZERO, 0,
		    { 0, SUM_TENSOR } },
	};

	ffn_norm_params(to, c, MLP_INPUT);
	state_params(to, rows, sizeof rows / sizeof *rows);
	ffn_post_norm_params(to, c, MLP_INPUT);
}

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
	bool gated = model_gated(z->model),
	     in_16 = !fp8_makes_activations(z->model, z->layout, fp8);
	int64_t t = z->tokens, f = ffn(z);
	const struct buffer_row rows[] = {
		{ "fc1 output", MLP_FC1_OUT, LAYER, true, ACT, { t, sizes_gated(z, f) },
		    FWD | MLP_BWD, RECOMPUTE_MLP },
		{ "activation output", MLP_ACT_OUT, LAYER, in_16 && !gated, ACT, { t, f },
		    FWD | MLP_BWD, RECOMPUTE_MLP | RECOMPUTE_ACTIVATION },
		{ "activation output", MLP_ACT_OUT, STEP, in_16 && gated, ACT, { t, f }, FWD },
		/* at the activation's output, or at its input when that is fused */
		{ "activation gradient", MLP_DACT, STEP, z->trains, ACT, { t, f }, MLP_BWD },
	};

	ffn_buffers(to, z, MLP_INPUT, !fp8_makes_norms(z->layout, fp8));
	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Gate and up are one operand. */
static void
linears(struct linear_list *to, const struct sizes *z)
{
	int first = model_gated(z->model) ? MLP_GATE : MLP_UP;
	int64_t h = z->hidden, f = ffn(z);
	const struct linear_row rows[] = {
		{ FP8_FC1, first, MLP_UP, sizes_gated(z, f), h, 1 },
		{ FP8_FC2, MLP_DOWN, MLP_DOWN, h, f, 1, .waits = true },
	};

	state_linears(to, rows, sizeof rows / sizeof *rows);
}

static const struct block_norm norm = FFN_NORM_OF(MLP_INPUT), post = FFN_POST_NORM_OF(MLP_INPUT);
static const struct block_residual residual = { MLP_DOWN_BIAS };

/* In layers without experts. */
static bool
in(const struct model_config *c, int64_t layer)
{
	return layer_transforms(c, layer) && !layer_has_experts(c, layer);
}

/* A gated activation reads its two halves and writes its output, and backward reads them with its
 * gradient and writes their gradients and the output once more; another is the end of the GEMM
 * before it, which writes both, and backward reads its input. Collectives as in attention.c. */
static void
work(struct work *w, const struct sizes *z)
{
	int64_t rows = z->tokens, h = z->hidden, f = ffn(z), fc1 = sizes_gated(z, f);

	work_gemm(w, rows, fc1, h);
	w->gemm[0].recompute = RECOMPUTE_MLP;
	work_gemm(w, rows, h, f);
	work_norm(w, z);
	work_branch(w, z);
	work_activation(w, z, (double)f * (double)rows);
	w->reductions = 2;
	w->scatters = 5;
	w->overlap = true;
}

const struct block_kind block_mlp = { "mlp", in, params, buffers, MLP_INPUT, &norm, &post,
	&residual, work, linears };
