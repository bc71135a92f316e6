/*
 * verdict.c - which rank is missing
 *
 * A rank that is stopped, or whose host is gone, says nothing; one that hangs in its own work, such
 * as a disk that does not answer, waits for no other rank. What the others do, they do because of
 * it: when all wait, the last one to begin is nearest to the cause.
 */
#include "train/run/verdict.h"

static bool
is_silent(const struct seen *s, double limit)
{
	return s->silence > limit / 2;
}

/* The rank that is heard and has waited longest, at least so long; -1: none. */
static int
longest_wait(const struct seen *rank, int n, double limit)
{
	int found = -1;

	for (int i = 0; i < n; i++) {
		double waited = rank[i].report.waited;

		if (!rank[i].heard || is_silent(&rank[i], limit) || waited < limit)
			continue;
		if (found < 0 || waited > rank[found].report.waited)
			found = i;
	}
	return found;
}

/* The less, the more a rank is missing. */
static double
presence(const struct seen *s, double limit)
{
	if (is_silent(s, limit))
		return -2;
	return !s->heard || s->report.waited < 0 ? -1 : s->report.waited;
}

struct verdict
verdict_of(const struct seen *rank, int n, double limit)
{
	struct verdict v = { longest_wait(rank, n, limit), -1, 0, false };
	double least = 0;

	for (int i = 0; v.waits >= 0 && i < n; i++) {
		double p = presence(&rank[i], limit);

		if (i == v.waits)
			continue;
		if (v.missing >= 0 && p == least && p < 0)
			v.others++;
		if (v.missing >= 0 && p >= least)
			continue;
		v.missing = i;
		v.others = 0;
		v.silent = is_silent(&rank[i], limit);
		least = p;
	}
	return v;
}

void
place_text(const struct place *p, struct str *out)
{
	str_addf(out, "%s %llu of %s (%llu bytes, %s)", p->kind, (unsigned long long)p->number,
	    p->group, (unsigned long long)p->bytes, p->site);
}

/* What is known of the missing rank. */
static void
missing_text(const struct seen *s, bool silent, struct str *out)
{
	bool known = s->heard && s->report.at.number, waits = s->report.waited >= 0;

	if (silent) {
		str_addf(out, "not a word from it for %.1f s", s->silence);
		str_adds(out, !known ? "" : waits ? ", last seen in " : ", last seen after ");
	} else {
		str_adds(out,
		    !known      ? "it has called nothing yet"
			: waits ? "it waits itself, in "
				: "it has called nothing since ");
	}
	if (known)
		place_text(&s->report.at, out);
}

static void
rank_text(int number, const struct seen *s, struct str *out)
{
	str_addf(out, "rank %d (%s)", number, s->host);
}

void
verdict_text(const struct seen *rank, const struct verdict *v, struct str *out)
{
	const struct seen *waits = &rank[v->waits];

	rank_text(v->waits, waits, out);
	str_addf(out, " has waited %.1f s in ", waits->report.waited);
	place_text(&waits->report.at, out);
	if (v->missing < 0)
		return;
	str_adds(out, "; ");
	rank_text(v->missing, &rank[v->missing], out);
	if (v->others)
		str_addf(out, ", as %d more,", v->others);
	str_adds(out, " has not come: ");
	missing_text(&rank[v->missing], v->silent, out);
}
