/*
 * moe.c - the block of experts: norm, router, the experts of each row and that of all rows,
 * residual sum
 *
 * Rows of the experts of a rank are multiplied together, each by its expert's matrices, as in mlp.c
 * in what is between. The weight of an expert in a row multiplies its activation, not its output:
 * the sum over a row's experts is the same, and no output need be saved for the weight's gradient.
 * The expert of all rows is an MLP that is shared over tensor ranks. Source: spec/training.md 10.
 */
#include "train/layers/dispatch.h"
#include "train/layers/layer.h"
#include "train/layers/router.h"

static enum act_kind
activation(const struct engine *e)
{
	return (enum act_kind)e->plan.model.activation;
}

/* gate, where the model has one, and up: of an expert, or of that of all rows. */
static enum role
first_of(const struct engine *e, enum role gate, enum role up)
{
	return model_gated(&e->plan.model) ? gate : up;
}

/* --- the expert of all rows ------------------------------------------------------------------- */

static bool
has_shared(const struct engine *e)
{
	return e->plan.model.moe_shared_expert_intermediate_size > 0;
}

static struct tensor
shared_up(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_joined(e, grad, l->block->layer,
	    first_of(e, ROLE_SHARED_GATE, ROLE_SHARED_UP), ROLE_SHARED_UP);
}

/* Up to the input of the activation, which is saved. */
static void
shared_project_up(const struct layer *l, struct step *s, const struct tensor *normed)
{
	struct linear in = { .x = *normed,
		.y = step_buffer(s, BUF_SHARED_UP, l->block->local),
		.weight = shared_up(l, s->e, false) };

	column_forward(s, &in);
}

static void
shared_project_down(const struct layer *l, struct step *s, const struct tensor *y)
{
	struct engine *e = s->e;
	struct tensor up = step_buffer(s, BUF_SHARED_UP, l->block->local);
	struct linear down = { .x = engine_buffer(e, BUF_SHARED_ACT),
		.y = *y,
		.weight = engine_weight(e, l->block->layer, ROLE_SHARED_DOWN) };

	e->ops->act_fwd(e->stream, activation(e), &down.x, &up);
	row_forward(s, &down);
}

/* f: dx [R,h] is written from dy [R,h]; x is the norm's output. */
static void
shared_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct act_grad act = { .dy = engine_buffer(e, BUF_SHARED_DACT),
		.x = step_buffer(s, BUF_SHARED_UP, l->block->local),
		.y = engine_buffer(e, BUF_SHARED_ACT) };
	struct linear_grad down = { .dx = act.dy,
		.dy = f->dy,
		.x = act.y,
		.weight = engine_weight(e, l->block->layer, ROLE_SHARED_DOWN),
		.dweight = engine_grad(e, l->block->layer, ROLE_SHARED_DOWN) };
	struct linear_grad in = { .dx = f->dx,
		.dy = act.x,
		.x = f->x,
		.weight = shared_up(l, e, false),
		.dweight = shared_up(l, e, true) };

	row_backward(s, &down);
	act.dx = act.x;
	e->ops->act_bwd(e->stream, activation(e), &act);
	weight_product(s, &down);
	column_backward(s, &in);
}

/* --- the experts of each row ------------------------------------------------------------------ */

/* The matrices of all experts of the rank, one above the other. */
static struct tensor
experts_up(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_experts(e, grad, l->block->layer,
	    first_of(e, ROLE_EXPERT_GATE, ROLE_EXPERT_UP), ROLE_EXPERT_UP);
}

static struct tensor
experts_down(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_experts(e, grad, l->block->layer, ROLE_EXPERT_DOWN, ROLE_EXPERT_DOWN);
}

/* The rows of each of the rank's experts, from each rank. */
static struct tensor
arriving(const struct layer *l, const struct step *s)
{
	struct tensor all = step_buffer(s, BUF_EXPERT_ROWS, l->block->local);
	int64_t local = all.shape[1] / s->e->groups.ep->size;

	return tensor_columns(&all, s->e->groups.ep->rank * local, local);
}

/* The weights of the rows that arrived. */
static struct tensor
row_weights(const struct layer *l, struct step *s)
{
	struct tensor w = step_buffer(s, BUF_EXPERT_WEIGHT, l->block->local);

	return tensor_column(&w);
}

/* Their gradient. */
static struct tensor
row_weights_grad(const struct step *s)
{
	struct tensor w = engine_buffer(s->e, BUF_EXPERT_DWEIGHT);

	return tensor_column(&w);
}

