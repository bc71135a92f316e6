/* maps.h - maps of tensors for the copy engine of compute capability 9.0, which the driver makes */
#ifndef TRAIN_CUDA_MAPS_H
#define TRAIN_CUDA_MAPS_H

#include <cuda.h>
#include <stdbool.h>

struct maps {
	void *library; /* NULL: the driver has none */
	CUresult (*encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
	    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
	    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
	    CUtensorMapFloatOOBfill);
};

/* False, and library NULL, where the driver cannot be loaded or is too old. */
bool maps_open(struct maps *m);
/* One that is not open is ignored. */
void maps_close(struct maps *m);

#endif
