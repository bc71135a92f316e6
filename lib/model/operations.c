/*
 * operations.c - the operations of a block and of a step, from the rows by which the engine runs
 *
 * What an exchange runs beside follows train/layers: linear.c for tensor ranks, gather.c and
 * heads.c for context ranks.
 */
#include "lib/model/operations.h"
#include "lib/model/block/linears.h"
#include "lib/model/capacity.h"
#include "lib/model/cut.h"
#include "lib/model/weight_slots.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A list that is being made. */
struct maker {
	struct operation_list *out;
	const struct model_config *c;
	const struct layout *l;
	const struct train_shape *s;
	struct work w;
	bool eight;
	/* the operations of the first and of the last GEMM, by pass: forward, gradient of the
	 * input, of the weight; of attention in both passes; the gradient of the weights of k and
	 * v */
	int first[3], last[3], core[2], keys_weight;
};

enum { GEMM_FORWARD, GEMM_INPUT, GEMM_WEIGHT };

static struct operation *
add(struct maker *m, const char *name, enum operation_class class, enum operation_pass pass)
{
	struct operation *o = &m->out->item[m->out->count++];

	if (m->out->count > OPERATIONS_MAX)
		BUG("more than %d operations in a block", OPERATIONS_MAX);
	*o = (struct operation){ .name = name, .class = class, .pass = pass };
	return o;
}

/* The number of the operation that was added last. */
static int
added(const struct maker *m)
{
	return m->out->count - 1;
}

static void
beside(struct operation *o, int operation, double share)
{
	o->beside[o->num_beside].operation = operation;
	o->beside[o->num_beside++].share = share;
}

/* --- products --------------------------------------------------------------------------------- */

struct product {
	const char *name;
	int64_t m, n, k;
	bool accumulate, in_16;
};

static void
add_product(
    struct maker *m, const struct gemm_shape *g, const struct product *p, enum operation_pass pass)
{
	bool eight = m->eight && !p->in_16;
	int64_t count = g->count ? g->count : 1;
	struct operation *o = add(m, p->name, OPERATION_PRODUCT, pass);

	o->m = p->m;
	o->n = p->n;
	o->k = p->k;
	o->count = count;
	o->grouped = g->grouped;
	o->routed = g->grouped;
	o->accumulate = p->accumulate;
	o->type = eight ? DTYPE_F8_E4M3 : m->s->dtype;
	o->blocks = eight && m->s->fp8.recipe == FP8_BLOCKWISE;
	o->flops = 2 * (double)count * (double)p->m * (double)p->n * (double)p->k;
	o->kernels = (int)(g->grouped ? 1 : count);
}

/* Copies in 8 bits of what the GEMMs of a linear read: of x in each pass, of the gradient of y
 * beside its transpose; or of each once, where the gradient of the weight reads 16 bits. An x that
 * a norm or an activation makes in 8 bits is written once and not read again. Scales of this step
 * (tensorwise) take another look at either. */
static void
add_copies(struct maker *m, const struct gemm_shape *g, bool made)
{
	enum { COPY = 2 + 1 }; /* bytes of an element, read and written */
	double x = (double)g->rows * (double)g->in, dy = (double)g->rows * (double)g->out;
	double look = m->s->fp8.recipe == FP8_TENSORWISE ? 2 : 0;
	struct operation *o;

	o = add(m, "copies of 8 bits", OPERATION_MEMORY, OPERATION_FORWARD);
	o->bytes = (COPY + look - (made && !look ? 4 : 0)) * x;
	o->kernels = look > 0 ? 2 : !made;
	o = add(m, "copies of 8 bits", OPERATION_MEMORY, OPERATION_BACKWARD);
	o->bytes = (g->gradient_in_16 ? 0 : COPY * x) +
	    ((g->gradient_in_16 ? COPY : COPY + 1) + look) * dy;
	o->kernels = (g->gradient_in_16 ? 1 : 2) + (look > 0);
}

/* The GEMMs of a linear layer: forward, the gradients of x and of the weight. */
struct linear_gemms {
	struct product product, input, weight;
};

