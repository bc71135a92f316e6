/* device.c - what a rank takes of a GPU beside the arenas */
#include "lib/model/device.h"

/* The parts are taken one by one in train/cuda, each by the same constant or function. */
uint64_t
device_workspace(const struct model_config *c, const struct layout *l, const struct train_shape *s,
    bool deterministic)
{
	if (s->dtype == DTYPE_F64)
		return 0;
	return (uint64_t)DEVICE_PRODUCTS + DEVICE_SIDE + DEVICE_CONTEXT +
	    attention_run_workspace(c, l, s, deterministic);
}
