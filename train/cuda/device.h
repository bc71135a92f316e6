/* device.h - the part of a GPU that its communicators see: the stream to queue on, the record of
 * failures, and flags */
#ifndef TRAIN_CUDA_DEVICE_H
#define TRAIN_CUDA_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "train/backend.h"

#include <cuda_runtime_api.h>

extern const struct backend backend_cuda;

struct cu_stream {
	struct stream base;
	cudaStream_t handle;
};

static inline cudaStream_t
cu_handle(const struct stream *st)
{
	return ((const struct cu_stream *)st)->handle;
}

/* Remembers that `what`, a string that lives on, failed for this reason, unless something failed
 * before. */
void cu_fail(struct device *d, const char *what, const char *reason);
/* True for success; otherwise calls cu_fail. */
bool cu_ok(struct device *d, cudaError_t rc, const char *what);

/* Numbers that only grow, in memory of this GPU or of one whose memory is mapped here: what streams
 * of several GPUs tell each other, without a kernel. */
struct cu_flags;
/* NULL with a reason where the driver has nothing of this. */
struct cu_flags *cu_flags_open(struct err *e);
void cu_flags_close(struct cu_flags *f);
/* The stream writes value, after all that was queued on it before has been written. */
void cu_flag_write(const struct cu_flags *f, struct stream *st, uint32_t *at, uint32_t value);
/* The stream waits until *at is value, or has passed it; values go round. */
void cu_flag_wait(const struct cu_flags *f, struct stream *st, uint32_t *at, uint32_t value);

#ifdef __cplusplus
}
#endif

#endif