static struct linear_gemms
gemms_of(const struct gemm_shape *g)
{
	int64_t count = g->count ? g->count : 1, rows = (g->rows + count - 1) / count;

	return (struct linear_gemms){
		{ "product", rows, g->out, g->in, false, false },
		{ "gradient of the input", rows, g->in, g->out, false, false },
		{ "gradient of the weight", g->out, g->in, rows, true, g->gradient_in_16 },
	};
}

/* Whether k and v have GEMMs of their own, beside which q goes: all but the gradient of their
 * input. */
static bool
keys_alone(const struct maker *m)
{
	return m->w.exchanges > 0 && m->l->context_parallel_size > 1 &&
	    m->l->tensor_model_parallel_size == 1 && !m->eight;
}

/* Linear `number` of the block, which of q, k and v are two. */
static void
add_gemms(struct maker *m, int number)
{
	struct gemm_shape part = m->w.gemm[number];
	const struct linear_gemms all = gemms_of(&part);
	struct linear_gemms of = all;
	int *at = number == 0 ? m->first : m->last;

	if (number == 0 && keys_alone(m)) {
		part.out -= m->w.gemm[1].in;
		of = gemms_of(&part);
		add_product(m, &part, &of.product, OPERATION_FORWARD);
		add_product(m, &part, &of.weight, OPERATION_BACKWARD);
		m->keys_weight = added(m);
		part.out = m->w.gemm[1].in;
		of = gemms_of(&part);
	}
	add_product(m, &part, &of.product, OPERATION_FORWARD);
	at[GEMM_FORWARD] = added(m);
	m->out->item[added(m)].ends = number % 2 && m->w.attention <= 0 && !model_post_norm(m->c);
	add_product(m, &m->w.gemm[number], &all.input, OPERATION_BACKWARD);
	at[GEMM_INPUT] = added(m);
	add_product(m, &part, &of.weight, OPERATION_BACKWARD);
	at[GEMM_WEIGHT] = added(m);
	if (number == 0)
		memcpy(m->last, m->first, sizeof m->last);
}

/* An x that a norm or an activation makes in 8 bits needs no copy. */
static void
add_linear(struct maker *m, int number)
{
	const struct gemm_shape *g = &m->w.gemm[number];
	const struct linear_gemms all = gemms_of(g);
	bool norms = fp8_makes_norms(m->l, &m->s->fp8),
	     acts = fp8_makes_activations(m->c, m->l, &m->s->fp8), first = number % 2 == 0;
	bool made = !g->grouped && (first ? norms : acts && m->w.attention == 0);

	add_gemms(m, number);
	if (m->eight)
		add_copies(m, g, made);
	if (g->repeated ||
	    (m->s->recompute.granularity == RECOMPUTE_SELECTIVE &&
		g->recompute & recompute_modules(&m->s->recompute)))
		add_product(m, g, &all.product, OPERATION_AGAIN);
}

/* Of the router of a block with experts, whose logits are real: the gradient of its weight is
 * not. */
static void
add_router(struct maker *m)
{
	int64_t rows = m->w.gemm[0].rows / m->c->moe_router_topk / layout_expert_slices(m->l);
	const struct gemm_shape g = {
		.rows = rows, .out = m->c->num_experts, .in = m->c->hidden_size
	};
	struct linear_gemms of = gemms_of(&g);

	of.product.in_16 = of.input.in_16 = of.weight.in_16 = true;
	add_product(m, &g, &of.product, OPERATION_FORWARD);
	add_product(m, &g, &of.input, OPERATION_BACKWARD);
	add_product(m, &g, &of.weight, OPERATION_BACKWARD);
}

/* --- attention and memory --------------------------------------------------------------------- */

/* Five GEMMs backward where the forward pass has two. */
static void
add_attention(struct maker *m)
{
	int64_t t = m->l->tensor_model_parallel_size;
	double channels = (double)(m->c->num_attention_heads / t) *
	    (double)(m->c->kv_channels + model_value_dim(m->c)) / 2;
	double rows = (double)(layout_held(m->l, m->s->seq_length) * m->s->micro_batch_size);

	if (m->w.attention <= 0)
		return;
	for (int backward = 0; backward < 2; backward++) {
		struct operation *o = add(m, "attention", OPERATION_ATTENTION,
		    backward ? OPERATION_BACKWARD : OPERATION_FORWARD);

		o->flops = (backward ? 2.5 : 1) * m->w.attention;
		o->keys = m->w.attention / (4 * rows * channels);
		o->bytes = rows * (double)(m->c->num_attention_heads / t) * o->keys;
		o->kernels = backward ? 3 : 1;
		m->core[backward] = added(m);
	}
}

