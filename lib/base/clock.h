/* clock.h - the time, in seconds; laps of work without what comes between them */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>

double clock_seconds(void);       /* since some start of this machine's; never set back */
double clock_thread(pthread_t t); /* CPU time that a thread of this process has used */
double clock_unix(void);          /* since 1970, by the system clock, as in other programs' logs */

/* Times laps that follow each other. clock: clock_seconds, or a test's own. */
struct stopwatch {
	double (*clock)(void);
	double lap; /* begin of the lap under way */
};

void stopwatch_start(struct stopwatch *w);
double stopwatch_lap(
    struct stopwatch *w); /* seconds of the lap that ends now; the next one begins */
/* Leaves the time from `since` until now out of the lap. */
void stopwatch_exclude(struct stopwatch *w, double since);

#endif
