/*
 * hang_report.c - which rank is missing
 *
 * A rank that is stopped, or whose host is gone, says nothing; one that hangs in its own work, such
 * as a disk that does not answer, waits for no other rank. The others wait because of it.
 *
 * When all wait, one has left out a call, and who waits for whom may be a cycle: the one that left
 * it out waits elsewhere for those that it is missed by. So the numbers of calls are compared.
 * Ranks of one stage make the same calls in the same order; of any two of them, therefore, one has
 * made all that the other has made. The one of which this is not true with most of its call group
 * is named. Where that leaves several, as between two ranks alone, it is the one whose calls are
 * not those of the step before.
 */
#include "train/watch/hang_report.h"

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
num_in_call(const struct seen *rank, int n, int i)
{
	const struct place *at = &rank[i].report.at;
	int count = 0;

	for (int k = 0; k < n; k++) {
		const struct place *other = &rank[k].report.at;

		count += other->number == at->number && other->role == at->role &&
		    !strcmp(other->site, at->site);
	}
	return count;
}

/* Whether both may have made their calls in one order: one of them all that the other has made, and
 * the same ones where they have come to the same call. */
static bool
in_order(const struct comm_call_counts *a, const struct comm_call_counts *b)
{
	bool more = false, less = false;

	for (int i = 0; i < COMM_ROLES; i++) {
		more |= a->calls[i] > b->calls[i];
		less |= a->calls[i] < b->calls[i];
	}
	if (a->last == b->last && a->calls[a->last] == b->calls[b->last])
		return !more && !less;
	return !more || !less;
}

/* How many of its call group a rank is not in order with. */
static int
disorder(const struct seen *rank, int n, int i)
{
	const struct comm_call_counts *own = &rank[i].report.made;
	int count = 0;

	for (int k = 0; k < n; k++) {
		const struct comm_call_counts *other = &rank[k].report.made;

		count += other->call_group == own->call_group && !in_order(own, other);
	}
	return count;
}

/* Negative when rather a than b has left out a call. */
static int
compare_calls(const struct seen *rank, int n, int a, int b)
{
	int order = disorder(rank, n, b) - disorder(rank, n, a);

	return order ? order : rank[b].report.made.unusual - rank[a].report.made.unusual;
}

/* Negative when a is more missing than b, 0 when they are for the same reason. */
static int
compare(const struct seen *rank, int n, double limit, int a, int b)
{
	int order = (int)presence(&rank[a], limit) - (int)presence(&rank[b], limit);
	double later = rank[a].report.waited - rank[b].report.waited;

	if (order || presence(&rank[a], limit) != WAITING)
		return order;
	order = compare_calls(rank, n, a, b);
	order = order ? order : num_in_call(rank, n, a) - num_in_call(rank, n, b);
	return order ? order : later < 0 ? -1 : 1;
}

/* The one that is missing most, other than `except`, and how many more are. */
static void
find_missing(struct hang_report *v, const struct seen *rank, int n, double limit, int except)
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

/* The one that has waited longest of those that miss it, else v->waits: they wait in a call of
 * which the missing rank, of their call group, has made one fewer. */
static void
find_waiting(struct hang_report *v, const struct seen *rank, int n, double limit)
{
	const struct comm_call_counts *made = &rank[v->missing].report.made;
	int found = -1;

	for (int i = 0; i < n; i++) {
		const struct report *own = &rank[i].report;
		int role = own->at.role;

		if (presence(&rank[i], limit) != WAITING ||
		    own->made.call_group != made->call_group ||
		    made->calls[role] >= own->made.calls[role])
			continue;
		if (found < 0 || own->waited > rank[found].report.waited)
			found = i;
	}
	v->waits = found < 0 ? v->waits : found;
}

/* Where the one that is missing waits longest itself, another that has waited long is what it is
 * missed by: it may have begun to wait a moment later. */
struct hang_report
hang_report_of(const struct seen *rank, int n, double limit)
{
	struct hang_report v = { longest_wait(rank, n, limit, limit, -1), -1, 0, false };

	if (v.waits < 0)
		return v;
	find_missing(&v, rank, n, limit, -1);
	if (v.missing == v.waits) {
		int next = longest_wait(rank, n, limit, limit / 2, v.missing);

		if (next >= 0)
			v.waits = next;
		else
			find_missing(&v, rank, n, limit, v.waits);
	}
	if (v.missing >= 0 && rank[v.missing].heard)
		find_waiting(&v, rank, n, limit);
	return v;
}

/* Missing is the rank whose calls are out of order, if there is one, and one only. */
struct hang_report
hang_report_failed(const struct seen *rank, int n)
{
	struct hang_report v = { -1, 0, 0, false };
	int equals = 0;

	for (int i = 1; i < n; i++) {
		int order = compare_calls(rank, n, i, v.missing);

		equals = order < 0 ? 0 : equals + (order == 0);
		v.missing = order < 0 ? i : v.missing;
	}
	if (equals)
		v.missing = -1;
	for (int i = 0; v.missing >= 0 && i < n; i++)
		if (i != v.missing && rank[i].heard &&
		    (v.waits < 0 || (rank[i].report.failed && !rank[v.waits].report.failed)))
			v.waits = i;
	return v;
}

void
place_text(const struct place *p, struct str *out)
{
	str_addf(out, "%s %llu of %s (%llu bytes, %s)", p->kind, (unsigned long long)p->number,
	    comm_role_name[p->role], (unsigned long long)p->bytes, p->site);
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
		    !known                   ? "it has called nothing yet"
			: waits              ? "it waits too, in "
			: s->report.computes ? "its device has not come further than "
					     : "it has called nothing since ");
	}
	if (known)
		place_text(&s->report.at, out);
}

static void
rank_text(int number, const struct seen *s, struct str *out)
{
	str_addf(out, "rank %d (%s", number, s->host);
	if (s->placed && s->number >= 0)
		str_addf(out, "#%d", s->number);
	if (s->placed)
		str_addf(out, ", rail %d", s->rail);
	str_adds(out, ")");
}

/* The missing rank may have made calls of those that it is waited for in: their number is told
 * where it was last in others. */
void
hang_report_text(const struct seen *rank, const struct hang_report *v, struct str *out)
{
	const struct seen *waits = &rank[v->waits], *missing;
	int role = waits->report.at.role;

	rank_text(v->waits, waits, out);
	if (waits->report.failed)
		str_adds(out, " has lost a peer in ");
	else
		str_addf(out, " has waited %.1f s in ", waits->report.waited);
	place_text(&waits->report.at, out);
	if (v->missing < 0)
		return;
	missing = &rank[v->missing];
	str_adds(out, "; ");
	rank_text(v->missing, missing, out);
	if (v->others)
		str_addf(out, ", as %d more,", v->others);
	str_adds(out, " has not come: ");
	missing_text(missing, v->silent, out);
	if (missing->heard && role != missing->report.at.role &&
	    missing->report.made.call_group == waits->report.made.call_group)
		str_addf(out, ", after %llu calls of %s",
		    (unsigned long long)missing->report.made.calls[role], comm_role_name[role]);
}
