/*
 * layout.c - rank <-> coordinates, groups and legality
 *
 * Pure arithmetic over four sizes, without processes. A rank is a number in a mixed radix whose
 * lowest digit is the tensor axis, so that ranks with the most traffic are neighbours on one node.
 * Of data ranks and stages either may come first. In both orders ranks of a group are numbered as
 * their coordinates are: data ranks by layout_data_rank.
 */
#include "lib/model/layout.h"
#include "lib/base/int64.h"

#include <stdio.h>
#include <string.h>

/*
 * A switch instead of an array, so that the fields keep the names that users know.
 */
int64_t
layout_size(const struct layout *l, enum axis a)
{
	switch (a) {
	case AX_TP: return l->tensor_model_parallel_size;
	case AX_CP: return l->context_parallel_size;
	case AX_DP: return l->data_parallel_size;
	case AX_PP: return l->pipeline_model_parallel_size;
	default: BUG("no axis %d", (int)a);
	}
}

/*
 * The sizes have passed layout_check or come from options with a range, so the product does not
 * overflow.
 */
int64_t
layout_world(const struct layout *l)
{
	int64_t n = 1;

	for (int a = 0; a < AX_COUNT; a++)
		n *= layout_size(l, (enum axis)a);
	return n;
}

int64_t
layout_expert_ranks(const struct layout *l)
{
	return l->expert_model_parallel_size > 1 ? l->expert_model_parallel_size : 1;
}

int64_t
layout_expert_slices(const struct layout *l)
{
	return l->expert_tensor_parallel_size ? l->expert_tensor_parallel_size
					      : l->tensor_model_parallel_size;
}

int64_t
layout_expert_holders(const struct layout *l)
{
	return layout_expert_ranks(l) * layout_expert_slices(l);
}

int64_t
layout_expert_hosts(const struct layout *l)
{
	return l->expert_hosts > 1 ? l->expert_hosts : 1;
}

int64_t
layout_expert_inside(const struct layout *l)
{
	return layout_expert_holders(l) / layout_expert_hosts(l);
}

void
layout_expert_coord(const struct layout *l, const int coord[AX_COUNT], int out[EX_COUNT])
{
	int64_t n = layout_expert_slices(l), e = layout_expert_ranks(l),
		number = coord[AX_TP] + l->tensor_model_parallel_size * layout_data_rank(l, coord);

	out[EX_TP] = (int)(number % n);
	out[EX_EP] = (int)(number / n % e);
	out[EX_DP] = (int)(number / n / e);
}

void
layout_expert_place(const struct layout *l, const int at[EX_COUNT], int coord[AX_COUNT])
{
	int64_t n = layout_expert_slices(l), e = layout_expert_ranks(l),
		number = at[EX_TP] + n * (at[EX_EP] + e * at[EX_DP]),
		replica = number / l->tensor_model_parallel_size;

	coord[AX_TP] = (int)(number % l->tensor_model_parallel_size);
	coord[AX_CP] = (int)(replica % l->context_parallel_size);
	coord[AX_DP] = (int)(replica / l->context_parallel_size);
}

int64_t
layout_expert_data_ranks(const struct layout *l)
{
	return l->tensor_model_parallel_size * layout_data_ranks(l) / layout_expert_holders(l);
}

int64_t
layout_expert_group(const struct layout *l, unsigned axes, int64_t rank)
{
	int coord[AX_COUNT], of[EX_COUNT];
	const int64_t sizes[EX_COUNT] = { layout_expert_slices(l), layout_expert_ranks(l),
		layout_expert_data_ranks(l) };
	int64_t group;

	layout_coord(l, rank, coord);
	layout_expert_coord(l, coord, of);
	group = coord[AX_PP];
	for (int a = EX_COUNT; a-- > 0;)
		if (!(axes & EX_BIT(a)))
			group = group * sizes[a] + of[a];
	return group;
}

int64_t
layout_data_ranks(const struct layout *l)
{
	return l->context_parallel_size * l->data_parallel_size;
}

