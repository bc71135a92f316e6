/* spin.cu - a kernel that never ends */
#include "tests/faulty/spin.h"
#include "train/cuda/impl.h"

/* The clock always advances, which the compiler does not know. */
__global__ void
spin_kernel(void)
{
	volatile long long last = clock64() - 1;

	while (last != clock64())
		last = clock64() - 1;
}

void
spin_device(struct stream *st)
{
	spin_kernel<<<1, 1, 0, cu_handle(st)>>>();
}
