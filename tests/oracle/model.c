/*
 * model.c - the forward pass of a decoder on a tape, by the definitions
 *
 * Sources: Vaswani 2017; Zhang & Sennrich 2019 arXiv:1910.07467; Su 2021 arXiv:2104.09864; Shazeer
 * 2020 arXiv:2002.05202; Ainslie 2023 arXiv:2305.13245; Fedus 2021 arXiv:2101.03961; Zoph 2022
 * arXiv:2202.08906; Chowdhery 2022 arXiv:2204.02311; Wang 2024 arXiv:2408.15664; DeepSeek-AI 2024
 * arXiv:2412.19437; Qiu 2025 arXiv:2501.11873; OpenAI 2025 arXiv:2508.10925. Balance counts the
 * choices that scores without their bias make among all experts.
 */
#include "tests/oracle/oracle.h"
#include "tests/oracle/tape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One micro batch: its tokens by sample, and the stream. */
struct pass {
	struct model *m;
	struct tape *t;
	int token[BATCH][SEQ], label[BATCH][SEQ], place[BATCH][SEQ], document[BATCH][SEQ];
	bool counts[BATCH][SEQ];
	int x[BATCH][SEQ][WIDE];
	int routers; /* the sum of the weighted losses of routers; -1: none */
	int number;  /* of the micro batch in the step, from 1 */
};

struct weights *
model_find(struct model *m, const char *name)
{
	for (int i = 0; i < m->num_weights; i++)
		if (!strcmp(m->weights[i].name, name))
			return &m->weights[i];
	return NULL;
}

/* A weight by its layer and name; NULL: the model has none. */
static struct weights *
of_layer(struct model *m, int layer, const char *name)
{
	char full[140];

	snprintf(full, sizeof full, "decoder.layers.%d.%s", layer, name);
	return model_find(m, full);
}

/* The weights PREFIX.weight and PREFIX.bias; NULL: the model has no bias there. */
struct affine {
	struct weights *w, *b;
};
static struct affine
affine(struct pass *p, const char *prefix)
{
	struct affine a;
	char name[96];

	snprintf(name, sizeof name, "%s.weight", prefix);
	a.w = model_find(p->m, name);
	if (!a.w)
		give_up("the checkpoint lacks", name);
	snprintf(name, sizeof name, "%s.bias", prefix);
	a.b = model_find(p->m, name);
	return a;
}

/* y = W x + b, of the weights PREFIX.weight and PREFIX.bias. */
static int
linear(struct pass *p, const char *prefix, const int *x, int *y)
{
	const struct affine a = affine(p, prefix);
	const struct weights *w = a.w, *b = a.b;

	for (int i = 0; i < w->rows; i++) {
		int sum = b ? b->first + i : tape_number(p->t, 0);

		for (int j = 0; j < w->columns; j++)
			sum = tape_add(
			    p->t, sum, tape_multiply(p->t, w->first + i * w->columns + j, x[j]));
		y[i] = sum;
	}
	return w->rows;
}

static int
sum_of(struct tape *t, const int *x, int n)
{
	int sum = tape_number(t, 0);

	for (int i = 0; i < n; i++)
		sum = tape_add(t, sum, x[i]);
	return sum;
}

/* RMSNorm, or LayerNorm. */
static void
norm(struct pass *p, const char *prefix, const int *x, int n, int *y)
{
	const struct setup *s = &p->m->s;
	struct tape *t = p->t;
	const struct affine a = affine(p, prefix);
	const struct weights *w = a.w, *b = a.b;
	int centred[WIDE], square[WIDE], r;

	memcpy(centred, x, (size_t)n * sizeof *x);
	if (s->layer_norm) {
		int mean = tape_scale(t, sum_of(t, x, n), -1.0 / n);

		for (int i = 0; i < n; i++)
			centred[i] = tape_add(t, x[i], mean);
	}
	for (int i = 0; i < n; i++)
		square[i] = tape_multiply(t, centred[i], centred[i]);
	r = tape_power(
	    t, tape_shift(t, tape_scale(t, sum_of(t, square, n), 1.0 / n), s->epsilon), -0.5);
	for (int i = 0; i < n; i++) {
		int weight = s->one_plus ? tape_shift(t, w->first + i, 1) : w->first + i;

		y[i] = tape_multiply(t, tape_multiply(t, centred[i], r), weight);
		if (b)
			y[i] = tape_add(t, y[i], b->first + i);
	}
}

