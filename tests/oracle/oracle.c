/*
 * oracle.c [--count N] [--seed S] [--ranks N] - models, layouts and update rules drawn by a seed:
 * five steps of mtrain in double precision against the oracle
 *
 * Losses, norms of gradients, all that update rules keep and all weights after each step must
 * agree; what rules keep says that every gradient does. mtrain and mpirun come from PATH. The
 * files are in the working directory.
 */
#include "tests/oracle/oracle.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Relative; the terms of a sum come in another order. */
static const double limit = 1e-9;

struct text {
	char at[3000];
	size_t len;
};

struct case_of {
	uint64_t state;
	struct setup s;
	struct text model, rule, layout;
	int ranks, tensor, context, pipeline;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	t->len += (size_t)vsnprintf(t->at + t->len, sizeof t->at - t->len, format, list);
	va_end(list);
	if (t->len >= sizeof t->at)
		give_up("too long:", t->at);
}

/* Steele 2014, SplitMix: a number below n. */
static int
draw(uint64_t *state, int n)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (int)((z ^ z >> 31) % (uint64_t)n);
}

static bool
one_in(struct case_of *c, int n)
{
	return draw(&c->state, n) == 0;
}

/* --- what a case is --------------------------------------------------------------------------- */

static void
draw_sizes(struct case_of *c)
{
	static const int groups[] = { 4, 2, 2 };
	struct setup *s = &c->s;

	s->layers = 2 + draw(&c->state, 2);
	s->hidden = 16;
	s->heads = 4;
	s->groups = groups[draw(&c->state, 3)];
	s->channels = one_in(c, 3) ? 6 : 4;
	s->ffn = 20;
	s->vocab = 23 + draw(&c->state, 9);
	s->seq = one_in(c, 2) ? 8 : 12;
	s->batch = 4;
	s->micro = 1 + draw(&c->state, 2);
	add(&c->model,
	    " --num-layers %d --hidden-size %d --num-attention-heads %d --kv-channels %d"
	    " --ffn-hidden-size %d --vocab-size %d --seq-length %d --global-batch-size %d"
	    " --micro-batch-size %d --group-query-attention --num-query-groups %d",
	    s->layers, s->hidden, s->heads, s->channels, s->ffn, s->vocab, s->seq, s->batch,
	    s->micro, s->groups);
}

static void
draw_norms(struct case_of *c)
{
	static const char *const places[] = { "pre", "post", "both" };
	struct setup *s = &c->s;

	s->layer_norm = one_in(c, 3);
	s->one_plus = one_in(c, 4);
	s->qk_norm = one_in(c, 3);
	s->epsilon = one_in(c, 2) ? 1e-5 : 1e-3;
	s->placement = one_in(c, 2) ? BEFORE : (enum placement)draw(&c->state, 3);
	s->parallel = s->placement == BEFORE && one_in(c, 4);
	add(&c->model, " --normalization %s --norm-epsilon %g --norm-placement %s%s%s%s",
	    s->layer_norm ? "LayerNorm" : "RMSNorm", s->epsilon, places[s->placement],
	    s->one_plus ? " --apply-layernorm-1p" : "", s->qk_norm ? " --qk-layernorm" : "",
	    s->parallel ? " --use-parallel-residual" : "");
}

static void
draw_activation(struct case_of *c)
{
	static const char *const names[] = { " --swiglu", " --activation geglu", " --squared-relu",
		"", " --activation gelu-erf" };
	struct setup *s = &c->s;

	s->activation = (enum activation)draw(&c->state, 5);
	s->gated = s->activation == SWIGLU || s->activation == GEGLU;
	add(&c->model, "%s", names[s->activation]);
}

