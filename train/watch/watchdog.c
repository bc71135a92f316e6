/*
 * watchdog.c - no rank waits for ever for another
 *
 * The thread looks several times within the limit. Time in which this process itself was suspended
 * does not count: a batch system may suspend all ranks of a job for hours. The thread notices,
 * since it was suspended too, and waits count from the end of the suspension.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/watch/comm_log.h"
#include "train/watch/report_channel.h"
#include "train/watch/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Looks within a limit, a second apart at most. Seconds from one who may speak to the next: a
 * report and a conclusion each come up to a look late. */
enum { LOOKS = 8, GRACE = 3 };

/* Seconds that the thread sleeps at a time while nothing can wake it. */
static const double UNPOSTED = 0.02;

struct watchdog {
	struct watchdog_config c;
	struct comm_log *log;
	struct comm *world;
	pthread_t thread;
	_Atomic(struct report_channel *) report_channel; /* NULL: not open yet */
	atomic_bool steady, stop, lost;                  /* lost: this rank has failed */
	/* used by the thread alone */
	double looked, resumed; /* clock of the last check; when this process was last suspended */
	struct seen *rank;      /* on a receiver, else NULL */
	double *heard;          /* clock of the last report of each */
	double failed;          /* clock of the first report that a rank has failed; 0: none */
};

static const struct watchdog_limit *
limit_of(const struct watchdog *w)
{
	return atomic_load(&w->steady) ? &w->c.steady : &w->c.start;
}

static double
interval(const struct watchdog *w)
{
	double part = limit_of(w)->seconds / LOOKS;

	return part < 1 ? part : 1;
}

