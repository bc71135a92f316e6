/* workspace.c - the workspace of fast attention */
#include "lib/model/block/workspace.h"
#include "lib/base/int64.h"

/* Any plan may ask for this much. */
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
		 queries = (uint64_t)a->num_queries, keys = (uint64_t)a->num_keys,
		 d = (uint64_t)a->head_dim, bytes = SMALL;

	if (!a->backward)
		return 0;
	if (a->num_heads != a->num_groups)
		bytes += round_up(2 * 2 * heads * keys * d, 256);
	if (a->deterministic)
		bytes += 2 * heads * round_up(queries, 64) * round_up(keys, 128);
	else
		bytes += round_up(4 * heads * queries * d, 256);
	return bytes <= ATTENTION_WORKSPACE_MAX ? bytes : 0;
}

bool
hopper_serves(const struct model_config *c, const struct train_shape *s, bool maybe)
{
	struct attention_kind k = { c->kv_channels, s->reset_attention_mask,
		c->attn_logit_softcapping > 0, c->attention_dropout > 0 };

	if ((s->dtype != DTYPE_BF16 && s->dtype != DTYPE_F16) || !hopper_takes(&k, s->seq_length) ||
	    model_value_dim(c) != c->kv_channels || s->hopper == HOPPER_NO ||
	    (s->hopper == HOPPER_PERHAPS && !maybe))
		return false;
	return s->hopper == HOPPER_NAMED || hopper_is_fastest(&k, true);
}

/* What cuDNN needs. Of context ranks that gather keys the first has the stretch that sees all of
 * them. */
static uint64_t
library_workspace(
    const struct model_config *c, const struct train_shape *s, const struct attention_shape *a)
{
	bool others = s->reset_attention_mask || c->attn_logit_softcapping > 0 ||
	    c->attention_dropout > 0 || c->softmax_type != SOFTMAX_VANILLA;
	struct attention_shape widest = *a;

	widest.head_dim = int64_max(a->head_dim, model_value_dim(c));
	return others ? 0 : attention_workspace(&widest);
}

/* What the kernels for Hopper need, whatever stretch a context rank has: with fewer keys heads of a
 * group may be apart. */
static uint64_t
hopper_run_workspace(const struct model_config *c, const struct layout *l,
    const struct train_shape *s, const struct attention_shape *whole)
{
	bool gather = s->context_form == CONTEXT_GATHER;
	uint64_t most = 0;

	if (!whole->backward || !hopper_serves(c, s, true))
		return 0;
	for (int cp = 0; cp < (gather ? l->context_parallel_size : 1); cp++) {
		struct position_range has[POSITION_RANGES];
		int n = layout_positions(l, s->seq_length, cp, has);

		for (int i = 0; i < n; i++) {
			struct attention_shape a = *whole;
			uint64_t bytes;

			if (gather)
				a.num_keys = has[i].first + has[i].count;
			bytes = hopper_workspace(&a);
			most = bytes > most ? bytes : most;
		}
	}
	return most;
}

/* Counts local heads; every stage with layers needs the same. */
uint64_t
attention_run_workspace(
    const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	struct position_range has[POSITION_RANGES];
	int last = layout_positions(l, s->seq_length, 0, has) - 1;
	bool heads = s->context_form == CONTEXT_HEADS;
	int64_t share = heads ? l->context_parallel_size : 1;
	struct attention_shape a = {
		.micro_batch_size = s->micro_batch_size,
		.num_queries = heads ? s->seq_length : has[last].count,
		.num_keys = s->seq_length,
		.num_heads = c->num_attention_heads / l->tensor_model_parallel_size / share,
		.num_groups = layout_local_groups(l, c) / share,
		.head_dim = c->kv_channels,
		.backward = !s->forward_only,
		.deterministic = s->deterministic,
	};
	uint64_t own, other;

	if ((s->dtype != DTYPE_BF16 && s->dtype != DTYPE_F16) || c->kv_channels % 8)
		return 0;
	own = hopper_run_workspace(c, l, s, &a);
	other = own && s->hopper != HOPPER_PERHAPS ? 0 : library_workspace(c, s, &a);
	return own > other ? own : other;
}
