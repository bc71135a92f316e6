/* capacity.c - rows that experts take: the sizes of rounds, and the options that set them */
#include "lib/model/capacity.h"
#include "lib/base/int64.h"

#include <math.h>

/* Rows of a round are a multiple of this, so that those of a small one fill the tiles of GEMMs. */
enum { MULTIPLE = 16 };

const char *const drop_policies[] = { "probs", "position", NULL };

int
capacity_resolve(const struct opt_parse *p, const struct capacity_options *o,
    const struct model_config *c, struct train_shape *s, struct str *notes, struct err *e)
{
	if (c->num_experts && o->factor <= 0 && opt_given(p, "moe-pad-expert-input-to-capacity"))
		return err_set(
		    e, "--moe-pad-expert-input-to-capacity: needs --moe-expert-capacity-factor");
	s->expert_rank_capacity = o->rank_factor;
	if (!c->num_experts)
		return 0;
	s->expert_capacity = o->factor > 0 ? o->factor : 0;
	s->drop_policy = (enum drop_policy)o->policy;
	s->random_logits = o->balanced;
	if (o->pad)
		str_adds(notes,
		    "--moe-pad-expert-input-to-capacity: changes nothing: experts multiply the "
		    "rows that they get, and no others\n");
	return 0;
}

int64_t
capacity_rows(const struct layout *l, const struct train_shape *s)
{
	return layout_held(l, s->seq_length) * s->micro_batch_size / layout_row_shards(l);
}

int64_t
capacity_of_expert(
    const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	int64_t rows = capacity_rows(l, s);
	double most =
	    ceil((double)(rows * c->moe_router_topk) / (double)c->num_experts * s->expert_capacity);

	return s->expert_capacity > 0 && most < (double)rows ? (int64_t)most : rows;
}

/* All rows of the ranks of a host may choose the experts of one rank, as many of their k as it has;
 * or each of its experts takes as many as it may. */
struct received_rows
capacity_received(const struct model_config *c, const struct layout *l, const struct train_shape *s)
{
	int64_t ranks = layout_expert_inside(l), hosts = layout_expert_hosts(l),
		rows = capacity_rows(l, s), local = c->num_experts / layout_expert_ranks(l),
		k = c->moe_router_topk;
	double mean = (double)(rows * k * layout_expert_slices(l)) / (double)hosts,
	       room = ceil(s->expert_rank_capacity * mean);
	int64_t taken = c->num_experts ? local * capacity_of_expert(c, l, s) : 0;
	struct received_rows a = { .most = ranks * int64_min(rows * int64_min(k, local), taken) };

	a.round = a.most;
	a.rounds = 1;
	if (ranks * hosts == 1 || s->expert_rank_capacity == 0 || room >= (double)a.most)
		return a;
	a.round = int64_min(a.most, int64_div_up((int64_t)room, MULTIPLE) * MULTIPLE);
	a.rounds = int64_div_up(a.most, a.round);
	return a;
}

/* Sequence parallelism has seen to it that rows divide. */
bool
capacity_in_parts(const struct layout *l, const struct train_shape *s)
{
	int64_t rows = layout_held(l, s->seq_length) * s->micro_batch_size;

	return l->tensor_model_parallel_size > 1 && rows % l->tensor_model_parallel_size == 0;
}
