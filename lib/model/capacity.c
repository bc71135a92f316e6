/* capacity.c - rows that experts take: the sizes of windows, and the options that set them */
#include "lib/model/capacity.h"
#include "lib/base/int64.h"

#include <math.h>

/* Rows of a window are a multiple of this, so that those of a small one fill the tiles of GEMMs. */
enum { MULTIPLE = 16 };

int
capacity_resolve(const struct opt_parse *p, const struct capacity_options *o,
    const struct model_config *c, struct train_shape *s, struct err *e)
{
	if (!c->num_experts && opt_given(p, "moe-expert-rank-capacity-factor"))
		return err_set(e, "--moe-expert-rank-capacity-factor: needs --num-experts");
	s->expert_rank_capacity = o->rank_factor;
	return 0;
}

int64_t
capacity_rows(const struct layout *l, const struct train_shape *s)
{
	return layout_held(l, s->seq_length) * s->micro_batch_size / layout_row_shards(l);
}

/* All rows of the ranks that hold the experts may choose those of one rank, as many of their k as
 * it has. */
struct arriving
capacity_arriving(const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	int64_t ranks = layout_expert_holders(l), rows = capacity_rows(l, s),
		local = c->num_experts / layout_expert_ranks(l), k = c->moe_router_topk;
	double room = ceil(s->expert_rank_capacity * (double)(rows * k * layout_expert_slices(l)));
	struct arriving a = { .most = ranks * rows * int64_min(k, local) };

	a.window = a.most;
	a.windows = 1;
	if (ranks == 1 || s->expert_rank_capacity == 0 || room >= (double)a.most)
		return a;
	a.window = int64_min(a.most, int64_div_up((int64_t)room, MULTIPLE) * MULTIPLE);
	a.windows = int64_div_up(a.most, a.window);
	return a;
}
