/* block.c - which blocks there are, and which make up a model */
#include "lib/model/block/block.h"

#include <stddef.h>

const struct block_kind *const block_kinds[] = { &block_embedding, &block_attention, &block_mlp,
	&block_head, NULL };

/* A transformer before the layers, in each of them and after them. */
const struct block_kind *const *
block_recipe(const struct model_config *c, int64_t layer)
{
	static const struct block_kind *const before[] = { &block_embedding, NULL },
					      *const within[] = { &block_attention, &block_mlp,
						      NULL },
					      *const after[] = { &block_head, NULL };

	return layer < 0 ? before : layer < c->num_layers ? within : after;
}
