/* fp8_options.c - which forms of 8-bit operands are supported, and the sizes that they need */
#include "lib/model/fp8_options.h"
#include "lib/model/block/linears.h"

const char *const fp8_formats[] = { "none", "hybrid", "e4m3", NULL };
const char *const fp8_recipes[] = { "delayed", "tensorwise", "blockwise", "mxfp8", "custom", NULL };
const char *const fp8_algos[] = { "most_recent", "max", NULL };

/* Hopper loads 16 bytes at a time along each side of an operand. No block of the weights of a
 * rank's experts may be of two of them. */
enum { MULTIPLE = 16, BLOCK = 128 };

/* A side of an operand on a tensor rank. */
static int
check_multiple(const char *what, int64_t size, int multiple, struct err *e)
{
	if (size % multiple == 0)
		return 0;
	return err_set(e, "--fp8-%s on a tensor rank must be a multiple of %d, and %s %lld", what,
	    multiple, size == 1 ? "is" : "are", (long long)size);
}

static int
check_side(const char *what, int64_t size, struct err *e)
{
	return check_multiple(what, size, MULTIPLE, e);
}

/* The outputs and the inputs of a linear; 0 where the model has none. */
static int64_t
out_of(const struct linear_list *x, enum fp8_linear linear)
{
	const struct linear_row *row = linear_of(x, linear);

	return row ? row->out : 0;
}

static int64_t
in_of(const struct linear_list *x, enum fp8_linear linear)
{
	const struct linear_row *row = linear_of(x, linear);

	return row ? row->in : 0;
}

/* The sides of what experts multiply: rows of them are of any number. */
static int
check_experts(const struct linear_list *x, const struct sizes *z, struct err *e)
{
	if (check_side("format: channels of an expert", in_of(x, FP8_EXPERT_FC2), e) < 0 ||
	    check_side("format: channels of the shared expert", in_of(x, FP8_SHARED_FC2), e) < 0)
		return -1;
	if (z->shape->fp8.recipe != FP8_BLOCKWISE || !z->model->num_experts)
		return 0;
	if (check_multiple(
		"recipe blockwise: with --num-experts, hidden channels", z->hidden, BLOCK, e) < 0)
		return -1;
	return check_multiple("recipe blockwise: outputs of an expert's first linear",
	    out_of(x, FP8_EXPERT_FC1), BLOCK, e);
}

/* Every side of an operand is one of these. With tp_comm_overlap tokens are multiplied in parts. */
static int
check_sides(const struct sizes *z, struct err *e)
{
	const struct linear_list x = model_linears(z);
	int64_t parts = z->shape->tp_comm_overlap ? z->layout->tensor_model_parallel_size : 1;

	if (check_side("format: hidden channels", z->hidden, e) < 0 ||
	    check_side("format: channels of q", in_of(&x, FP8_PROJ), e) < 0 ||
	    check_side("format: channels of q, k and v", out_of(&x, FP8_QKV), e) < 0 ||
	    check_side("format: ffn channels", in_of(&x, FP8_FC2), e) < 0 ||
	    check_experts(&x, z, e) < 0)
		return -1;
	return check_side(
	    parts > 1 ? "format: tokens that are multiplied at once" : "format: tokens",
	    z->tokens / parts, e);
}

int
fp8_resolve(const struct fp8_options *o, const struct model_config *c, const struct layout *l,
    struct train_shape *s, struct err *e)
{
	const char *format = fp8_formats[o->format];
	bool ends = o->first_last_layers_bf16;
	struct sizes z;

	s->fp8 = (struct fp8){ .format = (enum fp8_format)o->format,
		.recipe = (enum fp8_recipe)o->recipe,
		.history_len = o->amax_history_len,
		.margin = (int)o->margin,
		.most_recent = o->amax_compute_algo == 0,
		.bf16_first = ends ? o->num_layers_at_start_in_bf16 : 0,
		.bf16_last = ends ? o->num_layers_at_end_in_bf16 : 0 };
	if (o->format == FP8_NONE)
		return 0;
	if (o->recipe > FP8_BLOCKWISE)
		return err_set(e,
		    "--fp8-recipe %s: is not supported; give delayed, tensorwise or blockwise",
		    fp8_recipes[o->recipe]);
	if (c->multi_latent_attention)
		return err_set(
		    e, "--fp8-format %s: is not supported with --multi-latent-attention", format);
	if (model_has_linear(c))
		return err_set(
		    e, "--fp8-format %s: is not supported with --linear-attention-freq", format);
	if (c->mtp_num_layers)
		return err_set(
		    e, "--fp8-format %s: is not supported with --mtp-num-layers", format);
	if (s->dtype != DTYPE_BF16 || s->sharding == SHARDING_PARAMS)
		return err_set(e, "--fp8-format %s: %s%s%s", format,
		    s->dtype != DTYPE_BF16 ? "needs --bf16" : "",
		    s->dtype != DTYPE_BF16 && s->sharding == SHARDING_PARAMS ? "; " : "",
		    s->sharding == SHARDING_PARAMS
			? "8-bit copies are made of whole weights: "
			  "--data-parallel-sharding-strategy must be at most optim_grads"
			: "");
	if (ends && o->recipe == FP8_DELAYED)
		return err_set(
		    e, "--first-last-layers-bf16: needs --fp8-recipe tensorwise or blockwise");
	if (s->fp8.bf16_first + s->fp8.bf16_last >= c->num_layers)
		return err_set(e,
		    "--first-last-layers-bf16: %lld layers at the start and %lld at the end leave "
		    "none of %lld in 8 bits",
		    (long long)s->fp8.bf16_first, (long long)s->fp8.bf16_last,
		    (long long)c->num_layers);
	z = sizes_of_rank(c, l, s, 0);
	return check_sides(&z, e);
}
