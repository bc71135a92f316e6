/* linears.c - lists of linears */
#include "lib/model/block/linears.h"

void
state_linears(struct linear_list *to, const struct linear_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (linear_of(to, rows[i].linear))
			BUG("linear %d is stated twice", (int)rows[i].linear);
		to->row[to->count++] = rows[i];
	}
}

struct linear_list
block_linears(const struct block_kind *k, const struct sizes *z)
{
	struct linear_list x = { .count = 0 };

	if (k->linears)
		k->linears(&x, z);
	return x;
}

struct linear_list
model_linears(const struct sizes *z)
{
	struct linear_list x = { .count = 0 };

	for (const struct block_kind *const *k = block_kinds; *k; k++)
		if ((*k)->linears && block_in_model(*k, z->model))
			(*k)->linears(&x, z);
	return x;
}

const struct linear_row *
linear_of(const struct linear_list *x, enum fp8_linear linear)
{
	for (int i = 0; i < x->count; i++)
		if (x->row[i].linear == linear)
			return &x->row[i];
	return NULL;
}
