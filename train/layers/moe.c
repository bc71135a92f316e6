/*
 * moe.c - the block of experts: norm, router, the experts of each row and that of all rows,
 * residual sum
 *
 * Rows of the experts of a rank are multiplied together, each by its expert's matrices, as in mlp.c
 * in what is between. The weight of an expert in a row multiplies its activation, not its output:
 * the sum over a row's experts is the same, and no output need be saved for the weight's gradient.
 * The shared expert is an MLP that is shared over tensor ranks. Source: docs/math.md 5.
 *
 * In 8 bits rows are copied where they are multiplied, after they have arrived: what ranks exchange
 * has 16. Both GEMMs with weights read such copies, the gradients of weights do not (lib/model/
 * fp8.h).
 */
#include "lib/model/block/moe.h"
#include "train/layers/dispatch.h"
#include "train/layers/fp8.h"
#include "train/layers/layer.h"
#include "train/layers/linear.h"
#include "train/layers/norm.h"
#include "train/layers/residual.h"
#include "train/layers/router.h"

static enum act_kind
activation(const struct engine *e)
{
	return (enum act_kind)e->plan.model.activation;
}

/* gate, where the model has one, and up: of an expert, or of that of all rows. */
static int
first_of(const struct engine *e, int gate, int up)
{
	return model_gated(&e->plan.model) ? gate : up;
}

/* --- the shared expert ------------------------------------------------------------------- */

static bool
has_shared(const struct engine *e)
{
	return e->plan.model.moe_shared_expert_intermediate_size > 0;
}

static bool
is_weighted(const struct engine *e)
{
	return e->plan.model.moe_shared_expert_gate;
}

static struct tensor
shared_up(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_joined(
	    e, grad, l->block->layer, first_of(e, MOE_SHARED_GATE, MOE_SHARED_UP), MOE_SHARED_UP);
}

/* Up to the input of the activation, which is saved. */
static void
shared_project_up(const struct layer *l, struct step *s, const struct tensor *normed)
{
	struct linear in = { .x = *normed,
		.y = layer_buffer(l, s, MOE_SHARED_FC1_OUT),
		.weight = shared_up(l, s->e, false),
		.fp8 = fp8_gemm_of(s->e, l->block, FP8_SHARED_FC1) };

	column_forward(s, &in);
}

static void
shared_project_down(const struct layer *l, struct step *s, const struct tensor *y)
{
	struct engine *e = s->e;
	struct tensor up = layer_buffer(l, s, MOE_SHARED_FC1_OUT);
	struct linear down = { .x = layer_buffer(l, s, MOE_SHARED_ACT),
		.y = *y,
		.weight = engine_weight(e, l->block->layer, MOE_SHARED_DOWN),
		.fp8 = fp8_gemm_of(e, l->block, FP8_SHARED_FC2) };

	e->ops->act_fwd(e->stream, &(struct act){ .kind = activation(e), .y = down.x, .x = up });
	row_forward(s, &down);
}

/* The shared expert's output, which is saved where the sigmoid of a number of each row multiplies
 * it. */
static struct tensor
shared_output(const struct layer *l, struct step *s, const struct tensor *branch)
{
	return is_weighted(s->e) ? layer_buffer(l, s, MOE_SHARED_OUT) : *branch;
}

/* The numbers of all rows. */
static void
shared_logits(const struct layer *l, struct step *s, const struct tensor *normed)
{
	struct linear logits = { .x = *normed,
		.y = layer_buffer(l, s, MOE_SHARED_LOGITS),
		.weight = engine_weight(s->e, l->block->layer, MOE_SHARED_WEIGHT) };

	if (is_weighted(s->e))
		forward_gemm(s, &logits);
}

/* y = the output times these sigmoids. */
static void
shared_weigh(const struct layer *l, struct step *s, const struct tensor *y)
{
	struct gate g = { *y, layer_buffer(l, s, MOE_SHARED_OUT),
		layer_buffer(l, s, MOE_SHARED_LOGITS) };

	if (is_weighted(s->e))
		s->e->ops->gate(s->e->stream, &g);
}

