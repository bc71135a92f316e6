/*
 * handover.h - what pipeline stages hand each other, beside passes or between them
 *
 * Beside passes, exchanges are queued on a stream of their own: each goes on after the passes that
 * are queued before it, and a pass waits for the exchange that brings what it reads, or that still
 * sends from the link it writes. The schedule (schedule_shape.beside) leaves a pass between.
 * Between passes, everything is queued on the compute stream and nothing has to be waited for.
 */
#ifndef TRAIN_ENGINE_HANDOVER_H
#define TRAIN_ENGINE_HANDOVER_H

#include "train/engine/timing.h"

/* The communicators and streams of e are open. */
struct handover *handover_open(struct engine *e);
void handover_close(struct handover *h);

/* Queues n messages as one exchange; message i belongs to action a[i]. span: what it is timed as.
 */
void handover_exchange(
    struct engine *e, const struct action *a, const struct p2p *message, int n, enum span span);
/* Before the pass is queued. */
void handover_await(struct engine *e, const struct action *pass);
/* After the last pass of a step: the compute stream goes on when everything has been handed over.
 */
void handover_settle(struct engine *e);

#endif
