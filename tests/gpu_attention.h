/* gpu_attention.h - how attention of a GPU runs, for tests and benchmarks */
#ifndef TESTS_GPU_ATTENTION_H
#define TESTS_GPU_ATTENTION_H

#include "train/cuda/attention/attention.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* By the object of the device's backend, which is open since the device is, and exports this for
 * tests. */
static inline void
gpu_attention_run(struct device *d, struct hopper_run how)
{
	void (*run)(struct device *, struct hopper_run);
	void *object = dlopen("mikoshi-cuda.so", RTLD_NOW | RTLD_NOLOAD),
	     *function = object ? dlsym(object, "cuda_attention_run") : NULL;

	if (!function)
		abort();
	memcpy(&run, &function, sizeof run);
	run(d, how);
}

#endif
