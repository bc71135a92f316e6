/*
 * tensorboard.h - scalars and texts for TensorBoard
 *
 * One event file per run: DIR/events.out.tfevents.TIME.HOST.PID.v2, of records {u64 length, u32 its
 * checksum, bytes, u32 their checksum}, little-endian; the checksums are CRC-32C, rotated right by
 * 15 and increased by 0xa282ead8 ("masked"). The bytes are protobuf messages: Event {1: f64
 * wall_time, 2: i64 step, 3: file_version | 5: Summary {1: Value {1: tag, 2: f32 | 9: metadata, 8:
 * tensor}}}. The file grows while TensorBoard reads it, so it is written under its own name.
 * Source: tensorflow/core/lib/io/record_writer.h, util/event.proto,
 * framework/{summary,tensor}.proto.
 */
#ifndef TRAIN_REPORT_TENSORBOARD_H
#define TRAIN_REPORT_TENSORBOARD_H

#include "lib/base/err.h"

#include <stdint.h>

struct tensorboard;

/* Makes dir where it is missing and starts a file in it. NULL with a reason when that fails. */
struct tensorboard *tensorboard_open(const char *dir, struct err *e);
/* Adds a point; a failed write is reported by the next flush or close. */
void tensorboard_scalar(struct tensorboard *t, const char *tag, int64_t step, double value);
/* Adds a text, which TensorBoard shows under `name`. */
void tensorboard_text(struct tensorboard *t, const char *name, int64_t step, const char *text);
/* Hands what was added to the system. -1 when anything so far was lost. */
int tensorboard_flush(struct tensorboard *t, struct err *e);
/* Flushes and frees, also when it fails. t may be NULL. */
int tensorboard_close(struct tensorboard *t, struct err *e);

#endif
