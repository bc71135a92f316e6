/*
 * qk_clip.c - q and k shrink where the scores of attention have become too large
 *
 * With eta = threshold / S < 1, S the largest score of the heads of a group in all samples of the
 * step, the rows of q of these heads are multiplied by eta^alpha after the update, those of k of
 * the group by eta^(1 - alpha). Source: Kimi Team 2025, arXiv:2507.20534; by group as in
 * Megatron-LM core/transformer/attention.py.
 */
#include "lib/base/mem.h"
#include "lib/model/block/attention.h"
#include "train/optim/qk_clip.h"

#include <math.h>
#include <stdlib.h>

/* Each rank knows its heads of the layers of its stage in its samples. */
double *
qk_clip_scores(struct engine *e)
{
	const struct model_config *c = &e->plan.model;
	struct tensor scores = engine_buffer(e, BUF_SCORES);
	int64_t heads = c->num_attention_heads / e->plan.layout.tensor_model_parallel_size,
		groups = c->num_query_groups, first = heads * e->coord[AX_TP];
	struct comm *w = e->groups.world;
	double *out, *mine;
	void *host;
	struct tensor all;

	if (!scores.data)
		return NULL;
	out = mem_zalloc((size_t)(c->num_layers * groups), sizeof *out);
	mine = mem_alloc((size_t)scores.shape[0], sizeof *mine);
	host = mem_alloc(tensor_bytes(&scores), 1);
	e->backend->copy_out(e->stream, host, scores.data, tensor_bytes(&scores));
	engine_sync(e);
	dtype_convert(mine, DTYPE_F64, host, scores.dtype, scores.shape[0]);
	for (int64_t i = 0; i < scores.shape[0]; i++) {
		int64_t group = (first + i % heads) * groups / c->num_attention_heads;
		double *max = &out[i / heads * groups + group];

		*max = fmax(*max, mine[i]);
	}
	all = tensor_1d(out, DTYPE_F64, c->num_layers * groups);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ all, REDUCE_MAX });
	free(mine);
	free(host);
	return out;
}

/* Shrinks the rows of q or k in the shard whose groups have larger scores than the threshold, as
 * far as they are this rank's. */
static void
shrink_shard(struct engine *e, const struct qk_clip *c, const double *scores, const struct shard *s)
{
	const struct param *p = &e->table[s->param];
	struct part own = engine_optim_part_of(e, s);
	int64_t groups = e->plan.model.num_query_groups, rows = p->shape[0] / groups,
		start = s->slice.start[0], end = start + s->slice.count[0];

	for (int64_t g = start / rows; g * rows < end; g++) {
		double eta = c->threshold / scores[p->layer * groups + g];
		int64_t from = g * rows > start ? g * rows : start,
			to = (g + 1) * rows < end ? (g + 1) * rows : end;
		struct part part = part_cut(
		    &own, s->offset + (from - start) * p->shape[1], (to - from) * p->shape[1]);
		struct tensor master = engine_masters(e, &part),
			      weight = engine_part(e, BUF_WEIGHTS, &part);

		if (!(eta < 1) || part.count == 0)
			continue;
		e->ops->axpby(e->stream,
		    &(struct axpby){ .y = master,
			.x = master,
			.a = pow(eta, p->number == ATTENTION_Q ? c->alpha : 1 - c->alpha) });
		if (memory_buffer(&e->mem, BUF_MASTER)->bytes)
			e->ops->cast(e->stream, &(struct pair){ weight, master });
	}
}

void
qk_clip_bucket(struct engine *e, const struct qk_clip *c, const double *scores, int bucket)
{
	for (int i = 0; i < e->mem.shards.count; i++) {
		const struct shard *s = &e->mem.shards.item[i];
		int number = e->table[s->param].number;

		if (s->bucket == bucket && (number == ATTENTION_Q || number == ATTENTION_K))
			shrink_shard(e, c, scores, s);
	}
}
