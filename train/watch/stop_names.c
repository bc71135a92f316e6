/* stop_names.c - the signals of --exit-signal, for the table of options */
#include "train/watch/stop.h"

const char *const stop_signal_names[STOP_NAMES] = { "SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2",
	"SIGHUP", "SIGXCPU", "SIGQUIT", "SIGALRM", NULL };
