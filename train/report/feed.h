/*
 * feed.h - a command that gets a run's metrics on its standard input
 *
 * A run never waits for it: lines that it does not read in time are dropped and counted. One that
 * ends is started again, FEED_RESTARTS times.
 */
#ifndef TRAIN_REPORT_FEED_H
#define TRAIN_REPORT_FEED_H

#include "lib/base/err.h"

#include <stddef.h>

enum { FEED_RESTARTS = 3 };

struct feed;

/* Starts `sh -c command`; its standard output is the run's standard error. NULL with a reason. */
struct feed *feed_open(const char *command, struct err *e);
/* Hands it a line, whose end is in it, unless it has not read those before. */
void feed_line(struct feed *f, const char *line, size_t len);
/* Ends its input, and waits a moment for its end. f may be NULL. */
void feed_close(struct feed *f);

#endif
