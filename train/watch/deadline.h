/* deadline.h - ends the program when something takes too long */
#ifndef TRAIN_WATCH_DEADLINE_H
#define TRAIN_WATCH_DEADLINE_H

#include <stdint.h>

struct deadline;

/* Unless deadline_met comes within `seconds`, says `text` in one line and ends this process with
 * EXIT_PEER, whatever its other threads wait for. text is borrowed until then. NULL, and a line that
 * says so: no thread can be started, and nothing limits the time. */
struct deadline *deadline_start(int64_t seconds, const char *text);
/* The call has returned in time: stops the clock and frees d, which may be NULL. */
void deadline_met(struct deadline *d);

#endif
