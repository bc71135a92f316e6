/* clock.c - clocks and sleeps: time passes only where a thread makes a call or waits */
#include "tests/sim/files.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* What pthread_getcpuclockid gives; any other number would do. */
enum { CPU_CLOCK = 77 };

int
sim_clock_gettime(clockid_t which, struct timespec *t)
{
	int64_t at;

	call_begin(CALL_CLOCK, NULL, which);
	at = sim.now +
	    (which == CLOCK_REALTIME ? sim.realtime + sim.current->process->time_offset : 0);
	t->tv_sec = at / SECOND;
	t->tv_nsec = at % SECOND;
	return 0;
}

int
sim_pthread_getcpuclockid(pthread_t t, clockid_t *out)
{
	(void)t;
	*out = CPU_CLOCK;
	return 0;
}

time_t
sim_time(time_t *out)
{
	struct timespec t;

	sim_clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}

static int
sleep_for(int64_t ns)
{
	call_begin(CALL_SLEEP, NULL, ns);
	sim.current->ready = sim.now + ns;
	return schedule() ? fail(EINTR) : 0;
}

int
sim_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	return sleep_for(t->tv_sec * SECOND + t->tv_nsec);
}

int
sim_usleep(useconds_t us)
{
	return sleep_for(us * INT64_C(1000));
}
