/* object.c - what a program that opens this object looks for in it */
#include "lib/base/prog.h"
#include "train/cuda/device.h"

__attribute__((visibility("default"))) const struct backend_object mikoshi_backend = {
	.build = PROG_BUILD,
	.size = sizeof(struct backend),
	.backend = &backend_cuda,
};
