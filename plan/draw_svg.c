/*
 * draw_svg.c - a step as SVG
 *
 * Rows are stages; passes are boxes, with what they are as a title, and memory is an area in each
 * row. Ranks are boxes by host, coloured by stage. Nothing is fetched or run.
 */
#include "plan/draw.h"

/* Pixels: a row and its parts, the width of the times, the labels before it; a rank. */
enum { ROW = 28, BOX = 22, WIDTH = 1200, LEFT = 80, CELL = 34 };

static const double gib = 1073741824.0;

static void
begin(int width, int height, const char *title, struct str *out)
{
	str_addf(out,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
	    "%d\" font-family=\"sans-serif\" font-size=\"11\">\n<title>%s</title>\n"
	    "<style>.f{fill:#4e79a7}.b{fill:#59a14f}.m{fill:#e15759}.u{fill:#9c755f}"
	    "text{fill:#222}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
	    width, height, width, height, title);
}

static double
across(const struct drawing *d, double time)
{
	return LEFT + WIDTH * time / d->t->x.total;
}

static void
label(int stage, struct str *out)
{
	str_addf(out, "<text x=\"4\" y=\"%d\">stage %d</text>\n", stage * ROW + BOX / 2 + 4, stage);
}

/* --- passes ----------------------------------------------------------------------------------- */

/* Forward and backward passes of odd chunks are paler. */
static void
add_box(const struct drawing *d, int stage, const struct sim_event *v, struct str *out)
{
	const struct action *a = &v->action;
	bool pass = simulated_pass(v), back = a->kind == ACTION_BACKWARD;

	if (v->end <= v->start)
		return;
	str_addf(out,
	    "<rect class=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" opacity=\"%.2f\">"
	    "<title>%s of micro batch %d, chunk %d: %.6g to %.6g s</title></rect>\n",
	    pass ? back ? "b" : "f" : "m", across(d, v->start), stage * ROW + (pass ? 2 : BOX + 2),
	    across(d, v->end) - across(d, v->start), pass ? BOX : 3,
	    pass ? 1 - 0.12 * (a->chunk % 4) - 0.25 * (a->microbatch % 2) : 1,
	    pass ? back ? "backward pass" : "forward pass" : "message", a->microbatch, a->chunk,
	    v->start, v->end);
}

static void
draw_timeline(const struct drawing *d, struct str *out)
{
	int stages = d->t->x.num_stages;

	begin(LEFT + WIDTH + 8, (stages + 1) * ROW, "passes of a step", out);
	for (int r = 0; r < stages; r++) {
		label(r, out);
		for (int i = 0; i < d->t->x.stage[r].count; i++)
			add_box(d, r, &d->t->x.stage[r].event[i], out);
	}
	str_addf(out,
	    "<text x=\"%d\" y=\"%d\">%.6g s; stages compute %.1f %% of it; blue: forward, green: "
	    "backward, red: messages</text>\n</svg>\n",
	    LEFT, stages * ROW + 16, d->t->x.total, 100 * d->t->busy);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void
draw_usage(const struct drawing *d, int stage, double full, struct str *out)
{
	const struct usage *u = &d->usage[stage];
	int floor = stage * ROW + BOX + 2;
	double at = 0;

	str_addf(out, "<path class=\"u\" d=\"M%d,%d", LEFT, floor);
	for (int i = 0; i < u->count; i++) {
		at = floor - BOX * u->bytes[i] / full;
		str_addf(out, "H%.2fV%.2f", across(d, u->time[i]), at);
	}
	str_addf(out,
	    "H%d V%d Z\"><title>stage %d: %.2f GiB in use, of %.2f allocated</title></path>\n",
	    LEFT + WIDTH, floor, stage, u->most / gib, u->allocated / gib);
}

static void
draw_memory(const struct drawing *d, struct str *out)
{
	int stages = d->t->x.num_stages;
	double full = 0;

	for (int r = 0; r < stages; r++)
		full = fmax(full, fmax(d->usage[r].allocated, d->usage[r].most));
	begin(LEFT + WIDTH + 8, (stages + 1) * ROW, "memory in use over a step", out);
	for (int r = 0; r < stages; r++) {
		label(r, out);
		draw_usage(d, r, full, out);
	}
	str_addf(out, "<text x=\"%d\" y=\"%d\">a row is %.2f GiB high; %.6g s</text>\n</svg>\n",
	    LEFT, stages * ROW + 16, full / gib, d->t->x.total);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void
draw_ranks(const struct drawing *d, struct str *out)
{
	const struct layout *l = &d->plan->layout;
	int64_t world = layout_world(l), host = (int64_t)d->hw->gpus_per_node;
	int64_t hosts = (world + host - 1) / host, widest = host < world ? host : world;

	begin(LEFT + (int)widest * CELL + 8, (int)(hosts + 1) * ROW, "ranks by host", out);
	for (int64_t h = 0; h < hosts; h++)
		str_addf(out, "<text x=\"4\" y=\"%d\">host %lld</text>\n",
		    (int)h * ROW + BOX / 2 + 4, (long long)h);
	for (int64_t r = 0; r < world; r++) {
		int coord[AX_COUNT], x = LEFT + (int)(r % host) * CELL,
				     y = (int)(r / host) * ROW + 2;

		layout_coord(l, r, coord);
		str_addf(out,
		    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"hsl(%d,55%%,%d%%)\">"
		    "<title>rank %lld: tensor %d, context %d, data %d, stage %d</title></rect>"
		    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n",
		    x, y, CELL - 2, BOX,
		    (int)(360 * coord[AX_PP] / l->pipeline_model_parallel_size),
		    70 + 15 * (coord[AX_DP] % 2), (long long)r, coord[AX_TP], coord[AX_CP],
		    coord[AX_DP], coord[AX_PP], x + CELL / 2 - 1, y + BOX / 2 + 4, (long long)r);
	}
	str_addf(out, "<text x=\"%d\" y=\"%d\">a colour is a stage</text>\n</svg>\n", LEFT,
	    (int)hosts * ROW + 16);
}

void
draw_svg(const struct drawing *d, struct str *out)
{
	if (d->o->view == DRAW_TIMELINE)
		draw_timeline(d, out);
	else if (d->o->view == DRAW_MEMORY)
		draw_memory(d, out);
	else
		draw_ranks(d, out);
}