/* The gradient of the output and, in scratch, of the numbers, from dy [R,h]. */
static struct tensor
shared_unweigh(const struct layer *l, struct step *s, const struct tensor *dy)
{
	struct gate_grad g = { .dx = layer_buffer(l, s, MOE_SHARED_DOUT),
		.dz = layer_buffer(l, s, MOE_SHARED_DLOGITS),
		.dy = *dy,
		.x = layer_buffer(l, s, MOE_SHARED_OUT),
		.z = layer_buffer(l, s, MOE_SHARED_LOGITS) };

	if (!is_weighted(s->e))
		return *dy;
	s->e->ops->gate_grad(s->e->stream, &g);
	return g.dx;
}

/* Adds to f->dx, which is whole. */
static void
shared_logits_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct linear_grad g = { .dy = layer_buffer(l, s, MOE_SHARED_DLOGITS),
		.x = f->x,
		.dweight = engine_grad(e, l->block->layer, MOE_SHARED_WEIGHT) };
	struct gemm input = { .c = f->dx,
		.a = g.dy,
		.b = engine_weight(e, l->block->layer, MOE_SHARED_WEIGHT),
		.alpha = 1,
		.beta = 1 };

	if (!is_weighted(e))
		return;
	e->ops->gemm(e->stream, &input);
	weight_gradient(s, &g);
}

/* f: dx [R,h] is written from dy [R,h]; x is the norm's output. */
static void
shared_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct act_grad act = { .kind = activation(e),
		.dy = layer_buffer(l, s, MOE_SHARED_DACT),
		.x = layer_buffer(l, s, MOE_SHARED_FC1_OUT),
		.y = layer_buffer(l, s, MOE_SHARED_ACT) };
	struct linear_grad down = { .dx = act.dy,
		.dy = shared_unweigh(l, s, &f->dy),
		.x = act.y,
		.weight = engine_weight(e, l->block->layer, MOE_SHARED_DOWN),
		.dweight = engine_grad(e, l->block->layer, MOE_SHARED_DOWN),
		.fp8 = fp8_gemm_of(e, l->block, FP8_SHARED_FC2) };
	struct linear_grad in = { .dx = f->dx,
		.dy = act.x,
		.x = f->x,
		.weight = shared_up(l, e, false),
		.dweight = shared_up(l, e, true),
		.fp8 = fp8_gemm_of(e, l->block, FP8_SHARED_FC1) };

	row_backward(s, &down);
	act.dx = act.x;
	e->ops->act_bwd(e->stream, &act);
	weight_gradient(s, &down);
	column_backward_begin(s, &in);
	column_backward(s, &in);
	weight_gradient(s, &in);
	column_backward_end(s);
	shared_logits_backward(l, s, f);
}

/* --- the experts of each row ------------------------------------------------------------------ */

/* The matrices of all experts of the rank, one above the other. */
static struct tensor
experts_up(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_experts(
	    e, grad, l->block->layer, first_of(e, MOE_EXPERT_GATE, MOE_EXPERT_UP), MOE_EXPERT_UP);
}

static struct tensor
experts_down(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_experts(e, grad, l->block->layer, MOE_EXPERT_DOWN, MOE_EXPERT_DOWN);
}

/* A round of the rows that go to the rank's experts: their inputs and weights, and the inputs of
 * the activation. Those of the first are saved; the others share scratch and are computed a second
 * time in the backward pass. */
struct round {
	int64_t first;
	struct tensor in, weight, up;
};

static struct round
round_at(const struct layer *l, const struct step *s, int64_t i)
{
	static const int saved[] = { MOE_IN, MOE_WEIGHT, MOE_UP },
			 shared[] = { MOE_ROUND_IN, MOE_ROUND_WEIGHT, MOE_ROUND_UP };
	const int *of = i == 0 ? saved : shared;
	struct tensor in = layer_buffer(l, s, of[0]), weight = layer_buffer(l, s, of[1]);

	return (struct round){ .first = i * in.shape[0],
		.in = in,
		.weight = tensor_column(&weight),
		.up = layer_buffer(l, s, of[2]) };
}

/* However the rows are spread over ranks. */
static int64_t
num_rounds(const struct engine *e)
{
	const struct run_plan *p = &e->plan;

	return capacity_received(&p->model, &p->layout, &p->shape).rounds;
}

/* The gradient of the weights of a round's rows. */
static struct tensor
weights_grad(const struct engine *e)
{
	struct tensor w = engine_buffer(e, MOE_DWEIGHT);

	return tensor_column(&w);
}