/* e^x / sum e^x, and the logarithm of that sum; the largest keeps it finite and is a constant. */
static int
softmax(struct tape *t, const int *x, int n, int *out)
{
	double largest = -INFINITY;
	int e[WIDE] = { 0 }, sum;

	for (int i = 0; i < n; i++)
		largest = fmax(largest, tape_value(t, x[i]));
	for (int i = 0; i < n; i++)
		e[i] = tape_exp(t, tape_shift(t, x[i], -largest));
	sum = sum_of(t, e, n);
	for (int i = 0; out && i < n; i++)
		out[i] = tape_divide(t, e[i], sum);
	return tape_shift(t, tape_log(t, sum), largest);
}

static int
cap(struct tape *t, int x, double by)
{
	return by > 0 ? tape_scale(t, tape_tanh(t, tape_scale(t, x, 1 / by)), by) : x;
}

/* --- attention -------------------------------------------------------------------------------- */

/* Pairs of a head's first elements turn by their place. */
static void
rotate(struct pass *p, int *x, int place)
{
	const struct setup *s = &p->m->s;
	int turned = (int)(s->channels * s->rotary_share), half;

	turned -= turned % 2;
	half = turned / 2;
	for (int i = 0; i < half; i++) {
		double angle = place * pow(s->rotary_base, -2.0 * i / turned), c = cos(angle),
		       d = sin(angle);
		int at = s->interleaved ? 2 * i : i, to = s->interleaved ? at + 1 : at + half,
		    a = x[at], b = x[to];
		double u = tape_value(p->t, a), v = tape_value(p->t, b);

		x[at] = tape_two(p->t, u * c - v * d, a, c, b, -d);
		x[to] = tape_two(p->t, v * c + u * d, b, c, a, d);
	}
}

/* Queries or keys of one token, ready for products. */
static void
prepare(struct pass *p, int layer, const char *which, int *x, int place)
{
	const struct setup *s = &p->m->s;
	char prefix[96];
	int normed[WIDE];

	if (s->qk_norm) {
		snprintf(prefix, sizeof prefix, "decoder.layers.%d.self_attention.%s_layernorm",
		    layer, which);
		norm(p, prefix, x, s->channels, normed);
		memcpy(x, normed, (size_t)s->channels * sizeof *x);
	}
	if (s->positions == ROPE)
		rotate(p, x, place);
}

/* Query, key and value of a sample's tokens, by head. */
struct heads {
	int q[SEQ][WIDE], k[SEQ][WIDE], v[SEQ][WIDE];
};

static bool
sees(const struct pass *p, int layer, int sample, int query, int key)
{
	const struct setup *s = &p->m->s;
	bool windowed = s->window && !(s->skip && (layer + 1) % s->skip == 0);

	return key <= query && !(windowed && query - key >= s->window) &&
	    !(s->apart && p->document[sample][query] != p->document[sample][key]);
}

/* The output of one head for one query. */
static void
head(struct pass *p, const struct heads *h, int layer, const int at[3], int *out)
{
	const struct setup *s = &p->m->s;
	struct tape *t = p->t;
	int sample = at[0], query = at[1], number = at[2], group = number / (s->heads / s->groups),
	    d = s->channels, keys[SEQ], score[SEQ + 1], share[SEQ + 1], n = 0;
	const struct weights *sink =
	    of_layer(p->m, layer, "self_attention.core_attention.softmax_offset");

	for (int k = 0; k < s->seq; k++)
		if (sees(p, layer, sample, query, k))
			keys[n++] = k;
	for (int k = 0; k < n; k++) {
		int product[WIDE];

		for (int i = 0; i < d; i++)
			product[i] = tape_multiply(
			    t, h->q[query][number * d + i], h->k[keys[k]][group * d + i]);
		score[k] = cap(t, tape_scale(t, sum_of(t, product, d), 1 / sqrt(s->score_scale)),
		    s->score_cap);
	}
	if (sink)
		score[n] = sink->first + number;
	softmax(t, score, sink ? n + 1 : n, share);
	for (int i = 0; i < d; i++) {
		int part[SEQ];

		for (int k = 0; k < n; k++)
			part[k] = tape_multiply(t, share[k], h->v[keys[k]][group * d + i]);
		out[number * d + i] = sum_of(t, part, n);
	}
}

