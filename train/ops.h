/*
 * ops.h - the numeric contract: everything mtrain computes, as one table that each backend fills
 *
 * Letters: T = s*b rows of one micro batch, row r = position r / b of sample r % b
 * (sequence-major); h hidden, n query heads, g key/value groups (local counts under tensor
 * parallelism), d head size, f ffn, v vocabulary columns held here. "act" tensors have the run's
 * dtype (F32, BF16, F16, F64); "real" tensors are F32, or F64 when the run is F64: statistics,
 * log-sum-exp, loss, main gradients, master weights, moments. "stream" tensors, of the residual
 * stream and its gradient, are all act or, where the run wants that, all real. Sums are held in
 * real precision whatever the storage.
 *
 * Calls are queued on the stream and cannot fail softly: a wrong shape is BUG(), a device fault
 * surfaces in sync(). Nothing is kept of the arguments after the call but the tensors' memory until
 * the stream has passed. Every operation is deterministic: the order of every sum depends on the
 * shapes alone; only attention_bwd need not be where the device was opened without
 * device_config.deterministic. The formulas are in docs/math.md.
 */
#ifndef TRAIN_OPS_H
#define TRAIN_OPS_H

#include "lib/base/tree.h"
#include "train/backend.h"
#include "train/ops_list.h"

struct ops {
#define OPERATION(name, type) void (*name)(struct stream *, const struct type *);
#include "train/ops_list.h"
};

#endif