/* Backward as many flops make the states once more. */
static void
add_recurrence(struct maker *m)
{
	if (m->w.recurrence <= 0)
		return;
	for (int backward = 0; backward < 2; backward++) {
		struct operation *o = add(m, "recurrence", OPERATION_ATTENTION,
		    backward ? OPERATION_BACKWARD : OPERATION_FORWARD);

		o->flops = (backward ? 3 : 1) * m->w.recurrence;
		o->keys = (double)m->c->linear_key_head_dim;
		o->states = true;
		o->kernels = backward ? 4 : 2;
	}
}

static void
add_kernels(struct maker *m, const struct work_bytes *t, enum operation_pass pass)
{
	struct operation *o;

	if (t->kernels == 0 && t->act <= 0)
		return;
	o = add(m, "norms, activations, rows", OPERATION_MEMORY, pass);
	o->bytes = t->act * (double)dtype_size(m->s->dtype) +
	    t->stream * (double)dtype_size(memory_residual(m->s));
	o->kernels = t->kernels;
	o->routed = m->w.routings > 0;
}

/* --- exchanges -------------------------------------------------------------------------------- */

static struct operation *
add_exchange(struct maker *m, const char *name, enum operation_class class,
    enum operation_pass pass, double bytes)
{
	struct operation *o = add(m, name, class, pass);

	o->axes = class == OPERATION_TENSOR ? AX_BIT(AX_TP)
	    : class == OPERATION_CONTEXT    ? AX_BIT(AX_CP)
					    : 0;
	o->bytes = bytes;
	o->kernels = 1;
	return o;
}

/* All rows between blocks that a context rank holds. */
static double
rows_bytes(const struct maker *m, enum dtype type)
{
	return (double)(layout_held(m->l, m->s->seq_length) * m->s->micro_batch_size *
		   m->c->hidden_size) *
	    (double)dtype_size(type);
}

/* Sums of whole rows: of the last GEMM's output and of the gradient of the first one's input, each
 * both directions of a ring. A direction is hidden by the last GEMM where rows go in parts, and
 * both by the gradient of the first weight. */
static void
add_reductions(struct maker *m, double bytes, bool overlap)
{
	double t = (double)m->l->tensor_model_parallel_size;
	bool forward = m->w.reductions > 1 || m->w.num_gemms == 0;
	struct operation *o;

	if (forward) {
		o = add_exchange(m, "sum", OPERATION_TENSOR, OPERATION_FORWARD, bytes);
		o->sums = true;
		if (overlap && capacity_in_parts(m->l, m->s))
			beside(o, m->last[GEMM_FORWARD], 1 - 1 / t);
		o = add_exchange(m, "sum, back", OPERATION_TENSOR, OPERATION_FORWARD, bytes);
		o->ends = true;
		m->out->item[m->out->count - 2].ends = true;
	}
	if (m->w.reductions > 1 || !forward)
		for (int i = 0; i < 2; i++) {
			o = add_exchange(m, i ? "sum, back" : "sum", OPERATION_TENSOR,
			    OPERATION_BACKWARD, bytes);
			o->sums = i == 0;
			if (overlap)
				beside(o, m->first[GEMM_WEIGHT], 0.5);
		}
}

/* Gathers and scatters of rows in their place. A gather is hidden by the first GEMM of all rows but
 * the own, one by the gradient of the last GEMM's input, or in attention by that of the MLP's first
 * weight, one more by attention or by the gradient of the first one's input, and a scatter by that
 * of its weight, in attention by those of both. */
