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
#include "train/layers/turns.h"

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

	e->ops->act_fwd(e->stream,
	    &(struct act){ .kind = activation(e), .y = down.x, .x = up, .gate = layer_gate(e) });
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
		.y = layer_buffer(l, s, MOE_SHARED_ACT),
		.gate = layer_gate(e) };
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

/* Their biases, one after the other; none where the model has none. */
static struct tensor
biases_up(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_experts(e, grad, l->block->layer,
	    first_of(e, MOE_EXPERT_GATE_BIAS, MOE_EXPERT_UP_BIAS), MOE_EXPERT_UP_BIAS);
}

static struct tensor
biases_down(const struct layer *l, const struct engine *e, bool grad)
{
	return engine_experts(e, grad, l->block->layer, MOE_EXPERT_DOWN_BIAS, MOE_EXPERT_DOWN_BIAS);
}

/* The columns of outputs, or of their gradient, whose biases this rank has of those that share an
 * expert. */
static struct tensor
biased_columns(const struct engine *e, const struct tensor *out)
{
	int64_t n = out->shape[1] / layout_expert_slices(&e->plan.layout);
	int at[EX_COUNT];

	layout_expert_coord(&e->plan.layout, e->coord, at);
	return tensor_columns(out, at[EX_TP] * n, n);
}

/* A round of the rows that go to the rank's experts in a turn: their inputs and weights, and the
 * inputs of the activation. Those of a turn's first are saved; the others share scratch and are
 * computed a second time in the backward pass. */
struct round {
	int turn;
	int64_t first;
	struct tensor in, weight, up;
};

/* Rows of round i of a turn in a buffer of the first rounds of all turns, or of one of the others.
 */
static struct tensor
rows_of_round(const struct layer *l, const struct step *s, int turn, int64_t i, const int buffer[2])
{
	struct tensor t = layer_buffer(l, s, buffer[i > 0]);
	int64_t rows = t.shape[0] / turns_count(s->e);

	return i > 0 ? t : tensor_rows(&t, turn * rows, rows);
}

static struct round
round_at(const struct layer *l, const struct step *s, int turn, int64_t i)
{
	static const int in[] = { MOE_IN, MOE_ROUND_IN }, up[] = { MOE_UP, MOE_ROUND_UP },
			 weight[] = { MOE_WEIGHT, MOE_ROUND_WEIGHT };
	struct tensor weights = rows_of_round(l, s, turn, i, weight);
	struct round w = { .turn = turn,
		.in = rows_of_round(l, s, turn, i, in),
		.weight = tensor_column(&weights),
		.up = rows_of_round(l, s, turn, i, up) };

	w.first = i * w.in.shape[0];
	return w;
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

/* Whether gradients of weights are added to those of earlier rounds or micro batches. */
static bool
is_added(const struct step *s, const struct round *w)
{
	return s->accumulate || w->first > 0 || w->turn > 0;
}

/* A GEMM of all experts, of one of their linears. */
static void
grouped(const struct layer *l, struct step *s, const struct round *w, enum fp8_linear linear,
    struct grouped g)
{
	const struct fp8_gemm *p = fp8_gemm_of(s->e, l->block, linear);

	g.counts = dispatch_received(l, s, w->turn);
	g.first = w->first;
	g.beta = g.kind == GROUPED_WEIGHT && is_added(s, w) ? 1 : 0;
	if (p && g.kind != GROUPED_WEIGHT)
		fp8_grouped(s, p, &g);
	else
		s->e->ops->grouped(s->e->stream, &g);
}

/* Adds biases to rows of a round, times their weights if there are any. */
static void
add_biases(const struct layer *l, struct step *s, const struct round *w, struct expert_bias b)
{
	b.counts = dispatch_received(l, s, w->turn);
	b.first = w->first;
	if (b.bias.data)
		s->e->ops->expert_bias(s->e->stream, &b);
}

static void
biases_backward(
    const struct layer *l, struct step *s, const struct round *w, struct expert_bias_grad g)
{
	g.counts = dispatch_received(l, s, w->turn);
	g.first = w->first;
	g.beta = is_added(s, w);
	if (g.dbias.data)
		s->e->ops->expert_bias_grad(s->e->stream, &g);
}

/* The rows of a turn and the weights of their top-k indices, on their way to the experts; returns
 * the rows, in b where ranks share the experts. */
static struct tensor
experts_permute(const struct layer *l, struct step *s, int b, int turn, const struct turn *t)
{
	struct round w = round_at(l, s, turn, 0);
	struct tensor rows = dispatch_rows(s, b, &w.in),
		      weights = dispatch_rows(s, MOE_ROUTED_WEIGHT, &w.weight);

	dispatch_permute(l, s, &(struct dispatch_order){ rows, t->x, turn });
	dispatch_permute(l, s, &(struct dispatch_order){ weights, t->weight, turn });
	return rows;
}

/* Rows and weights to their experts, and up to the input of the activation. */
static void
experts_project_up(
    const struct layer *l, struct step *s, const struct round *w, const struct tensor *rows)
{
	struct tensor weights = dispatch_rows(s, MOE_ROUTED_WEIGHT, &w->weight);

	dispatch_send(l, s, &(struct dispatch){ *rows, w->in, w->turn, w->first });
	dispatch_send(l, s, &(struct dispatch){ weights, w->weight, w->turn, w->first });
	grouped(l, s, w, FP8_EXPERT_FC1,
	    (struct grouped){ GROUPED_FORWARD, w->up, w->in, experts_up(l, s->e, false) });
	add_biases(l, s, w, (struct expert_bias){ w->up, biases_up(l, s->e, false) });
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
		.counts = dispatch_received(l, s, w->turn),
		.first = w->first,
		.gate = layer_gate(e) };

	e->ops->expert_act(e->stream, &act);
	grouped(l, s, w, FP8_EXPERT_FC2,
	    (struct grouped){ GROUPED_FORWARD, out, act.y, experts_down(l, e, false) });
	add_biases(l, s, w,
	    (struct expert_bias){ biased_columns(e, &out), biases_down(l, e, false), w->weight });
	dispatch_back(l, s, &(struct dispatch){ *rows, out, w->turn, w->first });
}

