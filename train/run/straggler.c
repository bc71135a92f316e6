/*
 * straggler.c - the words of --log-straggler
 *
 * They are those of StragglerDetector in Megatron-LM's core/utils.py: Rtt is the time of a rank,
 * DRtt that of its data, Etpt its throughput. Temperature, power and clock are not asked for.
 */
#include "train/run/straggler.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>

struct ranked {
	double value;
	int rank;
};

/* Equal values by rank, so that every run of the same figures gives the same lines. */
static int
ascending(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value ? 1 : x->rank - y->rank;
}

/* " | MnNAME/Rnk: VALUEunit/RANK | MxNAME/Rnk: ..." of sorted values. */
static void
add_ends(
    struct str *out, const char *name, const char *unit, const struct ranked *sorted, int ranks)
{
	const struct ranked *most = &sorted[ranks - 1];

	str_addf(out, " | Mn%s/Rnk: %.2f%s/%d", name, sorted->value, unit, sorted->rank);
	str_addf(out, " | Mx%s/Rnk: %.2f%s/%d", name, most->value, unit, most->rank);
}

static void
add_list(struct str *out, const char *head, const struct ranked *sorted, int count)
{
	str_addf(out, "\n^^^^ %s:", head);
	for (int i = 0; i < count; i++)
		str_addf(out, " %.2fTF/%d,", sorted[i].value, sorted[i].rank);
}

static double
work(const struct straggler *s, int rank)
{
	return s->work[rank];
}

static double
batch(const struct straggler *s, int rank)
{
	return s->batch[rank];
}

/* A rank that has no measurable time has no throughput either. */
static double
throughput(const struct straggler *s, int rank)
{
	return s->work[rank] > 0 ? s->tflop / (s->work[rank] * 1e-3) : 0;
}

/* The last is what ranks are listed by. */
static const struct {
	const char *name, *unit;
	double (*of)(const struct straggler *, int rank);
} figures[] = { { "Rtt", "ms", work }, { "DRtt", "ms", batch }, { "Etpt", "TF", throughput } };

void
straggler_text(const struct straggler *s, struct str *out)
{
	struct ranked *sorted = mem_alloc((size_t)s->ranks, sizeof *sorted);
	char head[64];

	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
		for (int r = 0; r < s->ranks; r++)
			sorted[r] = (struct ranked){ figures[i].of(s, r), r };
		qsort(sorted, (size_t)s->ranks, sizeof *sorted, ascending);
		add_ends(out, figures[i].name, figures[i].unit, sorted, s->ranks);
	}
	if (s->count > 1 && s->count < s->ranks) {
		snprintf(head, sizeof head, "Bottom %d Ranks with lowest  Etpt(TF)", s->count);
		add_list(out, head, sorted, s->count);
		snprintf(head, sizeof head, "Top    %d Ranks with highest Etpt(TF)", s->count);
		add_list(out, head, sorted + s->ranks - s->count, s->count);
	}
	free(sorted);
}
