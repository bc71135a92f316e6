/* deadline.h - ends the program when something takes too long */
#ifndef TRAIN_WATCH_DEADLINE_H
#define TRAIN_WATCH_DEADLINE_H

#include <stdint.h>

/* Unless deadline_met comes within `seconds`, says `text` in one line and ends this process with
 * EXIT_PEER, whatever its threads wait for. Takes SIGALRM; text is borrowed until then. */
void deadline_start(int64_t seconds, const char *text);
/* The call has returned in time. */
void deadline_met(void);

#endif
