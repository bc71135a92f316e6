/* layer.c - the buffers of a layer */
#include "train/layers/layer.h"
#include "lib/base/err.h"

struct tensor
layer_buffer(const struct layer *l, const struct step *s, int number)
{
	const struct block_kind *kind = l->block->kind;

	if (number >> BLOCK_SHIFT != block_number(kind))
		BUG("layer '%s' reads buffer %d of block '%s'", kind->name,
		    number & ((1 << BLOCK_SHIFT) - 1), block_name(number >> BLOCK_SHIFT));
	return step_buffer(s, number, l->block->local);
}