int64_t
layout_instances(const struct layout *l)
{
	return l->optimizer_instances > 1 ? l->optimizer_instances : 1;
}

int64_t
layout_shard_ranks(const struct layout *l)
{
	return layout_data_ranks(l) / layout_instances(l);
}

int64_t
layout_expert_shard_ranks(const struct layout *l)
{
	return layout_expert_data_ranks(l) / layout_instances(l);
}

int64_t
layout_state_instances(const struct layout *l)
{
	return l->outer_sharding == OUTER_OPTIM ? layout_instances(l) : 1;
}

int
layout_check_instances(const struct layout *l, const struct model_config *c, struct err *e)
{
	int64_t n = layout_instances(l), data = layout_data_ranks(l),
		experts = c->num_experts ? layout_expert_data_ranks(l) : data, legal = n;

	if (data % n == 0 && experts % n == 0)
		return 0;
	while (data % legal || experts % legal)
		legal--;
	if (experts == data)
		return err_set(e,
		    "--num-distributed-optimizer-instances %lld: must divide the %lld data ranks "
		    "(try %lld)",
		    (long long)n, (long long)data, (long long)legal);
	return err_set(e,
	    "--num-distributed-optimizer-instances %lld: must divide the %lld data ranks and the "
	    "%lld with the same experts (try %lld)",
	    (long long)n, (long long)data, (long long)experts, (long long)legal);
}

/* In the order of ranks in their group. */
int
layout_data_rank(const struct layout *l, const int coord[AX_COUNT])
{
	return coord[AX_CP] + (int)l->context_parallel_size * coord[AX_DP];
}

/* The axes from the lowest digit on, [AX_COUNT]. */
static const enum axis *
digits(const struct layout *l)
{
	static const enum axis order[2][AX_COUNT] = { { AX_TP, AX_CP, AX_DP, AX_PP },
		{ AX_TP, AX_CP, AX_PP, AX_DP } };

	return order[l->use_tp_pp_dp_mapping];
}

void
layout_coord(const struct layout *l, int64_t rank, int coord[AX_COUNT])
{
	const enum axis *digit = digits(l);

	for (int i = 0; i < AX_COUNT; i++) {
		coord[digit[i]] = (int)(rank % layout_size(l, digit[i]));
		rank /= layout_size(l, digit[i]);
	}
}

int64_t
layout_stride(const struct layout *l, enum axis a)
{
	int64_t n = 1;

	for (const enum axis *digit = digits(l); *digit != a; digit++)
		n *= layout_size(l, *digit);
	return n;
}

/*
 * The number is built from the other axes: ranks that agree on those get the same number. Numbers
 * run from 0 without gaps and serve as colors for splitting communicators.
 */
int64_t
layout_group(const struct layout *l, unsigned axes, int64_t rank)
{
	int coord[AX_COUNT];
	int64_t group = 0;

	layout_coord(l, rank, coord);
	for (int a = AX_COUNT; a-- > 0;)
		if (!(axes & AX_BIT(a)))
			group = group * layout_size(l, (enum axis)a) + coord[a];
	return group;
}

/* Adds one violation to the message, with the nearest legal value for this rule. */
static void
complain(struct str *s, const char *option, int64_t value, const char *rule, int64_t other,
    int64_t legal)
{
	str_addf(s, "%s--%s %lld: must divide %s %lld (try %lld)", s->len ? "; " : "", option,
	    (long long)value, rule, (long long)other, (long long)legal);
}

/* v may be 0 or above n; the answer is from 1 to n, since 1 divides everything. */
static int64_t
divisor_below(int64_t n, int64_t v)
{
	if (v > n)
		v = n;
	while (v > 1 && n % v)
		v--;
	return v < 1 ? 1 : v;
}

/*
 * The largest size up to t that obeys all rules together, so that following the advice of one
 * message does not cause the next. 1 is always legal.
 */
