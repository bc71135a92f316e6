/*
 * router.c - which experts a row goes to, and the losses that balance them
 *
 * Logits, weights and their gradients are real whatever the run's type. The losses are sums over
 * tokens, as the loss is: a mean over the tokens of a group times these. What they and the loads
 * add up to is taken in the backward pass, which runs once for each micro batch that trains.
 * Source: docs/math.md 5.
 */
#include "lib/base/int64.h"
#include "lib/model/block/moe.h"
#include "train/layers/dispatch.h"
#include "train/layers/linear.h"
#include "train/layers/router.h"

static enum route_score
score_of(const struct model_config *c)
{
	if (c->moe_router_score_function == ROUTER_SCORE_SIGMOID)
		return ROUTE_SIGMOID;
	return c->moe_router_pre_softmax ? ROUTE_PRE_SOFTMAX : ROUTE_SOFTMAX;
}

/* The rows that this rank sends to the experts of each: its row of all ranks', where these take it
 * at once. */
static struct tensor
taken_of(const struct layer *l, const struct step *s)
{
	struct tensor all = layer_buffer(l, s, MOE_EXPERT_ROWS),
		      own = layer_buffer(l, s, MOE_OWN_ROWS);
	int64_t ranks = all.shape[0];

	if (!own.data)
		own = tensor_rows(&all, s->e->groups.ep->rank, 1);
	return tensor_2d(own.data, own.dtype, ranks, tensor_elements(&own) / ranks);
}

/* The rows that chose them: the same where none is dropped. */
static struct tensor
counts_of(const struct layer *l, const struct step *s)
{
	struct tensor chosen = layer_buffer(l, s, MOE_CHOSEN), counts = taken_of(l, s);

	counts.data = chosen.data ? chosen.data : counts.data;
	return counts;
}

static struct route
route_of(const struct layer *l, const struct step *s)
{
	const struct model_config *c = &s->e->plan.model;

	return (struct route){
		.logits = layer_buffer(l, s, MOE_LOGITS),
		.bias = engine_weight(s->e, l->block->layer, MOE_EXPERT_BIAS),
		.topk = layer_buffer(l, s, MOE_TOPK),
		.weight = layer_buffer(l, s, MOE_TOPK_WEIGHT),
		.permutation = dispatch_places(l, s, 0),
		.counts = counts_of(l, s),
		.load = layer_buffer(l, s, MOE_LOAD),
		.score = score_of(c),
		.groups = c->moe_router_num_groups,
		.group_topk = c->moe_router_group_topk,
		.group_scores = c->moe_router_group_scores,
		.scale = model_topk_scale(c),
		.chosen = s->recomputes,
	};
}

/* Where experts have a capacity. */
static void
drop_rows(const struct layer *l, const struct step *s, const struct route *r)
{
	const struct run_plan *p = &s->e->plan;
	struct drop_rows d = { .route = *r,
		.taken = taken_of(l, s),
		.kept = layer_buffer(l, s, MOE_KEPT),
		.capacity = capacity_of_expert(&p->model, &p->layout, &p->shape),
		.by_position = p->shape.drop_policy == DROP_POSITION,
		.choice = layer_buffer(l, s, MOE_CHOICE) };

	if (d.kept.data)
		s->e->ops->drop_rows(s->e->stream, &d);
}

/* sums: the row of the layer, whose last column is theirs. */
static void
count_kept(const struct layer *l, const struct step *s, const struct tensor *sums)
{
	struct tensor kept = layer_buffer(l, s, MOE_KEPT),
		      out = tensor_rows(sums, sums->shape[0] - 1, 1);

	kept = tensor_flat(&kept);
	if (kept.data)
		s->e->ops->dot(s->e->stream, &(struct dot){ out, kept, kept });
}

/* Random logits for benchmarks. An element's number is that of its row among those of the run, so
 * layouts and recomputation draw the same. */
static void
draw_logits(const struct layer *l, const struct step *s, const struct tensor *logits)
{
	const struct train_shape *shape = &s->e->plan.shape;
	int64_t samples = shape->micro_batch_size, begin = first_row(s), passed = 0,
		end = begin + logits->shape[0], experts = logits->shape[1];

	for (int i = 0; i < s->e->num_ranges; i++) {
		const struct position_range *at = &s->e->position_range[i];
		int64_t first = int64_max(begin, passed), before = passed;
		struct normal n = { .key = s->e->seed,
			.stream = (uint32_t)l->block->layer,
			.first = (s->first_sample * shape->seq_length + at->first * samples +
				     first - before) *
			    experts,
			.std = 1 };
		struct tensor part;

		passed += at->count * samples;
		if (first >= int64_min(end, passed))
			continue;
		part = tensor_rows(logits, first - begin, int64_min(end, passed) - first);
		n.x = tensor_flat(&part);
		s->e->ops->normal(s->e->stream, &n);
	}
}

