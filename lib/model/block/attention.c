/* attention.c - the memory that fast attention takes beside its arguments */
#include "lib/model/block/attention.h"

/* What any plan may ask for. */
enum { SMALL = 4096 };

/* n as a multiple of `of`. */
static uint64_t
round_up(uint64_t n, uint64_t of)
{
	return (n + of - 1) / of * of;
}

/* The deterministic pass stores the gradients of scores in tiles of 64 by 128. The sizes of a run
 * have been checked, so no product overflows. */
uint64_t
attention_workspace(const struct attention_shape *a)
{
	uint64_t heads = (uint64_t)a->micro_batch_size * (uint64_t)a->num_heads,
		 s = (uint64_t)a->seq_length, d = (uint64_t)a->head_dim, bytes = SMALL;

	if (!a->backward)
		return 0;
	if (a->num_heads != a->num_groups)
		bytes += round_up(2 * 2 * heads * s * d, 256);
	if (a->deterministic)
		bytes += 2 * heads * round_up(s, 64) * round_up(s, 128);
	else
		bytes += round_up(4 * heads * s * d, 256);
	return bytes <= ATTENTION_WORKSPACE_MAX ? bytes : 0;
}
