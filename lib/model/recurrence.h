/*
 * recurrence.h - linear attention by chunks of positions, as GPUs compute it: how long a chunk is,
 * and the memory in which the kernels work
 *
 * One source for the memory plan and for the kernels of train/cuda.
 */
#ifndef MODEL_RECURRENCE_H
#define MODEL_RECURRENCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One sample: its positions, the heads of values, and the widths of keys and of values. */
struct recurrence_shape {
	int64_t positions, heads, key_dim, value_dim;
};

/* Positions of a chunk; in elements of 4 bytes what is kept of a chunk and head: two matrices of
 * scores [chunk, chunk] and eight numbers of each position. */
struct recurrence_chunks {
	int64_t chunk, count, record;
};
struct recurrence_chunks recurrence_chunks(const struct recurrence_shape *s);

/* All that a pass over a sample works in, in elements of 4 bytes: the records, and backward a state
 * and its gradient, and two sums, of each chunk and head. */
int64_t recurrence_work(const struct recurrence_shape *s, bool backward);

#ifdef __cplusplus
}
#endif

#endif
