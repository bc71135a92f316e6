/* rotate.c - rotary positions of a layer */
#include "train/layers/rotate.h"

void
rotate_heads(const struct layer *l, struct step *s, struct rope *r)
{
	struct engine *e = s->e;
	enum rope_table table = layer_rope_table(&e->plan.model, l->block->layer);

	if (table == ROPE_TABLE_NONE)
		return;
	r->positions = step_buffer(s, BUF_POSITIONS, 0);
	r->table = engine_rope_table(e, table);
	r->rotary_dim = (int)model_rotary_dim(&e->plan.model);
	e->ops->rope(e->stream, r);
}
