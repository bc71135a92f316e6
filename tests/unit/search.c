/*
 * search.c - the search finds what an enumeration of all plans does
 *
 * Random small models on few ranks, some of them with experts and with options that are typed:
 * every plan of every axis is planned to the byte, and those that fit are priced and put in order.
 * The number of cases may be given, and the number of the first.
 */
#include "lib/base/mem.h"
#include "lib/model/hosts.h"
#include "lib/model/optim_types.h"
#include "plan/memtable.h"
#include "plan/search.h"
#include "plan/seek.h"
#include "tests/check.h"
#include "tests/sized_model.h"

/* --- random cases ----------------------------------------------------------------------------- */

static uint64_t random_state;

/* 0 .. n - 1 */
static int
draw(int n)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return (int)((random_state >> 33) % (uint64_t)n);
}

#define ONE_OF(...) \
	((const int[]){ \
	    __VA_ARGS__ }[draw((int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))])

static struct model_config
random_model(void)
{
	int heads = ONE_OF(2, 4, 4), width = ONE_OF(8, 16);
	struct model_config c = sized_llama((struct model_sizes){ .layers = 1 + draw(5),
	    .hidden = heads * width,
	    .heads = heads,
	    .groups = draw(2) ? heads : heads / 2,
	    .ffn = ONE_OF(32, 64, 128),
	    .positions = 256,
	    .vocab = ONE_OF(64, 256, 1024) });
	struct err e;

	c.untie_embeddings_and_output_weights = draw(2);
	if (draw(2)) {
		c.num_experts = ONE_OF(2, 4);
		c.moe_router_topk = 2;
		c.moe_ffn_hidden_size = ONE_OF(16, 32);
	}
	CHECK(model_check(&c, &e) == 0);
	return c;
}

/* What may be typed, each by a chance of its own. */
static void
type_some(struct search_input *in)
{
	in->tensor = draw(6) ? 0 : ONE_OF(1, 2);
	in->context = draw(4) ? 0 : ONE_OF(1, 1, 2);
	in->pipeline = draw(6) ? 0 : ONE_OF(1, 2);
	in->micro_batch = draw(4) ? 0 : ONE_OF(1, 2);
	in->typed.sequence_parallel = !draw(5);
	in->keep_form = !draw(4);
	in->shape.context_form = (enum context_form)draw(2);
	in->keep_sharding = !draw(4);
	in->shape.sharding = (enum sharding)(in->keep_sharding ? draw(4) : 0);
	in->keep_offload = !draw(4);
	in->keep_optimizer = !draw(3);
	in->overlap_p2p = draw(2);
	in->shape.tp_comm_overlap = draw(2);
	in->keep_recompute = !draw(4);
	if (in->keep_recompute && draw(2))
		in->shape.recompute =
		    (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1 + draw(2), 0 };
	if (in->model.num_experts && !draw(4))
		in->typed.expert_model_parallel_size = ONE_OF(1, 2);
	if ((!in->keep_sharding || in->shape.sharding) && !draw(6))
		in->typed.optimizer_instances = ONE_OF(1, 2);
	in->keep_outer_sharding = draw(2);
	in->typed.outer_sharding =
	    in->keep_outer_sharding && draw(2) ? OUTER_OPTIM : OUTER_NO_SHARD;
	if (in->keep_sharding)
		run_join_instances(&in->typed, in->shape.sharding);
	if (!draw(6))
		in->split.num_virtual_stages_per_pipeline_rank = 1;
}

