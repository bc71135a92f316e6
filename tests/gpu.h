/* gpu.h - the GPU's backend, for tests and benchmarks that run on one */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include "train/backend.h"

#include <stdio.h>
#include <string.h>

/* Finds it by name, so that a program also links in a build without it. NULL, after a line with the
 * reason, when there is none or it has no GPU. */
static inline const struct backend *
gpu_backend(void)
{
	struct err why = { "the CUDA backend is not built in" };

	for (int i = 0; backends[i]; i++)
		if (!strcmp(backends[i]->name, "cuda") && backends[i]->available(&why))
			return backends[i];
	printf("skipped: %s\n", why.msg);
	return NULL;
}

#endif