/* y from x, both of a sample. */
static void
attention(struct pass *p, int layer, int sample, int (*x)[WIDE], int (*y)[WIDE])
{
	const struct setup *s = &p->m->s;
	char prefix[3][96], proj[96];
	struct heads h;

	for (int i = 0; i < 3; i++)
		snprintf(prefix[i], sizeof prefix[i], "decoder.layers.%d.self_attention.linear_%c",
		    layer, "qkv"[i]);
	snprintf(proj, sizeof proj, "decoder.layers.%d.self_attention.linear_proj", layer);
	for (int i = 0; i < s->seq; i++) {
		linear(p, prefix[0], x[i], h.q[i]);
		linear(p, prefix[1], x[i], h.k[i]);
		linear(p, prefix[2], x[i], h.v[i]);
		for (int k = 0; k < s->heads; k++)
			prepare(p, layer, "q", h.q[i] + k * s->channels, i);
		for (int k = 0; k < s->groups; k++)
			prepare(p, layer, "k", h.k[i] + k * s->channels, i);
	}
	for (int i = 0; i < s->seq; i++) {
		int out[WIDE];

		for (int k = 0; k < s->heads; k++)
			head(p, &h, layer, (const int[]){ sample, i, k }, out);
		linear(p, proj, out, y[i]);
	}
}

/* --- MLPs and experts ------------------------------------------------------------------------- */

static int
gelu_tanh(struct tape *t, int x)
{
	int cube = tape_multiply(t, x, tape_multiply(t, x, x)),
	    u = tape_scale(
		t, tape_add(t, x, tape_scale(t, cube, 0.044715)), sqrt(2 / (4 * atan(1))));

	return tape_multiply(t, tape_scale(t, x, 0.5), tape_shift(t, tape_tanh(t, u), 1));
}

static int
activate(struct tape *t, enum activation a, int gate, int up)
{
	int x;

	switch (a) {
	case SWIGLU: return tape_multiply(t, tape_multiply(t, gate, tape_sigmoid(t, gate)), up);
	case GEGLU: return tape_multiply(t, gelu_tanh(t, gate), up);
	case SQUARED_RELU: x = tape_positive(t, up); return tape_multiply(t, x, x);
	case GELU: return gelu_tanh(t, up);
	default: return tape_multiply(t, up, tape_normal(t, up));
	}
}

static void
mlp(struct pass *p, const char *prefix, const int *x, int *y)
{
	const struct setup *s = &p->m->s;
	char name[96];
	int gate[WIDE] = { 0 }, up[WIDE], n;

	snprintf(name, sizeof name, "%s.linear_gate", prefix);
	if (s->gated)
		linear(p, name, x, gate);
	snprintf(name, sizeof name, "%s.linear_up", prefix);
	n = linear(p, name, x, up);
	for (int i = 0; i < n; i++)
		up[i] = activate(p->t, s->activation, gate[i], up[i]);
	snprintf(name, sizeof name, "%s.linear_down", prefix);
	linear(p, name, up, y);
}

/* The k highest, of equal ones the lower number. */
static void
highest(const double *score, int n, int k, bool *chosen)
{
	memset(chosen, 0, (size_t)n * sizeof *chosen);
	for (int j = 0; j < k; j++) {
		int best = -1;

		for (int i = 0; i < n; i++)
			if (!chosen[i] && (best < 0 || score[i] > score[best]))
				best = i;
		chosen[best] = true;
	}
}

/* Experts outside of the best groups have no score any more; a group's score is the sum of its
 * highest ones. */
static void
limit_groups(const struct setup *s, const double *by, double *score)
{
	int size = s->experts / s->router_groups;
	double sum[EXPERTS] = { 0 };
	bool best[EXPERTS], stays[EXPERTS];

	for (int g = 0; g < s->router_groups; g++) {
		highest(by + g * size, size, s->group_scores, best);
		for (int i = 0; i < size; i++)
			sum[g] += best[i] ? by[g * size + i] : 0;
	}
	highest(sum, s->router_groups, s->group_topk, stays);
	for (int i = 0; i < s->experts; i++)
		if (!stays[i / size])
			score[i] = -INFINITY;
}

/* What the router says of a token: the share of each expert in all, the weights of those that are
 * chosen, those that are chosen without the bias, and the square of the log-sum-exp. */
struct routed {
	int share[EXPERTS], weight[EXPERTS], square;
	bool chosen[EXPERTS], unbiased[EXPERTS];
};

