/*
 * meter.c - joules per lap, from a counter of the device that only grows
 *
 * The counter advances about ten times per second on a GPU, which limits the precision: a shorter
 * training step sometimes gets nothing and sometimes more than its share, and only the mean over
 * many is exact.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/report/meter.h"

#include <math.h>
#include <stdlib.h>

struct energy {
	const struct engine *e;
	double last; /* the counter */
	double kept; /* of this lap, from before `last` */
};

void
meter_read(const struct engine *e, struct meter *out)
{
	*out = (struct meter){ NAN, NAN, NAN, NAN };
	if (e->backend->meter)
		e->backend->meter(e->device, out);
}

static double
counter(const struct engine *e)
{
	struct meter m;

	meter_read(e, &m);
	return m.joules;
}

struct energy *
energy_new(const struct engine *e)
{
	struct comm *w = e->groups.world;
	double now = counter(e), without = isnan(now);
	struct tensor t = tensor_1d(&without, DTYPE_F64, 1);
	struct energy *g;

	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	if (without > 0) {
		if (e->rank == 0)
			note(
			    "--log-energy: %.0f of %d devices have no energy meter (%s): no energy "
			    "is logged",
			    without, w->size, e->backend->name);
		return NULL;
	}
	g = mem_zalloc(1, sizeof *g);
	*g = (struct energy){ .e = e, .last = now };
	return g;
}

void
energy_free(struct energy *g)
{
	free(g);
}

void
energy_pause(struct energy *g)
{
	double now;

	if (!g)
		return;
	now = counter(g->e);
	g->kept += now - g->last;
	g->last = now;
}

void
energy_resume(struct energy *g)
{
	if (g)
		g->last = counter(g->e);
}

double
energy_lap(struct energy *g)
{
	double joules;

	if (!g)
		return 0;
	energy_pause(g);
	joules = g->kept;
	g->kept = 0;
	return joules;
}
