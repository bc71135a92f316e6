/* device.c - what a rank takes of a GPU beside the arenas */
#include "lib/model/device.h"

/* The parts are taken one by one in train/cuda, each by the same constant. */
uint64_t
device_workspace(enum dtype dtype)
{
	return dtype == DTYPE_F64 ? 0 : (uint64_t)DEVICE_PRODUCTS + DEVICE_SIDE + DEVICE_CONTEXT;
}