static void
route(struct pass *p, int layer, const int *x, struct routed *r)
{
	const struct setup *s = &p->m->s;
	struct weights *bias = of_layer(p->m, layer, "mlp.router.expert_bias");
	struct tape *t = p->t;
	char name[96];
	int z[EXPERTS], score[EXPERTS], picked[EXPERTS], lse, sum, n = 0;
	double plain[EXPERTS], biased[EXPERTS], by[EXPERTS];

	snprintf(name, sizeof name, "decoder.layers.%d.mlp.router", layer);
	linear(p, name, x, z);
	lse = softmax(t, z, s->experts, r->share);
	r->square = tape_multiply(t, lse, lse);
	for (int i = 0; i < s->experts; i++) {
		score[i] = s->score == SIGMOID ? tape_sigmoid(t, z[i])
		    : s->score == PRE_SOFTMAX  ? r->share[i]
					       : tape_exp(t, z[i]);
		plain[i] = s->score == SIGMOID ? tape_value(t, score[i]) : tape_value(t, z[i]);
		by[i] = biased[i] = plain[i] + (bias ? bias->value[i] : 0);
		if (s->score == PRE_SOFTMAX)
			by[i] = tape_value(t, score[i]);
	}
	if (s->router_groups)
		limit_groups(s, by, biased);
	highest(biased, s->experts, s->topk, r->chosen);
	highest(plain, s->experts, s->topk, r->unbiased);
	for (int i = 0; i < s->experts; i++)
		if (r->chosen[i])
			picked[n++] = score[i];
	sum = s->score == PRE_SOFTMAX || (s->score == SIGMOID && s->topk == 1)
	    ? tape_number(t, 1)
	    : sum_of(t, picked, n);
	for (int i = 0; i < s->experts; i++)
		r->weight[i] = tape_scale(t, tape_divide(t, score[i], sum), s->topk_scale);
	sum = sum_of(t, score, s->experts);
	for (int i = 0; s->score == SIGMOID && i < s->experts; i++)
		r->share[i] = tape_divide(t, score[i], sum);
}

/* Over the tokens of a scope: E / (k T) times the sum of n[i] P[i], each token's part; n of the
 * scope, or the mean of those of the step so far. */
static void
add_balance(struct pass *p, int layer, struct routed (*r)[SEQ], int first, int end)
{
	const struct setup *s = &p->m->s;
	double tokens = (double)(end - first) * s->seq;

	for (int e = 0; e < s->experts; e++) {
		int sum = tape_number(p->t, 0);
		double n = 0;

		for (int b = first; b < end; b++)
			for (int i = 0; i < s->seq; i++) {
				n += r[b][i].unbiased[e];
				sum = tape_add(p->t, sum, r[b][i].share[e]);
			}
		p->m->total[layer][e] += n;
		if (s->balancing == BY_STEP)
			n = p->m->total[layer][e] / p->number;
		p->routers = tape_add(p->t, p->routers,
		    tape_scale(p->t, sum, s->balance * s->experts / s->topk / tokens * n));
	}
}

static void
add_router_losses(struct pass *p, int layer, struct routed (*r)[SEQ])
{
	const struct setup *s = &p->m->s;

	if (s->balancing != BY_SEQUENCE)
		add_balance(p, layer, r, 0, s->micro);
	for (int b = 0; b < s->micro; b++) {
		if (s->balancing == BY_SEQUENCE)
			add_balance(p, layer, r, b, b + 1);
		for (int i = 0; i < s->seq; i++)
			p->routers = tape_add(
			    p->t, p->routers, tape_scale(p->t, r[b][i].square, s->router_z));
	}
}

/* The experts of a token, each by its weight, and the shared expert. */
static void
experts(struct pass *p, int layer, const struct routed *r, const int *x, int *y)
{
	const struct setup *s = &p->m->s;
	char name[96];

	for (int i = 0; i < s->hidden; i++)
		y[i] = tape_number(p->t, 0);
	for (int e = 0; e < s->experts; e++) {
		int out[WIDE];

		if (!r->chosen[e])
			continue;
		p->m->load[layer][e]++;
		snprintf(name, sizeof name, "decoder.layers.%d.mlp.experts.%d", layer, e);
		mlp(p, name, x, out);
		for (int i = 0; i < s->hidden; i++)
			y[i] = tape_add(p->t, y[i], tape_multiply(p->t, out[i], r->weight[e]));
	}
	if (of_layer(p->m, layer, "mlp.shared_experts.linear_up.weight")) {
		int out[WIDE];

		snprintf(name, sizeof name, "decoder.layers.%d.mlp.shared_experts", layer);
		mlp(p, name, x, out);
		for (int i = 0; i < s->hidden; i++)
			y[i] = tape_add(p->t, y[i], out[i]);
	}
}

