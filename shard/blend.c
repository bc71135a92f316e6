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

static void
print_row(const struct maps_run *r, enum split which, const struct row *x, int64_t total)
{
	fprintf(r->out, "%s\t%s\t%.6g\t%lld\t%.6f\t%.0f\t%.4f\t%lld\t", split_name[which],
	    x->dataset, x->weight, (long long)x->samples,
	    total ? (double)x->samples / (double)total : 0.0, x->tokens,
	    x->epoch_tokens ? x->tokens / (double)x->epoch_tokens : 0.0,
	    (long long)x->epoch_tokens);
	if (x->requested < 0)
		fputs(x->requested == -1 ? "all" : "-", r->out);
	else
		fprintf(r->out, "%lld", (long long)x->requested);
	fprintf(r->out, "\t%lld\t%s\n", (long long)x->consumed, x->hash);
}

/* One row per corpus, then one for all of them. */
static int
print_split(const struct maps_run *r, const struct blend *b, enum split which, struct err *e)
{
	int n = blend_num_corpora(b);
	int64_t *consumed = mem_zalloc((size_t)n, sizeof *consumed);
	struct row total = { .dataset = "-",
		.hash = blend_is_plain(b) ? "-" : blend_hash(b),
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
		print_row(r, which, &x, total.samples);
	}
	print_row(r, which, &total, total.samples);
	free(consumed);
	(void)e; /* lost rows show when the program ends */
	return 0;
}

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
		.head = "split\tdataset\tweight\tsamples\tshare\ttokens\tepochs\tepoch_"
			"tokens\trequested\tconsumed\thash\n",
	};

	return shard_maps_run(&r, notes, e);
}