static int64_t
legal_tp(const struct model_config *c, int64_t t)
{
	int64_t g = c->num_query_groups, keys = model_has_linear(c) ? c->linear_num_key_heads : 0;

	if (c->qk_layernorm_hidden_dim)
		return 1;
	t = divisor_below(c->num_attention_heads, t);
	while (c->num_attention_heads % t || (g % t && t % g) || c->ffn_hidden_size % t || keys % t)
		t--;
	return t;
}

/* The last stage may hold only the head; each of the others has a layer. */
static int64_t
most_stages(const struct model_config *c)
{
	return c->num_layers < SPLIT_MAX ? c->num_layers + 1 : SPLIT_MAX;
}

/* Collects all violations, so that one run shows them all. */
int
layout_check(const struct layout *l, const struct model_config *c, struct err *e)
{
	int64_t t = l->tensor_model_parallel_size, p = l->pipeline_model_parallel_size,
		g = c->num_query_groups;
	struct str s = { 0 };
	int rc = 0;

	if (t < 1 || p < 1 || l->context_parallel_size < 1 || l->data_parallel_size < 1)
		return err_set(e, "every parallel size must be at least 1");
	if (c->num_attention_heads % t)
		complain(&s, "tensor-model-parallel-size", t, "--num-attention-heads",
		    c->num_attention_heads, legal_tp(c, t));
	if (g % t && t % g)
		complain(&s, "tensor-model-parallel-size", t,
		    "or be a multiple of --num-query-groups", g, legal_tp(c, t));
	if (c->ffn_hidden_size % t)
		complain(&s, "tensor-model-parallel-size", t, "--ffn-hidden-size",
		    c->ffn_hidden_size, legal_tp(c, t));
	if (c->qk_layernorm_hidden_dim && t > 1)
		str_addf(&s,
		    "%s--tensor-model-parallel-size %lld: must be 1 for --qk-layernorm-hidden-dim, "
		    "whose norms take all heads together",
		    s.len ? "; " : "", (long long)t);
	if (model_has_linear(c) && c->linear_num_key_heads % t)
		complain(&s, "tensor-model-parallel-size", t, "--linear-num-key-heads",
		    c->linear_num_key_heads, legal_tp(c, t));
	if (model_has_linear(c) && l->context_parallel_size > 1)
		str_addf(&s,
		    "%s--context-parallel-size %lld: must be 1 for --linear-attention-freq, whose "
		    "states pass along the whole sequence",
		    s.len ? "; " : "", (long long)l->context_parallel_size);
	if (p > most_stages(c))
		str_addf(&s,
		    "%s--pipeline-model-parallel-size %lld: must be at most %lld for --num-layers "
		    "%lld (try %lld)",
		    s.len ? "; " : "", (long long)p, (long long)most_stages(c),
		    (long long)c->num_layers, (long long)most_stages(c));
	if (s.len)
		rc = err_set(e, "%s", s.buf);
	str_release(&s);
	return rc;
}

/* Two pieces per rank. */
int
layout_check_length(const struct layout *l, int64_t seq_length, const char *name, struct err *e)
{
	int64_t c = l->context_parallel_size;
	struct str s = { 0 };

	if (c > 1 && seq_length % (POSITION_RANGES * c)) {
		complain(&s, "context-parallel-size", c, name, seq_length,
		    seq_length % POSITION_RANGES ? 1
						 : divisor_below(seq_length / POSITION_RANGES, c));
		err_set(e, "%s", s.buf);
	}
	str_release(&s);
	return c > 1 && seq_length % (POSITION_RANGES * c) ? -1 : 0;
}

int
layout_positions(
    const struct layout *l, int64_t seq_length, int cp, struct position_range out[POSITION_RANGES])
{
	int64_t pieces = POSITION_RANGES * l->context_parallel_size, count = seq_length / pieces;

	if (l->context_parallel_size == 1) {
		out[0] = (struct position_range){ 0, seq_length };
		return 1;
	}
	out[0] = (struct position_range){ cp * count, count };
	out[1] = (struct position_range){ (pieces - 1 - cp) * count, count };
	return POSITION_RANGES;
}

