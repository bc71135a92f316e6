/*
 * gpu.h - GPU memory that a rank uses outside the arenas
 *
 * mtrain, or the driver on its behalf, takes these bytes at the start, and mplan and --dry-run
 * report them. The workspace of attention is a buffer of the plan. Communication buffers of several
 * GPUs come on top.
 */
#ifndef MODEL_GPU_H
#define MODEL_GPU_H

#include "lib/base/dtype.h"

#include <stdint.h>

enum {
	/* workspace of one operation: cuBLASLt, partial sums, sorting */
	DEVICE_PRODUCTS = 32 << 20,
	DEVICE_SIDE = 4 << 20, /* after it: what a GEMM hands to the next kernel, or gets */
	DEVICE_CONTEXT =
	    552 << 20, /* the driver's, with our kernels and the libraries' loaded; measured on an
			* H200 with CUDA 13.0, cuBLASLt 13.1 and cuDNN 9.19 */
};

/* All of these bytes for a rank of a run in this type; 0 in double precision, which runs only on
 * the CPU. */
uint64_t device_workspace(enum dtype dtype);

#endif
