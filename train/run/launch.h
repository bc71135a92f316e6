/* launch.h - starting the ranks of a run: mtrain --ranks N, or --launch 'WORDS' */
#ifndef TRAIN_RUN_LAUNCH_H
#define TRAIN_RUN_LAUNCH_H

#include "train/config/train_config.h"

/* Whether the options ask for it. */
static inline bool
launch_wanted(const struct train_options *o)
{
	return (o->ranks || o->launch) && !o->dry_run;
}

/* The words of a command line, which parsing changes, ended by NULL; to free(). */
char **launch_words(int argc, char **argv);
/*
 * Starts the launcher with this program and its words, except those that asked for it, waits until
 * it has ended and exits with its status; with EXIT_USAGE when nothing was started. Until then INT,
 * TERM, HUP, USR1, USR2 and XCPU ask the run to save and stop; a second INT or TERM, a second or
 * more after the first, ends the launcher, and one more kills it. After a stop with EXIT_STOPPED
 * the command that continues is noted, if the same one does.
 */
void launch_run(const struct train_config *c, char **words) __attribute__((noreturn));

#endif
