/*
 * wandb.h - scalars and options for Weights & Biases, in a file that `wandb sync` uploads
 *
 * One file per start of a run: DIR/wandb/offline-run-DATE_TIME-ID/run-ID.wandb, whose frames are
 * those of LevelDB's log: after ":W&B", u16 0xbee1 and u8 0 come blocks of 32 KiB (the first holds
 * these seven bytes) of pieces {u32 checksum, u16 length, u8 type, bytes}; type 1 is a whole
 * record, 2, 3 and 4 are its first, middle and last pieces; the checksum is zlib's CRC-32 of type
 * and bytes; what is too short for a piece's head at the end of a block is zero. A record is a
 * protobuf message. All numbers are little-endian. The file grows while the run does: every prefix
 * of whole records is a file. Source: wandb 0.19.11, sdk/internal/datastore.py and
 * proto/wandb_internal.proto; LevelDB's doc/log_format.md.
 */
#ifndef TRAIN_REPORT_WANDB_H
#define TRAIN_REPORT_WANDB_H

#include "lib/base/err.h"

#include <stdint.h>

enum { WANDB_ID = 9 }; /* bytes of an id that wandb_make_id makes, its NUL included */

struct wandb;

struct wandb_run {
	const char *dir;           /* where the directory "wandb" is, or is made */
	const char *project, *id;  /* runs of one id are one */
	const char *entity, *name; /* may be NULL */
	double (*clock)(void);     /* clock_unix, or a test's own */
};

/* Eight digits of base 36; those of another run are different. */
void wandb_make_id(char out[WANDB_ID]);
/* Starts a file. NULL with a reason when that fails. */
struct wandb *wandb_open(const struct wandb_run *r, struct err *e);
/* Where it lies: what is given to `wandb sync`. */
const char *wandb_dir(const struct wandb *w);
/* Adds to the figures of a step, which are written when the next one begins. */
void wandb_scalar(struct wandb *w, const char *key, int64_t step, double value);
/* Adds to the configuration: a number, "True" or a text. */
void wandb_text(struct wandb *w, const char *name, const char *text);
/* The last value of every key so far. */
void wandb_summary(struct wandb *w);
/* Hands all but the step under way to the system. -1 when anything so far was lost. */
int wandb_flush(struct wandb *w, struct err *e);
/* Writes how the run ended and frees, also when it fails. w may be NULL. */
int wandb_close(struct wandb *w, int status, struct err *e);

#endif