/* y from x, of all samples: tokens that share a batch share the loss of the balance. */
static void
feed_forward(struct pass *p, int layer, int (*x)[SEQ][WIDE], int (*y)[SEQ][WIDE])
{
	static struct routed r[BATCH][SEQ];
	const struct setup *s = &p->m->s;
	bool routes = of_layer(p->m, layer, "mlp.router.weight") != NULL;
	char name[96];

	snprintf(name, sizeof name, "decoder.layers.%d.mlp", layer);
	for (int b = 0; b < s->micro; b++)
		for (int i = 0; i < s->seq; i++)
			if (routes) {
				route(p, layer, x[b][i], &r[b][i]);
				experts(p, layer, &r[b][i], x[b][i], y[b][i]);
			} else {
				mlp(p, name, x[b][i], y[b][i]);
			}
	if (routes)
		add_router_losses(p, layer, r);
}

/* --- layers ----------------------------------------------------------------------------------- */

/* The norm of all tokens, or the tokens themselves where the model has none there. */
static void
norms(struct pass *p, int layer, const char *which, int (*x)[SEQ][WIDE], int (*y)[SEQ][WIDE])
{
	const struct setup *s = &p->m->s;
	char name[96];

	snprintf(name, sizeof name, "%s.weight", which);
	if (layer >= 0 && !of_layer(p->m, layer, name)) {
		if (x != y)
			memcpy(y, x, sizeof(int) * BATCH * SEQ * WIDE);
		return;
	}
	if (layer < 0)
		snprintf(name, sizeof name, "decoder.%s", which);
	else
		snprintf(name, sizeof name, "decoder.layers.%d.%s", layer, which);
	for (int b = 0; b < s->micro; b++)
		for (int i = 0; i < s->seq; i++) {
			int out[WIDE];

			norm(p, name, x[b][i], s->hidden, out);
			memcpy(y[b][i], out, sizeof out);
		}
}

static void
add_all(struct pass *p, int (*x)[SEQ][WIDE])
{
	const struct setup *s = &p->m->s;

	for (int b = 0; b < s->micro; b++)
		for (int i = 0; i < s->seq; i++)
			for (int k = 0; k < s->hidden; k++)
				p->x[b][i][k] = tape_add(p->t, p->x[b][i][k], x[b][i][k]);
}

/* Side by side both branches read the layer's input. */
static void
layer(struct pass *p, int number)
{
	static int in[BATCH][SEQ][WIDE], a[BATCH][SEQ][WIDE], m[BATCH][SEQ][WIDE];
	const struct setup *s = &p->m->s;

	norms(p, number, "input_layernorm", p->x, in);
	for (int b = 0; b < s->micro; b++)
		attention(p, number, b, in[b], a[b]);
	norms(p, number, "post_self_attn_layernorm", a, a);
	if (!s->parallel)
		add_all(p, a);
	norms(p, number, "pre_mlp_layernorm", p->x, in);
	feed_forward(p, number, in, m);
	norms(p, number, "post_mlp_layernorm", m, m);
	if (s->parallel)
		add_all(p, a);
	add_all(p, m);
}

static void
embed(struct pass *p)
{
	const struct setup *s = &p->m->s;
	struct weights *words = model_find(p->m, "embedding.word_embeddings.weight"),
		       *places = model_find(p->m, "embedding.position_embeddings.weight");

	for (int b = 0; b < s->micro; b++)
		for (int i = 0; i < s->seq; i++)
			for (int k = 0; k < s->hidden; k++) {
				int word = words->first + p->token[b][i] * s->hidden + k,
				    at = s->restart ? p->place[b][i] : i,
				    x = tape_scale(p->t, word, s->embed_scale);

				if (places)
					x = tape_add(p->t, x, places->first + at * s->hidden + k);
				p->x[b][i][k] = x;
			}
}

