/*
 * allocated.c - adds up what a rank of another program keeps, stage by stage
 */
#include "plan/allocated.h"
#include "lib/base/err.h"
#include "lib/model/block/delta.h"
#include "lib/model/block/latent.h"
#include "lib/model/block/sizes.h"
#include "lib/model/stacks.h"

#include <stdlib.h>
#include <string.h>

/* A rank of a stage, and what is known of all blocks of it. */
struct rank {
	const struct run_plan *plan;
	const struct hardware *hw;
	struct sizes z;
	double act;  /* bytes of an element of activations and weights */
	double mask; /* of a dropout mask over the residual stream */
	int stage;
};

/* --- what a block saves ----------------------------------------------------------------------- */

/* The input of a block's norm, its output, and the mask of what the block adds to the stream. */
static double
saved_branch(const struct rank *r)
{
	return (2 * r->act + r->mask) * (double)r->z.rows * (double)r->z.hidden;
}

/* Softmax, its dropout mask and what is left after it, where a program stores scores. */
static double
saved_scores(const struct rank *r, double heads)
{
	double dropped = r->plan->model.attention_dropout > 0 ? 1 + r->act : 0;

	if (r->hw->attention_passes <= 0 || r->plan->shape.recompute.granularity != RECOMPUTE_NONE)
		return 0;
	return (r->act + dropped) * heads * (double)r->z.tokens * (double)r->z.seq;
}

/* Queries, keys, values, their weighted sums and the statistics of softmax; latents before and
 * after their norms, with the keys and values of all heads. */
static double
saved_attention(const struct rank *r)
{
	const struct model_config *c = &r->plan->model;
	const struct layout *l = &r->plan->layout;
	double t = (double)l->tensor_model_parallel_size,
	       heads = (double)c->num_attention_heads / t,
	       groups = c->multi_latent_attention ? heads : (double)layout_local_groups(l, c);
	double k = (double)c->kv_channels, v = (double)model_value_dim(c),
	       elements = heads * (k + v) + groups * (k + v);

	if (c->multi_latent_attention) {
		struct latent_sizes n = latent_sizes_of(c);

		elements += (double)(2 * n.q + n.kv + c->kv_lora_rank);
	} else if (c->qk_layernorm) {
		elements += (heads + groups) * k;
	}
	return saved_branch(r) + (double)r->z.tokens * (r->act * elements + 4 * heads) +
	    saved_scores(r, heads);
}

/* The inputs of an activation and its output. */
static double
saved_activation(const struct rank *r, double width)
{
	return r->act * width * (model_gated(&r->plan->model) ? 3 : 2);
}

/* What is projected, convolved and normed, the output of the rule and its gate, and the states
 * between chunks of 64 positions. */
static double
saved_delta(const struct rank *r)
{
	const struct model_config *c = &r->plan->model;
	struct delta_widths w = delta_widths(c, r->plan->layout.tensor_model_parallel_size);
	double keys = (double)w.key, heads = (double)w.heads, values = (double)w.value;

	return saved_branch(r) +
	    (double)r->z.tokens *
	    (r->act * (6 * keys + 6 * values + 2 * heads) +
		4 * values * (double)c->linear_key_head_dim / 64);
}

static double
saved_mlp(const struct rank *r)
{
	double f = (double)r->plan->model.ffn_hidden_size /
	    (double)r->plan->layout.tensor_model_parallel_size;

	return saved_branch(r) + (double)r->z.tokens * saved_activation(r, f);
}

/* Rows that tokens send, and those that experts get, in their order; probabilities of experts. */
static double
saved_experts(const struct rank *r)
{
	const struct model_config *c = &r->plan->model;
	const struct layout *l = &r->plan->layout;
	bool even = r->plan->shape.random_logits || layout_expert_ranks(l) == 1;
	double slices = (double)layout_expert_slices(l),
	       rows =
		   (double)r->z.rows * (double)c->moe_router_topk * (even ? 1 : r->hw->expert_skew),
	       f = (double)c->moe_ffn_hidden_size,
	       shared = (double)c->moe_shared_expert_intermediate_size /
	    (double)l->tensor_model_parallel_size;

	return saved_branch(r) + rows * r->act * (1 + slices) * (double)r->z.hidden +
	    rows * saved_activation(r, f) + 4 * (double)r->z.rows * (double)c->num_experts +
	    (double)r->z.tokens * saved_activation(r, shared);
}

