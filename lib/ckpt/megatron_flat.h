/*
 * megatron_flat.h - where tensors lie in the flat buffers of Megatron-LM's distributed optimizer
 *
 * A buffer holds the tensors of a chunk of layers in the reverse order of their registration, in
 * buckets. How buckets close, how tensors are aligned and what is kept of padding depends on the
 * version and on options of the run, hence rules to try: the one is right by which every fp32
 * weight rounds to the model's. Source: Megatron-LM core/optimizer/distrib_optimizer.py,
 * _compute_per_buffer_param_layout, and its predecessors.
 */
#ifndef CKPT_MEGATRON_FLAT_H
#define CKPT_MEGATRON_FLAT_H

#include <stdbool.h>
#include <stdint.h>

struct megatron_flat_rule {
	int64_t bucket;  /* a bucket closes when it has so many elements; 0: one holds all */
	int64_t align;   /* of a tensor's start in its bucket */
	bool tied_alone; /* a table that two stages share has a bucket of its own */
	int64_t pad;     /* a bucket's end is padded to a multiple of this; 1: that is cut off */
};

struct megatron_flat_tensor {
	int64_t elements;
	bool tied;
};

/* The start of each tensor, which are given in the order of the buffer. Returns the length. */
int64_t megatron_flat(const struct megatron_flat_rule *r, const struct megatron_flat_tensor *t,
    int count, int64_t *start);

/* Rule number i to try for a buffer, by what the arguments tell; false after the last. */
struct megatron_flat_run {
	int64_t data_ranks;    /* that shared what is of no expert */
	int64_t shards;        /* of the buffer: those, or fewer that shared the experts */
	int64_t context_ranks; /* among them, that shared a sequence */
	int64_t bucket_size;   /* of the options; 0: not given */
};
bool megatron_flat_try(const struct megatron_flat_run *run, int i, struct megatron_flat_rule *out);

#endif