static void
add_scatters(struct maker *m, double bytes, bool overlap)
{
	double t = (double)m->l->tensor_model_parallel_size, others = 1 - 1 / t;
	bool core = m->w.attention > 0, dense = core && !m->eight && !m->c->num_experts;
	struct operation *o;

	o = add_exchange(m, "rows to all", OPERATION_TENSOR, OPERATION_FORWARD, bytes);
	if (overlap)
		beside(o, m->first[GEMM_FORWARD], others);
	o = add_exchange(m, "sum of rows", OPERATION_TENSOR, OPERATION_FORWARD, bytes);
	o->sums = true;
	o->ends = true;
	if (overlap && capacity_in_parts(m->l, m->s))
		beside(o, m->last[GEMM_FORWARD], others);
	o = add_exchange(m, "gradient of rows to all", OPERATION_TENSOR, OPERATION_BACKWARD, bytes);
	if (overlap)
		beside(o, dense ? OPERATION_ROOM : m->last[GEMM_INPUT], others);
	o = add_exchange(m, "rows to all", OPERATION_TENSOR, OPERATION_BACKWARD, bytes);
	if (overlap)
		beside(o, core ? m->core[1] : m->first[GEMM_INPUT], 1);
	o = add_exchange(m, "sum of gradients", OPERATION_TENSOR, OPERATION_BACKWARD, bytes);
	o->sums = true;
	if (overlap)
		beside(o, m->first[GEMM_WEIGHT], 1);
	if (overlap && core && !m->eight)
		beside(o, m->last[GEMM_WEIGHT], 1);
}

static void
add_tensor(struct maker *m)
{
	double bytes = rows_bytes(m, m->s->dtype);
	bool overlap = m->w.overlap && m->s->tp_comm_overlap, ends = m->w.scatters == 2;

	if (m->l->tensor_model_parallel_size == 1 || !m->w.reductions)
		return;
	if (layout_row_shards(m->l) == 1)
		add_reductions(m, bytes, overlap);
	else if (!ends)
		add_scatters(m, bytes, overlap);
	else
		for (int backward = 0; backward < 2; backward++)
			add_exchange(m, "rows", OPERATION_TENSOR,
			    backward ? OPERATION_BACKWARD : OPERATION_FORWARD, bytes);
}

/* Keys come by the GEMM of q, where it is one of its own, and by the gradients of the last GEMM;
 * half of their gradients are summed by the attention of the first stretch, which the rank that
 * ends last has least of, and the others by the gradient of the weight of q. */
static void
add_keys(struct maker *m, double bytes)
{
	double c = (double)m->l->context_parallel_size;
	struct operation *o;

	o = add_exchange(m, "keys to all", OPERATION_CONTEXT, OPERATION_FORWARD, bytes);
	if (keys_alone(m))
		beside(o, m->first[GEMM_FORWARD], 1);
	o = add_exchange(m, "keys to all", OPERATION_CONTEXT, OPERATION_BACKWARD, bytes);
	beside(o, m->last[GEMM_INPUT], 1);
	beside(o, m->last[GEMM_WEIGHT], 1);
	o = add_exchange(m, "sum of gradients", OPERATION_CONTEXT, OPERATION_BACKWARD, bytes / 2);
	o->sums = true;
	beside(o, m->core[1], 1 / (4 * c));
	o = add_exchange(m, "sum of gradients", OPERATION_CONTEXT, OPERATION_BACKWARD, bytes / 2);
	o->sums = true;
	if (keys_alone(m))
		beside(o, m->first[GEMM_WEIGHT], 1);
}

/* q, k and v go to the ranks of their heads and the output comes back; backward these, and the
 * output's gradient to theirs and those of q, k and v back. All go by the gradient of the last
 * GEMM's input, the output's gradient by that of its weight; k and v by the GEMM of q, and dq by
 * the gradient of the weight of k and v. */
