/*
 * sample.c - training samples, and which rank reads which of them in which iteration
 *
 * Both go through lib/data/blend and lib/data/sampler, as training does: the same options give
 * the same samples in the same order.
 */
#include "lib/base/mem.h"
#include "lib/data/sampler.h"
#include "shard/sample.h"
#include "shard/shard.h"

#include <stdlib.h>

/* Checks how the options fit together. */
int
shard_sample_check(const struct sample_config *c, struct err *e)
{
	int64_t b = c->reading.micro_batch_size, d = c->data_parallel_size, uneven;
	const struct tokenizer_spec *spec = &c->maps.spec;
	struct batch_ramp ramp;

	if (shard_maps_check(&c->maps, e) < 0)
		return -1;
	if (c->fim.on && !spec->type && !spec->model && !spec->vocab)
		return err_set(e,
		    "--fim-data: rearranges text, for which it needs the tokenizer: give "
		    "--tokenizer-model");
	if (!c->index)
		return 0;
	if (shard_maps_batches(&c->maps, &ramp, e) < 0)
		return -1;
	uneven = batch_uneven(&ramp, b * d);
	if (uneven)
		return err_set(e,
		    "--global-batch-size %lld: must be a multiple of --micro-batch-size %lld times "
		    "--data-parallel-size %lld",
		    (long long)uneven, (long long)b, (long long)d);
	return 0;
}

/* What makes rows. */
struct printer {
	const struct sample_config *c;
	const struct blend *b;
	struct fim *fim; /* NULL: documents stay as they are */
};

/* The tokens of a sample as training reads them; returns their number. */
static int64_t
read_tokens(const struct printer *p, int64_t sample, int64_t *ids, struct err *e)
{
	int64_t n = blend_tokens(p->b, sample, ids, e), of_corpus;
	struct mt19937 draws;
	struct err why;
	int k;

	if (n < 0 || !p->fim)
		return n;
	blend_locate(p->b, sample, &k, &of_corpus);
	fim_draws(&draws, p->c->maps.seed, of_corpus);
	if (fim_rearrange(p->fim, &draws, ids, n, &why) < 0)
		return err_set(e, "sample %lld: --fim-data: %s", (long long)sample, why.msg);
	return n;
}

/* The row of a sample: its dataset, then "sequence:first+count,...", the places of its tokens. */
static int
add_sample(const struct printer *p, int64_t sample, struct str *out, struct err *e)
{
	const struct sample_config *c = p->c;
	const struct blend *b = p->b;
	int64_t *ids = mem_alloc((size_t)c->maps.seq_length + 1, sizeof *ids),
		tokens = read_tokens(p, sample, ids, e), room = 64, parts;
	struct sample_part *part = mem_alloc((size_t)room, sizeof *part);
	struct blend_corpus corpus;
	struct err why;
	int rc = tokens < 0 ? -1 : 0, k;

	if (rc == 0) {
		parts = blend_parts(b, sample, &k, part, room);
		if (parts > room) {
			part = mem_realloc(part, (size_t)parts, sizeof *part);
			blend_parts(b, sample, &k, part, parts);
		}
		blend_corpus(b, k, &corpus);
		str_addf(out, "%lld\t%s\t", (long long)sample, dataset_prefix(corpus.dataset));
		for (int64_t i = 0; i < parts; i++)
			str_addf(out, "%s%lld:%lld+%lld", i ? "," : "", (long long)part[i].sequence,
			    (long long)part[i].first, (long long)part[i].count);
		str_addf(out, "\t%lld\t", (long long)tokens);
		rc = shard_add_ids(c->tokenizer, ids, tokens, out, &why);
		if (rc < 0)
			err_set(e, "sample %lld: %s", (long long)sample, why.msg);
	}
	free(part);
	free(ids);
	return rc;
}

/* Prints the rows of samples from the first requested one on; fewer than requested are not an
 * error. Each row is printed when it is complete, the first one after the column names. */
