/* rails.c - judging the rates at which ranks send to other hosts */
#include "lib/model/rails.h"
#include "lib/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED = 4 }; /* ranks that a warning names, at most */
static const double OF_PORT = 0.5, OF_MEDIAN = 0.7;

/* Versions from one to another that are known for something. */
static const struct {
	int from, to;
	const char *words;
} nccl_faults[] = {
	{ 22803, 22808,
	    "crashes where communicators are restarted inside a process, which mtrain does not "
	    "do" },
};

const char *
rails_nccl_fault(int version)
{
	for (size_t i = 0; i < sizeof nccl_faults / sizeof *nccl_faults; i++)
		if (version >= nccl_faults[i].from && version <= nccl_faults[i].to)
			return nccl_faults[i].words;
	return NULL;
}

/* --- the rates -------------------------------------------------------------------------------- */

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* 0: none was measured. */
static double
median(const struct rails *r)
{
	double *rate = mem_alloc((size_t)r->count, sizeof *rate), middle;
	int n = 0;

	for (int i = 0; i < r->count; i++)
		if (r->rail[i].rate > 0)
			rate[n++] = r->rail[i].rate;
	qsort(rate, (size_t)n, sizeof *rate, compare);
	middle = n ? (rate[(n - 1) / 2] + rate[n / 2]) / 2 : 0;
	free(rate);
	return middle;
}

/* The rank with the lowest rate; -1: none was measured. */
static int
slowest(const struct rails *r)
{
	int least = -1;

	for (int i = 0; i < r->count; i++)
		if (r->rail[i].rate > 0 && (least < 0 || r->rail[i].rate < r->rail[least].rate))
			least = i;
	return least;
}

/* Of each rank the one that sends to it; -1: none. The caller frees. */
static int *
senders(const struct rails *r)
{
	int *from = mem_alloc((size_t)r->count, sizeof *from);

	for (int i = 0; i < r->count; i++)
		from[i] = -1;
	for (int i = 0; i < r->count; i++)
		if (r->rail[i].next >= 0)
			from[r->rail[i].next] = i;
	return from;
}

/* Whether a rank waits for a core, where it or the other end of one of its messages should run. */
static bool
waits_for_core(const struct rails *r, const int *from, int rank)
{
	const int end[] = { rank, r->rail[rank].next, from[rank] };

	for (int i = 0; i < 3; i++)
		if (end[i] >= 0 && r->rail[end[i]].cores > 0 &&
		    r->rail[end[i]].sharing > r->rail[end[i]].cores)
			return true;
	return false;
}

/* The rails with those that are not judged as not measured. The caller frees the list. */
static struct rails
judged(const struct rails *r)
{
	struct rails out = *r;
	int *from = senders(r);

	out.rail = mem_alloc((size_t)r->count, sizeof *out.rail);
	for (int i = 0; i < r->count; i++) {
		out.rail[i] = r->rail[i];
		if (waits_for_core(r, from, i))
			out.rail[i].rate = 0;
	}
	free(from);
	return out;
}

/* In GB/s what a rank has of its machine's ports; 0: not known. */
static double
port_rate(const struct rail *r)
{
	return r->ports.gigabits / 8 * fmin(1, (double)r->ports.count / r->sharing);
}

/* --- words ------------------------------------------------------------------------------------ */

static void
add_place(const struct rails *r, int rank, struct str *out)
{
	const struct rail *x = &r->rail[rank];

	str_addf(out, "%s, %s %d", x->host, r->nccl ? "gpu" : "rank", r->nccl ? x->local : rank);
}

/* "8 ports of 400 Gb/s a host", or "4 to 8 ports"; nothing where no host has any. */
static void
add_ports(const struct rails *r, struct str *out)
{
	struct ports most = { 0 };
	int least = r->rail[0].ports.count;

	for (int i = 0; i < r->count; i++) {
		const struct ports *p = &r->rail[i].ports;

		least = p->count < least ? p->count : least;
		most.count = p->count > most.count ? p->count : most.count;
		most.gigabits = fmax(most.gigabits, p->gigabits);
	}
	if (!most.count)
		return;
	if (least < most.count)
		str_addf(out, " %d to", least);
	str_addf(out, " %d port%s of %g Gb/s a host", most.count, most.count == 1 ? "" : "s",
	    most.gigabits);
}

/* What follows the rates where some are not judged. */
static void
add_sharing(const struct rails *r, struct str *out)
{
	struct rails some = judged(r);
	int i = 0;

	while (i < r->count && some.rail[i].rate == r->rail[i].rate)
		i++;
	if (i < r->count)
		str_adds(out, ", not judged where ranks share cores");
	free(some.rail);
}

