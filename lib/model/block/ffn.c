/* ffn.c - input, norms and output of the second block of a layer */
#include "lib/model/block/ffn.h"

void
ffn_norm_params(struct param_list *to, const struct model_config *c, int first)
{
	const struct param_row rows[] = { NORM_ROWS("pre_mlp_layernorm", first + FFN_NORM,
	    model_pre_norm(c) && !c->shared_parallel_norm, model_norm_biases(c), c->hidden_size,
	    0) };

	state_params(to, rows, 2);
}

void
ffn_post_norm_params(struct param_list *to, const struct model_config *c, int first)
{
	const struct param_row rows[] = { NORM_ROWS("post_mlp_layernorm", first + FFN_POST_NORM,
	    model_post_norm(c), model_norm_biases(c), c->hidden_size, 0) };

	state_params(to, rows, 2);
}

/* Of parallel blocks the residual sum alone reads the input. */
void
ffn_buffers(struct buffer_list *to, const struct sizes *z, int first, bool norm_out)
{
	bool pre = model_pre_norm(z->model), post = model_post_norm(z->model),
	     means = model_norm_means(z->model), parallel = z->model->use_parallel_residual;
	int64_t r = z->rows, h = z->hidden;
	const struct buffer_row rows[] = {
		{ "mlp input", first + FFN_INPUT, parallel ? STEP : LAYER, true, RESIDUAL, { r, h },
		    parallel ? FWD : 0 },
		{ "norm 2 mean", first + FFN_NORM_MEAN, LAYER, pre && means, COMPUTE, { r } },
		{ "norm 2 rstd", first + FFN_NORM_RSTD, LAYER, pre, COMPUTE, { r } },
		{ "norm 2 output", first + FFN_NORM_OUT, LAYER, pre && norm_out, ACT, { r, h },
		    FWD | MLP_BWD, RECOMPUTE_LAYERNORM },
		{ "fc2 output", first + FFN_OUT, LAYER, post, ACT, { r, h } },
		{ "post norm 2 mean", first + FFN_POST_MEAN, LAYER, post && means, COMPUTE, { r } },
		{ "post norm 2 rstd", first + FFN_POST_RSTD, LAYER, post, COMPUTE, { r } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}
