/*
 * forward.h - a forward pass of one micro batch whose logits come to the host
 *
 * Every rank takes part in each pass and in each agreement, whether it has logits or not. The head
 * leaves each rank's columns of the last rows of its positions in host memory, from which the last
 * stage's tensor and context ranks gather those of all.
 */
#ifndef TRAIN_RUN_FORWARD_H
#define TRAIN_RUN_FORWARD_H

#include "train/engine/engine.h"
#include "train/run/logits.h"

struct forward {
	struct engine *e;
	struct batch batch; /* the caller fills tokens, positions and, where there are any,
			     * documents; there are no labels and no mask */
	int64_t kept;       /* as in struct step */
	int64_t rows;       /* of T those whose logits come, the last; 0 to T */
	/* in the run's type: this rank's [rows, v/t], and those of all ranks one after the other */
	char *local, *all;
	int64_t columns;       /* v/t */
	struct replay *replay; /* the caller's, for passes that differ in their batch and kept
				* alone; NULL: they are queued afresh */
};

/* Host memory for a batch and the logits of at most so many rows. The engine belongs to the caller.
 */
void forward_init(struct forward *f, struct engine *e, int64_t rows);
void forward_release(struct forward *f);
/* Of f->local. */
size_t forward_bytes(const struct forward *f);
/* Collective. Queues the pass, which reads the batch before it returns. */
void forward_queue(struct forward *f);
/* Collective. Returns when the logits are there, on all tensor and context ranks of the last stage;
 * a device error ends the program. */
void forward_wait(struct forward *f);
/* Both. */
void forward_run(struct forward *f);
/* The logits of a row over the whole vocabulary, on a rank that has them, copied to `out`, which
 * keeps them beyond the next pass; threads may call it beside each other. row: of the context rank
 * `holder`, from the first of those that came on. */
struct logits forward_row(const struct forward *f, int holder, int64_t row, void *out);
/* Collective. Repeats the pass to report the first operation whose output is not finite, as the
 * reason why `what` is not. Returns the exit status. */
int forward_not_finite(struct forward *f, const char *what);

#endif