/* The output of the embedding is the first layer's input, and a copy of it. */
static double
saved(const struct rank *r, const struct block_kind *k)
{
	if (k == &block_attention)
		return saved_attention(r);
	if (k == &block_delta)
		return saved_delta(r);
	if (k == &block_mlp)
		return saved_mlp(r);
	if (k == &block_moe)
		return saved_experts(r);
	return k == &block_embedding ? (r->act + r->mask) * (double)r->z.rows * (double)r->z.hidden
				     : 0;
}

/* --- a stage ---------------------------------------------------------------------------------- */

/* Of how many chunks a stage holds what their forward passes saved, at most. Source: Narayanan et
 * al. 2021, arXiv:2104.04473, 2.2. */
static double
in_flight(const struct run_plan *p, int stage)
{
	double stages = (double)p->layout.pipeline_model_parallel_size,
	       chunks = layout_chunks(&p->layout), m = (double)p->shape.num_microbatches;

	if (chunks == 1)
		return fmin(m, stages - stage);
	return fmin(m * chunks, 2 * (stages - stage - 1) + (chunks - 1) * stages + 1);
}

/* What passes save on a stage, with a layer of those that are recomputed together. */
static double
saved_of_stage(const struct rank *r)
{
	const struct run_plan *p = r->plan;
	struct block *b;
	int n = block_list(&p->model, &p->layout, &p->shape, r->stage, &b);
	double sum = 0, again = 0, most = 0;

	for (int i = 0; i < n; i++) {
		double bytes = saved(r, b[i].kind);
		bool first = i == 0 || b[i - 1].recompute_chunk != b[i].recompute_chunk ||
		    b[i - 1].chunk != b[i].chunk;

		if (b[i].recompute_chunk < 0) {
			sum += bytes;
			continue;
		}
		if (first)
			sum += r->act * (double)r->z.rows * (double)r->z.hidden;
		again = first ? bytes : again + bytes;
		most = fmax(most, again);
	}
	free(b);
	return sum * in_flight(p, r->stage) / layout_chunks(&p->layout) + most;
}

/* Logits in fp32, of which the loss makes their gradient where they lie. A loss of several kernels
 * keeps those of the run's type beside them. */
static double
logits(const struct rank *r)
{
	double each = r->hw->loss_fusion >= 1 ? 4 : 4 + r->act;

	return (double)r->z.tokens * (double)r->z.vocab * each +
	    2 * r->act * (double)r->z.rows * (double)r->z.hidden;
}

/* Weights in the run's type, main gradients in fp32, or with fp16 or sums in bf16 in it; master,
 * moments and with fp16 the gradient of the elements that the optimizer owns. */
static double
held(const struct rank *r, const struct memory_plan *m)
{
	const struct train_shape *s = &r->plan->shape;
	double all = (double)m->shards.elements, own = (double)m->optim_elements,
	       weights = s->sharding == SHARDING_PARAMS ? own : all,
	       gradients = s->sharding >= SHARDING_GRADS ? own : all,
	       each = s->dtype == DTYPE_F16 || s->grad_reduce_in_bf16 ? 2 : 4,
	       masters = s->dtype == DTYPE_F32 ? 0
	    : s->dtype == DTYPE_F16            ? 8
					       : 4;

	return r->act * weights + each * gradients +
	    (masters + 4 * optim_num_states(s->rule)) * own;
}

/* --- what stays after a backward pass --------------------------------------------------------- */

/* The matrices of linears of a rank, each shape once. */
struct shapes {
	int64_t rows[32], columns[32];
	int count;
};