/* The sum of the tokens' losses into *loss, and of those with their z-loss. */
static int
head_losses(struct pass *p, double *loss)
{
	const struct setup *s = &p->m->s;
	struct weights *out = model_find(p->m, "output_layer.weight");
	int total = tape_number(p->t, 0);

	if (!out)
		out = model_find(p->m, "embedding.word_embeddings.weight");
	for (int b = 0; b < s->micro; b++)
		for (int i = 0; i < s->seq; i++) {
			int z[WIDE], lse, one;

			for (int v = 0; v < s->vocab; v++) {
				int product[WIDE];

				for (int k = 0; k < s->hidden; k++)
					product[k] = tape_multiply(
					    p->t, out->first + v * s->hidden + k, p->x[b][i][k]);
				z[v] = cap(p->t, sum_of(p->t, product, s->hidden), s->logit_cap);
			}
			if (!p->counts[b][i])
				continue;
			lse = softmax(p->t, z, s->vocab, NULL);
			one = tape_add(p->t, lse, tape_scale(p->t, z[p->label[b][i]], -1));
			*loss += tape_value(p->t, one);
			total = tape_add(p->t, total, one);
			total = tape_add(p->t, total,
			    tape_scale(p->t, tape_multiply(p->t, lse, lse), s->z_loss));
		}
	return total;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* Tokens, labels, and what ends of documents, the last token of the vocabulary, mean. */
static int
take_samples(struct pass *p, const int *samples)
{
	const struct setup *s = &p->m->s;
	int counted = 0;

	for (int b = 0; b < s->micro; b++)
		for (int i = 0, document = 0, place = 0; i < s->seq; i++) {
			int token = samples[b * (s->seq + 1) + i];
			bool end = token == s->vocab - 1;

			p->token[b][i] = token;
			p->label[b][i] = samples[b * (s->seq + 1) + i + 1];
			p->document[b][i] = document;
			p->place[b][i] = place;
			p->counts[b][i] = !(s->mask_ends && end);
			counted += p->counts[b][i];
			document += end;
			place = end ? 0 : place + 1;
		}
	return counted;
}

/* Gradients of one micro batch are added to those of the step. */
static void
micro_batch(struct pass *p, const int *samples, int counted, double *loss)
{
	struct model *m = p->m;
	const struct setup *s = &m->s;
	double all = (double)s->batch * s->seq, routers = s->by_token ? counted : all;
	int total;

	tape_clear(p->t);
	p->number++;
	for (int i = 0; i < m->num_weights; i++) {
		m->weights[i].first = p->t->count;
		for (int k = 0; k < m->weights[i].count; k++)
			tape_number(p->t, m->weights[i].value[k]);
	}
	p->routers = tape_number(p->t, 0);
	take_samples(p, samples);
	embed(p);
	for (int i = 0; i < s->layers; i++)
		layer(p, i);
	norms(p, -1, "final_layernorm", p->x, p->x);
	total = head_losses(p, loss);
	total = tape_add(p->t, tape_scale(p->t, total, counted ? 1.0 / counted : 0),
	    tape_scale(p->t, p->routers, counted ? 1 / routers : 0));
	tape_backward(p->t, total);
	for (int i = 0; i < m->num_weights; i++)
		for (int k = 0; k < m->weights[i].count; k++)
			m->weights[i].grad[k] += p->t->entry[m->weights[i].first + k].grad;
}

struct step_losses
model_step(struct model *m, const int *samples)
{
	static struct pass p;
	const struct setup *s = &m->s;
	struct tape t = { 0 };
	struct step_losses out = { 0 };
	int counted = 0, one = s->seq + 1;

	p.m = m;
	p.t = &t;
	p.number = 0;
	memset(m->load, 0, sizeof m->load);
	memset(m->total, 0, sizeof m->total);
	for (int i = 0; i < m->num_weights; i++)
		memset(m->weights[i].grad, 0, (size_t)m->weights[i].count * sizeof(double));
	for (int b = 0; b < s->batch; b += s->micro)
		counted += take_samples(&p, samples + b * one);
	for (int b = 0; b < s->batch; b += s->micro)
		micro_batch(&p, samples + b * one, counted, &out.loss);
	for (int i = 0; i < m->num_weights; i++)
		for (int k = 0; k < m->weights[i].count; k++)
			out.norm += m->weights[i].grad[k] * m->weights[i].grad[k];
	out.norm = sqrt(out.norm);
	out.loss /= counted ? counted : 1;
	tape_free(&t);
	return out;
}
