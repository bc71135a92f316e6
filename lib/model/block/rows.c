/*
 * rows.c - the lists of rows in which a block states its parameters and buffers
 */
#include "lib/model/block/rows.h"
#include "lib/base/err.h"

void
state_params(struct param_list *to, const struct param_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int block = rows[i].number >> BLOCK_SHIFT;

		if (to->count == PARAM_ROWS_MAX)
			BUG("a block states more than %d parameters", PARAM_ROWS_MAX);
		if (block != to->block)
			BUG("block '%s' states '%s' with a number of block '%s'",
			    block_name(to->block), rows[i].name, block_name(block));
		to->row[to->count++] = rows[i];
	}
}

struct param_list
block_params(const struct block_kind *k, const struct model_config *c, int64_t layer)
{
	struct param_list all = { .block = block_number(k), .layer = layer };

	k->params(&all, c);
	return all;
}

void
state_buffers(struct buffer_list *to, const struct buffer_row *rows, size_t n)
{
	for (const struct buffer_row *r = rows; r < rows + n; r++) {
		int block = r->buffer >> BLOCK_SHIFT;

		if (block != to->block)
			BUG("block '%s' states buffer '%s' with a number of block '%s'",
			    block_name(to->block), r->name, block_name(block));
		if (!r->when)
			continue;
		if (to->count == BUFFER_ROWS_MAX)
			BUG("block '%s' has more than %d buffers", block_name(to->block),
			    BUFFER_ROWS_MAX);
		to->row[to->count++] = *r;
	}
}