static void
draw_positions(struct case_of *c)
{
	struct setup *s = &c->s;

	s->positions = one_in(c, 2) ? ROPE : (enum positions)draw(&c->state, 3);
	s->rotary_share = one_in(c, 3) ? 0.5 : 1;
	s->rotary_base = one_in(c, 2) ? 10000 : 50;
	s->interleaved = one_in(c, 3);
	add(&c->model, " --position-embedding-type %s",
	    s->positions == ROPE          ? "rope"
		: s->positions == LEARNED ? "learned_absolute"
					  : "none");
	if (s->positions == ROPE)
		add(&c->model, " --rotary-percent %g --rotary-base %g%s", s->rotary_share,
		    s->rotary_base, s->interleaved ? " --rotary-interleaved" : "");
}

static void
draw_attention(struct case_of *c)
{
	struct setup *s = &c->s;

	s->score_scale = one_in(c, 4) ? 9 : s->channels;
	s->score_cap = one_in(c, 4) ? 0.7 : 0;
	s->logit_cap = one_in(c, 4) ? 0.8 : 0;
	s->window = one_in(c, 3) ? 3 + draw(&c->state, 3) : 0;
	s->skip = s->window && one_in(c, 2) ? 2 : 0;
	s->embed_scale = one_in(c, 4) ? sqrt(s->hidden) : 1;
	if (one_in(c, 4))
		add(&c->model, " --softmax-type learnable");
	if (s->score_scale != s->channels)
		add(&c->model, " --query-pre-attn-scalar 9");
	if (s->score_cap > 0)
		add(&c->model, " --attn-logit-softcapping 0.7");
	if (s->logit_cap > 0)
		add(&c->model, " --final-logit-softcapping 0.8");
	if (s->window)
		add(&c->model, " --window-size %d", s->window);
	if (s->skip)
		add(&c->model, " --window-attn-skip-freq %d", s->skip);
	if (s->embed_scale > 1)
		add(&c->model, " --scale-embeddings-by-hidden-size");
}

static void
draw_losses(struct case_of *c)
{
	struct setup *s = &c->s;

	s->tied = one_in(c, 2);
	s->mask_ends = one_in(c, 2);
	s->apart = one_in(c, 3);
	s->restart = one_in(c, 3);
	s->z_loss = one_in(c, 3) ? 1e-2 : 0;
	add(&c->model, "%s%s%s%s", s->tied ? "" : " --untie-embeddings-and-output-weights",
	    s->mask_ends ? " --eod-mask-loss" : "", s->apart ? " --reset-attention-mask" : "",
	    s->restart ? " --reset-position-ids" : "");
	if (s->z_loss > 0)
		add(&c->model, " --use-z-loss --z-loss-coeff %g", s->z_loss);
}

static void
draw_experts(struct case_of *c)
{
	static const char *const scores[] = { "", " --moe-router-pre-softmax",
		" --moe-router-score-function sigmoid" },
				 *const scopes[] = { "aux_loss", "seq_aux_loss",
					 "global_aux_loss" };
	struct setup *s = &c->s;

	s->experts = one_in(c, 2) ? 4 : 0;
	if (!s->experts || s->activation == GELU_ERF) {
		s->experts = 0;
		add(&c->model, "%s", one_in(c, 2) ? " --disable-bias-linear" : "");
		return;
	}
	s->topk = 1 + draw(&c->state, 3);
	s->every = 1 + draw(&c->state, 2);
	s->score = (enum score)draw(&c->state, 3);
	s->score = s->topk == 1 && s->score == SOFTMAX ? SIGMOID : s->score;
	s->balancing = (enum balancing)draw(&c->state, 3);
	s->biased = s->score == SIGMOID && !one_in(c, 3);
	s->by_token = one_in(c, 3);
	s->balance = 0.2;
	s->router_z = one_in(c, 2) ? 0.05 : 0;
	s->bias_rate = 0.1;
	s->topk_scale = one_in(c, 3) ? 1.7 : 1;
	add(&c->model,
	    " --disable-bias-linear --num-experts %d --moe-router-topk %d --moe-layer-freq %d"
	    " --moe-ffn-hidden-size 12 --moe-aux-loss-coeff %g --moe-router-load-balancing-type %s"
	    "%s%s%s%s",
	    s->experts, s->topk, s->every, s->balance, scopes[s->balancing], scores[s->score],
	    s->biased ? " --moe-router-enable-expert-bias --moe-router-bias-update-rate 0.1" : "",
	    s->by_token ? " --calculate-per-token-loss" : "",
	    one_in(c, 2) ? " --moe-shared-expert-intermediate-size 8" : "");
	if (s->router_z > 0)
		add(&c->model, " --moe-z-loss-coeff %g", s->router_z);
	if (s->topk_scale != 1)
		add(&c->model, " --moe-router-topk-scaling-factor %g", s->topk_scale);
	if (s->topk < 3 && one_in(c, 3)) {
		s->router_groups = 2;
		s->group_topk = 1;
		s->group_scores = 1 + draw(&c->state, 2);
		add(&c->model,
		    " --moe-router-num-groups 2 --moe-router-group-topk 1"
		    " --moe-router-group-scores %d",
		    s->group_scores);
	}
}