int64_t
layout_held(const struct layout *l, int64_t seq_length)
{
	return seq_length / l->context_parallel_size;
}

/* Tries every rank, so that the rule is written only once. */
int
layout_holder(const struct layout *l, int64_t seq_length, int64_t position, int64_t *number)
{
	for (int cp = 0; cp < l->context_parallel_size; cp++) {
		struct position_range has[POSITION_RANGES];
		int n = layout_positions(l, seq_length, cp, has);
		int64_t before = 0;

		for (int i = 0; i < n; before += has[i++].count)
			if (position >= has[i].first && position < has[i].first + has[i].count) {
				*number = before + position - has[i].first;
				return cp;
			}
	}
	BUG("no rank holds position %lld", (long long)position);
}

/* The rules of slices, with a number that obeys both. */
static void
check_slices(struct str *s, const struct layout *l, const struct model_config *c)
{
	const struct {
		const char *rule;
		int64_t number;
	} rules[] = { { "--moe-ffn-hidden-size", c->moe_ffn_hidden_size },
		{ "the ranks of a pipeline stage,",
		    l->tensor_model_parallel_size * layout_data_ranks(l) },
		/* of which slices have parts of the biases of outputs */
		{ "--hidden-size", c->hidden_size } };
	int64_t n = layout_expert_slices(l), legal = n;
	int count = c->mlp_bias ? 3 : 2;

	while (rules[0].number % legal || rules[1].number % legal ||
	    (count > 2 && rules[2].number % legal))
		legal--;
	for (int i = 0; i < count; i++)
		if (rules[i].number % n)
			str_addf(s,
			    "%s--expert-tensor-parallel-size %lld%s: must divide %s %lld (try "
			    "%lld)",
			    s->len ? "; " : "", (long long)n,
			    l->expert_tensor_parallel_size
				? ""
				: ", that of --tensor-model-parallel-size",
			    rules[i].rule, (long long)rules[i].number, (long long)legal);
}

/* Without sequence parallelism tensor ranks would route the same rows. */
int
layout_check_experts(const struct layout *l, const struct model_config *c, struct err *e)
{
	int64_t t = l->tensor_model_parallel_size, n = layout_expert_ranks(l),
		slices = layout_expert_slices(l), ranks = t * layout_data_ranks(l);
	struct str s = { 0 };
	int rc = 0;

	if (!c->num_experts)
		return 0;
	check_slices(&s, l, c);
	if (t > 1 && !l->sequence_parallel)
		str_addf(&s,
		    "%s--num-experts: tensor ranks must have rows of their own: give "
		    "--sequence-parallel",
		    s.len ? "; " : "");
	if (c->num_experts % n)
		complain(&s, "expert-model-parallel-size", n, "--num-experts", c->num_experts,
		    divisor_below(c->num_experts, n));
	else if (ranks % slices == 0 && ranks / slices % n)
		complain(&s, "expert-model-parallel-size", n,
		    slices > 1 ? "the ranks of a pipeline stage divided by "
				 "--expert-tensor-parallel-size,"
			       : "the ranks of a pipeline stage,",
		    ranks / slices, divisor_below(ranks / slices, n));
	if (s.len)
		rc = err_set(e, "%s", s.buf);
	str_release(&s);
	return rc;
}

/* Heads are divided in whole groups. */
int
layout_check_heads(const struct layout *l, const struct model_config *c, struct err *e)
{
	int64_t t = l->tensor_model_parallel_size, cp = l->context_parallel_size,
		g = c->num_query_groups;

	if (cp == 1 || (g % t == 0 && g / t % cp == 0))
		return 0;
	return err_set(e,
	    "--cp-comm-type a2a: --tensor-model-parallel-size %lld x --context-parallel-size %lld "
	    "must divide --num-query-groups %lld (try --cp-comm-type all_gather)",
	    (long long)t, (long long)cp, (long long)g);
}

int64_t
layout_row_shards(const struct layout *l)
{
	return l->sequence_parallel ? l->tensor_model_parallel_size : 1;
}

