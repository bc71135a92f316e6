/* maps.c - the driver's function for maps of tensors, loaded when a device is opened: a program
 * with CUDA starts on machines without a driver too */
#include "train/cuda/maps.h"
#include "train/cuda/symbols.h"

#include <dlfcn.h>

static const struct symbol symbols[] = {
	{ "cuTensorMapEncodeTiled", offsetof(struct maps, encode) },
	{ .name = NULL },
};

bool
maps_open(struct maps *m)
{
	m->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (m->library && symbols_find(m->library, symbols, m))
		maps_close(m);
	return m->library != NULL;
}

void
maps_close(struct maps *m)
{
	if (m->library)
		(void)dlclose(m->library);
	m->library = NULL;
}