/* Rows of a turn on their way, of which the first round is projected up. */
static struct tensor
turn_begin(const struct layer *l, struct step *s, int turn, const struct turn *own)
{
	struct turn t = rows_of_turn(l, s, turn, own);
	struct round first = round_at(l, s, turn, 0);
	struct tensor rows;

	turn_await(s, turn);
	turn_place(l, s, turn);
	dispatch_counts(l, s, turn);
	rows = experts_permute(l, s, MOE_ROUTED, turn, &t);
	experts_project_up(l, s, &first, &rows);
	return rows;
}

/* y [R,h] = the sums over the experts of each row of a turn, or y += them. Outputs of a round take
 * the place of its inputs, which nobody else needs. */
static void
turn_forward(const struct layer *l, struct step *s, int turn, const struct tensor *rows,
    const struct dispatch_order *sum)
{
	for (int64_t i = 0; i < num_rounds(s->e); i++) {
		struct round w = round_at(l, s, turn, i);

		if (i > 0)
			experts_project_up(l, s, &w, rows);
		experts_project_down(l, s, &w, &sum->rows);
	}
	dispatch_sum(l, s, sum);
}

/* y [R,h] = the sums over the experts of each row, or y += them where the shared expert has
 * written it. The first turn has begun. */
static void
experts_forward(const struct layer *l, struct step *s, const struct tensor *y,
    const struct turn *own, const struct tensor *first_rows)
{
	struct tensor out = layer_buffer(l, s, MOE_OUT), back = dispatch_rows(s, MOE_ROUTED, &out),
		      rows = *first_rows;
	const struct turn_sums sums = { .y = *y };
	int turns = turns_count(s->e);

	for (int i = 0; i < turns; i++) {
		if (i > 0)
			rows = turn_begin(l, s, i, own);
		turn_forward(l, s, i, &rows,
		    &(struct dispatch_order){
			back, turn_sums(l, s, i, &sums).y, i, turns == 1 && has_shared(s->e) });
		if (i > 0)
			turn_return(l, s, i, false);
	}
	turns_end(l, s, &sums, has_shared(s->e), false);
}

/* What is saved of the turns after the first, in a pass that is recomputed for the backward one. */
static void
experts_recompute(const struct layer *l, struct step *s, const struct turn *own)
{
	for (int i = 1; i < turns_count(s->e); i++)
		(void)turn_begin(l, s, i, own);
	turns_leave(s);
}