static void
add_shape(struct shapes *s, int64_t rows, int64_t columns)
{
	int most = sizeof s->rows / sizeof *s->rows;

	for (int i = 0; i < s->count; i++)
		if (s->rows[i] == rows && s->columns[i] == columns)
			return;
	if (s->count == most)
		BUG("more than %d shapes of matrices", most);
	s->rows[s->count] = rows;
	s->columns[s->count++] = columns;
}

/* Of all layers. Matrices that one GEMM reads are one. */
static void
add_layer_shapes(const struct rank *r, const struct memory_stages *x, struct shapes *s)
{
	const int first[AX_COUNT] = { 0 };
	const struct model_config *c = &r->plan->model;

	for (int i = 0; i < x->num_params;) {
		const struct param *p = &x->table[i++];
		int64_t rows, more;

		if (!param_is_layer_matrix(p, c) || p->expert > 0)
			continue;
		param_slice(p, c, &r->plan->layout, first, &rows);
		for (; i < x->num_params && x->table[i].flags & PARAM_JOINED &&
		     x->table[i].expert == p->expert;
		     i++) {
			param_slice(&x->table[i], c, &r->plan->layout, first, &more);
			rows += more;
		}
		add_shape(s, p->shard_dim == 1 ? p->shape[0] : rows,
		    p->shard_dim == 1 ? rows : p->shape[1]);
	}
}

/* GEMMs that add gradients of weights to main gradients leave an array of each shape in the run's
 * type, which stands for the gradient that autograd expects. Without them the gradients of tables
 * stay. */
static double
left_over(const struct rank *r, const struct memory_stages *x)
{
	int last = (int)r->plan->layout.pipeline_model_parallel_size - 1;
	bool ends = r->stage == last, untied = r->plan->model.untie_embeddings_and_output_weights;
	double table = (double)r->z.vocab * (double)r->z.hidden, elements = ends ? table : 0;
	struct shapes s = { .count = 0 };

	if (r->hw->gradient_fusion < 1)
		return r->act * table * ((r->stage == 0) + (ends && (last > 0 || untied)));
	add_layer_shapes(r, x, &s);
	for (int i = 0; i < s.count; i++)
		elements += (double)s.rows[i] * (double)s.columns[i];
	return r->act * elements;
}

/* --- all -------------------------------------------------------------------------------------- */

double
allocated_with(const struct run_plan *p, const struct hardware *hw, struct memory_stages *x)
{
	int stages = (int)p->layout.pipeline_model_parallel_size;
	double most = 0;

	for (int i = 0; i < stages; i++) {
		struct rank r = { p, hw, sizes_of_rank(&p->model, &p->layout, &p->shape, i),
			.act = (double)dtype_size(p->shape.dtype),
			.mask = p->model.hidden_dropout > 0, .stage = i };
		struct memory_plan m;

		memory_plan_stage(&m, x, &p->shape, i);
		most = fmax(most,
		    held(&r, &m) + saved_of_stage(&r) + left_over(&r, x) +
			(i == stages - 1 ? logits(&r) : 0));
		memory_release(&m);
	}
	return most;
}

double
allocated_bytes(const struct run_plan *p, const struct hardware *hw)
{
	struct memory_stages x;
	double most;

	memory_stages_init(&x, &p->model, &p->layout, &p->shape);
	most = allocated_with(p, hw, &x);
	memory_stages_release(&x);
	return most;
}

double
allocated_reserved(const struct run_plan *p, double bytes)
{
	/* What an allocator holds beside what is in use, as a share and in bytes. SimuMax's rows
	 * print both counters, 2.8 to 7.9 % apart; it is more where the rows of experts give arrays
	 * another size in each step. */
	static const double share[] = { 0.03, 0.08 }, fixed = 0.5e9;

	return bytes * (1 + share[p->model.num_experts > 0]) + fixed;
}

bool
allocated_elsewhere(const struct hardware *hw)
{
	return hw->stack && stack_text(hw->stack);
}
