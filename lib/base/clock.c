/* clock.c - the time, in seconds */
#include "lib/base/clock.h"

#include <time.h>

/* To better than a microsecond, which is what a double holds of the seconds since 1970. */
static double
read_clock(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double
clock_seconds(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

double
clock_thread(pthread_t t)
{
	clockid_t which;

	return pthread_getcpuclockid(t, &which) == 0 ? read_clock(which) : 0;
}

double
clock_unix(void)
{
	return read_clock(CLOCK_REALTIME);
}

void
stopwatch_start(struct stopwatch *w)
{
	w->lap = w->clock();
}

double
stopwatch_lap(struct stopwatch *w)
{
	double begin = w->lap;

	w->lap = w->clock();
	return w->lap - begin;
}

/* Moves the beginning of the lap later by that time. */
void
stopwatch_exclude(struct stopwatch *w, double since)
{
	w->lap += w->clock() - since;
}