/* A GEMM of all experts, of one of their linears. */
static void
grouped(const struct layer *l, struct step *s, const struct round *w, enum fp8_linear linear,
    struct grouped g)
{
	const struct fp8_gemm *p = fp8_gemm_of(s->e, l->block, linear);
	bool add = s->accumulate || w->first > 0;

	g.counts = dispatch_received(l, s);
	g.first = w->first;
	g.beta = g.kind == GROUPED_WEIGHT && add ? 1 : 0;
	if (p && g.kind != GROUPED_WEIGHT)
		fp8_grouped(s, p, &g);
	else
		s->e->ops->grouped(s->e->stream, &g);
}

/* The rows of x [R,h] and the weights of their top-k indices, on their way to the experts; returns
 * the rows, in b where ranks share the experts. */
static struct tensor
experts_permute(const struct layer *l, struct step *s, int b, const struct tensor *x)
{
	struct round w = round_at(l, s, 0);
	struct tensor rows = dispatch_rows(s, b, &w.in),
		      weights = dispatch_rows(s, MOE_ROUTED_WEIGHT, &w.weight),
		      chosen = layer_buffer(l, s, MOE_TOPK_WEIGHT);

	dispatch_permute(l, s, &rows, x);
	dispatch_permute(l, s, &weights, &chosen);
	return rows;
}

/* Rows and weights to their experts, and up to the input of the activation. */
static void
experts_project_up(
    const struct layer *l, struct step *s, const struct round *w, const struct tensor *rows)
{
	struct tensor weights = dispatch_rows(s, MOE_ROUTED_WEIGHT, &w->weight);

	dispatch_send(l, s, &(struct dispatch){ *rows, w->in, w->first });
	dispatch_send(l, s, &(struct dispatch){ weights, w->weight, w->first });
	grouped(l, s, w, FP8_EXPERT_FC1,
	    (struct grouped){ GROUPED_FORWARD, w->up, w->in, experts_up(l, s->e, false) });
}

/* From there to the experts' outputs, which go back to where the rows came from. */
static void
experts_project_down(
    const struct layer *l, struct step *s, const struct round *w, const struct tensor *rows)
{
	struct engine *e = s->e;
	struct tensor out = layer_buffer(l, s, MOE_OUT);
	struct expert_act act = { .kind = activation(e),
		.y = layer_buffer(l, s, MOE_ACT),
		.x = w->up,
		.weight = w->weight,
		.counts = dispatch_received(l, s),
		.first = w->first };

	e->ops->expert_act(e->stream, &act);
	grouped(l, s, w, FP8_EXPERT_FC2,
	    (struct grouped){ GROUPED_FORWARD, out, act.y, experts_down(l, e, false) });
	dispatch_back(l, s, &(struct dispatch){ *rows, out, w->first });
}

/* y [R,h] = the sums over the experts of each row, or y += them where the shared expert has
 * written it. The first round has been projected up. Outputs of a round take the place of its
 * inputs, which nobody else needs. */
static void
experts_forward(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *rows)
{
	struct tensor out = layer_buffer(l, s, MOE_OUT), back = dispatch_rows(s, MOE_ROUTED, &out);

	for (int64_t i = 0; i < num_rounds(s->e); i++) {
		struct round w = round_at(l, s, i);

		if (i > 0)
			experts_project_up(l, s, &w, rows);
		experts_project_down(l, s, &w, &back);
	}
	dispatch_sum(l, s, &(struct dispatch_sum){ *y, back, has_shared(s->e) });
}

/* From the gradient of the experts' outputs in `out` to that of their activations' inputs, which
 * takes the place of these; and the gradients of the rows' weights and of the down projections. */
static void
experts_through_activation(
    const struct layer *l, struct step *s, const struct round *w, const struct tensor *out)
{
	struct engine *e = s->e;
	struct expert_act_grad a = { .kind = activation(e),
		.dx = w->up,
		.dy = layer_buffer(l, s, MOE_DACT),
		.y = layer_buffer(l, s, MOE_ACT),
		.dweight = weights_grad(e),
		.x = w->up,
		.weight = w->weight,
		.counts = dispatch_received(l, s),
		.first = w->first };

	grouped(l, s, w, FP8_EXPERT_FC2,
	    (struct grouped){ GROUPED_INPUT, a.dy, *out, experts_down(l, e, false) });
	e->ops->expert_act_grad(e->stream, &a);
	grouped(l, s, w, FP8_EXPERT_FC2,
	    (struct grouped){ GROUPED_WEIGHT, experts_down(l, e, true), *out, a.y });
}

