/*
 * fault_none.c - nothing breaks
 */
#include "train/config/fault.h"

#include <stddef.h>

int
fault_read(struct fault **out, int64_t world_size, struct err *e)
{
	(void)world_size;
	(void)e;
	*out = NULL;
	return 0;
}

void
fault_free(struct fault *f)
{
	(void)f;
}

void
fault_join(struct fault *f, struct engine *e)
{
	(void)f;
	(void)e;
}

void
fault_step(struct fault *f, int64_t step)
{
	(void)f;
	(void)step;
}

void
fault_updated(struct fault *f)
{
	(void)f;
}
