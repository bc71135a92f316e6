/* spike.c - losses that stand out: a history of losses, its median, and ranges of steps */
#include "train/config/spike.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES_DEFAULT = 3 };
static const double FACTOR_MAX = 1e6;

int
spike_parse(const char *text, struct spike_rule *out, struct err *e)
{
	double factor = 0;
	long long history = 0, times = TIMES_DEFAULT;
	int end = 0;
	bool clean = text[strspn(text, "0123456789.e:")] == '\0';
	int found =
	    clean ? sscanf(text, "%lf:%lld%n:%lld%n", &factor, &history, &end, &times, &end) : 0;

	if (found < 2 || text[end] || !(factor > 1 && factor <= FACTOR_MAX) || history < 1 ||
	    history > SPIKE_HISTORY_MAX || times < 1 || times > SPIKE_TIMES_MAX)
		return err_set(e,
		    "--rewind-on-spike %s: must be FACTOR:WINDOW[:TIMES], a number above 1 and "
		    "whole numbers from 1 to %d and from 1 to %d",
		    text, SPIKE_HISTORY_MAX, SPIKE_TIMES_MAX);
	*out = (struct spike_rule){ factor, history, times };
	return 0;
}

static int
ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of an even number, the mean of the two in the middle. A record may hold more than the history,
 * since a resumed run may have a narrower one. */
double
spike_median(const struct spike_record *r, const struct spike_rule *rule)
{
	double sorted[SPIKE_HISTORY_MAX];
	size_t n = (size_t)rule->history;

	if (rule->history == 0 || r->num_losses < rule->history)
		return NAN;
	memcpy(sorted, r->loss + (size_t)r->num_losses - n, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, ascending);
	return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

bool
spike_is(const struct spike_record *r, const struct spike_rule *rule, double loss)
{
	double median = spike_median(r, rule);

	return !isnan(median) && !(loss <= rule->factor * median);
}

void
spike_keep(struct spike_record *r, const struct spike_rule *rule, double loss)
{
	int surplus = r->num_losses + 1 - (int)rule->history;

	if (rule->history == 0)
		return;
	if (surplus > 0) {
		r->num_losses -= surplus;
		memmove(r->loss, r->loss + surplus, (size_t)r->num_losses * sizeof *r->loss);
	}
	r->loss[r->num_losses++] = loss;
}

/* A full history lies before a spike, so no range begins before the first iteration. */
struct spike_range
spike_rewind(struct spike_record *r, const struct spike_rule *rule, int64_t iteration)
{
	struct spike_range range = { iteration - rule->history, iteration };

	r->passed[r->num_rewinds++] = range;
	return range;
}

bool
spike_passes(const struct spike_record *r, int64_t iteration)
{
	for (int i = 0; i < r->num_rewinds; i++)
		if (r->passed[i].first <= iteration && iteration <= r->passed[i].last)
			return true;
	return false;
}

/* --- texts ------------------------------------------------------------------------------------ */

void
spike_print(const struct spike_record *r, struct str *losses, struct str *passed)
{
	for (int i = 0; i < r->num_losses; i++)
		str_addf(losses, "%s%.17g", i ? " " : "", r->loss[i]);
	for (int i = 0; i < r->num_rewinds; i++)
		str_addf(passed, "%s%lld-%lld", i ? " " : "", (long long)r->passed[i].first,
		    (long long)r->passed[i].last);
}

/* Losses and ranges are separated by one blank; there are no more of them than the record has room
 * for. */
int
spike_read(struct spike_record *r, const char *losses, const char *passed, struct err *e)
{
	memset(r, 0, sizeof *r);
	for (char *end; losses && *losses; losses = end + (*end == ' ')) {
		double loss = strtod(losses, &end);

		if (end == losses || (*end && *end != ' ') || !isfinite(loss) ||
		    r->num_losses == SPIKE_HISTORY_MAX)
			return err_set(e, "'recent_losses' is damaged");
		r->loss[r->num_losses++] = loss;
	}
	for (int n; passed && *passed; passed += n + (passed[n] == ' ')) {
		long long first, last;

		n = 0;
		if (sscanf(passed, "%18lld-%18lld%n", &first, &last, &n) != 2 ||
		    (passed[n] && passed[n] != ' ') || first < 1 || last < first ||
		    r->num_rewinds == SPIKE_TIMES_MAX)
			return err_set(e, "'rewound' is damaged");
		r->passed[r->num_rewinds++] = (struct spike_range){ first, last };
	}
	return 0;
}
