/*
 * handover.h - exchanges of pipeline stages, beside passes or between them
 *
 * Beside passes, exchanges are queued on their own stream: each starts after the passes queued
 * before it, and a pass waits for the exchange that receives its input, or that still sends from
 * the link it writes. The schedule (schedule_shape.beside) leaves one pass in between. Between
 * passes, everything is queued on the compute stream and no waits are needed.
 */
#ifndef TRAIN_ENGINE_HANDOVER_H
#define TRAIN_ENGINE_HANDOVER_H

#include "train/engine/timing.h"

/* The communicators and streams of e must be open. */
struct handover *handover_open(struct engine *e);
void handover_close(struct handover *h);

/* Queues n messages as one exchange; message i belongs to action a[i]. span: the timer.
 */
void handover_exchange(
    struct engine *e, const struct action *a, const struct p2p *message, int n, enum span span);
/* Call before the pass is queued. */
void handover_await(struct engine *e, const struct action *pass);
/* Call after the last pass of a step: the compute stream waits for all exchanges.
 */
void handover_settle(struct engine *e);

#endif