static int
print_samples(const struct sample_config *c, const struct blend *b, FILE *out, struct err *e)
{
	int64_t total = blend_count(b);
	struct printer p = { c, b, NULL };
	struct str row = { 0 };
	int rc = 0;

	if (c->fim.on && !(p.fim = fim_new(c->tokenizer, &c->fim, e)))
		return -1;
	if (c->sample >= total)
		rc = err_set(e, "sample %lld: the %s split has %lld, counted from 0",
		    (long long)c->sample, split_name[c->which], (long long)total);
	else
		str_addf(
		    &row, "sample\tdataset\tparts\ttokens\t%s\n", c->tokenizer ? "text" : "ids");
	for (int64_t i = c->sample;
	     rc == 0 && i < total && i - c->sample < c->count && !ferror(out); i++) {
		rc = add_sample(&p, i, &row, e);
		if (rc == 0)
			str_put(&row, out);
	}
	if (rc == 0)
		str_put(&row, out);
	str_release(&row);
	fim_free(p.fim);
	return rc;
}

/* The request to the sampler, and its row. */
struct walk {
	const struct sample_config *c;
	const struct blend *b;
	struct sampler *s;
	struct batch_ramp ramp;
	int64_t *batch; /* [micro_batch_size] */
	int64_t iteration, group, consumed;
	FILE *out;
};

/* Prints the rows of one micro batch of every rank; -1 where the sampler ends. */
static int
print_group(const struct walk *w)
{
	for (int64_t rank = 0; rank < w->c->data_parallel_size; rank++) {
		if (sampler_batch(w->s, w->consumed, rank, w->batch, NULL) < 0)
			return -1;
		for (int64_t i = 0; i < w->c->reading.micro_batch_size; i++) {
			struct blend_corpus corpus;
			struct sample_part part;
			int k;

			blend_parts(w->b, w->batch[i], &k, &part, 1);
			blend_corpus(w->b, k, &corpus);
			fprintf(w->out, "%lld\t%lld\t%lld\t%lld\t%s\t%lld\t%lld\n",
			    (long long)w->iteration, (long long)w->group, (long long)rank,
			    (long long)w->batch[i], dataset_prefix(corpus.dataset),
			    (long long)part.sequence, (long long)part.first);
		}
	}
	return 0;
}

/* Prints the rows of iterations, counted from 1 as in the training log, up to the end of the
 * split. */
static void
print_iterations(struct walk *w)
{
	const struct sample_config *c = w->c;
	int64_t size = c->reading.micro_batch_size * c->data_parallel_size;

	fputs("iteration\tmicro_batch\trank\tsample\tdataset\tsequence\toffset\n", w->out);
	for (int64_t i = 0; i < c->count && !ferror(w->out); i++) {
		int64_t groups = batch_at(&w->ramp, w->consumed) / size;

		w->iteration = c->iteration + i;
		for (w->group = 0; w->group < groups; w->group++) {
			if (print_group(w) < 0)
				return;
			w->consumed += size;
		}
	}
}

/* The first micro batch is checked before the header is printed. */
static int
print_index(const struct sample_config *c, const struct blend *b, FILE *out, struct err *e)
{
	struct sampler_config sc = {
		.type = (enum sampler_type)c->reading.loader,
		.no_data_sharding = c->reading.no_data_sharding,
		.total = blend_count(b),
		.micro_batch_size = c->reading.micro_batch_size,
		.data_parallel_size = c->data_parallel_size,
	};
	struct walk w = { .c = c, .b = b, .s = sampler_new(&sc, e), .out = out };
	int rc;

	if (!w.s)
		return -1;
	if (shard_maps_batches(&c->maps, &w.ramp, e) < 0)
		BUG("unchecked options: %s", e->msg);
	w.consumed =
	    c->consumed_samples < 0 ? batch_end(&w.ramp, 0, c->iteration - 1) : c->consumed_samples;
	w.batch = mem_alloc((size_t)c->reading.micro_batch_size, sizeof *w.batch);
	rc = sampler_batch(w.s, w.consumed, 0, w.batch, e);
	if (rc == 0)
		print_iterations(&w);
	free(w.batch);
	sampler_free(w.s);
	return rc;
}

/* Prints either table. */
static int
print_split(const struct maps_run *r, const struct blend *b, enum split which, struct err *e)
{
	const struct sample_config *c = r->ctx;

	(void)which; /* the requested one */
	return c->index ? print_index(c, b, r->out, e) : print_samples(c, b, r->out, e);
}

/* Cached maps are read; missing ones are built in memory and not written. */
int
shard_sample(const struct sample_config *c, FILE *out, struct str *notes, struct err *e)
{
	struct maps_run r = { .c = &c->maps,
		.one = true,
		.which = (enum split)c->which,
		.out = out,
		.ctx = c,
		.row = print_split };

	return shard_maps_run(&r, notes, e);
}
