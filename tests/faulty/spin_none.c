/* spin_none.c - without CUDA */
#include "tests/faulty/spin.h"

void
spin_device(struct stream *st)
{
	(void)st;
}