static void
draw_rule(struct case_of *c)
{
	struct setup *s = &c->s;

	s->rule = (enum rule)draw(&c->state, 3);
	s->lr = s->rule == SGD ? 0.1 : 0.01;
	s->beta1 = one_in(c, 2) ? 0.9 : 0.8;
	s->beta2 = one_in(c, 2) ? 0.95 : 0.99;
	s->adam_epsilon = one_in(c, 2) ? 1e-8 : 1e-5;
	s->decay = one_in(c, 2) ? 0.1 : 0;
	s->clip = one_in(c, 2) ? 0.3 : 0;
	s->momentum = s->rule == SGD && one_in(c, 3) ? 0 : 0.9;
	s->nesterov = s->rule == MUON && one_in(c, 2);
	s->cosine = one_in(c, 2);
	s->min_lr = s->cosine ? s->lr / 10 : 0;
	s->warmup = 2 * draw(&c->state, 2);
	add(&c->rule,
	    " --lr %g --min-lr %g --lr-decay-style %s --lr-warmup-iters %d --weight-decay %g"
	    " --clip-grad %g --adam-beta1 %g --adam-beta2 %g --adam-eps %g",
	    s->lr, s->min_lr, s->cosine ? "cosine" : "constant", s->warmup, s->decay, s->clip,
	    s->beta1, s->beta2, s->adam_epsilon);
	if (s->rule == SGD)
		add(&c->rule, " --optimizer sgd --sgd-momentum %g", s->momentum);
	if (s->rule == MUON)
		add(&c->rule, " --optimizer muon --muon-momentum %g%s", s->momentum,
		    s->nesterov ? " --muon-nesterov" : "");
}

/* Ranks are factored into kinds, data ranks last. */
static void
draw_layout(struct case_of *c, int most)
{
	static const char *const sharding[] = { "no_shard", "optim", "optim_grads",
		"optim_grads_params" };
	struct setup *s = &c->s;
	int *const kind[] = { &c->tensor, &c->context, &c->pipeline }, left;

	c->tensor = c->context = c->pipeline = 1;
	c->ranks = most > 2 && one_in(c, 2) ? 4 : most > 1 && !one_in(c, 4) ? 2 : 1;
	left = c->ranks;
	for (int i = 0; i < 3 && left > 1; i++)
		if (one_in(c, 3)) {
			*kind[i] = 2;
			left /= 2;
		}
	if (left > s->batch / s->micro)
		s->micro = s->batch / left;
	add(&c->layout, " --micro-batch-size %d", s->micro);
	if (s->balancing == BY_STEP) /* micro batches of data ranks count as one */
		s->micro *= left;
	if (c->tensor > 1)
		add(&c->layout, " --tensor-model-parallel-size 2%s",
		    s->experts || one_in(c, 2) ? " --sequence-parallel" : "");
	if (c->context > 1)
		add(&c->layout, " --context-parallel-size 2");
	if (c->pipeline > 1)
		add(&c->layout, " --pipeline-model-parallel-size 2");
	if (s->experts && c->ranks / c->pipeline > 1 && one_in(c, 2))
		add(&c->layout, " --expert-model-parallel-size 2");
	if (s->experts && c->tensor > 1)
		add(&c->layout, " --expert-tensor-parallel-size 1");
	if (one_in(c, 2))
		add(&c->layout, " --data-parallel-sharding-strategy %s",
		    sharding[draw(&c->state, 4)]);
	if (one_in(c, 4))
		add(&c->layout, " --recompute-granularity full");
}

