/* sizes.c - sizes on a rank */
#include "lib/model/block/sizes.h"
#include "lib/base/int64.h"
#include "lib/model/capacity.h"

struct sizes
sizes_of_rank(
    const struct model_config *c, const struct layout *l, const struct train_shape *s, int pp)
{
	int64_t held = layout_held(l, s->seq_length);
	bool last = pp == l->pipeline_model_parallel_size - 1;

	return (struct sizes){ .model = c,
		.layout = l,
		.shape = s,
		.pp = pp,
		.trains = !s->forward_only,
		.tokens = held * s->micro_batch_size,
		.rows = capacity_rows(l, s),
		.all_tokens = s->seq_length * s->micro_batch_size,
		.seq = s->seq_length,
		.held = held,
		.positions = int64_max(s->seq_length, s->kept_positions),
		.hidden = c->hidden_size,
		.vocab = layout_vocab(l, c) / l->tensor_model_parallel_size,
		.later = last && !s->forward_only ? c->mtp_num_layers : 0 };
}

int64_t
sizes_gated(const struct sizes *z, int64_t columns)
{
	return model_gated(z->model) ? 2 * columns : columns;
}