/* Gradients of outputs in rows become those of inputs, and weights on their way their own
 * gradients. */
static void
round_backward(
    const struct layer *l, struct step *s, const struct round *w, const struct tensor *rows)
{
	struct engine *e = s->e;
	struct tensor out = layer_buffer(l, s, MOE_OUT), dw = weights_grad(e),
		      weights = dispatch_rows(s, MOE_ROUTED_WEIGHT, &dw);
	struct dispatch to = { *rows, out, w->first };

	dispatch_send(l, s, &to);
	experts_through_activation(l, s, w, &out);
	grouped(l, s, w, FP8_EXPERT_FC1,
	    (struct grouped){ GROUPED_WEIGHT, experts_up(l, e, true), w->up, w->in });
	grouped(l, s, w, FP8_EXPERT_FC1,
	    (struct grouped){ GROUPED_INPUT, out, w->up, experts_up(l, e, false) });
	dispatch_back(l, s, &to);
	dispatch_back(l, s, &(struct dispatch){ weights, dw, w->first });
}

/* f->dx [R,h], which shared_backward has written where there is such an expert, from f->dy; and the
 * gradients of the weights of the top-k indices. */
static void
experts_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct tensor out = layer_buffer(l, s, MOE_OUT), dw = weights_grad(e),
		      rows = dispatch_rows(s, MOE_ROUTED, &out),
		      weights = dispatch_rows(s, MOE_ROUTED_WEIGHT, &dw), again = { NULL };
	int64_t rounds = num_rounds(e);

	dispatch_permute(l, s, &rows, &f->dy);
	if (rounds > 1)
		again = experts_permute(l, s, MOE_ROUTED_INPUT, &f->x);
	for (int64_t i = 0; i < rounds; i++) {
		struct round w = round_at(l, s, i);

		if (i > 0)
			experts_project_up(l, s, &w, &again);
		round_backward(l, s, &w, &rows);
	}
	dispatch_sum(l, s, &(struct dispatch_sum){ f->dx, rows, has_shared(e) });
	dispatch_sum(
	    l, s, &(struct dispatch_sum){ layer_buffer(l, s, MOE_DTOPK_WEIGHT), weights, false });
}

/* --- the block -------------------------------------------------------------------------------- */

static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor normed = norm_forward(l, s, x), branch = norm_branch(l, s), rows,
		      shared = shared_output(l, s, &branch);
	struct round first = round_at(l, s, 0);

	router_forward(l, s, &normed);
	dispatch_counts(l, s);
	rows = experts_permute(l, s, MOE_ROUTED, &normed);
	experts_project_up(l, s, &first, &rows);
	if (has_shared(e))
		shared_project_up(l, s, &normed);
	shared_logits(l, s, &normed);
	if (is_weighted(e))
		shared_project_down(l, s, &shared);
	/* Recomputed only for the backward pass, which recomputes the activations itself. */
	if (!y->data && !l->block->post)
		return;
	if (has_shared(e) && !is_weighted(e))
		shared_project_down(l, s, &shared);
	shared_weigh(l, s, &branch);
	experts_forward(l, s, &branch, &rows);
	if (y->data)
		residual_forward(l, s, y, x);
	else
		norm_branch_forward(l, s);
}

/* As in attention.c, dx changes in place from the gradient of the block's output to that of its
 * input. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct norm_flow branch = { .dx = engine_buffer(s->e, BUF_DNORM),
		.dy = residual_backward(l, s, dx),
		.x = norm_recompute(l, s, x, NORM_WEIGHT) };
	struct norm_flow flow = { *dx, branch.dx, *x };

	if (has_shared(s->e))
		shared_backward(l, s, &branch);
	experts_backward(l, s, &branch);
	router_backward(l, s, &branch);
	norm_backward(l, s, &flow);
}

static const enum use uses[] = { OP_act_bwd, OP_act_fwd, OP_expert_act, OP_expert_act_grad, OP_gate,
	OP_gate_grad, OP_gemm, OP_grouped, USES_END };

const struct layer_kind layer_moe = { &block_moe, SITE_MLP_OUT, forward, backward, .uses = uses };