static struct search_input
random_input(void)
{
	struct search_input in = { .model = random_model(),
		.shape = { .seq_length = ONE_OF(32, 64, 128),
		    .dtype = ONE_OF(DTYPE_BF16, DTYPE_BF16, DTYPE_F32),
		    .rule = optim_rules },
		.world_size = ONE_OF(1, 2, 2, 4, 4, 4, 6, 8),
		.global_batch_size = ONE_OF(1, 2, 4, 6, 8),
		.top = ONE_OF(0, 1, 3, 10) };

	hardware_row(0, &in.hw);
	in.hw.gpus_per_node = ONE_OF(1, 2, 4, 8);
	in.hw.message_us = ONE_OF(0, 5, 5);
	in.hw.reserve_gb = 0;
	in.hw.kernel_us = ONE_OF(0, 0, 1);
	in.hw.step_ms = 0;
	in.hw.link_us = in.hw.network_us = 0.01;
	in.hw.tflops *= ONE_OF(1, 10) * 1e-3;
	in.hw.link_bandwidth *= ONE_OF(1, 10, 100) * 1e-2;
	in.hw.host_bandwidth *= ONE_OF(1, 10, 100) * 1e-2;
	type_some(&in);
	return in;
}

/* --- all plans -------------------------------------------------------------------------------- */

enum { RECOMPUTES = 3, NONE = 0, SELECTIVE = 1, LAYERS = 2 };

/* A plan, and how it saves memory. */
struct plan {
	int number, sharding, recompute, amount;
	bool offload, optimizer;
	struct candidate c;
};

struct plans {
	struct plan *item;
	int count, cap, numbers;
	int64_t ways;
	const struct search_input *in;
	struct schedule_counts counts;
	struct place_sizes sizes;
	struct memory_stages table;
};

static void
set_savings(struct plan *x)
{
	struct train_shape *s = &x->c.shape;

	s->sharding = (enum sharding)x->sharding;
	if (x->recompute == SELECTIVE)
		s->recompute.granularity = RECOMPUTE_SELECTIVE;
	if (x->recompute == LAYERS && x->offload)
		s->recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1, 0 };
	else if (x->recompute == LAYERS)
		s->recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_BLOCK, x->amount, 0 };
	if (x->offload)
		s->offloaded_layers = x->amount;
	if (x->optimizer)
		optim_types_offload(s);
}

static void
add_plan(struct plans *all, struct memory_stages *stages, const struct plan *x)
{
	if (all->count == all->cap) {
		all->cap = all->cap ? 2 * all->cap : 1024;
		all->item = mem_realloc(all->item, (size_t)all->cap, sizeof *all->item);
	}
	all->item[all->count] = *x;
	set_savings(&all->item[all->count]);
	x = &all->item[all->count++];
	all->item[all->count - 1].c.bytes = memtable_most(stages, &x->c.shape,
	    &all->item[all->count - 1].c.elements, &all->item[all->count - 1].c.own);
}

/* All ways to save memory, of every number of layers. */
static void
add_savings(struct plans *all, const struct candidate *c)
{
	const struct search_input *in = all->in;
	struct memory_stages stages;
	int most = 0, number = all->numbers++;

	for (int i = 0; i < layout_stages(&c->layout); i++)
		most = c->layout.split[i] > most ? c->layout.split[i] : most;
	memory_stages_like(&stages, &all->table, &c->layout, &c->shape);
	for (int i = 0; i < 4 * RECOMPUTES * 4; i++) {
		struct plan x = { number, i % 4, i / 4 % RECOMPUTES, 0, i / 12 % 2, i / 24, *c };
		bool amount = x.offload || x.recompute == LAYERS;

		x.c.number = number;
		if ((in->keep_sharding && x.sharding != (int)in->shape.sharding) ||
		    (!in->keep_sharding && x.sharding && layout_data_ranks(&c->layout) == 1) ||
		    (layout_instances(&c->layout) > 1 &&
			x.sharding < (in->typed.optimizer_instances && !in->typed.outer_sharding
					     ? SHARDING_OPTIM
					     : SHARDING_GRADS)) ||
		    (in->keep_recompute && x.recompute) || (in->keep_offload && x.offload) ||
		    (in->keep_optimizer && x.optimizer))
			continue;
		for (x.amount = amount; x.amount <= (amount ? most - x.offload : 0); x.amount++)
			add_plan(all, &stages, &x);
	}
	memory_stages_release(&stages);
}