static void
add_heads(struct maker *m, double bytes)
{
	const struct gemm_shape *p = &m->w.gemm[0], *q = &m->w.gemm[1];
	double all = (double)(p->out + q->in), out = bytes * (double)q->in / all,
	       keys = bytes * (double)(p->out - q->in) / all;
	struct operation *o;

	o = add_exchange(m, "k and v to heads", OPERATION_CONTEXT, OPERATION_FORWARD, keys);
	if (keys_alone(m))
		beside(o, m->first[GEMM_FORWARD], 1);
	add_exchange(m, "q to heads, output back", OPERATION_CONTEXT, OPERATION_FORWARD, 2 * out);
	o = add_exchange(
	    m, "q, k, v and output to heads", OPERATION_CONTEXT, OPERATION_BACKWARD, bytes);
	beside(o, m->last[GEMM_INPUT], 1);
	o = add_exchange(
	    m, "gradient of the output to heads", OPERATION_CONTEXT, OPERATION_BACKWARD, out);
	beside(o, m->last[GEMM_WEIGHT], 1);
	o = add_exchange(m, "gradient of q back", OPERATION_CONTEXT, OPERATION_BACKWARD, out);
	if (keys_alone(m))
		beside(o, m->keys_weight, 1);
	add_exchange(m, "gradients of k and v back", OPERATION_CONTEXT, OPERATION_BACKWARD, keys);
}

/* Each exchange sends to all others what a direction of a ring passes on. */
static void
add_context(struct maker *m)
{
	double c = (double)m->l->context_parallel_size, bytes;

	if (c <= 1 || !m->w.exchanges)
		return;
	bytes = m->w.sent * (double)dtype_size(m->s->dtype) * (c / (c - 1)) / m->w.exchanges;
	if (m->s->context_form == CONTEXT_GATHER)
		add_keys(m, bytes);
	else
		add_heads(m, bytes);
}

/* Rows go to any of the ranks that hold the experts once together, which are neighbours: to each as
 * many as a ring passes on. Where hosts take turns, those of the others pass beside the first GEMM
 * of all turns but one. */
static void
add_experts(struct maker *m)
{
	double bytes = m->w.routed * (double)dtype_size(m->s->dtype),
	       hosts = (double)layout_expert_hosts(m->l);

	for (int i = 0; i < m->w.routings; i++) {
		bool back = i >= m->w.routings / 2;
		struct operation *o = add_exchange(m, i % 2 ? "rows back" : "rows to experts",
		    OPERATION_EXPERTS, back ? OPERATION_BACKWARD : OPERATION_FORWARD, bytes);

		o->routed = true;
		if (hosts > 1)
			beside(o,
			    m->first[!back  ? GEMM_FORWARD
				    : i % 2 ? GEMM_INPUT
					    : GEMM_WEIGHT],
			    1 - 1 / hosts);
	}
	if (m->w.routings && !model_post_norm(m->c))
		m->out->item[m->out->count - m->w.routings + 1].ends = true;
}

void
operations_of_block(struct operation_list *out, const struct block_kind *kind, bool eight,
    const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	struct maker m = { .out = out, .c = c, .l = l, .s = s, .eight = eight };

	out->count = 0;
	work_of(&m.w, kind, c, l, s);
	for (int i = 0; i < m.w.num_gemms; i++)
		add_linear(&m, i);
	if (kind == &block_moe)
		add_router(&m);
	add_attention(&m);
	add_recurrence(&m);
	add_kernels(&m, &m.w.forward, OPERATION_FORWARD);
	add_kernels(&m, &m.w.backward, OPERATION_BACKWARD);
	add_tensor(&m);
	add_context(&m);
	add_experts(&m);
	for (int i = 0; kind == &block_head && i < out->count; i++)
		out->item[i].early = out->item[i].pass == OPERATION_BACKWARD;
}

/* --- of a step -------------------------------------------------------------------------------- */

int
operation_stage(const struct memory_stages *x, int64_t elements)
{
	int i = 0;

	while (x->stage[i].shards.elements != elements)
		i++;
	return i;
}

/* The iterations on a matrix and those like it are spread over all ranks, or where nothing is
 * sharded over those that hold the model once together. */
void
operation_count_matrices(struct operation_owned *o, const struct memory_stages *x,
    const struct layout *l, const struct train_shape *s)
{
	double all = 0, matrices = 0;

	if (!s->rule || !s->rule->matrix_states)
		return;
	for (int i = 0; i < x->num_params; i++) {
		const struct param *p = &x->table[i];
		double elements = (double)param_elements(p);
		int64_t holders = param_among_experts(p, l) ? layout_expert_holders(l)
							    : l->tensor_model_parallel_size;

		all += elements;
		if (!param_is_layer_matrix(p, x->model))
			continue;
		matrices += elements;
		o->iteration_flops += cut_flops(p->shape[0], p->shape[1]) /
		    (double)(s->sharding ? layout_world(l)
					 : holders * l->pipeline_model_parallel_size);
	}
	o->matrices = matrices / all;
}

