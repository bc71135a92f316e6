/*
 * memtable.c - the memory plan as a table
 *
 * The figures come from lib/model/memory, which also drives allocation, so table and run cannot
 * disagree. Bytes are exact and not rounded to units: the table is for machines. The device's own
 * reserve is in search.c.
 */
#include "lib/model/gpu.h"
#include "lib/model/layout_text.h"
#include "plan/memtable.h"

#include <stdlib.h>
#include <string.h>

static const char *const column_names[MEMTABLE_COLUMNS] = { "weights", "gradients", "optimizer",
	"constants", "saved", "scratch", "workspace", "total", "host" };
static const char *const arena_names[ARENA_COUNT] = { "params", "saved", "scratch", "host" };

/* A plan, and what is found once for all its stages. One rank represents its stage: tensor and data
 * ranks hold equally much, because shards are padded to equal size. */
struct tabled {
	const struct run_plan *plan;
	struct memory_stages stages;
};

/* The column of a buffer of the params arena. */
static enum memtable_column
column_of(int b)
{
	switch (b) {
	case BUF_WEIGHTS:
	case BUF_WEIGHT_SLOTS:
	case BUF_FP8_WEIGHTS:
	case BUF_FP8_TRANSPOSED: return MEMTABLE_WEIGHTS;
	case BUF_GRADS:
	case BUF_GRAD_SLOTS:
	case BUF_BF16_GRADS:
	case BUF_DATA_RANK_GRADS: return MEMTABLE_GRADIENTS;
	case BUF_MASTER:
	case BUF_LOW_BITS: return MEMTABLE_OPTIMIZER;
	default:
		return b >= BUF_STATE && b <= BUF_STATE_LAST ? MEMTABLE_OPTIMIZER
							     : MEMTABLE_CONSTANTS;
	}
}

/* Sums the buffers into columns. The first four are parts of one arena; the total includes padding
 * between buffers, and GPU memory outside the arenas. */
static void
sum_columns(const struct run_plan *plan, const struct memory_plan *m, int pp,
    uint64_t sum[MEMTABLE_COLUMNS])
{
	memset(sum, 0, MEMTABLE_COLUMNS * sizeof *sum);
	for (int i = 0; i < m->num_buffers; i++)
		if (m->buffer[i].place == ARENA_PARAMS)
			sum[column_of(m->buffer[i].number)] += memory_aligned(m->buffer[i].bytes);
	sum[MEMTABLE_SAVED] = m->arena[ARENA_SAVED];
	sum[MEMTABLE_SCRATCH] = m->arena[ARENA_SCRATCH];
	sum[MEMTABLE_WORKSPACE] = gpu_workspace(&plan->layout, &plan->model, &plan->shape, pp);
	sum[MEMTABLE_TOTAL] = memory_total(m) + sum[MEMTABLE_WORKSPACE];
	sum[MEMTABLE_HOST] = m->arena[ARENA_HOST];
}

/* One row: its key, then the columns. */
static void
print_sums(const uint64_t sum[MEMTABLE_COLUMNS], bool json, FILE *f)
{
	for (int i = 0; i < MEMTABLE_COLUMNS; i++)
		if (json)
			fprintf(f, ", \"%s\": %llu", column_names[i], (unsigned long long)sum[i]);
		else
			fprintf(f, "\t%llu", (unsigned long long)sum[i]);
	fputs(json ? "}\n" : "\n", f);
}

/* The names of the columns after those of the key. */
static void
print_header(const char *first, FILE *f)
{
	fputs(first, f);
	for (int i = 0; i < MEMTABLE_COLUMNS; i++)
		fprintf(f, "\t%s", column_names[i]);
	fputc('\n', f);
}

/* Neighbouring stages with equal figures share a row. The loop runs one past the end, to print the
 * last row. */
