/*
 * signals.c - signals through a descriptor, so that a run ends between two reads and cleans up
 *
 * A descriptor can be polled together with a pipe, and needs no handler and no global. It is not
 * read while a run commits: what is complete appears whole.
 */
#include "tok/signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };

/* nohup, and background jobs of a shell without job control, ignore some of them. */
int
signals_hold(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		struct sigaction a;

		if (sigaction(wanted[i], NULL, &a) == 0 && a.sa_handler != SIG_IGN)
			sigaddset(&set, wanted[i]);
	}
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A signal that is not blocked never stays pending. */
bool
signals_pending(void)
{
	sigset_t set;

	if (sigpending(&set) < 0)
		return false;
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (sigismember(&set, wanted[i]) == 1)
			return true;
	return false;
}

/* The default action of each of them is to end the program. */
void
signals_raise(int fd)
{
	struct signalfd_siginfo came;
	sigset_t one;

	if (fd < 0 || read(fd, &came, sizeof came) != (ssize_t)sizeof came)
		return;
	sigemptyset(&one);
	sigaddset(&one, (int)came.ssi_signo);
	raise((int)came.ssi_signo);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}
