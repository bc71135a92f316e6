/*
 * verdict.c - which rank is missing
 *
 * A rank that is stopped, or whose host is gone, says nothing; one that hangs in its own work, such
 * as a disk that does not answer, waits for no other rank. The others wait because of it: when all
 * wait, a rank in another call than most has left out the call that the rest wait in; where there
 * is no such rank, the last one to begin is nearest to the cause.
 */
#include "train/run/verdict.h"

#include <string.h>

static bool
is_silent(const struct seen *s, double limit)
{
	return s->silence > limit / 2;
}

/* The rank other than `except` that is heard and has waited longest, for at least `limit`; -1:
 * none. */
static int
longest_wait(const struct seen *rank, int n, double limit, double least, int except)
{
	int found = -1;

	for (int i = 0; i < n; i++) {
		double waited = rank[i].report.waited;

		if (i == except || !rank[i].heard || is_silent(&rank[i], limit) || waited < least)
			continue;
		if (found < 0 || waited > rank[found].report.waited)
			found = i;
	}
	return found;
}

/* The less, the more a rank is missing. */
enum presence { SILENT, AT_WORK, WAITING };

static enum presence
presence(const struct seen *s, double limit)
{
	if (is_silent(s, limit))
		return SILENT;
	return !s->heard || s->report.waited < 0 ? AT_WORK : WAITING;
}

/* How many ranks were heard of last in the call that rank i was in. */
static int
company(const struct seen *rank, int n, int i)
{
	const struct place *at = &rank[i].report.at;
	int count = 0;

	for (int k = 0; k < n; k++) {
		const struct place *other = &rank[k].report.at;

		count += other->number == at->number && !strcmp(other->group, at->group) &&
		    !strcmp(other->site, at->site);
	}
	return count;
}

/* Negative when a is more missing than b, 0 when they are for the same reason. */
static int
compare(const struct seen *rank, int n, double limit, int a, int b)
{
	int order = (int)presence(&rank[a], limit) - (int)presence(&rank[b], limit);
	double later = rank[a].report.waited - rank[b].report.waited;

	if (order || presence(&rank[a], limit) != WAITING)
		return order;
	order = company(rank, n, a) - company(rank, n, b);
	return order ? order : later < 0 ? -1 : 1;
}

/* The one that is missing most, other than `except`, and how many more are. */
static void
find_missing(struct verdict *v, const struct seen *rank, int n, double limit, int except)
{
	v->missing = -1;
	for (int i = 0; i < n; i++) {
		int order;

		if (i == except)
			continue;
		order = v->missing < 0 ? -1 : compare(rank, n, limit, i, v->missing);
		v->others = order < 0 ? 0 : v->others + (order == 0);
		v->missing = order < 0 ? i : v->missing;
	}
	v->silent = v->missing >= 0 && is_silent(&rank[v->missing], limit);
}

/* Where the one that is missing waits longest itself, another that has waited long is what it is
 * missed by: it may have begun to wait a moment later. */
struct verdict
verdict_of(const struct seen *rank, int n, double limit)
{
	struct verdict v = { longest_wait(rank, n, limit, limit, -1), -1, 0, false };
	int next;

	if (v.waits < 0)
		return v;
	find_missing(&v, rank, n, limit, -1);
	if (v.missing != v.waits)
		return v;
	next = longest_wait(rank, n, limit, limit / 2, v.missing);
	if (next >= 0)
		v.waits = next;
	else
		find_missing(&v, rank, n, limit, v.waits);
	return v;
}

void
place_text(const struct place *p, struct str *out)
{
	str_addf(out, "%s %llu of %s (%llu bytes, %s)", p->kind, (unsigned long long)p->number,
	    p->group, (unsigned long long)p->bytes, p->site);
}

/* Appends what is known of the missing rank. */
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
