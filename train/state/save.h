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
#include "train/config/config.h"
#include "train/config/spike.h"
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

/* optim_record puts the update rule and its constants into the state; optim_differences lists what
 * differs from a state of the same rule: "--adam-beta2 is 0.95 and was 0.999", separated by
 * commas. */
void optim_record(const struct optim_options *o, struct run_state *s);
void optim_differences(const struct optim_options *o, const struct run_state *s, struct str *out);

/*
 * Loads weights, and with START_RESUME optimizer state, progress, loss scale and schedule, from
 * c->weights_from: a checkpoint or (weights alone) a Hugging Face directory. Collective; fails on
 * all ranks, with the reason on rank 0, also when any of them was asked to stop (stop_agree).
 */
int load_checkpoint(struct engine *e, struct train_config *c, struct progress *p, struct err *err);

/* --- saver.c: saves that run during training ---------------------------------------------- */

/*
 * A save has three parts: each rank copies its pieces from the device, then writes its file, and
 * rank 0 commits the directory. In the background the copies run while the next step computes (the
 * update waits for them: engine.held), and a thread writes. Only saver_next and what calls it
 * communicate.
 */
struct saver;

/* background: false makes saver_start wait for the end. Memory for the copies is taken in the
 * background too. lock: that of --save, on rank 0; nothing is written once it is lost. NULL: no
 * lock. */
struct saver *saver_new(
    struct engine *e, const struct train_config *c, struct lock *lock, bool background);
void saver_free(struct saver *s); /* the saver is idle, or the run failed */
/* Seconds that the last save took, which has ended; 0: there was none, or s is NULL. */
double saver_seconds(const struct saver *s);
/* Collective: waits for the previous save, then begins one. -1 on every rank, with the reason on
 * rank 0; the previous checkpoint is intact. data, on rank 0: what state.conf says of the data. */
int saver_start(struct saver *s, const struct progress *p, const char *data, struct err *err);
bool saver_background(const struct saver *s); /* the same on every rank once a save has begun */
bool saver_ready(const struct saver
	*s); /* busy, and nothing to wait for on this rank: saver_next would not block */
/* Collective: the next part of a busy save. -1 as saver_start. */
int saver_next(struct saver *s, struct err *err);
/* Collective: all remaining parts. */
int saver_wait(struct saver *s, struct err *err);

#endif
