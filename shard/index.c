/*
 * index.c - the index maps that training will look for, written ahead of it
 *
 * The work is done by lib/format/samples, which training calls too: the same options give the same
 * names and the same files.
 */
#include "shard/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* "100,all,0": three counts; all is one epoch, as -1. The whole text must be used up: "1,2,3,4"
 * and "1,2" are both refused. */
static int
parse_counts(const char *text, int64_t count[SPLIT_COUNT], struct err *e)
{
	const char *p = text;

	for (int i = 0; i < SPLIT_COUNT; i++) {
		char want = i + 1 < SPLIT_COUNT ? ',' : '\0', *end;
		bool all = !strncmp(p, "all", 3);

		errno = 0;
		count[i] = all ? -1 : strtoll(p, &end, 10);
		if (all)
			end = strchr(p, 'l') + 2;
		if (end == p || errno || *end != want || (!all && count[i] < 0))
			return err_set(e,
			    "--num-samples %s: must be TRAIN,VALID,TEST, each a number from 0 or "
			    "all",
			    text);
		p = end + 1;
	}
	return 0;
}

/* One dataset, without weights: blends are not indexed here. Everything that shard_index relies
 * on, so that wrong usage and a dataset that cannot be read have different exit statuses. */
int
shard_index_check(const struct index_config *c, struct err *e)
{
	int64_t count[SPLIT_COUNT];
	struct split_matrix m;

	if (c->data_path.count == 0)
		return err_set(e, "--data-path: which dataset?");
	if (c->data_path.count > 1)
		return err_set(e,
		    "--data-path: %d words make a blend; index takes one dataset, without a weight",
		    c->data_path.count);
	if (c->seq_length == 0)
		return err_set(e, "--seq-length: how many tokens has a sample?");
	for (int i = 0; i < c->tokenizer_option.count; i++)
		if (!strchr(c->tokenizer_option.item[i], '='))
			return err_set(e, "--tokenizer-option %s: must be KEY=VALUE",
			    c->tokenizer_option.item[i]);
	if (parse_counts(c->num_samples, count, e) < 0)
		return -1;
	return split_parse(c->split, &m, e);
}

/* The maps of one split. Prints the hash, which is in the maps' names, so that a script can find
 * the files. */
static int
index_split(const struct dataset *d, const struct samples_config *sc, FILE *out, struct err *e)
{
	struct samples *s = samples_open(d, sc, e);

	if (!s)
		return -1;
	fprintf(out, "%s\t%lld\t%lld\t%s\n", split_name[sc->which], (long long)samples_count(s),
	    (long long)samples_num_epochs(s), samples_hash(s));
	samples_close(s);
	return 0;
}

/* What maps and names depend on. */
void
shard_samples_config(const struct index_config *c, enum split which, bool write_cache,
    struct str *tokenizer, struct samples_config *out)
{
	int64_t count[SPLIT_COUNT];
	struct err e;

	if (parse_counts(c->num_samples, count, &e) < 0)
		BUG("unchecked options: %s", e.msg);
	str_clear(tokenizer);
	samples_tokenizer(c->tokenizer_class, c->tokenizer_path, c->tokenizer_option.item,
	    c->tokenizer_option.count, tokenizer);
	*out = (struct samples_config){
		.which = which,
		.split = c->split,
		.num_samples = count[which],
		.seq_length = c->seq_length,
		.seed = c->seed,
		.add_extra_token = true,
		.drop_last_partial = true,
		.tokenizer_json = tokenizer->buf,
		.cache_dir = c->cache_dir,
		.write_cache = write_cache,
	};
}

/* Training, validation and test in this order, as far as they have a share. Maps that are there
 * already are read and checked, not written again. */
int
shard_index(const struct index_config *c, FILE *out, struct err *e)
{
	struct dataset *d = dataset_open(c->data_path.item[0], e);
	struct str tokenizer = { 0 };
	struct samples_config sc;
	struct split_matrix m;
	int rc = 0;

	if (!d)
		return -1;
	if (split_parse(c->split, &m, e) < 0)
		BUG("unchecked options: %s", e->msg);
	fputs("split\tsamples\tepochs\thash\n", out);
	for (int i = 0; i < SPLIT_COUNT && rc == 0; i++) {
		if (!m.present[i])
			continue;
		shard_samples_config(c, (enum split)i, true, &tokenizer, &sc);
		rc = index_split(d, &sc, out, e);
	}
	str_release(&tokenizer);
	dataset_close(d);
	return rc;
}
