/*
 * stop.c - requests to stop
 *
 * A signal handler may do next to nothing, so it stores the number and the step loop looks at each
 * step boundary; the ranks agree there, since a launcher may deliver a signal to only some of them.
 * The start, which may take minutes, looks when the corpora are open and after each index map and
 * piece of a checkpoint. A file named stop in the --save directory requests the same and needs no
 * process id.
 */
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "train/run/stop.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { ALWAYS = 4 };
const char *const stop_signal_names[] = { "SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP",
	"SIGQUIT", "SIGALRM", "SIGXCPU", NULL };
static const int number[] = { SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGALRM,
	SIGXCPU };
_Static_assert(
    sizeof number / sizeof *number + 1 == sizeof stop_signal_names / sizeof *stop_signal_names,
    "a number for each name");

/* The number of the last signal, 0 before any: a handler leaves no choice but a mutable global. */
static volatile sig_atomic_t caught;

/* The second TERM or INT means now: _exit is safe in a handler, and the last checkpoint is whole
 * at all times. */
static void
handler(int sig)
{
	if (caught && (sig == SIGTERM || sig == SIGINT))
		_exit(EXIT_FAILED);
	caught = sig;
}

static void
answer_by(int sig, void (*action)(int))
{
	struct sigaction a;

	memset(&a, 0, sizeof a);
	a.sa_handler = action;
	a.sa_flags = SA_RESTART; /* reads and writes under way are not cut short by the request */
	sigaction(sig, &a, NULL);
}

void
stop_catch_signals(void)
{
	for (int i = 0; i < ALWAYS; i++)
		answer_by(number[i], handler);
}

void
stop_catch_signal(int name)
{
	answer_by(number[name], handler);
}

void
stop_default_signals(void)
{
	for (int i = 0; i < ALWAYS; i++)
		answer_by(number[i], SIG_DFL);
	if (caught)
		raise(caught);
}

/* The name of the last signal, or NULL. Stays set: a run that has been asked to stop will stop. */
const char *
stop_signal(void)
{
	for (int i = 0; stop_signal_names[i]; i++)
		if (number[i] == caught)
			return stop_signal_names[i];
	return NULL;
}

/* A launcher may deliver a signal to only some of the ranks. */
int
stop_agree(struct comm *world, struct err *e)
{
	const char *name = stop_signal();
	int rc = name ? err_set(e,
			    "stopped before the first step by %s: nothing was trained, so nothing "
			    "is saved; the same command starts again",
			    name)
		      : 0;

	return comm_agree(COMM_HERE(world), rc, e) ? -1 : 0;
}

/* A path too long for any file system is cut off; no such file exists then. */
static void
stop_path(const char *save, char out[1100])
{
	snprintf(out, 1100, "%s/stop", save);
}

/* False without a --save directory. Rank 0 alone looks in each step: one stat on a shared file
 * system, not one per rank. */
bool
stop_file(const char *save)
{
	char path[1100];

	if (!save)
		return false;
	stop_path(save, path);
	return io_exists(path);
}

/* Called once the stop is done, so that the requeued run does not stop at once, which is all that a
 * failure would cause. */
void
stop_file_remove(const char *save)
{
	char path[1100];

	if (!save)
		return;
	stop_path(save, path);
	unlink(path);
}
