/* search.c - plans in the order in which they are listed, and what is said where none fits */
#include "plan/search.h"
#include "lib/base/mem.h"
#include "lib/model/fit.h"
#include "lib/model/options.h"
#include "plan/seek.h"

#include <stdlib.h>
#include <string.h>

static const double gib = 1073741824.0;

static int
by_seconds(double x, double y)
{
	return (x > y) - (x < y);
}

/* Plans that fit come before tight ones; then by time. */
static int
by_time(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->fit != y->fit)
		return (int)x->fit - (int)y->fit;
	if (x->time.total != y->time.total)
		return by_seconds(x->time.total, y->time.total);
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The smaller one first, the faster one among equals. */
static int
by_memory(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return by_seconds(x->time.total, y->time.total);
}

/* The time model cannot distinguish plans this close, so the one that leaves more memory comes
 * first. Each is compared with the first of the group, not with its neighbour, so that chains of
 * ties stay short. */
static void
settle_ties(struct search *s)
{
	int end;

	for (int i = 0; i < s->count; i = end) {
		for (end = i + 1; end < s->count && s->item[end].fit == s->item[i].fit &&
		     s->item[end].time.total <= (1 + SEARCH_TIE) * s->item[i].time.total;
		     end++)
			;
		qsort(s->item + i, (size_t)(end - i), sizeof *s->item, by_memory);
	}
}

void
search_rank(struct search *s)
{
	int most = 0, n = 0;
	bool *seen;

	for (int i = 0; i < s->count; i++)
		most = s->item[i].number > most ? s->item[i].number : most;
	qsort(s->item, (size_t)s->count, sizeof *s->item, by_time);
	for (int i = s->count; i-- > 0;)
		if (s->item[i].fit == FIT_TIGHT)
			s->tight = s->item[i];
	settle_ties(s);
	seen = mem_zalloc((size_t)most + 1, sizeof *seen);
	for (int i = 0; i < s->count; i++) {
		if (seen[s->item[i].number])
			continue;
		seen[s->item[i].number] = true;
		s->item[n++] = s->item[i];
	}
	s->count = n;
	free(seen);
}

/* --- where none fits -------------------------------------------------------------------------- */

/* What would make the smallest plan fit, by the same remedies as a run is told; of the first stage
 * that does not. */
static void
add_remedies(const struct search *s, const struct search_input *in, struct str *out)
{
	struct run_plan plan = { .model = in->model,
		.layout = s->smallest.layout,
		.shape = s->smallest.shape,
		.global_batch_size = in->global_batch_size,
		.eval_batch_size = in->global_batch_size };
	int coord[AX_COUNT] = { 0 };
	struct err e;
	int rc = 0;

	for (; rc == 0 && coord[AX_PP] < plan.layout.pipeline_model_parallel_size; coord[AX_PP]++)
		rc = memory_fit(&plan, coord, (uint64_t)(in->hw.reserve_gb * gib),
		    (uint64_t)(in->hw.memory_gb * gib), &e);
	/* With all remedies at once the last one is more ranks, which a search has been given. */
	if (rc < 0)
		str_adds(out,
		    strstr(e.msg, " and --tensor-model-parallel-size")
			? "; no change of options makes it fit"
			: strstr(e.msg, "; "));
}

/* What rules forbid. */
static void
add_refusals(const struct search *s, struct str *out)
{
	for (const struct refusal *r = s->refusals; r->count; r++)
		str_addf(out, "%s%lld by %s", r == s->refusals ? "; refused: " : ", ",
		    (long long)r->count, r->example);
}

static int
say_none(const struct search *s, const struct search_input *in, struct err *e)
{
	struct str text = { 0 }, name = { 0 }, room = { 0 }, needs = { 0 };

	if (s->legal) {
		search_name(&s->smallest, &name);
		str_addf(&room, "%.4g GiB", in->hw.memory_gb);
		str_addf(&needs, "%.4g GiB", search_need(&s->smallest, &in->hw) / gib);
		if (in->hw.host_memory_gb > 0) {
			str_addf(&room, " and %.4g of a host", in->hw.host_memory_gb);
			str_addf(&needs, " and %.4g of a host",
			    search_need_on_host(&s->smallest, &in->hw) / gib);
		}
		add_remedies(s, in, &text);
		add_refusals(s, &text);
		err_set(e,
		    "none of %lld legal layouts of %lld ranks fits %s, whatever is sharded, "
		    "recomputed or kept on the host: the smallest plan needs %s (%s)%s",
		    (long long)s->legal, (long long)in->world_size, room.buf, needs.buf, name.buf,
		    text.len ? text.buf : "");
	} else {
		add_refusals(s, &text);
		err_set(e,
		    "no legal layout of %lld ranks: sizes must divide the ranks, %lld heads, %lld "
		    "layers and --global-batch-size %lld%s",
		    (long long)in->world_size, (long long)in->model.num_attention_heads,
		    (long long)in->model.num_layers, (long long)in->global_batch_size,
		    text.len ? text.buf : "");
	}
	str_release(&name);
	str_release(&text);
	str_release(&room);
	str_release(&needs);
	return -1;
}

/* Whether plans may have moments of 16 bits, and the others not. */
static bool
may_round_moments(const struct search_input *in)
{
	return !in->keep_optimizer && in->shape.dtype == DTYPE_BF16 && in->shape.rule &&
	    in->shape.rule->traits & OPTIM_CHOOSES_TYPES && !in->shape.qk_clip;
}

/* Moments of 16 bits train another way, and are therefore tried where no others fit. */
int
search_run(struct search *s, const struct search_input *in, struct err *e)
{
	memset(s, 0, sizeof *s);
	seek(s, in, false);
	if (!s->count && s->legal && may_round_moments(in))
		seek(s, in, true);
	if (!s->count)
		return say_none(s, in, e);
	search_rank(s);
	return 0;
}

bool
search_within(struct search_input *in, double seconds)
{
	struct search s = { .item = NULL };
	bool within;

	in->seconds = seconds;
	seek(&s, in, false);
	if (!s.count && s.legal && may_round_moments(in))
		seek(&s, in, true);
	in->seconds = 0;
	within = s.count > 0;
	search_release(&s);
	return within;
}

/* Leaves an empty search, so a second release does nothing. */
void
search_release(struct search *s)
{
	free(s->item);
	memset(s, 0, sizeof *s);
}
