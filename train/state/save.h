/*
 * save.h - checkpoints of a run: written by all ranks, read under any layout
 *
 * A parameter X is stored as its master (the weight itself when that is fp32 or fp64), its states
 * as X.exp_avg and X.exp_avg_sq, its average as X.ema. Every rank writes what its optimizer owns;
 * without the distributed optimizer the data ranks share the writing in the same way. Reading asks
 * for the boxes that this rank holds, which other ranks may have written.
 */
#ifndef TRAIN_STATE_SAVE_H
#define TRAIN_STATE_SAVE_H

#include "lib/base/lock.h"
#include "lib/ckpt/state.h"
#include "train/config/spike.h"
#include "train/config/train_config.h"
#include "train/engine/engine.h"

/* The state of a run beside its tensors. */
struct progress {
	int64_t iteration, consumed_samples, optimizer_steps;
	int64_t skipped, skipped_samples; /* steps without an update, and what they consumed */
	int64_t passed_samples;           /* of them, of steps that were passed over */
	struct spike_record spikes;
};

/* A piece of this rank's file: a box of tensor `name` of the checkpoint, and where it lies, on the
 * device or on the host. A BF16 weight with low bits is stored as the F32 that both make. */
struct save_piece {
	char name[128];
	struct tensor from, low_bits; /* low bits U16, or without data */
	bool host;                    /* in host memory */
	const struct param *param;
	const struct slice *slice; /* in global coordinates; valid during the visit */
};
struct save_walk {
	struct engine *e;
	int (*visit)(void *ctx, const struct save_piece *, struct err *);
	void *ctx;
};
/* The bytes of a piece where it lies, and its type in the file. */
size_t save_piece_bytes(const struct save_piece *p);
enum dtype save_piece_dtype(const struct save_piece *p);
/* Visits the pieces, always in the same order; ends at the first -1. */
int save_pieces(const struct save_walk *w, bool optimizer_state, struct err *err);
/* Appends state.conf; data: the lines about the data. */
void save_state_text(
    const struct train_config *c, const struct progress *p, const char *data, struct str *out);

#endif