static void
draw_case(struct case_of *c, uint64_t seed, int most)
{
	*c = (struct case_of){ .state = seed };
	draw_sizes(c);
	draw_norms(c);
	draw_activation(c);
	draw_positions(c);
	draw_attention(c);
	draw_losses(c);
	draw_experts(c);
	draw_rule(c);
	draw_layout(c, most);
	add(&c->model,
	    " --tokenizer-type NullTokenizer --data-path data --data-cache-path cache --split 1,0,0"
	    " --eval-iters 0 --fp64 --init-method-std 0.15 --attention-dropout 0 --hidden-dropout 0"
	    " --num-threads 1 --log-interval 1 --seed %d",
	    1 + draw(&c->state, 1000));
}

/* --- a case ----------------------------------------------------------------------------------- */

/* Documents that end with the last token of the vocabulary. */
static void
make_data(struct case_of *c, int *tokens, int *lengths)
{
	int n = 0;

	for (int i = 0; i < DOCUMENTS; i++) {
		lengths[i] = 3 + draw(&c->state, LONGEST - 3);
		for (int k = 1; k < lengths[i]; k++)
			tokens[n++] = draw(&c->state, c->s.vocab - 1);
		tokens[n++] = c->s.vocab - 1;
	}
	write_dataset("data", tokens, lengths, DOCUMENTS);
}

static void
run(int ranks, const char *options[3])
{
	struct text line = { .len = 0 };

	if (ranks > 1)
		add(&line, "mpirun --oversubscribe -np %d ", ranks);
	add(&line, "mtrain%s%s%s >log 2>&1 </dev/null", options[0], options[1], options[2]);
	if (system(line.at) == 0)
		return;
	system("tail -n 5 log >&2");
	give_up("failed:", line.at);
}

/* Of two arrays the norm of their difference, over that of the second. */
static double
apart(const double *a, const double *b, int n, double least)
{
	double difference = 0, norm = 0;

	for (int i = 0; i < n; i++) {
		difference += (a[i] - b[i]) * (a[i] - b[i]);
		norm += b[i] * b[i];
	}
	return sqrt(difference) / fmax(sqrt(norm), least);
}

struct worst {
	double by;
	char what[180];
};

static void
keep_worst(struct worst *w, double by, const char *what, int step)
{
	if (by <= w->by)
		return;
	w->by = by;
	snprintf(w->what, sizeof w->what, "%s at step %d", what, step);
}

/* Gradients that are 0 but for rounding have no relative error. Such is that of a bias of keys, or
 * of their norm, which moves all scores of a query alike, and Adam divides it by its own size. */
static void
compare_weights(struct model *mine, int step, struct worst *worst)
{
	char dir[60];
	struct model theirs = { .num_weights = 0 };

	snprintf(dir, sizeof dir, "run/iter_%07d", step);
	read_checkpoint(dir, &theirs);
	if (theirs.num_weights != mine->num_weights)
		give_up("another number of tensors in", dir);
	for (int i = 0; i < theirs.num_weights; i++) {
		const struct weights *t = &theirs.weights[i];
		const struct weights *w = model_find(mine, t->name);
		bool moved = !strstr(t->name, "expert_bias"),
		     idle = strstr(t->name, "linear_k.bias") || strstr(t->name, "k_layernorm.bias");
		char kept[140];

		if (!w || w->count != t->count)
			give_up("an unknown tensor:", t->name);
		keep_worst(
		    worst, apart(t->value, w->value, w->count, idle ? 1 : 1e-3), t->name, step);
		if (!moved)
			continue;
		snprintf(kept, sizeof kept, "the first average of %s", t->name);
		keep_worst(worst, apart(t->m, w->m, w->count, 1e-7), kept, step);
		snprintf(kept, sizeof kept, "the second average of %s", t->name);
		keep_worst(worst, apart(t->v, w->v, w->count, 1e-12), kept, step);
	}
	free_model(&theirs);
}

