/* draw.c - a step of a pipeline as text */
#include "plan/draw.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

const char *const draw_views[] = { "timeline", "memory", "ranks", NULL };
const char *const draw_formats[] = { "text", "svg", "trace", NULL };

static const double gib = 1073741824.0;

int
draw_check(const struct draw_options *o, struct err *e)
{
	if (o->format == DRAW_TRACE && o->view == DRAW_RANKS)
		return err_set(
		    e, "--format trace: holds times, not --view ranks; give text or svg");
	if (o->passes && (o->view != DRAW_TIMELINE || o->format != DRAW_TEXT))
		return err_set(e, "--passes: is a table of --view timeline and --format text");
	return 0;
}

/* --- passes ----------------------------------------------------------------------------------- */

/* Times are shares of the pipeline's. */
static void
list_passes(const struct timeline *t, struct str *out)
{
	str_adds(out, "stage\tpass\tchunk\tmicrobatch\tstart\tend\n");
	for (int r = 0; r < t->x.num_stages; r++)
		for (int i = 0; i < t->x.stage[r].count; i++) {
			const struct sim_event *v = &t->x.stage[r].event[i];

			if (simulated_pass(v))
				str_addf(out, "%d\t%s\t%d\t%d\t%.6f\t%.6f\n", r,
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

		if (simulated_pass(v))
			memset(row + from,
			    v->action.kind == ACTION_BACKWARD ? letters[m % 26] : digits[m % 10],
			    (size_t)(to - from));
	}
}

static void
draw_passes(const struct drawing *d, struct str *out)
{
	const struct timeline *t = d->t;
	char *row = mem_zalloc((size_t)d->o->width + 1, 1);

	for (int r = 0; r < t->x.num_stages; r++) {
		draw_stage(t, &t->x.stage[r], d->o->width, row);
		str_addf(out, "%3d %s\n", r, row);
	}
	str_addf(out, "stages compute %.1f %% of the time\n", 100 * t->busy);
	free(row);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* The most that is in use while a column passes, in tenths of what the fullest stage allocates. */
static void
draw_usage(const struct usage *u, double total, double full, int64_t width, char *row)
{
	int i = 0;

	for (int64_t k = 0; k < width; k++) {
		double end = total * (double)(k + 1) / (double)width, most = u->bytes[i];

		while (i + 1 < u->count && u->time[i + 1] < end)
			most = u->bytes[++i] > most ? u->bytes[i] : most;
		row[k] = (char)('0' + (int)(9.999 * most / full));
	}
}

static void
draw_memory(const struct drawing *d, struct str *out)
{
	char *row = mem_zalloc((size_t)d->o->width + 1, 1);
	double full = 0;

	for (int r = 0; r < d->t->x.num_stages; r++)
		full = fmax(full, fmax(d->usage[r].allocated, d->usage[r].most));
	for (int r = 0; r < d->t->x.num_stages; r++) {
		draw_usage(&d->usage[r], d->t->x.total, full, d->o->width, row);
		str_addf(out, "%3d %s %.2f of %.2f GiB\n", r, row, d->usage[r].most / gib,
		    d->usage[r].allocated / gib);
	}
	str_addf(out, "memory in use, in tenths of %.2f GiB\n", full / gib);
	free(row);
}

/* --- ranks ------------------------------------------------------------------------------------ */

/* A line for each host: its ranks, and the stages, data, context and tensor ranks that they are. */
static void
draw_ranks(const struct drawing *d, struct str *out)
{
	static const char *const names[] = { "tensor", "context", "data", "stage" };
	const struct layout *l = &d->plan->layout;
	int64_t world = layout_world(l), host = (int64_t)d->hw->gpus_per_node;

	for (int64_t first = 0; first < world; first += host) {
		int64_t last = first + host < world ? first + host - 1 : world - 1;

		str_addf(out, "host %lld: ranks %lld to %lld:", (long long)(first / host),
		    (long long)first, (long long)last);
		for (int a = AX_COUNT - 1; a >= 0; a--) {
			int low = SPLIT_MAX * 1024, high = -1;

			for (int64_t r = first; r <= last; r++) {
				int coord[AX_COUNT];

				layout_coord(l, r, coord);
				low = coord[a] < low ? coord[a] : low;
				high = coord[a] > high ? coord[a] : high;
			}
			str_addf(out, low == high ? " %s %d" : " %s %d to %d", names[a], low, high);
			str_adds(out, a ? "," : "\n");
		}
	}
}

static void
draw_text(const struct drawing *d, struct str *out)
{
	if (d->o->passes)
		list_passes(d->t, out);
	else if (d->o->view == DRAW_TIMELINE)
		draw_passes(d, out);
	else if (d->o->view == DRAW_MEMORY)
		draw_memory(d, out);
	else
		draw_ranks(d, out);
}

void
draw(const struct drawing *d, struct str *out)
{
	static void (*const how[])(
	    const struct drawing *d, struct str *out) = { draw_text, draw_svg, draw_trace };

	how[d->o->format](d, out);
}
