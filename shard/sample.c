/*
 * sample.c - training samples, and which rank reads which of them when
 *
 * Both go through lib/format/samples, as training does. The order of the sequential loader: with C
 * samples consumed, micro batch b and D data-parallel ranks, samples are taken in order in groups of
 * b D; in group g rank r gets C + g b D + r b and the b - 1 after it. A last group that is not
 * complete is dropped. Source: Megatron-LM legacy/data/data_samplers.py.
 */
#include "lib/base/mem.h"
#include "shard/shard.h"

#include <stdlib.h>

/* What belongs together among the options. */
int
shard_sample_check(const struct sample_config *c, struct err *e)
{
	int64_t b = c->micro_batch_size, d = c->data_parallel_size, g = c->global_batch_size;

	if (shard_index_check(&c->maps, e) < 0)
		return -1;
	if (!c->index)
		return 0;
	if (g == 0)
		return err_set(e, "--global-batch-size: how many samples has an iteration?");
	if (b > g / d || g % (b * d))
		return err_set(e,
		    "--global-batch-size %lld: must be a multiple of --micro-batch-size %lld times "
		    "--data-parallel-size %lld",
		    (long long)g, (long long)b, (long long)d);
	return 0;
}

/* "sequence:first+count,...": where the tokens of a sample lie. */
static void
print_parts(const struct samples *s, int64_t sample, FILE *out)
{
	int64_t cap = 64, n;
	struct sample_part *part = mem_alloc((size_t)cap, sizeof *part);

	n = samples_parts(s, sample, part, cap);
	if (n > cap) {
		part = mem_realloc(part, (size_t)n, sizeof *part);
		samples_parts(s, sample, part, n);
	}
	for (int64_t i = 0; i < n; i++)
		fprintf(out, "%s%lld:%lld+%lld", i ? "," : "", (long long)part[i].sequence,
		    (long long)part[i].first, (long long)part[i].count);
	free(part);
}

/* Rows of samples from the first that was asked for; fewer than asked for are no error. */
static int
print_samples(const struct sample_config *c, const struct samples *s, FILE *out, struct err *e)
{
	int64_t total = samples_count(s), *ids;
	struct err why;
	int rc = 0;

	if (c->sample >= total)
		return err_set(e, "no sample %lld: the %s split has %lld, counted from 0",
		    (long long)c->sample, split_name[c->which], (long long)total);
	ids = mem_alloc((size_t)c->maps.seq_length + 1, sizeof *ids);
	fprintf(out, "sample\tparts\ttokens\t%s\n", c->tokenizer ? "text" : "ids");
	for (int64_t i = c->sample; rc == 0 && i < total && i - c->sample < c->count && !ferror(out); i++) {
		int64_t n = samples_tokens(s, i, ids, e);

		if (n < 0) {
			rc = -1;
			break;
		}
		fprintf(out, "%lld\t", (long long)i);
		print_parts(s, i, out);
		fprintf(out, "\t%lld\t", (long long)n);
		rc = shard_print_ids(c->tokenizer, ids, n, out, &why);
		if (rc < 0)
			err_set(e, "sample %lld: %s", (long long)i, why.msg);
	}
	free(ids);
	return rc;
}

/* The rows of one group: what each rank reads for one micro batch, from sample `first` on. */
static void
print_group(const struct sample_config *c, const struct samples *s, int64_t iteration,
    int64_t first, int64_t group, FILE *out)
{
	int64_t b = c->micro_batch_size, size = b * c->data_parallel_size;

	for (int64_t k = 0; k < size; k++) {
		int64_t sample = first + group * size + k;
		struct sample_part part;

		samples_parts(s, sample, &part, 1);
		fprintf(out, "%lld\t%lld\t%lld\t%lld\t%lld\t%lld\n", (long long)iteration,
		    (long long)group, (long long)(k / b), (long long)sample, (long long)part.sequence,
		    (long long)part.first);
	}
}

/* Rows of iterations, counted from 1 as in the log of training. */
static int
print_index(const struct sample_config *c, const struct samples *s, FILE *out, struct err *e)
{
	int64_t size = c->micro_batch_size * c->data_parallel_size, global = c->global_batch_size,
		first = c->consumed_samples < 0 ? (c->iteration - 1) * global : c->consumed_samples,
		total = samples_count(s);

	if (size > total - first)
		return err_set(e,
		    "no iteration %lld: it begins with sample %lld of the %lld of the %s split, and "
		    "%lld are read at a time",
		    (long long)c->iteration, (long long)first, (long long)total,
		    split_name[c->which], (long long)size);
	fputs("iteration\tmicro_batch\trank\tsample\tsequence\toffset\n", out);
	for (int64_t i = 0; i < c->count && size <= total - first && !ferror(out); i++) {
		for (int64_t g = 0; g < global / size && (g + 1) * size <= total - first; g++)
			print_group(c, s, c->iteration + i, first, g, out);
		first += global;
	}
	return 0;
}

/* Maps that are in the cache are read; those that are not are built in memory and not written. */
int
shard_sample(const struct sample_config *c, FILE *out, struct err *e)
{
	struct str tokenizer = { 0 };
	struct samples_config sc;
	struct samples *s = NULL;
	struct dataset *d = shard_open(c->maps.data_path.item[0], e);
	int rc = -1;

	if (!d)
		return -1;
	shard_samples_config(&c->maps, (enum split)c->which, false, &tokenizer, &sc);
	s = samples_open(d, &sc, e);
	if (s)
		rc = c->index ? print_index(c, s, out, e) : print_samples(c, s, out, e);
	samples_close(s);
	str_release(&tokenizer);
	dataset_close(d);
	return rc;
}
