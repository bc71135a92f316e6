/* streams.h - what a stream beside the compute stream waits for, and what waits for it */
#ifndef TRAIN_ENGINE_STREAMS_H
#define TRAIN_ENGINE_STREAMS_H

#include "train/engine/engine.h"
#include "train/engine/timing.h"

/* Neither does anything where st is the compute stream itself. */

/* st continues after what is queued on the compute stream now; ev marks the place. */
void streams_fork(struct engine *e, struct stream *st, struct event *ev);
/* The compute stream continues after ev, which was recorded on st; span: what the wait is timed as.
 */
void streams_join(struct engine *e, struct stream *st, struct event *ev, enum span span);

#endif