/* Weights as initialised: a step at a rate of 0 moves only biases of experts, from 0. */
static void
initial(const struct case_of *c, struct model *m)
{
	run(1, (const char *[]){ c->model.at, " --lr 0 --train-iters 1 --save start", "" });
	read_checkpoint("start/iter_0000001", m);
	for (int i = 0; i < m->num_weights; i++) {
		struct weights *w = &m->weights[i];

		memset(w->m, 0, (size_t)w->count * sizeof *w->m);
		memset(w->v, 0, (size_t)w->count * sizeof *w->v);
		if (strstr(w->name, "expert_bias"))
			memset(w->value, 0, (size_t)w->count * sizeof *w->value);
	}
}

static struct worst
check_case(struct case_of *c)
{
	static int tokens[DOCUMENTS * LONGEST], lengths[DOCUMENTS],
	    samples[STEPS * BATCH * (SEQ + 1)];
	const struct setup *s = &c->s;
	struct model m = { .s = *s };
	struct worst worst = { 0, "nothing" };
	struct text rest = { .len = 0 };
	double loss[STEPS], norm[STEPS];

	system("rm -rf start run cache metrics.jsonl");
	make_data(c, tokens, lengths);
	initial(c, &m);
	add(&rest, "%s --train-iters %d --save run --save-interval 1 --metrics-file metrics.jsonl",
	    c->rule.at, STEPS);
	run(c->ranks, (const char *[]){ c->model.at, rest.at, c->layout.at });
	read_samples("cache", tokens, lengths, samples, STEPS * s->batch, s->seq);
	if (read_metric("metrics.jsonl", "lm_loss", loss, STEPS) != STEPS ||
	    read_metric("metrics.jsonl", "grad_norm", norm, STEPS) != STEPS)
		give_up("not five steps in", "metrics.jsonl");
	for (int k = 0; k < STEPS; k++) {
		struct step_losses mine = model_step(&m, samples + k * s->batch * (s->seq + 1));

		keep_worst(&worst, fabs(loss[k] / mine.loss - 1), "the loss", k + 1);
		keep_worst(&worst, fabs(norm[k] / mine.norm - 1), "the norm", k + 1);
		rule_update(&m, mine.norm, k + 1);
		compare_weights(&m, k + 1, &worst);
	}
	free_model(&m);
	return worst;
}

int
main(int argc, char **argv)
{
	long count = 1, seed = 1, ranks = 2, failed = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		long *const to = !strcmp(argv[i], "--count") ? &count
		    : !strcmp(argv[i], "--seed")             ? &seed
		    : !strcmp(argv[i], "--ranks")            ? &ranks
							     : NULL;

		if (!to)
			give_up("unknown:", argv[i]);
		*to = strtol(argv[i + 1], NULL, 10);
	}
	for (long i = seed; i < seed + count; i++) {
		struct case_of c;
		struct worst w;

		draw_case(&c, (uint64_t)i, (int)ranks);
		w = check_case(&c);
		printf("seed %ld, %d ranks: %.1e (%s)\n", i, c.ranks, w.by, w.what);
		if (!(w.by <= limit)) {
			printf("differs: mtrain%s%s%s\n", c.model.at, c.rule.at, c.layout.at);
			failed++;
		}
		fflush(stdout);
	}
	printf("%ld of %ld differ\n", failed, count);
	return failed > 0;
}