/* Where weights are sharded. */
static void
count_gathers(
    struct operation_owned *o, struct memory_stages *x, const struct train_shape *s, int stage)
{
	const struct shards *held = &x->stage[stage].shards;
	int64_t *count = mem_alloc((size_t)held->num_buckets, sizeof *count);
	struct memory_plan m;

	memory_plan_stage(&m, x, s, stage);
	weight_slots_count(&m, x->layout, stage, (int)s->num_microbatches, count);
	memory_release(&m);
	for (int i = 0; i < held->num_buckets; i++) {
		const struct bucket *b = &held->bucket[i];

		(b->layers ? o->in_passes : o->after_update)[b->experts] += count[i] * b->count;
	}
	free(count);
}

struct operation_owned
operation_owned(struct memory_stages *x, const struct train_shape *s, int stage, int64_t own)
{
	const struct shards *held = &x->stage[stage].shards;
	struct operation_owned o = { .elements = held->elements, .own = own };

	for (int i = 0; i < held->num_buckets; i++)
		if (held->bucket[i].experts)
			o.of_experts += held->bucket[i].count;
	if (s->sharding == SHARDING_PARAMS && layout_data_ranks(x->layout) > 1)
		count_gathers(&o, x, s, stage);
	if (x->layout->tensor_model_parallel_size > 1 && held->elements) {
		o.summed = held->num_tensor_sums;
		o.in_sums = (double)held->tensor_sums * (double)own / (double)held->elements;
	}
	operation_count_matrices(&o, x, x->layout, s);
	return o;
}

/* Of elements that data ranks share, [1] of experts, `size` bytes each; a step has it `times`
 * times. */
struct data_exchange {
	const char *name;
	double size;
	double elements[2];
	int64_t times;
	bool sums;
};

/* Elements of experts go over the ranks that hold the same. */
static void
add_data(struct maker *m, const struct data_exchange *x)
{
	for (int experts = 0; experts < 2; experts++)
		if (x->elements[experts] > 0) {
			struct operation *o = add_exchange(m, x->name, OPERATION_DATA,
			    OPERATION_STEP, x->size * x->elements[experts]);

			o->axes = experts ? OPERATION_EXPERT_DATA : AX_BIT(AX_CP) | AX_BIT(AX_DP);
			o->count = x->times;
			o->sums = x->sums;
		}
}

/* Gradients over the data and context ranks, new weights back. Sharded gradients are reduced once
 * per micro batch. Of sharded weights the passes gather what their slots do not have
 * (weight_slots.h): the mean of all passes counts. Gradients travel in the precision of main
 * gradients, weights in the run's type. */
static void
add_gradients(struct maker *m, const struct operation_owned *owned)
{
	const struct train_shape *s = m->s;
	int64_t batches = s->num_microbatches, passes = 2 * batches;
	double real = (double)dtype_size(memory_compute(s->dtype)),
	       weight = s->sharding ? (double)dtype_size(s->dtype) : real;
	int64_t data = layout_data_ranks(m->l), same = layout_expert_data_ranks(m->l);
	const double all[] = { data > 1 ? (double)(owned->elements - owned->of_experts) : 0,
		same > 1 ? (double)owned->of_experts : 0 };

	add_data(m,
	    &(struct data_exchange){ "gradients", s->grad_reduce_in_bf16 ? 2 : real,
		{ all[0], all[1] }, s->sharding >= SHARDING_GRADS ? batches : 1, true });
	if (s->sharding < SHARDING_PARAMS) {
		add_data(
		    m, &(struct data_exchange){ "weights", weight, { all[0], all[1] }, 1, false });
		return;
	}
	add_data(m,
	    &(struct data_exchange){ "weights", weight,
		{ (double)owned->after_update[0], (double)owned->after_update[1] }, 1, false });
	add_data(m,
	    &(struct data_exchange){ "weights of layers", weight,
		{ (double)owned->in_passes[0] / (double)passes,
		    (double)owned->in_passes[1] / (double)passes },
		passes, false });
}

