/*
 * device.h - what a rank takes of a GPU beside the arenas
 *
 * mtrain takes these bytes at the start, or the driver does for it, and mplan and --dry-run state
 * them, by this file; what attention needs is a buffer of the plan. Communication buffers of
 * several GPUs come on top.
 */
#ifndef MODEL_GPU_H
#define MODEL_GPU_H

#include "lib/base/dtype.h"

#include <stdint.h>

enum {
	/* workspace of one operation: cuBLASLt, partial sums, sorting */
	DEVICE_PRODUCTS = 32 << 20,
	DEVICE_SIDE = 1 << 20, /* after it: what a product hands to the next kernel */
	DEVICE_CONTEXT =
	    552 << 20, /* the driver's own, with our kernels and the libraries' loaded; measured on
			  an H200 with CUDA 13.0, cuBLASLt 13.1 and cuDNN 9.19 */
};

/* Bytes of all of it for a rank whose run has this type; 0 in double precision, which GPUs do not
 * compute here. */
uint64_t device_workspace(enum dtype dtype);

#endif
