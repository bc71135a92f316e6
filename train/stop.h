/* stop.h - requests to stop: signals and the file SAVE/stop */
#ifndef TRAIN_STOP_H
#define TRAIN_STOP_H

#include <stdbool.h>

/* USR1, USR2, TERM and INT ask for a stop behind the step; a second TERM or INT exits at once. */
void stop_catch_signals(void);
/* Name of the signal that asked, or NULL. */
const char *stop_signal(void);
/* Is there a file `stop` in save? remove takes it away, so that the next run goes on. save may be
 * NULL. */
bool stop_file(const char *save);
void stop_file_remove(const char *save);

#endif