/* Gradients whose parts tensor ranks hold, in both directions, as the means of all stretches. */
static void
add_sums(struct maker *m, const struct operation_owned *owned)
{
	for (int i = 0; owned->summed && i < 2; i++) {
		struct operation *o = add_exchange(m, i ? "sums, back" : "sums of gradients",
		    OPERATION_TENSOR, OPERATION_STEP,
		    owned->in_sums / (double)owned->summed *
			(double)dtype_size(memory_main_grads(m->s)));

		o->count = owned->summed;
		o->sums = i == 0;
	}
}

/* Activations of a micro batch to the next stage and their gradients back, for each chunk; a tied
 * table between the ends of the pipeline. */
static void
add_messages(struct maker *m)
{
	int64_t t = m->l->tensor_model_parallel_size;
	struct operation *o;

	if (m->l->pipeline_model_parallel_size == 1)
		return;
	for (int i = 0; i < 2; i++) {
		o = add_exchange(m, i ? "gradient of a chunk" : "output of a chunk",
		    OPERATION_STAGES, OPERATION_STEP,
		    rows_bytes(m, memory_residual(m->s)) / (double)layout_row_shards(m->l));
		o->axes = AX_BIT(AX_PP);
		o->count = m->s->num_microbatches * layout_chunks(m->l);
		o->back = i;
	}
	if (!model_table_at_ends(m->c))
		return;
	o = add_exchange(m, "gradient of the table", OPERATION_DATA, OPERATION_STEP,
	    (double)(layout_vocab(m->l, m->c) / t * m->c->hidden_size) *
		(double)dtype_size(memory_compute(m->s->dtype)));
	o->axes = AX_BIT(AX_PP);
	o->count = 1;
}

/* Per owned parameter: gradient, master weight and moments read, master weight, moments and weight
 * written; the gradient read once more for its norm. Gradients of all parameters are cleared, and
 * 8-bit copies of weights and their transposes made. What the host updates passes over its link. */
static void
add_update(struct maker *m, const struct operation_owned *owned)
{
	enum { ITERATIONS = 5 }; /* of Newton-Schulz, as by default */
	const struct train_shape *s = m->s;
	double real = (double)dtype_size(memory_compute(s->dtype)),
	       act = (double)dtype_size(s->dtype), states = 0;
	double grads = (double)dtype_size(memory_main_grads(s)),
	       masters = s->optim.low_bits ? 2 * (2 + act) : 2 * real + act,
	       copies = s->fp8.format == FP8_NONE ? 0 : 2 + 1 + 1,
	       host = s->optimizer_offload * (double)owned->own;
	struct operation *o;

	for (int i = 0; i < optim_num_states(s->rule); i++)
		states += (double)dtype_size(memory_state(s, i)) *
		    (optim_keeps(s->rule, i, true) * owned->matrices +
			optim_keeps(s->rule, i, false) * (1 - owned->matrices));
	o = add(m, "update", OPERATION_UPDATE, OPERATION_STEP);
	o->bytes = (double)owned->own * grads +
	    ((double)owned->own - host) * (grads + masters + 2 * states) +
	    (double)owned->elements * (real + copies);
	o->flops = ITERATIONS * owned->iteration_flops;
	o->type = memory_update(s);
	o->count = 1;
	if (host <= 0)
		return;
	o = add(m, "update on the host", OPERATION_HOST, OPERATION_STEP);
	o->bytes = host * (grads + masters + 2 * states);
	o->count = 1;
	o = add(m, "gradients to the host", OPERATION_HOST, OPERATION_STEP);
	o->bytes = host * real;
	o->count = 1;
}

void
operations_of_step(struct operation_list *out, const struct operation_owned *owned,
    const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	struct maker m = { .out = out, .c = c, .l = l, .s = s };

	out->count = 0;
	add_gradients(&m, owned);
	add_sums(&m, owned);
	add_messages(&m);
	add_update(&m, owned);
}