/* From the gradient of the experts' outputs in `out` to that of their activations' inputs, which
 * takes the place of these; and the gradients of the rows' weights, of biases and of the down
 * projections. */
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
		.counts = dispatch_received(l, s, w->turn),
		.first = w->first,
		.gate = layer_gate(e) };

	grouped(l, s, w, FP8_EXPERT_FC2,
	    (struct grouped){ GROUPED_INPUT, a.dy, *out, experts_down(l, e, false) });
	e->ops->expert_act_grad(e->stream, &a);
	biases_backward(l, s, w,
	    (struct expert_bias_grad){ .dbias = biases_down(l, e, true),
		.dweight = a.dweight,
		.dy = biased_columns(e, out),
		.bias = biases_down(l, e, false),
		.weight = w->weight });
	biases_backward(
	    l, s, w, (struct expert_bias_grad){ .dbias = biases_up(l, e, true), .dy = a.dx });
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
	struct dispatch to = { *rows, out, w->turn, w->first };

	dispatch_send(l, s, &to);
	experts_through_activation(l, s, w, &out);
	grouped(l, s, w, FP8_EXPERT_FC1,
	    (struct grouped){ GROUPED_WEIGHT, experts_up(l, e, true), w->up, w->in });
	grouped(l, s, w, FP8_EXPERT_FC1,
	    (struct grouped){ GROUPED_INPUT, out, w->up, experts_up(l, e, false) });
	dispatch_back(l, s, &to);
	dispatch_back(l, s, &(struct dispatch){ weights, dw, w->turn, w->first });
}

/* From the gradients of a turn's rows to those of their inputs and of the weights of their top-k
 * indices. */
static void
turn_backward(const struct layer *l, struct step *s, int turn, const struct turn *t,
    const struct turn_sums *sums)
{
	struct engine *e = s->e;
	struct tensor out = layer_buffer(l, s, MOE_OUT), dw = weights_grad(e),
		      rows = dispatch_rows(s, MOE_ROUTED, &out),
		      weights = dispatch_rows(s, MOE_ROUTED_WEIGHT, &dw), again = { NULL };
	int64_t rounds = num_rounds(e);
	bool add = turns_count(e) == 1 && has_shared(e);

	dispatch_permute(l, s, &(struct dispatch_order){ rows, t->dy, turn });
	if (rounds > 1)
		again = experts_permute(l, s, MOE_ROUTED_INPUT, turn, t);
	for (int64_t i = 0; i < rounds; i++) {
		struct round w = round_at(l, s, turn, i);

		if (i > 0)
			experts_project_up(l, s, &w, &again);
		round_backward(l, s, &w, &rows);
	}
	dispatch_sum(l, s, &(struct dispatch_order){ rows, sums->y, turn, add });
	dispatch_sum(l, s, &(struct dispatch_order){ weights, sums->dweight, turn });
}

/* f->dx [R,h], which shared_backward has written where there is such an expert, from f->dy; and the
 * gradients of the weights of the top-k indices. */
static void
experts_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	const struct turn own = { .x = f->x, .dy = f->dy };
	const struct turn_sums all = { f->dx, layer_buffer(l, s, MOE_DTOPK_WEIGHT) };

	turns_begin_backward(l, s, &f->dy);
	for (int i = 0; i < turns_count(s->e); i++) {
		struct turn t = rows_of_turn(l, s, i, &own);
		struct turn_sums sums = turn_sums(l, s, i, &all);

		turn_await(s, i);
		turn_backward(l, s, i, &t, &sums);
		if (i > 0)
			turn_return(l, s, i, true);
	}
	turns_end(l, s, &all, has_shared(s->e), true);
}

/* --- the block -------------------------------------------------------------------------------- */

static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor normed = norm_forward(l, s, x), branch = norm_branch(l, s), rows,
		      shared = shared_output(l, s, &branch);
	const struct turn own = { .x = normed };

	router_forward(l, s, &normed);
	turns_begin(l, s, &normed);
	rows = turn_begin(l, s, 0, &own);
	if (has_shared(e))
		shared_project_up(l, s, &normed);
	shared_logits(l, s, &normed);
	if (is_weighted(e))
		shared_project_down(l, s, &shared);
	/* Recomputed only for the backward pass, which recomputes the activations itself. */
	if (!y->data && !l->block->post) {
		experts_recompute(l, s, &own);
		return;
	}
	if (has_shared(e) && !is_weighted(e))
		shared_project_down(l, s, &shared);
	shared_weigh(l, s, &branch);
	experts_forward(l, s, &branch, &own, &rows);
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

static const enum use uses[] = { OP_act_bwd, OP_act_fwd, OP_expert_act, OP_expert_act_grad,
	OP_expert_bias, OP_expert_bias_grad, OP_gate, OP_gate_grad, OP_gemm, OP_grouped,
	OP_place_rows, OP_sum, CALL_exchange, USES_END };

const struct layer_kind layer_moe = { &block_moe, SITE_MLP_OUT, forward, backward, .uses = uses };