void
router_forward(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct route r = route_of(l, s);
	struct linear logits = {
		.y = r.logits,
		.x = *x,
		.weight = engine_weight(s->e, l->block->layer, MOE_ROUTER),
		.bias = engine_weight(s->e, l->block->layer, MOE_ROUTER_BIAS),
	};

	forward_gemm(s, &logits);
	if (s->e->plan.shape.random_logits)
		draw_logits(l, s, &r.logits);
	s->e->ops->route(s->e->stream, &r);
	drop_rows(l, s, &r);
}

static void
sum_over(struct step *s, struct comm *c, const struct tensor *load)
{
	if (c->size > 1)
		c->ops->all_reduce(
		    COMM_HERE(c), s->e->stream, &(struct comm_reduce){ *load, REDUCE_SUM });
}

/* A group is the micro batch, or one of its sequences: all positions, which context ranks and,
 * with sequence parallelism, tensor ranks share; or the micro batches of all data ranks. */
static void
sum_load(struct step *s, const struct tensor *load)
{
	const struct groups *g = &s->e->groups;

	if (s->e->plan.model.moe_router_load_balancing_type == BALANCING_NONE)
		return;
	if (model_balances_globally(&s->e->plan.model)) {
		sum_over(s, g->stage, load);
		return;
	}
	sum_over(s, g->tp, load);
	sum_over(s, g->cp, load);
}

/* The row of the layer among those with experts; none of a buffer that the run does not have. */
static struct tensor
row_of(const struct engine *e, int buffer, int layer)
{
	struct tensor all = engine_buffer(e, buffer);

	if (!all.data)
		return all;
	all = tensor_rows(&all, layer_routers_before(&e->plan.model, layer), 1);
	return tensor_flat(&all);
}

/* What multiplies the sums over rows of struct route_grad. With T tokens in a group the loss is
 * coefficient E / (k T^2) times the first of them, and it counts T times. */
static void
set_factors(const struct step *s, struct route_grad *g)
{
	const struct run_plan *p = &s->e->plan;
	double tokens = router_group_tokens(p);

	g->z = s->e->token_scale * p->model.moe_z_loss_coeff;
	if (p->model.moe_router_load_balancing_type != BALANCING_NONE)
		g->balance = s->e->token_scale * p->model.moe_aux_loss_coeff *
		    (double)p->model.num_experts / ((double)p->model.moe_router_topk * tokens);
}

double
router_group_tokens(const struct run_plan *p)
{
	double sequence = (double)p->shape.seq_length,
	       micro_batch = sequence * (double)p->shape.micro_batch_size;

	if (model_balances_globally(&p->model))
		return micro_batch * (double)p->layout.data_parallel_size;
	return p->model.moe_router_load_balancing_type == BALANCING_SEQ_AUX_LOSS ? sequence
										 : micro_batch;
}

void
router_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct tensor sums = row_of(e, BUF_ROUTER_SUMS, l->block->layer),
		      scalars = engine_buffer(e, BUF_SCALARS);
	struct route_grad g = { .fwd = route_of(l, s),
		.total = row_of(e, BUF_ROUTER_LOADS, l->block->layer),
		.dweight = layer_buffer(l, s, MOE_DTOPK_WEIGHT),
		.dlogits = layer_buffer(l, s, MOE_DLOGITS),
		.dbias = engine_grad(e, l->block->layer, MOE_EXPERT_BIAS),
		.accumulate = s->accumulate,
		.factor = tensor_rows(&scalars, SCALAR_ROUTERS, 1),
		.received = dispatch_arrived(l, s),
		.round = layer_buffer(l, s, MOE_IN).shape[0],
		.sums = tensor_rows(&sums, 0, e->plan.model.num_experts + ROUTER_SUMS) };
	struct linear_grad gemm = {
		.dy = g.dlogits,
		.x = f->x,
		.dweight = engine_grad(e, l->block->layer, MOE_ROUTER),
		.dbias = engine_grad(e, l->block->layer, MOE_ROUTER_BIAS),
	};
	struct gemm input = { .c = f->dx,
		.a = g.dlogits,
		.b = engine_weight(e, l->block->layer, MOE_ROUTER),
		.alpha = 1,
		.beta = 1 };

	sum_load(s, &g.fwd.load);
	set_factors(s, &g);
	e->ops->route_grad(e->stream, &g);
	count_kept(l, s, &sums);
	e->ops->gemm(e->stream, &input);
	weight_gradient(s, &gemm);
}