static struct report
own_report(struct watchdog *w, double now)
{
	struct report r = { .waited = -1 };
	struct comm_state s;

	comm_log_state(w->log, &s);
	r.at.number = s.at.number;
	r.at.bytes = s.at.bytes;
	if (s.at.number) {
		r.at.role = (int32_t)s.at.role;
		strncpy(r.at.kind, s.at.kind, sizeof r.at.kind - 1);
		strncpy(r.at.site, s.at.site, sizeof r.at.site - 1);
	}
	r.made = s.made;
	r.computes = s.computes;
	r.failed = atomic_load(&w->lost);
	/* It may have begun to wait after the clock was read. */
	if (s.waits)
		r.waited = fmax(now - (s.since > w->resumed ? s.since : w->resumed), 0);
	return r;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Ranks other than 0 may be mute until the options are agreed on. The launcher ends the others once
 * the first has gone, so they are told before that. A hanging call cannot be cleaned up. */
static void __attribute__((noreturn)) leave(const struct watchdog *w, const struct str *text)
{
	struct report_channel *report_channel = atomic_load(&w->report_channel);

	prog_mute(false);
	prog_rank(w->world->rank);
	warn("%s", text->buf);
	if (report_channel)
		report_channel_leave(report_channel);
	_exit(EXIT_PEER);
}

/* Where a rank is, if there are several hosts. */
static void
place_rank(struct watchdog *w, int i)
{
	const int *host = mpi_hosts(w->world);
	struct seen *s = &w->rank[i];

	s->number = -1;
	for (int k = 0; k < w->world->size; k++) {
		bool same = host[k] == host[i];

		s->placed |= !same;
		s->rail += same && k < i;
		if (!same && !strcmp(w->rank[k].host, s->host))
			s->number = host[i];
	}
}

/* On a receiver: checks the reports. When a rank has failed the others are given two looks to come
 * to where they wait. */
static void
check_peers(struct watchdog *w, double now)
{
	int n = w->world->size, late = GRACE * w->world->rank;
	struct str text = { 0 };
	struct hang_report v;

	for (int i = 0; i < n; i++) {
		w->rank[i].host = report_channel_host(atomic_load(&w->report_channel), i);
		w->rank[i].silence = now - (w->heard[i] > w->resumed ? w->heard[i] : w->resumed);
	}
	if (w->failed > 0 && now - w->failed > 2 * interval(w) + late)
		v = hang_report_failed(w->rank, n);
	else
		v = hang_report_of(w->rank, n, limit_of(w)->seconds + late);
	if (v.waits < 0)
		return;
	if (!w->failed)
		str_addf(&text, "%s: ", limit_of(w)->name);
	place_rank(w, v.waits);
	if (v.missing >= 0)
		place_rank(w, v.missing);
	hang_report_text(w->rank, &v, &text);
	leave(w, &text);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Receives reports until the next check is due. */
static void
wait_for_news(struct watchdog *w, double until)
{
	for (double left; (left = until - clock_seconds()) > 0 && !atomic_load(&w->stop);) {
		struct report_channel *report_channel = atomic_load(&w->report_channel);
		/* Before there is a post nothing wakes the thread. */
		double seconds = report_channel || left < UNPOSTED ? left : UNPOSTED;
		struct report_message news =
		    report_channel_receive(report_channel, 1 + (int)(seconds * 1000));

		if (news.kind == MESSAGE_LEAVE)
			_exit(EXIT_PEER);
		if (news.kind != MESSAGE_REPORT || !w->rank)
			continue;
		w->rank[news.rank].report = news.report;
		w->rank[news.rank].heard = true;
		w->heard[news.rank] = clock_seconds();
		if (news.report.failed && !w->failed)
			w->failed = w->heard[news.rank];
	}
}

/* Checks the reports of others, and then this rank's own wait, which counts when no other rank has
 * reported it. */
static void
look(struct watchdog *w)
{
	struct report_channel *report_channel = atomic_load(&w->report_channel);
	double now = clock_seconds(), since = w->looked;
	struct str text = { 0 };
	struct report own;

	w->looked = now;
	if (now - since > 2 * interval(w) + 1) {
		w->resumed = now; /* and what has come meanwhile is read before any conclusion */
		return;
	}
	own = own_report(w, now);
	if (report_channel)
		report_channel_send(report_channel, &own);
	if (report_channel && w->rank)
		check_peers(w, now);
	if (own.waited < limit_of(w)->seconds + GRACE * REPORT_RECEIVERS)
		return;
	str_addf(&text, "%s: waited %.1f s in ", limit_of(w)->name, own.waited);
	place_text(&own.at, &text);
	str_adds(&text, "; the missing rank is unknown: ranks 0 and 1 have not reported");
	leave(w, &text);
}

static void *
watch(void *arg)
{
	struct watchdog *w = arg;

	w->looked = w->resumed = clock_seconds();
	while (!atomic_load(&w->stop)) {
		wait_for_news(w, w->looked + interval(w));
		look(w);
	}
	return NULL;
}

/* This rank has lost a peer and is about to end: gives the receivers the time to say which. They
 * end this process if they can. */
static void
hold(void *arg)
{
	struct watchdog *w = arg;
	double until = clock_seconds() + 4 * interval(w) + GRACE;

	if (!atomic_load(&w->report_channel))
		return;
	atomic_store(&w->lost, true);
	while (clock_seconds() < until)
		usleep(10000);
}

/* The thread runs before the receivers are known: agreeing on them is a wait too. Signals are left
 * to the other threads. */
struct watchdog *
watchdog_start(struct comm *world, const struct watchdog_config *c)
{
	struct watchdog *w;
	sigset_t all, before;

	if (world->size == 1)
		return NULL;
	w = mem_zalloc(1, sizeof *w);
	w->c = *c;
	w->world = world;
	w->log = comm_log_new(world);
	comm_log_on_abort(w->log, hold, w);
	if (world->rank < REPORT_RECEIVERS) {
		w->rank = mem_zalloc((size_t)world->size, sizeof *w->rank);
		w->heard = mem_zalloc((size_t)world->size, sizeof *w->heard);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&w->thread, NULL, watch, w)) {
		/* the others agree on receivers next, and would wait for this rank */
		prog_mute(false);
		prog_rank(world->rank);
		warn("cannot start a thread");
		world->ops->abort(world, EXIT_FAILED);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	atomic_store(&w->report_channel, report_channel_open(world));
	return w;
}

void
watchdog_steady(struct watchdog *w)
{
	if (w)
		atomic_store(&w->steady, true);
}

void
watchdog_stop(struct watchdog *w)
{
	if (!w)
		return;
	atomic_store(&w->stop, true);
	report_channel_wake(atomic_load(&w->report_channel));
	pthread_join(w->thread, NULL);
	report_channel_close(atomic_load(&w->report_channel));
	comm_log_free(w->log);
	free(w->rank);
	free(w->heard);
	free(w);
}
