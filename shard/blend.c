/*
 * blend.c - what a blend takes from each corpus, reported before a run; and the blending index,
 * written in advance
 *
 * The maps of the corpora are not needed for either: the blending index follows from weights and
 * counts.
 */
#include "lib/base/mem.h"
#include "shard/maps.h"

#include <stdlib.h>

/* The numbers of a row. */
struct row {
	const char *dataset, *hash;
	double weight, tokens;
	int64_t samples, requested, epoch_tokens,
	    consumed; /* requested -1: one epoch; -2: no number */
};

/* The tokens of samples of a corpus, without the label that each shares with the next; of packed
 * ones, without padding. */
static double
tokens_of(const struct maps_run *r, const struct samples *s, int64_t samples)
{
	return r->c->packing == PACKING_BEST_FIT
	    ? samples_epochs(s, samples) * (double)samples_tokens_per_epoch(s)
	    : (double)samples * (double)r->c->seq_length;
}

/* The stage of a schedule: its number, 0: all of them, and its tokens. */
struct span {
	int stage;
	double from, to;
};

/* The stage comes first where there are stages; more than one epoch is marked. */
static void
print_row(const struct maps_run *r, enum split which, const struct span *at, const struct row *x,
    int64_t total)
{
	double epochs = x->epoch_tokens ? x->tokens / (double)x->epoch_tokens : 0;

	if (at && at->stage)
		fprintf(r->out, "%d\t%.0f\t%.0f\t", at->stage, at->from, at->to);
	else if (at)
		fprintf(r->out, "all\t%.0f\t%.0f\t", at->from, at->to);
	fprintf(r->out, "%s\t%s\t%.6g\t%lld\t%.6f\t%.0f\t%.4f%s\t%lld\t", split_name[which],
	    x->dataset, x->weight, (long long)x->samples,
	    total ? (double)x->samples / (double)total : 0.0, x->tokens, epochs,
	    at && epochs > 1 ? "*" : "", (long long)x->epoch_tokens);
	if (x->requested < 0)
		fputs(x->requested == -1 ? "all" : "-", r->out);
	else
		fprintf(r->out, "%lld", (long long)x->requested);
	fprintf(r->out, "\t%lld\t%s\n", (long long)x->consumed, x->hash);
}

/* One row per corpus of a blend, then one for all of them. */
static void
print_all(const struct maps_run *r, const struct blend *b, enum split which, const struct span *at)
{
	int n = blend_num_corpora(b);
	int64_t *consumed = mem_zalloc((size_t)n, sizeof *consumed);
	struct row total = { .dataset = "-",
		.hash = blend_num_stages(b) == 1 ? blend_hash(b) : "-",
		.weight = 1,
		.samples = blend_count(b),
		.requested = -2,
		.consumed = which == SPLIT_TRAIN ? r->c->consumed : 0 };

	blend_consumed(b, total.consumed, consumed);
	for (int k = 0; k < n; k++) {
		struct blend_corpus c;
		struct row x = { .hash = "-", .consumed = consumed[k] };

		blend_corpus(b, k, &c);
		x.dataset = dataset_prefix(c.dataset);
		x.weight = c.weight;
		x.samples = c.drawn;
		x.tokens = tokens_of(r, c.samples, c.drawn);
		total.tokens += x.tokens;
		x.requested = c.num_samples;
		x.epoch_tokens = samples_tokens_per_epoch(c.samples);
		total.epoch_tokens += x.epoch_tokens;
		print_row(r, which, at, &x, total.samples);
	}
	print_row(r, which, at, &total, total.samples);
	free(consumed);
}

/* What of the first `consumed` samples each corpus gave within a stage: out[corpora of b]. */
static void
consumed_within(const struct blend *b, const struct blend_stage *s, int64_t consumed, int64_t *out)
{
	int n = blend_num_corpora(b);
	int64_t end = s->first + s->count, *before = mem_zalloc((size_t)n, sizeof *before);

	/* the count of all samples would start over */
	if (consumed >= end)
		for (int i = 0; i < s->num_corpora; i++) {
			struct blend_corpus c;
			int k = blend_stage_corpus(b, blend_stage_at(b, s->first), i, &c);

			out[k] = c.drawn;
		}
	else if (consumed > s->first) {
		blend_consumed(b, consumed, out);
		blend_consumed(b, s->first, before);
		for (int k = 0; k < n; k++)
			out[k] -= before[k];
	}
	free(before);
}

/* The rows of a stage. */
static void
print_stage(const struct maps_run *r, const struct blend *b, int stage)
{
	struct blend_stage s;
	int64_t consumed = r->c->consumed,
		*of = mem_zalloc((size_t)blend_num_corpora(b), sizeof *of);
	struct row total = { .dataset = "-", .weight = 1, .requested = -2 };
	struct span at = { .stage = stage + 1 };

	blend_stage(b, stage, &s);
	at.from = (double)s.first * (double)r->c->seq_length;
	at.to = (double)(s.first + s.count) * (double)r->c->seq_length;
	total.hash = s.hash;
	total.samples = s.count;
	consumed_within(b, &s, consumed, of);
	for (int i = 0; i < s.num_corpora && s.count; i++) {
		struct blend_corpus c;
		int k = blend_stage_corpus(b, stage, i, &c);
		struct row x = { .dataset = dataset_prefix(c.dataset),
			.hash = "-",
			.weight = c.weight,
			.samples = c.drawn,
			.requested = c.num_samples,
			.consumed = of[k],
			.tokens = tokens_of(r, c.samples, c.drawn),
			.epoch_tokens = samples_tokens_per_epoch(c.samples) };

		total.tokens += x.tokens;
		total.epoch_tokens += x.epoch_tokens;
		total.consumed += x.consumed;
		print_row(r, SPLIT_TRAIN, &at, &x, s.count);
	}
	if (s.count)
		print_row(r, SPLIT_TRAIN, &at, &total, s.count);
	free(of);
}

/* The stages, if there are any, then all of the split. */
static int
print_split(const struct maps_run *r, const struct blend *b, enum split which, struct err *e)
{
	bool stages = r->c->paths.data_schedule != NULL;
	struct span all = { .to = (double)blend_count(b) * (double)r->c->seq_length };

	for (int k = 0; k < blend_num_stages(b) && stages && which == SPLIT_TRAIN; k++)
		print_stage(r, b, k);
	print_all(r, b, which, stages ? &all : NULL);
	(void)e; /* lost rows show when the program ends */
	return 0;
}

#define COLUMNS \
	"split\tdataset\tweight\tsamples\tshare\ttokens\tepochs\tepoch_" \
	"tokens\trequested\tconsumed\t" \
	"hash\n"

/* A split of one corpus has a table too, but no blending index. */
int
shard_blend(const struct maps_config *c, FILE *out, struct str *notes, struct err *e)
{
	struct maps_run r = {
		.c = c,
		.plan_only = true,
		.write = !c->dry_run,
		.out = out,
		.row = print_split,
		.head =
		    c->paths.data_schedule ? "stage\tfrom_tokens\tto_tokens\t" COLUMNS : COLUMNS,
	};

	return shard_maps_run(&r, notes, e);
}
