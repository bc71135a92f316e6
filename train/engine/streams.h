/* streams.h - forks from the compute stream, and joins with it */
#ifndef TRAIN_ENGINE_STREAMS_H
#define TRAIN_ENGINE_STREAMS_H

#include "train/engine/engine.h"
#include "train/engine/timing.h"

/* Neither has an effect when st is the compute stream itself. */

/* st waits for everything that is now queued on the compute stream; uses ev. */
void streams_fork(struct engine *e, struct stream *st, struct event *ev);
/* The compute stream waits for ev, which was recorded on st; span: the timer of the wait.
 */
void streams_join(struct engine *e, struct stream *st, struct event *ev, enum span span);

#endif