/* Every number of chunks, both splits, or what was typed. */
static void
add_splits(struct plans *all, const struct candidate *way)
{
	const struct search_input *in = all->in;
	int64_t p = way->layout.pipeline_model_parallel_size, layers = in->model.num_layers;
	struct candidate before = { .bytes = 0 };

	all->ways++;
	for (int v = 1; v <= layers + 1; v++)
		for (int equal = 0; equal < 2; equal++) {
			struct split_options o = in->split;
			struct candidate c = *way;
			struct schedule_shape passes;
			struct err e;

			if (split_given(&o) && (v > 1 || equal))
				continue;
			if (equal && layers % (p * v) == 0)
				o.num_layers_per_virtual_pipeline_stage = layers / (p * v);
			else if (equal || (v > 1 && p == 1))
				continue;
			else if (!split_given(&o))
				o.num_virtual_stages_per_pipeline_rank = v;
			if (split_resolve(&o, &in->model, in->shape.seq_length, &c.layout, &e) < 0)
				continue;
			c.layout.overlap_p2p = in->overlap_p2p && layout_chunks(&c.layout) > 1;
			passes = layout_schedule(&c.layout, (int)c.shape.num_microbatches, true);
			if (!schedule_fits(&passes))
				continue;
			if (equal &&
			    !memcmp(c.layout.split, before.layout.split, sizeof c.layout.split))
				continue;
			before = c;
			add_savings(all, &c);
		}
}

static void
add_batches(struct plans *all, struct candidate *c)
{
	const struct search_input *in = all->in;
	int64_t batch = in->global_batch_size, d = c->layout.data_parallel_size;

	for (int64_t b = 1; b <= batch; b++) {
		if (batch % (d * b) || (in->micro_batch && b != in->micro_batch))
			continue;
		c->shape.micro_batch_size = b;
		c->shape.num_microbatches = batch / (d * b);
		add_splits(all, c);
	}
}

/* One instance and as many as hosts, or what was typed. */
static void
add_instances(struct plans *all, struct candidate *c)
{
	const struct search_input *in = all->in;
	const struct host_places where = { .ranks_per_host = (int64_t)in->hw.gpus_per_node };
	int64_t typed = in->typed.optimizer_instances;
	bool shares = !in->keep_sharding || in->shape.sharding >= SHARDING_GRADS;
	struct err ignored;

	for (int several = 0; several < (typed || !shares ? 1 : 2); several++) {
		int64_t n = several ? hosts_of_data(&c->layout, &where) : typed ? typed : 1;

		c->layout.optimizer_instances = n;
		c->layout.outer_sharding =
		    several && !in->keep_outer_sharding ? OUTER_OPTIM : in->typed.outer_sharding;
		if ((!several || n > 1) &&
		    layout_check_instances(&c->layout, &in->model, &ignored) == 0)
			add_batches(all, c);
	}
}

