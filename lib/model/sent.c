/* sent.c - the bytes that a rank sends in a step, inside its host and to other hosts */
#include "lib/model/sent.h"

#include "lib/base/mem.h"
#include "lib/model/capacity.h"
#include "lib/model/operations_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const sent_axis_name[SENT_AXES] = { "tensor", "context", "experts", "data",
	"pipeline" };

/* The walk over a stage's operations. */
struct walk {
	const struct run_plan *plan;
	const struct host_places *where;
	int stage;
	struct sent sum[SENT_AXES];
};

/* --- groups ----------------------------------------------------------------------------------- */

/* The ranks with which the first of the stage makes an exchange. */
struct group {
	int64_t *member;
	int size;
};

/* Adds an axis, of n ranks `stride` apart, slower than those before it. */
static void
add_axis(struct group *g, int64_t n, int64_t stride)
{
	int before = g->size;

	g->member = mem_realloc(g->member, (size_t)(before * n), sizeof *g->member);
	for (int64_t i = 1; i < n; i++)
		for (int k = 0; k < before; k++)
			g->member[g->size++] = g->member[k] + i * stride;
}

static struct group
group_of(const struct walk *w, const struct operation *o)
{
	const struct layout *l = &w->plan->layout;
	struct group g = { mem_alloc(1, sizeof *g.member), 1 };

	g.member[0] = w->stage * layout_stride(l, AX_PP);
	if (o->class == OPERATION_EXPERTS)
		add_axis(&g, layout_expert_holders(l), 1);
	else if (o->axes == OPERATION_EXPERT_DATA)
		add_axis(&g, layout_expert_data_ranks(l), layout_expert_holders(l));
	for (int a = 0; a < AX_COUNT; a++)
		if (o->axes & AX_BIT(a) && a != AX_PP)
			add_axis(&g, layout_size(l, (enum axis)a), layout_stride(l, (enum axis)a));
	return g;
}

/* How a group lies on hosts; own: its ranks on the host of the first. */
static struct hosts
hosts_of_group(const struct walk *w, const struct group *g, int *own)
{
	int *host = mem_alloc((size_t)g->size, sizeof *host);
	struct hosts h;

	*own = 0;
	for (int i = 0; i < g->size; i++) {
		host[i] = host_of(w->where, g->member[i]);
		*own += host[i] == host[0];
	}
	hosts_of(&h, host, g->size, 0);
	free(host);
	return h;
}

/* --- operations ------------------------------------------------------------------------------- */

/* Between hosts sums of 16 bits go as F32. */
static double
widened(const struct walk *w, const struct operation *o)
{
	const struct train_shape *s = &w->plan->shape;
	bool halved =
	    o->class == OPERATION_DATA ? s->grad_reduce_in_bf16 : dtype_size(s->dtype) == 2;

	return o->sums && halved ? 2 : 1;
}

/* A direction of an exchange takes an array to all ranks of a group, of which each has a part. With
 * one level a part goes to each other rank. */
static struct sent
direction(const struct walk *w, const struct group *g, double bytes, double wide)
{
	int own;
	struct hosts h = hosts_of_group(w, g, &own);
	double part = bytes / g->size, hosts = h.count;
	struct sent t = { part * (own - 1), part * (g->size - own) };

	if (h.inside > 1 && h.count > 1 && wide > 0) {
		t.inside = bytes * (h.inside - 1) / h.inside;
		t.between = bytes * wide * (hosts - 1) / (hosts * h.inside);
	}
	return t;
}

/* A direction of rows of experts, of four: a row to each of its experts, or where hosts take turns
 * to each other host once, with the choices and weights of rows on the way out, and the gradients
 * of weights on the way back. */
static struct sent
rows(const struct walk *w, const struct group *g, double bytes)
{
	const struct run_plan *p = w->plan;
	double slices = (double)layout_expert_slices(&p->layout),
	       chosen = (double)(capacity_rows(&p->layout, &p->shape) * p->model.moe_router_topk),
	       real = (double)dtype_size(memory_compute(p->shape.dtype)), others;
	int own;
	struct hosts h = hosts_of_group(w, g, &own);

	if (!h.even || h.count == 1 || h.inside % layout_expert_slices(&p->layout))
		return direction(w, g, bytes, 0);
	others = h.count - 1;
	return (struct sent){ bytes * (h.inside - 1) / h.inside,
		others * bytes / ((double)p->model.moe_router_topk * slices) +
		    others * chosen * ((double)sizeof(int32_t) + 2 * real) / 4 };
}

static struct sent
collective(const struct walk *w, const struct operation *o)
{
	struct group g = group_of(w, o);
	bool straight =
	    o->class == OPERATION_CONTEXT && w->plan->shape.context_form == CONTEXT_HEADS;
	struct sent t = o->class == OPERATION_EXPERTS
	    ? rows(w, &g, o->bytes)
	    : direction(w, &g, o->bytes, straight ? 0 : widened(w, o));

	free(g.member);
	return t;
}

