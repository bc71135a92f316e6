/* device.c - what a rank takes of a GPU beside the arenas */
#include "lib/model/gpu.h"

/* The same for every run: the parts are constants that train/cuda takes them by. */
uint64_t
device_workspace(enum dtype dtype)
{
	return dtype == DTYPE_F64 ? 0 : (uint64_t)DEVICE_PRODUCTS + DEVICE_SIDE + DEVICE_CONTEXT;
}
