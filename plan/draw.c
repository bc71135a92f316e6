/*
 * draw.c - passes of all stages on one axis of time
 *
 * The order of passes is the schedule's own; a pass starts when the one before it on its stage and
 * the one whose result it reads are over.
 */
#include "plan/draw.h"
#include "lib/base/mem.h"
#include "lib/model/work.h"

#include <stdlib.h>
#include <string.h>

const char *const draw_orders[] = { "1f1b", "gpipe", NULL };

/* Adds the FLOPs of a stage's blocks to the costs of its chunks. */
static void
add_costs(struct pass_cost *cost, const struct run_plan *plan, int stage)
{
	struct block *block;
	int n = block_list(&plan->model, &plan->layout, &plan->shape, stage, &block);

	for (int i = 0; i < n; i++) {
		struct pass_cost *c = &cost[layout_stage(&plan->layout, stage, block[i].chunk)];
		struct work w;
		double third;

		work_of(&w, block[i].kind, &plan->model, &plan->layout, &plan->shape);
		third = work_flops(&w) / 3;
		c->forward += third;
		c->backward += (block[i].recompute_chunk >= 0 ? 3 : 2) * third;
	}
	free(block);
}

/* The passes of a stage: in the trainer's order, or all forward passes before all backward ones. */
static void
take_passes(
    struct timed_pass *out, const struct schedule_shape *s, enum draw_order order, int stage)
{
	struct schedule_use use;
	struct action *list;
	int n;

	if (order == DRAW_GPIPE) {
		for (int i = 0; i < 2 * s->num_microbatches; i++)
			out[i] = (struct timed_pass){ i >= s->num_microbatches,
				i % s->num_microbatches, 0, 0, 0 };
		return;
	}
	n = schedule_make(s, stage, &list, &use);
	for (int i = 0; i < n; i++)
		if (list[i].kind <= ACTION_BACKWARD)
			*out++ = (struct timed_pass){ list[i].kind == ACTION_BACKWARD,
				list[i].microbatch, list[i].chunk, 0, 0 };
	free(list);
}

int
timeline_make(struct timeline *t, const struct run_plan *plan, enum draw_order order, struct err *e)
{
	enum { PASSES_MAX = 1 << 22 };
	struct schedule_shape s =
	    layout_schedule(&plan->layout, (int)plan->shape.num_microbatches, true);
	int64_t passes = 2 * plan->shape.num_microbatches * s.num_chunks;
	struct pass_cost cost[SPLIT_MAX] = { 0 };
	double sum = 0;

	memset(t, 0, sizeof *t);
	if (order == DRAW_GPIPE && s.num_chunks > 1)
		return err_set(
		    e, "--order gpipe: needs one chunk of layers a stage, not %d", s.num_chunks);
	if (passes * s.num_stages > PASSES_MAX)
		return err_set(e, "%lld passes: more than the %d that can be drawn",
		    (long long)(passes * s.num_stages), PASSES_MAX);
	passes_init(&t->passes, s.num_stages, s.num_chunks, s.num_microbatches, (int)passes);
	for (int r = 0; r < s.num_stages; r++) {
		add_costs(cost, plan, r);
		take_passes(&t->passes.pass[r * t->passes.num_passes], &s, order, r);
	}
	passes_time(&t->passes, cost);
	for (int i = 0; i < s.num_stages * t->passes.num_passes; i++) {
		const struct timed_pass *p = &t->passes.pass[i];

		sum += p->end - p->start;
		t->total = p->end > t->total ? p->end : t->total;
	}
	t->busy = sum / t->total / s.num_stages;
	return 0;
}

void
timeline_release(struct timeline *t)
{
	passes_release(&t->passes);
}

/* --- the drawing ------------------------------------------------------------------------------ */

/* Times are shares of the step's. */
static void
list_passes(const struct timeline *t, FILE *f)
{
	fputs("stage\tpass\tchunk\tmicrobatch\tstart\tend\n", f);
	for (int i = 0; i < t->passes.num_stages * t->passes.num_passes; i++) {
		const struct timed_pass *p = &t->passes.pass[i];

		fprintf(f, "%d\t%s\t%d\t%d\t%.6f\t%.6f\n", i / t->passes.num_passes,
		    p->backward ? "backward" : "forward", p->chunk, p->microbatch,
		    p->start / t->total, p->end / t->total);
	}
}

/* Digits are forward passes, letters backward ones, by the number of the micro batch. */
void
timeline_print(const struct timeline *t, const struct draw_options *o, FILE *f)
{
	static const char digits[] = "0123456789", letters[] = "abcdefghijklmnopqrstuvwxyz";
	char *row;

	if (o->passes) {
		list_passes(t, f);
		return;
	}
	row = mem_zalloc((size_t)o->width + 1, 1);
	for (int r = 0; r < t->passes.num_stages; r++) {
		memset(row, '.', (size_t)o->width);
		for (int i = 0; i < t->passes.num_passes; i++) {
			const struct timed_pass *p = &t->passes.pass[r * t->passes.num_passes + i];
			int64_t from = (int64_t)(p->start / t->total * (double)o->width),
				to = (int64_t)(p->end / t->total * (double)o->width);

			memset(row + from,
			    p->backward ? letters[p->microbatch % 26] : digits[p->microbatch % 10],
			    (size_t)(to - from));
		}
		fprintf(f, "%3d %s\n", r, row);
	}
	fprintf(f, "stages compute %.1f %% of the time\n", 100 * t->busy);
	free(row);
}