/* Sizes of all axes by counting. */
static void
add_layout(struct plans *all, const int64_t size[5], bool rows, enum context_form form)
{
	const struct search_input *in = all->in;
	bool experts = in->model.num_experts > 0;
	int64_t t = size[0], p = size[1], c = size[2], e = size[3], slices = size[4];
	struct candidate x = { .shape = in->shape,
		.layout = { t, c, in->world_size / (t * p * c), p, .sequence_parallel = rows,
		    .outer_sharding = in->typed.outer_sharding } };
	struct err ignored;

	if (in->world_size % (t * p * c) || (in->tensor && t != in->tensor) ||
	    (!in->tensor && t > (int64_t)in->hw.gpus_per_node) ||
	    (in->pipeline && p != in->pipeline) || (in->context && c != in->context) ||
	    (in->typed.expert_model_parallel_size && e != in->typed.expert_model_parallel_size &&
		experts) ||
	    (!experts && (e > 1 || slices > 1)) || (experts && slices > 1 && slices != t))
		return;
	if (rows ? !experts && !in->typed.sequence_parallel && t == 1
		 : experts || in->typed.sequence_parallel)
		return;
	if (c == 1 || in->keep_form ? form != in->shape.context_form : false)
		return;
	x.shape.context_form = form;
	if (t > 1 && (int64_t)in->hw.gpus_per_node % t == 0 && in->hw.message_us > 0)
		x.shape.tp_comm_overlap = true;
	x.layout.expert_model_parallel_size = experts ? e : 0;
	x.layout.expert_tensor_parallel_size = experts ? slices : 0;
	if (layout_check(&x.layout, &in->model, &ignored) == 0 &&
	    layout_check_experts(&x.layout, &in->model, &ignored) == 0 &&
	    layout_check_rows(&x.layout, in->shape.seq_length, &ignored) == 0 &&
	    (form == CONTEXT_GATHER || layout_check_heads(&x.layout, &in->model, &ignored) == 0)) {
		price_hosts(&x.layout, &in->model, &in->hw);
		add_instances(all, &x);
	}
}

static void
add_all(struct plans *all)
{
	int64_t w = all->in->world_size;

	for (int64_t i = 0; i < w * w * w * w * w * 4; i++) {
		int64_t n = i / 4, size[5];

		for (int k = 0; k < 5; k++, n /= w)
			size[k] = n % w + 1;
		add_layout(all, size, i & 1, (enum context_form)(i / 2 % 2));
	}
}

/* --- the best of them ------------------------------------------------------------------------- */

static bool
same_saving(const struct plan *a, const struct plan *b)
{
	return a->sharding == b->sharding && a->recompute == b->recompute &&
	    a->offload == b->offload && a->optimizer == b->optimizer;
}

/* Whether a saves less than b, or as much in fewer layers. */
static bool
saves_less(const struct plan *a, const struct plan *b)
{
	if (same_saving(a, b))
		return a->amount < b->amount;
	return (a->sharding == b->sharding || (a->sharding && a->sharding < b->sharding)) &&
	    a->recompute <= b->recompute && a->offload <= b->offload &&
	    a->optimizer <= b->optimizer;
}

/* Whether a plan is listed: one that fits where none that saves less does; one that fits tightly
 * where besides no number of layers fits. */
static bool
listed(const struct plans *all, const struct plan *x)
{
	const struct plan *y = x, *end = all->item + all->count;

	if (x->c.fit == FIT_NO)
		return false;
	while (y > all->item && y[-1].number == x->number)
		y--;
	for (; y < end && y->number == x->number; y++) {
		if (saves_less(y, x) &&
		    (y->c.fit == FIT_YES || (same_saving(y, x) && y->c.fit == x->c.fit)))
			return false;
		if (same_saving(y, x) && y->c.fit == FIT_YES && x->c.fit == FIT_TIGHT)
			return false;
	}
	return true;
}

static void
list_plans(struct plans *all, struct search *out)
{
	const struct search_input *in = all->in;

	for (int i = 0; i < all->count; i++)
		all->item[i].c.fit = search_fit(&all->item[i].c, &in->hw);
	out->item = mem_alloc((size_t)all->count + 1, sizeof *out->item);
	for (int i = 0; i < all->count; i++) {
		struct plan *x = &all->item[i];
		struct memory_stages stages;
		struct run_case r = { &in->model, &x->c.layout, &x->c.shape, &in->hw, &stages,
			{ 0 } };

		if (!listed(all, x))
			continue;
		memory_stages_like(&stages, &all->table, &x->c.layout, &x->c.shape);
		r.owned = operation_owned(
		    &stages, r.shape, operation_stage(&stages, x->c.elements), x->c.own);
		time_step(&r, &x->c.time);
		memory_stages_release(&stages);
		out->item[out->count++] = x->c;
	}
	if (out->count)
		search_rank(out);
}

/* --- both ------------------------------------------------------------------------------------- */

