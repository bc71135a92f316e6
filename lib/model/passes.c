/* passes.c - all stages of a pipeline, timed together */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/model/passes.h"

#include <stdlib.h>

static int
virtual_stages(const struct passes *p)
{
	return p->num_stages * p->num_chunks;
}

void
passes_init(struct passes *p, int num_stages, int num_chunks, int num_microbatches, int num_passes)
{
	*p = (struct passes){ num_stages, num_chunks, num_microbatches, num_passes, NULL, NULL };
	p->pass = mem_zalloc((size_t)num_stages * (size_t)num_passes, sizeof *p->pass);
	p->end =
	    mem_alloc(2 * (size_t)virtual_stages(p) * (size_t)num_microbatches, sizeof *p->end);
}

void
passes_release(struct passes *p)
{
	free(p->pass);
	free(p->end);
}

/* Negative: not yet known. */
static double *
end_at(const struct passes *p, int virtual_stage, int microbatch, bool backward)
{
	size_t at = (size_t)virtual_stage * (size_t)p->num_microbatches + (size_t)microbatch;

	return &p->end[2 * at + backward];
}

double
passes_end(const struct passes *p, int virtual_stage, int microbatch, bool backward)
{
	return *end_at(p, virtual_stage, microbatch, backward);
}

int
passes_source(const struct passes *p, int virtual_stage, bool backward)
{
	int source = virtual_stage + (backward ? 1 : -1);

	return source < virtual_stages(p) ? source : -1;
}

/* Times the passes of a stage from the i-th on, up to one whose input is not timed yet; returns how
 * many are timed. */
static int
advance(struct passes *p, int stage, int i, const struct pass_cost *cost)
{
	struct timed_pass *pass = &p->pass[(size_t)stage * (size_t)p->num_passes];

	for (; i < p->num_passes; i++) {
		struct timed_pass *x = &pass[i];
		int at = x->chunk * p->num_stages + stage,
		    source = passes_source(p, at, x->backward);
		double ready = source < 0 ? 0 : *end_at(p, source, x->microbatch, x->backward),
		       before = i > 0 ? pass[i - 1].end : 0;

		if (ready < 0)
			break;
		x->start = ready > before ? ready : before;
		x->end = x->start + (x->backward ? cost[at].backward : cost[at].forward);
		*end_at(p, at, x->microbatch, x->backward) = x->end;
	}
	return i;
}

void
passes_time(struct passes *p, const struct pass_cost *cost)
{
	size_t n = 2 * (size_t)virtual_stages(p) * (size_t)p->num_microbatches;
	int *timed = mem_zalloc((size_t)p->num_stages, sizeof *timed);
	bool moved = true;

	for (size_t i = 0; i < n; i++)
		p->end[i] = -1;
	while (moved) {
		moved = false;
		for (int r = 0; r < p->num_stages; r++) {
			int before = timed[r];

			timed[r] = advance(p, r, before, cost);
			moved |= timed[r] > before;
		}
	}
	for (int r = 0; r < p->num_stages; r++)
		if (timed[r] < p->num_passes)
			BUG("stage %d cannot continue at pass %d", r, timed[r]);
	free(timed);
}