/* Rows are positions first, so equal parts are whole positions. */
int
layout_check_rows(const struct layout *l, int64_t seq_length, struct err *e)
{
	int64_t n = layout_row_shards(l), c = l->context_parallel_size, unit, below;
	char context[64] = "";

	if (layout_check_length(l, seq_length, "half of --seq-length", e) < 0)
		return -1;
	if (layout_held(l, seq_length) % n == 0)
		return 0;
	unit = c > 1 ? layout_lcm(POSITION_RANGES * c, c * n) : n;
	below = seq_length / unit * unit;
	if (c > 1)
		snprintf(context, sizeof context, " x --context-parallel-size %lld", (long long)c);
	return err_set(e,
	    "--seq-length %lld: must be a multiple of --tensor-model-parallel-size %lld%s with "
	    "--sequence-parallel (try %lld)",
	    (long long)seq_length, (long long)n, context, (long long)(below ? below : unit));
}

int
layout_chunks(const struct layout *l)
{
	return l->virtual_stages > 1 ? (int)l->virtual_stages : 1;
}

int
layout_stages(const struct layout *l)
{
	return (int)l->pipeline_model_parallel_size * layout_chunks(l);
}

int
layout_stage(const struct layout *l, int r, int j)
{
	return j * (int)l->pipeline_model_parallel_size + r;
}

struct schedule_shape
layout_schedule(const struct layout *l, int num_microbatches, bool training)
{
	int p = (int)l->pipeline_model_parallel_size;

	return (struct schedule_shape){ .num_stages = p,
		.num_chunks = layout_chunks(l),
		.num_microbatches = num_microbatches,
		.group_size = l->microbatch_group ? (int)l->microbatch_group : p,
		.training = training,
		.overlap = l->overlap_p2p };
}

/* A model has at least one layer, so the sum is 0 only without a split. */
void
layout_layers(const struct layout *l, const struct model_config *c, int virtual_stage,
    int64_t *first, int64_t *count)
{
	int64_t n = layout_stages(l), all = 0, before = 0;

	for (int64_t i = 0; i < n; i++) {
		all += l->split[i];
		before += i < virtual_stage ? l->split[i] : 0;
	}
	*first = before;
	*count = l->split[virtual_stage];
	if (all == 0) {
		int64_t each = c->num_layers / n, more = c->num_layers % n;

		*first = each * virtual_stage + (virtual_stage < more ? virtual_stage : more);
		*count = each + (virtual_stage < more);
	}
}

/* Divides first, so that the product does not overflow. */
int64_t
layout_lcm(int64_t a, int64_t b)
{
	return a / int64_gcd(a, b) * b;
}

/*
 * The least common multiple, so that the rows divide evenly and each rank's part is a multiple of
 * 16, which tensor cores like. The rows beyond vocab_size are masked and never saved.
 */
int64_t
layout_vocab(const struct layout *l, const struct model_config *c)
{
	int64_t m = layout_lcm(c->make_vocab_size_divisible_by, 16 * l->tensor_model_parallel_size);

	return (c->vocab_size + m - 1) / m * m;
}

int64_t
layout_most_data_ranks(const struct layout *l)
{
	int64_t dense = layout_data_ranks(l),
		experts = layout_expert_holders(l) > 1 ? layout_expert_data_ranks(l) : 1;

	return dense > experts ? dense : experts;
}

/* With more tensor ranks than groups, several ranks hold the same one. */
int64_t
layout_local_groups(const struct layout *l, const struct model_config *c)
{
	int64_t g = c->num_query_groups / l->tensor_model_parallel_size;

	return g < 1 ? 1 : g;
}

/*
 * 1 unless there are more tensor ranks than groups; layout_check ensures that one divides the
 * other.
 */
int64_t
layout_group_ranks(const struct layout *l, const struct model_config *c)
{
	int64_t r = l->tensor_model_parallel_size / c->num_query_groups;

	return r < 1 ? 1 : r;
}