static void
add(struct sent *sum, struct sent t, double times)
{
	sum->inside += t.inside * times;
	sum->between += t.between * times;
}

/* What data ranks of several instances send. Weights are gathered in an instance. Gradients that
 * are whole are summed over all, and then each rank sends its part to those whose shard has it;
 * those that are sharded are summed in an instance, and once over the ranks with equal shards,
 * which give each other the sums, or where each updates a part the weights. */
static void
add_instances(struct walk *w, const struct operation *o, int64_t times)
{
	struct group all = group_of(w, o),
		     equal = { mem_alloc((size_t)all.size, sizeof *all.member), 0 };
	int instances = (int)layout_instances(&w->plan->layout), shards = all.size / instances;
	struct group own = { all.member, shards };
	bool gradients = o->sums, kept = w->plan->shape.sharding >= SHARDING_GRADS;
	double real = (double)dtype_size(memory_compute(w->plan->shape.dtype)),
	       bytes = o->bytes * (gradients && w->plan->shape.grad_reduce_in_bf16 ? real / 2 : 1);
	double back = layout_state_instances(&w->plan->layout) == 1
	    ? 1
	    : (double)dtype_size(w->plan->shape.dtype) / real;
	struct sent *sum = &w->sum[SENT_DATA];

	for (int i = 0; i < instances; i++)
		equal.member[equal.size++] = all.member[i * shards];
	if (!gradients || kept)
		add(sum, direction(w, &own, o->bytes, widened(w, o)), (double)times);
	else
		add(sum, direction(w, &all, o->bytes, widened(w, o)), (double)times);
	if (gradients && kept)
		add(sum, direction(w, &equal, bytes / shards, 1), 1 + back);
	else if (gradients)
		add(sum, direction(w, &equal, bytes / shards, 0), 1);
	free(all.member);
	free(equal.member);
}

/* A message between the same places of two stages, if the stage sends it. */
static void
add_message(struct walk *w, int to, double bytes)
{
	int64_t stride = layout_stride(&w->plan->layout, AX_PP);
	bool inside = host_of(w->where, w->stage * stride) == host_of(w->where, to * stride);
	struct sent *t = &w->sum[SENT_PIPELINE];

	*(inside ? &t->inside : &t->between) += bytes;
}

/* Every chunk of a stage sends its output to the next one's, and the gradient of its input to the
 * one before; the first and the last of all have one of these less. */
static void
add_messages(struct walk *w, const struct operation *o, int64_t times)
{
	int stages = (int)w->plan->layout.pipeline_model_parallel_size;
	int64_t ends = w->plan->shape.num_microbatches;
	int last = o->back ? 0 : stages - 1;

	add_message(w, (w->stage + (o->back ? stages - 1 : 1)) % stages,
	    o->bytes * (double)(times - (w->stage == last ? ends : 0)));
}

/* Of what the ends of a pipeline share each sends all to the other. */
static void
add_table(struct walk *w, const struct operation *o, int64_t times)
{
	int last = (int)w->plan->layout.pipeline_model_parallel_size - 1;

	if (w->stage == 0 || w->stage == last)
		add_message(w, last - w->stage, o->bytes * (double)times);
}

static void
visit(void *ctx, const char *block, const struct operation *o, int64_t times)
{
	static const enum sent_axis axes[OPERATION_CLASSES] = {
		[OPERATION_TENSOR] = SENT_TENSOR,
		[OPERATION_CONTEXT] = SENT_CONTEXT,
		[OPERATION_EXPERTS] = SENT_EXPERTS,
		[OPERATION_DATA] = SENT_DATA,
	};
	struct walk *w = ctx;

	(void)block;
	if (o->class == OPERATION_STAGES) {
		add_messages(w, o, times);
	} else if (o->axes == AX_BIT(AX_PP)) {
		add_table(w, o, times);
	} else if (o->class == OPERATION_DATA && layout_instances(&w->plan->layout) > 1) {
		add_instances(w, o, times);
	} else if (o->class >= OPERATION_TENSOR && o->class <= OPERATION_DATA) {
		add(&w->sum[axes[o->class]], collective(w, o), (double)times);
	}
}

/* --- all -------------------------------------------------------------------------------------- */

static bool
sends_more(const struct sent *a, const struct sent *b)
{
	return a->between > b->between || (a->between == b->between && a->inside > b->inside);
}

void
sent_of(struct sent out[SENT_AXES], const struct run_plan *plan, const struct host_places *where)
{
	struct memory_stages held;

	memset(out, 0, SENT_AXES * sizeof *out);
	memory_stages_init(&held, &plan->model, &plan->layout, &plan->shape);
	for (int i = 0; i < plan->layout.pipeline_model_parallel_size; i++) {
		struct walk w = { .plan = plan, .where = where, .stage = i };

		operations_visit(&(struct operation_visitor){ visit, &w }, plan, &held, i);
		for (int a = 0; a < SENT_AXES; a++)
			if (sends_more(&w.sum[a], &out[a]))
				out[a] = w.sum[a];
	}
	memory_stages_release(&held);
}
