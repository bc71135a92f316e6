/*
 * straggler.c - the words of --log-straggler
 *
 * They are those of StragglerDetector in Megatron-LM's core/utils.py: Rtt is the time of a rank,
 * DRtt that of its data, Etpt its throughput, Pwr, Tmp and Clk the readings of its device's meters,
 * where there are any.
 */
#include "lib/base/mem.h"
#include "train/watch/straggler.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ranked {
	double value;
	int rank;
};

/* Equal values are ordered by rank, so that the same figures always give the same lines. */
static int
ascending(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value ? 1 : x->rank - y->rank;
}

static void
add_list(struct str *out, const char *head, const struct ranked *sorted, int count)
{
	str_addf(out, "\n^^^^ %s:", head);
	for (int i = 0; i < count; i++)
		str_addf(out, " %.2fTF/%d,", sorted[i].value, sorted[i].rank);
}

/* In Megatron-LM's order; ranks are listed by the last one. */
static const struct {
	const char *name, *unit;
	size_t at;
} figures[] = {
	{ "Rtt", "ms", offsetof(struct straggler, work) },
	{ "Pwr", "W", offsetof(struct straggler, watts) },
	{ "Tmp", "C", offsetof(struct straggler, celsius) },
	{ "Clk", "MHz", offsetof(struct straggler, megahertz) },
	{ "DRtt", "ms", offsetof(struct straggler, batch) },
	{ "Etpt", "TF", offsetof(struct straggler, tflops) },
};

/* One figure of all ranks in ascending order; false when a rank does not know it. */
static bool
sort(const struct straggler *of, int ranks, size_t at, struct ranked *sorted)
{
	for (int r = 0; r < ranks; r++) {
		memcpy(&sorted[r].value, (const char *)&of[r] + at, sizeof sorted[r].value);
		sorted[r].rank = r;
		if (isnan(sorted[r].value))
			return false;
	}
	qsort(sorted, (size_t)ranks, sizeof *sorted, ascending);
	return true;
}

/* Each figure as " | MnNAME/Rnk: VALUEunit/RANK | MxNAME/Rnk: ...", then the lists. */
void
straggler_text(const struct straggler *of, int ranks, int count, struct str *out)
{
	struct ranked *sorted = mem_alloc((size_t)ranks, sizeof *sorted);
	const struct ranked *most = &sorted[ranks - 1];
	char head[64];

	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
		const char *name = figures[i].name, *unit = figures[i].unit;

		if (!sort(of, ranks, figures[i].at, sorted))
			continue;
		str_addf(out, " | Mn%s/Rnk: %.2f%s/%d", name, sorted->value, unit, sorted->rank);
		str_addf(out, " | Mx%s/Rnk: %.2f%s/%d", name, most->value, unit, most->rank);
	}
	if (count > 1 && count < ranks) {
		snprintf(head, sizeof head, "Bottom %d Ranks with lowest  Etpt(TF)", count);
		add_list(out, head, sorted, count);
		snprintf(head, sizeof head, "Top    %d Ranks with highest Etpt(TF)", count);
		add_list(out, head, sorted + ranks - count, count);
	}
	free(sorted);
}
