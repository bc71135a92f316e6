/* saving.c - the order of savings, and what each sets */
#include "plan/saving.h"
#include "lib/model/optim_types.h"

/* Below 64. */
static int
number_of(struct saving s)
{
	return ((s.sharding * SAVE_RECOMPUTES + s.recompute) * 2 + s.offload) * 2 + s.optimizer;
}

uint64_t
saving_bit(struct saving s)
{
	return (uint64_t)1 << number_of(s);
}

uint64_t
saving_less(struct saving s)
{
	uint64_t bits = 0;
	struct saving x;

	for (int k = s.sharding < SHARDING_OPTIM ? s.sharding : SHARDING_OPTIM; k <= s.sharding;
	     k++)
		for (int r = 0; r <= s.recompute; r++)
			for (int i = 0; i < 4; i++) {
				x = (struct saving){ (unsigned char)k, (unsigned char)r, i & 1,
					i >> 1 };
				if (x.offload <= s.offload && x.optimizer <= s.optimizer)
					bits |= saving_bit(x);
			}
	return bits & ~saving_bit(s);
}

/* The most that may be sharded. */
static enum sharding
last_sharding(const struct search_input *in, const struct layout *l)
{
	return in->keep_sharding       ? in->shape.sharding
	    : layout_data_ranks(l) > 1 ? SHARDING_PARAMS
				       : SHARDING_NONE;
}

/* The least that is sharded where anything is. */
static enum sharding
first_sharding(const struct search_input *in, const struct layout *l)
{
	bool instances = layout_instances(l) > 1,
	     chosen = !in->typed.optimizer_instances || layout_state_instances(l) > 1;

	return instances && chosen ? SHARDING_GRADS : SHARDING_OPTIM;
}

int
saving_first(const struct search_input *in, const struct layout *l, struct saving out[2])
{
	int n = 0;

	if (in->keep_sharding) {
		out[n++] = (struct saving){ .sharding = (unsigned char)in->shape.sharding };
		return n;
	}
	if (layout_instances(l) == 1)
		out[n++] = (struct saving){ .sharding = SHARDING_NONE };
	if (layout_data_ranks(l) > 1)
		out[n++] = (struct saving){ .sharding = (unsigned char)first_sharding(in, l) };
	return n;
}

static bool
may_recompute(const struct search_input *in, int r)
{
	return !in->keep_recompute && !(in->shape.qk_clip && r > SAVE_SELECTIVE);
}

static bool
may_offload(const struct search_input *in)
{
	return !in->keep_offload && !in->shape.qk_clip;
}

static bool
may_move_optimizer(const struct search_input *in)
{
	const struct optim_rule *rule = in->shape.rule;

	return !in->keep_optimizer && rule && rule->traits & OPTIM_CHOOSES_TYPES &&
	    !in->shape.qk_clip;
}

int
saving_next(
    const struct search_input *in, const struct layout *l, struct saving s, struct saving out[4])
{
	int n = 0;

	if (s.recompute < SAVE_LAYERS && may_recompute(in, s.recompute + 1)) {
		out[n] = s;
		out[n++].recompute++;
	}
	if (!s.offload && may_offload(in)) {
		out[n] = s;
		out[n++].offload = true;
	}
	if (!s.optimizer && may_move_optimizer(in)) {
		out[n] = s;
		out[n++].optimizer = true;
	}
	if (s.sharding >= SHARDING_OPTIM && s.sharding < (int)last_sharding(in, l)) {
		out[n] = s;
		out[n++].sharding++;
	}
	return n;
}

struct saving
saving_none(const struct search_input *in)
{
	return (struct saving){ .sharding = (unsigned char)(in->keep_sharding ? in->shape.sharding
									      : SHARDING_NONE) };
}

int
saving_most(const struct search_input *in, const struct layout *l, struct saving s,
    struct saving out[SAVING_MOST])
{
	int recompute = s.recompute, n = 0;

	while (recompute < SAVE_LAYERS && may_recompute(in, recompute + 1))
		recompute++;
	for (int k = (int)last_sharding(in, l); k >= s.sharding; k--)
		for (int r = recompute; r >= s.recompute && n < SAVING_MOST; r--)
			out[n++] = (struct saving){ (unsigned char)k, (unsigned char)r,
				s.offload || may_offload(in),
				s.optimizer || may_move_optimizer(in) };
	return n;
}

bool
saving_has_amount(struct saving s)
{
	return s.recompute == SAVE_LAYERS || s.offload;
}

int
saving_amount(struct saving s, int layers)
{
	return s.offload ? layers - 1 : layers;
}

void
saving_apply(struct saving s, int layers, struct train_shape *shape)
{
	shape->sharding = (enum sharding)s.sharding;
	if (s.recompute == SAVE_SELECTIVE)
		shape->recompute.granularity = RECOMPUTE_SELECTIVE;
	else if (s.recompute == SAVE_LAYERS && s.offload)
		shape->recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_UNIFORM, 1, 0 };
	else if (s.recompute == SAVE_LAYERS)
		shape->recompute = (struct recompute){ RECOMPUTE_FULL, RECOMPUTE_BLOCK, layers, 0 };
	if (s.offload)
		shape->offloaded_layers = layers;
	if (s.optimizer)
		optim_types_offload(shape);
}
