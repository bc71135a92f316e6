/* where_losses.c - fuzz target: any bytes as a file of the losses of samples; what is accepted is
 * in order, the greatest distance from a mean first */
#include "shard/where.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct where_loss *loss = NULL;
	struct err e;
	int64_t n = where_losses_parse((const char *)data, size, "losses", 5, &loss, &e);

	for (int64_t i = 0; i < n; i++)
		if (loss[i].iteration < 1 || loss[i].sample < 5 || !(loss[i].tokens >= 0) ||
		    (i && loss[i].above > loss[i - 1].above))
			abort();
	free(loss);
	return 0;
}
