/* device.h - the part of a GPU that its communicators see: the stream to queue on, and the record
 * of failures */
#ifndef TRAIN_CUDA_DEVICE_H
#define TRAIN_CUDA_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "train/backend.h"

#include <cuda_runtime_api.h>

struct cu_stream {
	struct stream base;
	cudaStream_t handle;
};

static inline cudaStream_t
cu_handle(const struct stream *st)
{
	return ((const struct cu_stream *)st)->handle;
}

/* Remembers that `what` failed for this reason, unless something failed before; what must live on.
 * backend.c */
void cu_fail(struct device *d, const char *what, const char *reason);
/* True for success; otherwise calls cu_fail. */
bool cu_ok(struct device *d, cudaError_t rc, const char *what);

#ifdef __cplusplus
}
#endif

#endif