static void
by_stage(struct tabled *t, bool json, FILE *f)
{
	const struct run_plan *plan = t->plan;
	int p = (int)plan->layout.pipeline_model_parallel_size, first = 0;
	long long stage_ranks = layout_world(&plan->layout) / p;
	uint64_t sum[MEMTABLE_COLUMNS], next[MEMTABLE_COLUMNS];

	if (!json)
		print_header("stage\tranks", f);
	for (int stage = 0; stage <= p; stage++) {
		if (stage < p) {
			struct memory_plan m;

			memory_plan_stage(&m, &t->stages, &t->plan->shape, stage);
			sum_columns(plan, &m, stage, next);
			memory_release(&m);
		}
		if (stage > 0 && (stage == p || memcmp(sum, next, sizeof sum))) {
			int last = stage - 1;
			long long ranks = stage_ranks * (stage - first);

			if (json)
				fprintf(f,
				    "{\"first_stage\": %d, \"last_stage\": %d, \"ranks\": %lld",
				    first, last, ranks);
			else if (first == last)
				fprintf(f, "%d\t%lld", first, ranks);
			else
				fprintf(f, "%d-%d\t%lld", first, last, ranks);
			print_sums(sum, json, f);
			first = stage;
		}
		memcpy(sum, next, sizeof sum);
	}
}

/* Each stage is planned once. */
static void
by_rank(struct tabled *t, bool json, FILE *f)
{
	const struct run_plan *plan = t->plan;
	int64_t stages = plan->layout.pipeline_model_parallel_size;
	uint64_t(*sum)[MEMTABLE_COLUMNS] = mem_alloc((size_t)stages, sizeof *sum);

	for (int i = 0; i < stages; i++) {
		struct memory_plan m;

		memory_plan_stage(&m, &t->stages, &t->plan->shape, i);
		sum_columns(plan, &m, i, sum[i]);
		memory_release(&m);
	}
	if (!json)
		print_header("rank\ttp\tcp\tdp\tpp\tep\tetp", f);
	for (int64_t rank = 0; rank < layout_world(&plan->layout); rank++) {
		int c[AX_COUNT], at[EX_COUNT] = { 0 };

		layout_coord(&plan->layout, rank, c);
		if (plan->model.num_experts)
			layout_expert_coord(&plan->layout, c, at);
		fprintf(f,
		    json ? "{\"rank\": %lld, \"tp\": %d, \"cp\": %d, \"dp\": %d, \"pp\": %d, "
			   "\"ep\": %d, \"etp\": %d"
			 : "%lld\t%d\t%d\t%d\t%d\t%d\t%d",
		    (long long)rank, c[AX_TP], c[AX_CP], c[AX_DP], c[AX_PP], at[EX_EP], at[EX_TP]);
		print_sums(sum[c[AX_PP]], json, f);
	}
	free(sum);
}

/* The rows of a buffer in an arena, if it has instances there. */
struct listed {
	int stage;
	enum arena arena;
	bool json;
};

static void
print_buffer(const struct memory_plan *m, const struct buffer *b, struct listed in, FILE *f)
{
	uint64_t n = (uint64_t)memory_instances(m, b->number, in.arena);

	if (n)
		fprintf(f,
		    in.json ? "{\"stage\": %d, \"arena\": \"%s\", \"buffer\": \"%s\", "
			      "\"offset\": %llu, \"bytes\": %llu, \"instances\": %llu, "
			      "\"total\": %llu}\n"
			    : "%d\t%s\t%s\t%llu\t%llu\t%llu\t%llu\n",
		    in.stage, arena_names[in.arena], b->name, (unsigned long long)b->offset,
		    (unsigned long long)b->bytes, (unsigned long long)n,
		    (unsigned long long)(n * memory_aligned(b->bytes)));
}

/* The buffers of each stage, with the number of layers and slots that have room for them. Those of
 * recomputed layers lie in scratch and have a row of their own. Totals of buffers that share bytes
 * add up to more than the arena. */
static void
by_buffer(struct tabled *t, bool json, FILE *f)
{
	if (!json)
		fputs("stage\tarena\tbuffer\toffset\tbytes\tinstances\ttotal\n", f);
	for (int stage = 0; stage < t->stages.layout->pipeline_model_parallel_size; stage++) {
		struct memory_plan m;

		memory_plan_stage(&m, &t->stages, &t->plan->shape, stage);
		for (int i = 0; i < m.num_buffers * ARENA_COUNT; i++)
			print_buffer(&m, &m.buffer[i / ARENA_COUNT],
			    (struct listed){ stage, (enum arena)(i % ARENA_COUNT), json }, f);
		memory_release(&m);
	}
}

