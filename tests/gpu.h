/* gpu.h - the GPU's backend, for tests and benchmarks that run on one */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include "train/backend.h"

#include <stdio.h>

/* NULL, after a line with the reason, when there is none or it has no GPU. */
static inline const struct backend *
gpu_backend(void)
{
	struct err why;
	const struct backend *b = backend_choose("cuda", &why);

	if (!b)
		printf("skipped: %s\n", why.msg);
	return b;
}

#endif