static void
compare(const struct search *s, const struct search *all, const struct search_input *in)
{
	int rows = in->top && in->top < all->count ? (int)in->top : all->count;

	CHECK(s->count >= rows && (in->top || s->count == rows));
	for (int i = 0; i < rows && i < s->count; i++) {
		CHECK(s->item[i].time.total == all->item[i].time.total);
		CHECK(s->item[i].bytes == all->item[i].bytes);
		CHECK(s->item[i].fit == all->item[i].fit);
	}
	if (all->count && all->tight.bytes && all->item[0].fit == FIT_YES &&
	    all->tight.time.total < all->item[0].time.total)
		CHECK(s->tight.time.total == all->tight.time.total);
}

/* A search after one of more ranks that found things for it finds the same; a search
 * within the time of its fastest plan finds one, and within none does not. */
static void
compare_after(const struct search *s, const struct search *all, const struct search_input *in)
{
	struct search_input x = *in;
	struct search other;
	double least = INFINITY;
	struct err e;

	for (int i = 0; i < 2; i++)
		x.found[i] = found_new(&in->model);
	x.world_size *= 2;
	search_run(&other, &x, &e);
	search_release(&other);
	x.world_size = in->world_size;
	search_run(&other, &x, &e);
	CHECK(other.count == s->count);
	for (int i = 0; i < s->count && i < other.count; i++)
		CHECK(other.item[i].time.total == s->item[i].time.total &&
		    other.item[i].bytes == s->item[i].bytes);
	for (int i = 0; i < all->count; i++)
		least = fmin(least, all->item[i].time.total);
	if (all->count)
		CHECK(search_within(&x, 1.000001 * least));
	CHECK(!search_within(&x, 1e-12));
	for (int i = 0; i < 2; i++)
		found_free(x.found[i]);
	search_release(&other);
}

/* Memory for some of the plans, all of them, or none. */
static void
limit_memory(const struct plans *all, struct search_input *in)
{
	static const double gib = 1073741824.0;

	in->hw.memory_gb = all->count
	    ? (double)all->item[draw(all->count)].c.bytes * (draw(4) ? 1.02 : 1.2) / gib
	    : 1;
	if (!draw(12))
		in->hw.memory_gb = 1;
}

static void
release(struct plans *all)
{
	free(all->item);
	free(all->table.table);
	schedule_counts_release(&all->counts);
	place_sizes_release(&all->sizes);
}

/* Returns the number of plans. */
static int
random_case(void)
{
	struct search_input in = random_input();
	struct plans all = { .in = &in };
	struct search s, best = { 0 };
	struct err e = { "" };
	int count;

	all.table.model = &in.model;
	all.table.shared = &all.counts;
	all.table.sizes = &all.sizes;
	all.table.num_params = model_params(&in.model, &all.table.table);
	add_all(&all);
	limit_memory(&all, &in);
	list_plans(&all, &best);
	search_run(&s, &in, &e);
	CHECK(s.legal == all.ways);
	if (!best.count && s.count) /* moments of 16 bits, which are not enumerated */
		CHECK(s.item[0].shape.optim.state[0] == DTYPE_BF16);
	else
		compare(&s, &best, &in);
	compare_after(&s, &best, &in);
	count = all.count;
	search_release(&s);
	search_release(&best);
	release(&all);
	return count;
}

int
main(int argc, char **argv)
{
	int cases = argc > 1 ? atoi(argv[1]) : 200, first = argc > 2 ? atoi(argv[2]) : 0;
	unsigned long seed = check_seed();
	long plans = 0;

	for (int i = first; i < first + cases; i++) {
		long before = check_failures;
		int n;

		random_state = (seed + (uint64_t)i) * 0x9e3779b97f4a7c15;
		n = random_case();
		plans += n;
		if (check_failures > before)
			fprintf(stderr, "case %d of %d plans\n", i, n);
	}
	printf("%d cases, %ld plans\n", cases, plans);
	return check_done();
}
