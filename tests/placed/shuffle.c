/*
 * shuffle.c - buffers that share bytes are placed in another order, and scratch holds NaN
 *
 * PLACE_SEED=N gives each arena one of all orders in place of that by size. Before each step all of
 * scratch is filled with bytes of 255, which are NaN in every type of numbers and -1 in others. A
 * run that depends on what shares bytes with what prints other digits. mtrain is linked with this
 * around what places buffers and what runs the passes.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/model/place.h"
#include "train/step/pipeline.h"

#include <stdlib.h>
#include <string.h>

uint64_t __wrap_place_tight(struct placed *p, int n);
void __real_pipeline_run(const struct pipeline *p);
void __wrap_pipeline_run(const struct pipeline *p);

/* Knuth's 64-bit linear congruence; the upper bits are good enough to shuffle by. */
static int
below(uint64_t *state, int n)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return (int)((*state >> 33) % (uint64_t)n);
}

uint64_t
__wrap_place_tight(struct placed *p, int n)
{
	const char *seed = getenv("PLACE_SEED");
	uint64_t state = seed ? strtoull(seed, NULL, 10) : 0;

	if (!state)
		die("PLACE_SEED must be a number above 0");
	for (int i = n; i > 1; i--) {
		int j = below(&state, i);
		struct placed x = p[j];

		p[j] = p[i - 1];
		p[i - 1] = x;
	}
	return place_in_order(p, n);
}

/* No stream uses scratch between steps. */
void
__wrap_pipeline_run(const struct pipeline *p)
{
	size_t bytes = p->e->mem.arena[ARENA_SCRATCH];
	char *nan = mem_alloc(bytes, 1);
	struct err err;

	memset(nan, 0xff, bytes);
	p->e->backend->copy_in(p->e->stream, p->e->arena[ARENA_SCRATCH], nan, bytes);
	if (p->e->backend->sync(p->e->stream, &err) < 0)
		die("%s", err.msg);
	free(nan);
	__real_pipeline_run(p);
}