/* "measured 44.1 GB/s (least 43.6: abci012, gpu 3)" */
static void
add_rates(const struct rails *r, struct str *out)
{
	int least = slowest(r);

	if (least < 0)
		return;
	str_addf(out, "%s measured %.3g GB/s (least %.3g: ", out->len ? ";" : "", median(r),
	    r->rail[least].rate);
	add_place(r, least, out);
	str_addc(out, ')');
	add_sharing(r, out);
}

void
rails_words(const struct rails *r, struct str *out)
{
	struct str words = { 0 };

	add_ports(r, &words);
	if (r->nccl)
		str_addf(&words, "%s NCCL %d.%d.%d", words.len ? "," : "", r->nccl / 10000,
		    r->nccl / 100 % 100, r->nccl % 100);
	add_rates(r, &words);
	if (words.len)
		str_addf(out, "rails:%s", words.buf);
	str_release(&words);
}

/* --- warnings --------------------------------------------------------------------------------- */

/* Whether a rank and both of its neighbours are slow, as where its port is bad. */
static bool
between_slow(const struct rails *r, const bool *slow, const int *from, int rank)
{
	return rank >= 0 && slow[rank] && from[rank] >= 0 && slow[from[rank]] &&
	    slow[r->rail[rank].next];
}

/* Appends the slow ranks, but not those that the port of a neighbour explains. */
static void
add_slow(const struct rails *r, const bool *slow, bool ports, struct str *out)
{
	int *from = senders(r), said = 0, count = 0;

	for (int i = 0; i < r->count; i++) {
		if (!slow[i] ||
		    (!between_slow(r, slow, from, i) &&
			(between_slow(r, slow, from, from[i]) ||
			    between_slow(r, slow, from, r->rail[i].next))))
			continue;
		if (count++ >= NAMED)
			continue;
		str_adds(out, said++ ? "; " : "");
		add_place(r, i, out);
		str_addf(out, " (%.3g", r->rail[i].rate);
		if (ports)
			str_addf(out, " of %.3g", port_rate(&r->rail[i]));
		str_adds(out, " GB/s)");
	}
	if (count > said)
		str_addf(out, "; and %d more", count - said);
	free(from);
}

/* Appends a sentence of the rails below `part` of a rate, that of their port where `rate` is 0;
 * false: there is none. */
static bool
warn_slow(const struct rails *r, double part, double rate, struct str *out)
{
	bool *slow = mem_zalloc((size_t)r->count, sizeof *slow), any = false;

	for (int i = 0; i < r->count; i++) {
		const struct rail *x = &r->rail[i];

		slow[i] = x->rate > 0 && x->rate < part * (rate > 0 ? rate : port_rate(x));
		any |= slow[i];
	}
	if (any && rate > 0)
		str_addf(out, "rails carry less than %g of the median, %.3g GB/s: ", part, rate);
	else if (any)
		str_adds(out,
		    "rails carry less than half of what their ports do, as with sockets in place "
		    "of verbs, by another port, or without GPUDirect: ");
	if (any)
		add_slow(r, slow, rate <= 0, out);
	free(slow);
	return any;
}

/* Whether no rank before it is on its host. */
static bool
first_of_host(const struct rails *r, int rank)
{
	int i = 0;

	while (strcmp(r->rail[i].host, r->rail[rank].host))
		i++;
	return i == rank;
}

/* Appends a sentence of the hosts without ports, where NCCL is used; false: there is none. */
static bool
warn_sockets(const struct rails *r, struct str *out)
{
	int hosts = 0;

	for (int i = 0; r->nccl && i < r->count; i++) {
		if (r->rail[i].ports.count || !first_of_host(r, i))
			continue;
		if (hosts++ < NAMED)
			str_addf(out, "%s%s", hosts == 1 ? "NCCL uses sockets on " : ", ",
			    r->rail[i].host);
	}
	if (hosts > NAMED)
		str_addf(out, ", and %d more", hosts - NAMED);
	if (hosts)
		str_addf(
		    out, ", which ha%s no active InfiniBand or RoCE port", hosts == 1 ? "s" : "ve");
	return hosts > 0;
}

int
rails_warn(const struct rails *r, struct str warning[RAILS_WARNINGS])
{
	struct rails some = judged(r);
	double middle = median(&some);
	int n = 0;

	n += warn_sockets(r, &warning[n]);
	n += warn_slow(&some, OF_PORT, 0, &warning[n]);
	if (middle > 0)
		n += warn_slow(&some, OF_MEDIAN, middle, &warning[n]);
	free(some.rail);
	return n;
}
