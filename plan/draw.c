/* draw.c - a step of a pipeline as text */
#include "plan/draw.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool
is_pass(const struct sim_event *v)
{
	return v->action.kind <= ACTION_BACKWARD;
}

/* Times are shares of the pipeline's. */
static void
list_passes(const struct timeline *t, FILE *f)
{
	fputs("stage\tpass\tchunk\tmicrobatch\tstart\tend\n", f);
	for (int r = 0; r < t->x.num_stages; r++)
		for (int i = 0; i < t->x.stage[r].count; i++) {
			const struct sim_event *v = &t->x.stage[r].event[i];

			if (is_pass(v))
				fprintf(f, "%d\t%s\t%d\t%d\t%.6f\t%.6f\n", r,
				    v->action.kind == ACTION_BACKWARD ? "backward" : "forward",
				    v->action.chunk, v->action.microbatch, v->start / t->x.total,
				    v->end / t->x.total);
		}
}

/* Digits are forward passes, letters backward ones, by the number of the micro batch. */
static void
draw_stage(const struct timeline *t, const struct sim_stage *s, int64_t width, char *row)
{
	static const char digits[] = "0123456789", letters[] = "abcdefghijklmnopqrstuvwxyz";

	memset(row, '.', (size_t)width);
	for (int i = 0; i < s->count; i++) {
		const struct sim_event *v = &s->event[i];
		int64_t from = (int64_t)(v->start / t->x.total * (double)width),
			to = (int64_t)(v->end / t->x.total * (double)width);
		int m = v->action.microbatch;

		if (is_pass(v))
			memset(row + from,
			    v->action.kind == ACTION_BACKWARD ? letters[m % 26] : digits[m % 10],
			    (size_t)(to - from));
	}
}

void
draw(const struct timeline *t, const struct draw_options *o, FILE *f)
{
	char *row;

	if (o->passes) {
		list_passes(t, f);
		return;
	}
	row = mem_zalloc((size_t)o->width + 1, 1);
	for (int r = 0; r < t->x.num_stages; r++) {
		draw_stage(t, &t->x.stage[r], o->width, row);
		fprintf(f, "%3d %s\n", r, row);
	}
	fprintf(f, "stages compute %.1f %% of the time\n", 100 * t->busy);
	free(row);
}