/* A product of all experts. */
static void
grouped(const struct layer *l, struct step *s, struct grouped g)
{
	g.counts = arriving(l, s);
	g.beta = g.kind == GROUPED_WEIGHT && s->accumulate ? 1 : 0;
	s->e->ops->grouped(s->e->stream, &g);
}

/* Rows and weights to their experts, and up to the input of the activation: what is saved. */
static void
experts_project_up(const struct layer *l, struct step *s, const struct tensor *normed)
{
	struct tensor in = step_buffer(s, BUF_EXPERT_IN, l->block->local), w = row_weights(l, s),
		      chosen = step_buffer(s, BUF_CHOICE_WEIGHT, l->block->local);

	dispatch_counts(l, s);
	dispatch_rows(l, s, &in, normed);
	dispatch_weights(l, s, &w, &chosen);
	grouped(l, s,
	    (struct grouped){ GROUPED_FORWARD, step_buffer(s, BUF_EXPERT_UP, l->block->local), in,
		experts_up(l, s->e, false) });
}

/* y [R,h] = the sums over the experts of each row, or y += them. */
static void
experts_project_down(const struct layer *l, struct step *s, const struct dispatch *to)
{
	struct engine *e = s->e;
	struct expert_act act = { .kind = activation(e),
		.y = engine_buffer(e, BUF_EXPERT_ACT),
		.x = step_buffer(s, BUF_EXPERT_UP, l->block->local),
		.weight = row_weights(l, s),
		.counts = arriving(l, s) };

	e->ops->expert_act(e->stream, &act);
	grouped(l, s, (struct grouped){ GROUPED_FORWARD, to->x, act.y, experts_down(l, e, false) });
	dispatch_back(l, s, to);
}

/* From the gradient of the experts' outputs in `out` to that of their activations' inputs, which
 * takes the place of these; and the gradients of the rows' weights and of the down projections. */
static struct tensor
experts_through_activation(const struct layer *l, struct step *s, const struct tensor *out)
{
	struct engine *e = s->e;
	struct expert_act_grad a = { .kind = activation(e),
		.dx = step_buffer(s, BUF_EXPERT_UP, l->block->local),
		.dy = engine_buffer(e, BUF_EXPERT_DACT),
		.y = engine_buffer(e, BUF_EXPERT_ACT),
		.dweight = row_weights_grad(s),
		.weight = row_weights(l, s),
		.counts = arriving(l, s) };

	a.x = a.dx;
	grouped(l, s, (struct grouped){ GROUPED_INPUT, a.dy, *out, experts_down(l, e, false) });
	e->ops->expert_act_grad(e->stream, &a);
	grouped(l, s, (struct grouped){ GROUPED_WEIGHT, experts_down(l, e, true), *out, a.y });
	return a.dx;
}

/* f->dx [R,h], which shared_backward has written where there is such an expert, from f->dy; and the
 * gradients of the weights of the choice. */
static void
experts_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct tensor out = engine_buffer(e, BUF_EXPERT_OUT),
		      in = step_buffer(s, BUF_EXPERT_IN, l->block->local), dw = row_weights_grad(s),
		      dchosen = engine_buffer(e, BUF_DCHOICE_WEIGHT), dup;

	dispatch_rows(l, s, &out, &f->dy);
	dup = experts_through_activation(l, s, &out);
	grouped(l, s, (struct grouped){ GROUPED_WEIGHT, experts_up(l, e, true), dup, in });
	grouped(l, s, (struct grouped){ GROUPED_INPUT, out, dup, experts_up(l, e, false) });
	dispatch_back(l, s, &(struct dispatch){ f->dx, out, has_shared(e) });
	dispatch_weights_back(l, s, &dchosen, &dw);
}

/* --- the block -------------------------------------------------------------------------------- */

static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor normed = norm_forward(l, s, x);
	struct dispatch sum = { norm_branch(l, s), engine_buffer(e, BUF_EXPERT_OUT),
		has_shared(e) };

	router_forward(l, s, &normed);
	experts_project_up(l, s, &normed);
	if (has_shared(e))
		shared_project_up(l, s, &normed);
	/* Recomputed only for the backward pass, which recomputes the activations itself. */
	if (!y->data && !l->block->post)
		return;
	if (has_shared(e))
		shared_project_down(l, s, &sum.y);
	experts_project_down(l, s, &sum);
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
		.x = norm_recompute(l, s, x) };
	struct norm_flow flow = { *dx, branch.dx, *x };

	if (has_shared(s->e))
		shared_backward(l, s, &branch);
	experts_backward(l, s, &branch);
	router_backward(l, s, &branch);
	norm_backward(l, s, &flow);
}

const struct layer_kind layer_moe = { &block_moe, SITE_MLP_OUT, forward, backward };
