/*
 * p2p.h - messages of pipeline stages, beside passes or between them
 *
 * Where the device queues, messages beside passes have a channel for each of their kinds, with a
 * communicator and a stream of its own: a message follows those of its channel and the passes
 * queued before it, and waits for no other, so that no stage waits for a message that it does not
 * read. A pass waits for the message that is its input, or for one that still leaves from the stage
 * output that it writes. The schedule (schedule_shape.overlap) leaves one pass in between. Else the
 * messages of an exchange are one call on the compute stream, and no waits are needed.
 */
#ifndef TRAIN_ENGINE_P2P_H
#define TRAIN_ENGINE_P2P_H

#include "train/engine/timing.h"

/* The communicators and streams of e must be open. Collective over the stages, which share the
 * memory where messages land. */
struct stage_p2p *p2p_open(struct engine *e);
void p2p_close(struct stage_p2p *h);

/* Queues n messages, which are one exchange between passes; message i belongs to action a[i]. span:
 * the timer of an exchange. */
void p2p_exchange(
    struct engine *e, const struct action *a, const struct p2p *message, int n, enum span span);
/* Call before the pass is queued. */
void p2p_await(struct engine *e, const struct action *pass);
/* Call after the last pass of a step: the compute stream waits for all messages. */
void p2p_settle(struct engine *e);

#endif