/* Options are mutually exclusive, in this order of precedence. The caller checks f for errors when
 * closing it. */
void
memtable_print(const struct run_plan *plan, const struct memtable_options *o, FILE *f)
{
	struct tabled t = { .plan = plan };

	memory_stages_init(&t.stages, &plan->model, &plan->layout, &plan->shape);
	if (o->buffers)
		by_buffer(&t, o->json, f);
	else if (o->all_ranks)
		by_rank(&t, o->json, f);
	else
		by_stage(&t, o->json, f);
	memory_stages_release(&t.stages);
}

/* elements and own may be NULL; they describe the stage with the most parameters, which need not be
 * the one with the most bytes. */
uint64_t
memtable_most(struct memory_stages *x, const struct train_shape *s, int64_t *elements, int64_t *own)
{
	uint64_t most = 0;
	int64_t big = 0;

	for (int stage = 0; stage < x->layout->pipeline_model_parallel_size; stage++) {
		struct memory_plan m;

		memory_plan_stage(&m, x, s, stage);
		if (memory_total(&m) > most)
			most = memory_total(&m);
		if (m.shards.elements > big) {
			big = m.shards.elements;
			if (elements)
				*elements = big;
			if (own)
				*own = m.optim_elements;
		}
		memory_release(&m);
	}
	return most;
}

uint64_t
memtable_most_on_host(struct memory_stages *x, const struct train_shape *s)
{
	uint64_t most = 0;

	for (int stage = 0; stage < x->layout->pipeline_model_parallel_size; stage++) {
		struct memory_plan m;

		memory_plan_stage(&m, x, s, stage);
		most = m.arena[ARENA_HOST] > most ? m.arena[ARENA_HOST] : most;
		memory_release(&m);
	}
	return most;
}

void
memtable_fullest(const struct run_plan *plan, uint64_t sum[MEMTABLE_COLUMNS])
{
	struct memory_stages stages;

	memset(sum, 0, MEMTABLE_COLUMNS * sizeof *sum);
	memory_stages_init(&stages, &plan->model, &plan->layout, &plan->shape);
	for (int stage = 0; stage < plan->layout.pipeline_model_parallel_size; stage++) {
		uint64_t next[MEMTABLE_COLUMNS];
		struct memory_plan m;

		memory_plan_stage(&m, &stages, &plan->shape, stage);
		sum_columns(plan, &m, stage, next);
		memory_release(&m);
		if (next[MEMTABLE_TOTAL] > sum[MEMTABLE_TOTAL])
			memcpy(sum, next, sizeof next);
	}
	memory_stages_release(&stages);
}

const char *
memtable_precision(enum dtype t)
{
	switch (t) {
	case DTYPE_BF16: return "bf16";
	case DTYPE_F16: return "fp16";
	case DTYPE_F64: return "fp64";
	default: return "fp32";
	}
}

/* For a plan that has been checked; one line, for people. */
void
memtable_summary(const struct run_plan *plan, FILE *f)
{
	const struct layout *l = &plan->layout;
	int64_t elements = 0;
	struct str split = { 0 }, words = { 0 };
	struct memory_stages stages;

	memory_stages_init(&stages, &plan->model, l, &plan->shape);
	memtable_most(&stages, &plan->shape, &elements, NULL);
	memory_stages_release(&stages);
	layout_words(l, &words);
	fprintf(f, "ok: %lld parameters on %lld ranks: %s; ",
	    (long long)model_num_parameters(&plan->model), (long long)layout_world(l), words.buf);
	split_text(l, &plan->model, &split);
	fprintf(f,
	    "%lld micro-batches of %lld; layers %s; at most %lld parameters per rank, in %s\n",
	    (long long)plan->shape.num_microbatches, (long long)plan->shape.micro_batch_size,
	    split.buf, (long long)elements, memtable_precision(plan->shape.dtype));
	str_release(&split);
	str_release(&words);
}
