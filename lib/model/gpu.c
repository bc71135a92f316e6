/* gpu.c - GPU memory that a rank uses outside the arenas */
#include "lib/model/gpu.h"

/* The same for every run: train/cuda allocates by these constants. */
uint64_t
device_workspace(enum dtype dtype)
{
	return dtype == DTYPE_F64 ? 0 : (uint64_t)DEVICE_PRODUCTS + DEVICE_SIDE + DEVICE_CONTEXT;
}
