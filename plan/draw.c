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

/* What a micro batch costs a virtual stage. */
struct pass_cost {
	double forward, backward;
};

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

/* The passes of a stage in the trainer's order. */
static void
take_schedule(struct timed_pass *out, const struct schedule_shape *s, int stage)
{
	struct schedule_use use;
	struct action *list;
	int n = schedule_make(s, stage, &list, &use);

	for (int i = 0; i < n; i++)
		if (list[i].kind <= ACTION_BACKWARD)
			*out++ = (struct timed_pass){ list[i].kind == ACTION_BACKWARD,
				list[i].microbatch, list[i].chunk, 0, 0 };
	free(list);
}

static void
take_gpipe(struct timed_pass *out, const struct schedule_shape *s)
{
	for (int i = 0; i < 2 * s->num_microbatches; i++)
		out[i] = (struct timed_pass){ i >= s->num_microbatches, i % s->num_microbatches, 0,
			0, 0 };
}

/* The ends of passes by virtual stage, micro batch and direction; negative: not yet known. */
struct ends {
	const struct schedule_shape *s;
	double *end;
};

static double *
end_at(const struct ends *x, int virtual_stage, int microbatch, bool backward)
{
	int at = virtual_stage * x->s->num_microbatches + microbatch;

	return &x->end[2 * at + backward];
}

/* When what a pass reads is there: negative when that is not known yet. */
static double
ready(const struct ends *x, int virtual_stage, const struct timed_pass *p)
{
	int source = virtual_stage + (p->backward ? 1 : -1);

	if (source < 0 || source == x->s->num_stages * x->s->num_chunks)
		return 0;
	return *end_at(x, source, p->microbatch, p->backward);
}

/* Times the passes of a stage from the i-th on as far as it gets; returns how many are timed. */
static int
advance(const struct ends *x, struct timed_pass *pass, int count, int i, int stage,
    const struct pass_cost *cost)
{
	for (; i < count; i++) {
		struct timed_pass *p = &pass[i];
		int at = p->chunk * x->s->num_stages + stage;
		double from = ready(x, at, p), before = i > 0 ? pass[i - 1].end : 0;

		if (from < 0)
			break;
		p->start = from > before ? from : before;
		p->end = p->start + (p->backward ? cost[at].backward : cost[at].forward);
		*end_at(x, at, p->microbatch, p->backward) = p->end;
	}
	return i;
}

/* Each round times at least one pass: no order of passes waits for itself. */
static void
time_all(struct timeline *t, const struct schedule_shape *s, const struct pass_cost *cost)
{
	size_t n = 2 * (size_t)(s->num_stages * s->num_chunks) * (size_t)s->num_microbatches;
	struct ends x = { s, mem_alloc(n, sizeof *x.end) };
	int *timed = mem_zalloc((size_t)s->num_stages, sizeof *timed);
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		x.end[i] = -1;
	for (bool moved = true; moved;) {
		moved = false;
		for (int r = 0; r < s->num_stages; r++) {
			int before = timed[r];

			timed[r] = advance(
			    &x, &t->pass[r * t->num_passes], t->num_passes, before, r, cost);
			moved |= timed[r] > before;
		}
	}
	for (int i = 0; i < t->num_stages * t->num_passes; i++) {
		sum += t->pass[i].end - t->pass[i].start;
		t->total = t->pass[i].end > t->total ? t->pass[i].end : t->total;
	}
	t->busy = sum / t->total / s->num_stages;
	free(timed);
	free(x.end);
}

int
timeline_make(struct timeline *t, const struct run_plan *plan, enum draw_order order, struct err *e)
{
	enum { PASSES_MAX = 1 << 22 };
	struct schedule_shape s =
	    layout_schedule(&plan->layout, (int)plan->shape.num_microbatches, true);
	int64_t passes = 2 * plan->shape.num_microbatches * s.num_chunks;
	struct pass_cost cost[SPLIT_MAX] = { 0 };

	memset(t, 0, sizeof *t);
	if (order == DRAW_GPIPE && s.num_chunks > 1)
		return err_set(e, "--order gpipe: is for one chunk a stage, not %d", s.num_chunks);
	if (passes * s.num_stages > PASSES_MAX)
		return err_set(e, "%lld passes: more than the %d that can be drawn",
		    (long long)(passes * s.num_stages), PASSES_MAX);
	t->num_stages = s.num_stages;
	t->num_passes = (int)passes;
	t->pass = mem_alloc((size_t)(passes * s.num_stages), sizeof *t->pass);
	for (int r = 0; r < s.num_stages; r++) {
		add_costs(cost, plan, r);
		if (order == DRAW_GPIPE)
			take_gpipe(&t->pass[r * t->num_passes], &s);
		else
			take_schedule(&t->pass[r * t->num_passes], &s, r);
	}
	time_all(t, &s, cost);
	return 0;
}

void
timeline_release(struct timeline *t)
{
	free(t->pass);
}

/* --- on paper --------------------------------------------------------------------------------- */

/* Digits are forward passes, letters backward ones, by the number of the micro batch. */
static void
draw_stage(const struct timeline *t, int stage, int64_t width, char *row)
{
	static const char digits[] = "0123456789", letters[] = "abcdefghijklmnopqrstuvwxyz";

	memset(row, '.', (size_t)width);
	for (int i = 0; i < t->num_passes; i++) {
		const struct timed_pass *p = &t->pass[stage * t->num_passes + i];
		int64_t from = (int64_t)(p->start / t->total * (double)width),
			to = (int64_t)(p->end / t->total * (double)width);
		char sign = p->backward ? letters[p->microbatch % 26] : digits[p->microbatch % 10];

		memset(row + from, sign, (size_t)(to - from));
	}
}

/* Times are shares of the step's. */
static void
list_passes(const struct timeline *t, FILE *f)
{
	fputs("stage\tpass\tchunk\tmicrobatch\tstart\tend\n", f);
	for (int i = 0; i < t->num_stages * t->num_passes; i++) {
		const struct timed_pass *p = &t->pass[i];

		fprintf(f, "%d\t%s\t%d\t%d\t%.6f\t%.6f\n", i / t->num_passes,
		    p->backward ? "backward" : "forward", p->chunk, p->microbatch,
		    p->start / t->total, p->end / t->total);
	}
}

void
timeline_print(const struct timeline *t, const struct draw_options *o, FILE *f)
{
	char *row;

	if (o->passes) {
		list_passes(t, f);
		return;
	}
	row = mem_zalloc((size_t)o->width + 1, 1);
	for (int r = 0; r < t->num_stages; r++) {
		draw_stage(t, r, o->width, row);
		fprintf(f, "%3d %s\n", r, row);
	}
	fprintf(f, "stages compute %.1f %% of the time\n", 100 * t->busy);
	free(row);
}
