/*
 * deadline.c - ends the program when something takes too long
 *
 * For calls that cannot be interrupted, such as MPI_Init, which waits for every rank that the
 * launcher promised. The handler of an alarm ends the program: a thread that waits during the call
 * might not start, and the rank would end alone or wait without end. Nothing of the call can be
 * cleaned up, so the end is _exit.
 */
#include "train/watch/deadline.h"
#include "lib/base/prog.h"

#include <signal.h>
#include <unistd.h>

/* What is said when the time is over, and what SIGALRM did before: the handler finds both here. */
static const char *line;
static struct sigaction before;

static void
end(int sig)
{
	(void)sig;
	prog_line(line);
	_exit(EXIT_PEER);
}

void
deadline_start(int64_t seconds, const char *text)
{
	struct sigaction a = { .sa_handler = end };
	sigset_t alarms;

	line = text;
	sigemptyset(&a.sa_mask);
	sigaction(SIGALRM, &a, &before);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	alarm((unsigned)seconds);
}

void
deadline_met(void)
{
	alarm(0);
	sigaction(SIGALRM, &before, NULL);
}
