/* stop.c - requests to stop */
#include "train/stop.h"
#include "lib/base/io.h"
#include "lib/base/prog.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void
handler(int sig)
{
	if (caught && (sig == SIGTERM || sig == SIGINT))
		_exit(EXIT_FAILED);
	caught = sig;
}

void
stop_catch_signals(void)
{
	static const int signals[] = { SIGUSR1, SIGUSR2, SIGTERM, SIGINT };
	struct sigaction a;

	memset(&a, 0, sizeof a);
	a.sa_handler = handler;
	a.sa_flags = SA_RESTART;
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &a, NULL);
}

const char *
stop_signal(void)
{
	switch (caught) {
	case SIGUSR1: return "SIGUSR1";
	case SIGUSR2: return "SIGUSR2";
	case SIGTERM: return "SIGTERM";
	case SIGINT: return "SIGINT";
	default: return NULL;
	}
}

static void
stop_path(const char *save, char out[1100])
{
	snprintf(out, 1100, "%s/stop", save);
}

bool
stop_file(const char *save)
{
	char path[1100];

	if (!save)
		return false;
	stop_path(save, path);
	return io_exists(path);
}

void
stop_file_remove(const char *save)
{
	char path[1100];

	if (!save)
		return;
	stop_path(save, path);
	unlink(path);
}
