/*
 * stop.c - requests to stop
 *
 * A signal handler may do next to nothing, so it stores the number and the step loop looks at each
 * step boundary; the ranks agree there, since a launcher may deliver a signal to only some of them.
 * The start, which may take minutes, looks when the corpora are open and after each index map and
 * piece of a checkpoint. A file named stop in the --save directory requests the same and needs no
 * process id.
 *
 * Where INT, TERM or HUP reaches Open MPI's mpirun, the ranks get CONT at once, TERM after a second
 * and KILL after another. The CONT is a request to save and train on: so a step and a save may take
 * two seconds in place of one. That it comes from mpirun also when a run continues after Ctrl-Z
 * costs a checkpoint.
 */
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "train/watch/stop.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What a signal means to a run that has something to save. */
enum meaning {
	REQUEST,        /* finish the step, save, exit */
	REQUEST_OR_NOW, /* the same; a second one, AGAIN later or more, ends the process */
	END,            /* the process ends; a request where --exit-signal says so */
};
static const struct {
	int number;
	enum meaning meaning;
	bool inherits; /* a parent may have it ignored, as nohup(1) does: then it stays so */
} row[] = {
	{ SIGTERM, REQUEST_OR_NOW, false },
	{ SIGINT, REQUEST_OR_NOW, false },
	{ SIGUSR1, REQUEST, false },
	{ SIGUSR2, REQUEST, false },
	{ SIGHUP, REQUEST, true },
	{ SIGXCPU, REQUEST, false },
	{ SIGQUIT, END, true },
	{ SIGALRM, END, false },
};
enum { ROWS = sizeof row / sizeof *row };
_Static_assert(ROWS + 1 == STOP_NAMES, "a row for each name");

/* Nanoseconds. Launchers and batch systems send a request twice, to the process and its group. */
enum { AGAIN = 1000000000 };

/* The row of the first signal that asked, -1 before any, and when the first TERM or INT came, 0
 * before it: a handler leaves no choice but mutable globals. */
static atomic_int asked = -1;
static atomic_llong urgent;
static atomic_bool announced;
/* Seconds that a stop takes, as far as they are known; and the least that are worth a line. */
static atomic_int expected;
enum { LONG_STOP = 2 };

static int
row_of(int sig)
{
	int i = 0;

	while (i < ROWS - 1 && row[i].number != sig)
		i++;
	return i;
}

/* One line with the signal's name in it. Safe in a handler. */
static void
say(const char *before, int sig, const char *after)
{
	char text[200];

	strcpy(text, before);
	strcat(text, stop_signal_names[row_of(sig)]);
	strcat(text, after);
	prog_line(text);
}

/* Says that the stop may take a while. Safe in a handler. */
static void
say_expected(int sig, int seconds)
{
	char number[16] = "", *digit = number + sizeof number - 1;
	char after[100] = ": stopping: the step and the save take about ";

	for (; seconds > 0; seconds /= 10)
		*--digit = (char)('0' + seconds % 10);
	strcat(after, digit);
	strcat(after, " s");
	if (row[row_of(sig)].meaning == REQUEST_OR_NOW)
		strcat(after, "; once more ends the run now");
	say("", sig, after);
}

/* _exit is safe in a handler, and the last checkpoint is whole at all times. */
static void
request(int sig)
{
	int i = row_of(sig), none = -1;
	long long never = 0, now;
	struct timespec t;

	if (atomic_compare_exchange_strong(&asked, &none, i) && atomic_load(&expected) >= LONG_STOP)
		say_expected(sig, atomic_load(&expected));
	if (row[i].meaning != REQUEST_OR_NOW)
		return;
	clock_gettime(CLOCK_MONOTONIC, &t);
	now = (long long)t.tv_sec * 1000000000 + t.tv_nsec;
	if (atomic_compare_exchange_strong(&urgent, &never, now) || now - never < AGAIN)
		return;
	say("a second ", sig,
	    ": ending at once; steps since the last checkpoint are lost, no checkpoint is");
	_exit(EXIT_FAILED);
}

/* Ends the process by the signal, which its parent sees: it comes again when the handler returns.
 */
static void
end_by(int sig, const char *after)
{
	say("ended by ", sig, after);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void
end(int sig)
{
	end_by(sig, ": steps since the last checkpoint are lost, no checkpoint is");
}

static void
end_without_save(int sig)
{
	end_by(sig, ": there was nothing to save");
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

/* From another process than mpirun, CONT means nothing. */
static void
announce(int sig, siginfo_t *from, void *context)
{
	(void)sig;
	(void)context;
	if (from->si_code == SI_USER && from->si_pid == getppid())
		atomic_store(&announced, true);
}

/* Gives every signal its action, unless it is to stay ignored. */
static void
answer_all(void (*requests)(int), void (*ends)(int))
{
	for (int i = 0; i < ROWS; i++) {
		struct sigaction now;

		if (row[i].inherits && sigaction(row[i].number, NULL, &now) == 0 &&
		    now.sa_handler == SIG_IGN)
			continue;
		answer_by(row[i].number, row[i].meaning == END ? ends : requests);
	}
}

void
stop_catch_signals(void)
{
	struct sigaction a;

	answer_all(request, end);
	if (!getenv("OMPI_COMM_WORLD_SIZE"))
		return;
	memset(&a, 0, sizeof a);
	a.sa_sigaction = announce;
	a.sa_flags = SA_RESTART | SA_SIGINFO;
	sigaction(SIGCONT, &a, NULL);
}

void
stop_catch_signal(int name)
{
	answer_by(row[name].number, request);
}

void
stop_default_signals(void)
{
	int came = atomic_load(&asked);

	answer_all(end_without_save, end_without_save);
	if (came >= 0)
		raise(row[came].number);
}

void
stop_expect(double seconds)
{
	atomic_store(&expected, (int)fmin(ceil(seconds), 1e6));
}

/* Stays set: a run that has been asked to stop will stop. */
const char *
stop_signal(void)
{
	int i = atomic_load(&asked);

	return i < 0 ? NULL : stop_signal_names[i];
}

const char *
stop_signal_name(int sig)
{
	return stop_signal_names[row_of(sig)];
}

bool
stop_announced(void)
{
	return atomic_exchange(&announced, false);
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
stop_path(const char *save, char out[IO_PATH])
{
	snprintf(out, IO_PATH, "%s/stop", save);
}

/* False without a --save directory. Rank 0 alone looks in each step: one stat on a shared file
 * system, not one per rank. */
bool
stop_file(const char *save)
{
	char path[IO_PATH];

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
	char path[IO_PATH];

	if (!save)
		return;
	stop_path(save, path);
	unlink(path);
}
