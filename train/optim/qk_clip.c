/*
 * qk_clip.c - q and k shrink where the scores of attention have become too large
 *
 * With eta = threshold / S < 1, S the largest score of the heads of a group in all samples of the
 * step, the rows of q of these heads are multiplied by eta^alpha after the update, those of k of
 * the group by eta^(1 - alpha). What all keys share does not shrink, so that the rows of q which
 * meet it are multiplied by eta. Source: Kimi Team 2025, arXiv:2507.20534, algorithm 1; by group as
 * in Megatron-LM core/transformer/attention.py.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/model/block/attention.h"
#include "lib/model/block/latent.h"
#include "train/optim/qk_clip.h"

#include <math.h>
#include <stdlib.h>

/* Each rank knows its heads of the layers of its stage in its samples, and of these the positions
 * or the heads that context ranks leave to it. */
double *
qk_clip_scores(struct engine *e)
{
	const struct model_config *c = &e->plan.model;
	struct tensor scores = engine_buffer(e, BUF_SCORES);
	int64_t heads = c->num_attention_heads / e->plan.layout.tensor_model_parallel_size,
		groups = c->num_query_groups, first = heads * e->coord[AX_TP],
		layers = model_transforms(c);
	struct comm *w = e->groups.world;
	double *out, *mine;
	void *host;
	struct tensor all;

	if (!scores.data)
		return NULL;
	out = mem_zalloc((size_t)(layers * groups), sizeof *out);
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
	all = tensor_1d(out, DTYPE_F64, layers * groups);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ all, REDUCE_MAX });
	free(mine);
	free(host);
	return out;
}

/* The rows that a parameter has for each group: the first of them are multiplied by eta to one
 * power, the others to another; 0: these stay. */
struct group_rows {
	int number; /* of the parameter */
	int64_t first, others;
	double power, power_of_others;
};

/* False where the parameter makes neither q nor k. */
static bool
find_rows(const struct model_config *m, const struct qk_clip *c, int number, struct group_rows *out)
{
	int64_t k = m->kv_channels, q = k * m->num_attention_heads / m->num_query_groups,
		plain = m->qk_head_dim, shared = m->qk_pos_emb_head_dim;
	const struct group_rows all[] = {
		{ ATTENTION_Q, q, 0, c->alpha, 0 },
		{ ATTENTION_Q_BIAS, q, 0, c->alpha, 0 },
		{ ATTENTION_K, k, 0, 1 - c->alpha, 0 },
		{ ATTENTION_K_BIAS, k, 0, 1 - c->alpha, 0 },
		{ LATENT_Q_UP, plain, shared, c->alpha, 1 },
		{ LATENT_Q_WHOLE, plain, shared, c->alpha, 1 },
		{ LATENT_KV_UP, plain, m->v_head_dim, 1 - c->alpha, 0 },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].number == number) {
			*out = all[i];
			return true;
		}
	return false;
}

/* Multiplies rows [from, to) of a parameter, as far as the shard and the part have them. */
static void
shrink_rows(struct engine *e, const struct part *within, const struct shard *s, int64_t from,
    int64_t to, double factor)
{
	const struct param *p = &e->table[s->param];
	int64_t width = p->ndim == 2 ? p->shape[1] : 1, start = s->slice.start[0],
		first = int64_max(from, start), end = int64_min(to, start + s->slice.count[0]);
	struct part part =
	    part_cut(within, s->offset + (first - start) * width, (end - first) * width);
	struct stream *st = engine_stream(e, &part);
	struct shrink call = { .factor = factor };

	if (first >= end || part.count == 0)
		return;
	call.master = engine_masters(e, &part);
	call.low_bits = engine_part(e, BUF_LOW_BITS, &part);
	if (memory_has(&e->mem, BUF_MASTER))
		call.weight = engine_updated(e, &part);
	(st == e->stream ? e->ops : st->ops)->shrink(st, &call);
}

void
qk_clip_part(struct engine *e, const struct qk_clip *c, const double *scores, int bucket,
    const struct part *within)
{
	const struct model_config *m = &e->plan.model;
	const double *of_layer;
	struct group_rows r;

	for (int i = 0; scores && i < e->mem.shards.count; i++) {
		const struct shard *s = &e->mem.shards.item[i];
		const struct param *p = &e->table[s->param];

		if (s->bucket != bucket || !find_rows(m, c, p->number, &r))
			continue;
		of_layer = &scores[layer_transforms_before(m, p->layer) * m->num_query_groups];
		for (int64_t g = 0; g < m->num_query_groups; g++) {
			double eta = c->threshold / of_layer[g];
			int64_t from = g * (r.first + r.others), cut = from + r.first;

			if (!(eta < 1))
				continue;
			shrink_rows(e, within, s, from, cut, pow(eta, r.power));
			if (r.power_of_others > 0)
				shrink_rows(
				    e, within, s, cut, cut + r.others, pow(eta, r.power_of_others));
		}
	}
}
