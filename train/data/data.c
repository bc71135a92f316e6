/*
 * data.c - reading the batches of a run
 *
 * A batch is a function of the options and the number of samples consumed before it: nothing
 * advances, so resuming needs no state and every rank of a data rank's tensor and pipeline group
 * reads the same bytes. Sample maps follow Megatron-LM's so exactly that its cached index files and
 * its order are ours (lib/data). Token ids are checked here, sample by sample; embedding and loss
 * trust them.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/model/evaluation.h"
#include "train/data/data_impl.h"
#include "train/data/deal.h"

#include <stdlib.h>
#include <string.h>

/* A thread's memory for making batches. */
struct data_reader {
	const struct data *d;
	struct sampler **sampler; /* of each set, when it has been read by the cyclic loader */
	int64_t *samples;         /* [b] */
	int64_t *ids;             /* [s + 1] */
	uint8_t *mask;            /* [s + 1]; NULL: no corpus has a mask */
	/* [s + 1] each, where the places of documents count; begin NULL: they do not */
	int32_t *begin;
	struct sample_part *part;
	struct sample one; /* [s] each */
	struct fim *fim;   /* NULL: documents are not rearranged */
};

/* Includes absent sets. */
int
data_num_sets(const struct data *d)
{
	return d->num_sets;
}

/* The name is valid as long as d. */
void
data_set(const struct data *d, int set, struct data_set *out)
{
	const struct set *s = &d->set[set];

	*out = (struct data_set){ s->which, s->name, s->count, s->batches };
}

bool
data_masks(const struct data *d)
{
	return d->options.eod_mask_loss || d->options.pad >= 0 || d->c->o.fim.on || d->masked ||
	    train_documents_apart(&d->c->o) || d->c->o.loss_per == LOSS_PER_DOCUMENT;
}

int64_t
data_start(const struct data *d)
{
	return d->set[SPLIT_TRAIN].start;
}

int
data_stage(const struct data *d, int64_t sample)
{
	const struct set *s = &d->set[SPLIT_TRAIN];

	return d->stage_first && s->blend ? blend_stage_at(s->blend, sample - s->start) + 1 : 0;
}

/* Per-split lists have a separate one. */
const struct path_list *
data_train_list(const struct data *d)
{
	return data_paths_list(&d->c->paths, SPLIT_TRAIN);
}

/* Computed once: it reads the whole index. */
const char *
data_corpus_fingerprint(const struct data *d, int k)
{
	return d->fingerprint[corpora_find(d->corpora, data_train_list(d)->prefix[k])];
}

const char *
data_corpus_mask(const struct data *d, int k)
{
	return d->mask[corpora_find(d->corpora, data_train_list(d)->prefix[k])];
}

int64_t
data_micro_batch(const struct data *d, enum split which)
{
	const struct run_plan *p = &d->c->plan;

	return which == SPLIT_TRAIN ? p->shape.micro_batch_size : evaluation_micro_batch(p);
}

int64_t
data_group(const struct data *d)
{
	return d->c->plan.shape.micro_batch_size * d->c->plan.layout.data_parallel_size;
}

/* Memory for micro batches of the run's shape. */
struct data_reader *
data_reader_new(const struct data *d)
{
	struct data_reader *r = mem_zalloc(1, sizeof *r);
	size_t n = (size_t)d->c->plan.shape.seq_length;
	int64_t train = data_micro_batch(d, SPLIT_TRAIN), other = data_micro_batch(d, SPLIT_VALID);

	r->d = d;
	r->sampler = mem_zalloc((size_t)d->num_sets, sizeof(struct sampler *));
	r->samples = mem_alloc((size_t)(train > other ? train : other), sizeof *r->samples);
	r->ids = mem_alloc(n + 1, sizeof *r->ids);
	if (d->corpora &&
	    (train_documents_apart(&d->c->o) || d->c->o.loss_per == LOSS_PER_DOCUMENT)) {
		r->begin = mem_alloc(n + 1, sizeof *r->begin);
		r->part = mem_alloc(n + 1, sizeof *r->part);
	}
	r->mask = d->masked ? mem_alloc(n + 1, 1) : NULL;
	r->one = (struct sample){ mem_alloc(n, 4), mem_alloc(n, 4), mem_alloc(n, 4),
		mem_alloc(n, sizeof(float)), NULL };
	if (d->c->plan.shape.reset_attention_mask)
		r->one.documents = mem_alloc(n, 4);
	if (d->c->o.fim.on)
		r->fim = fim_new(d->c->tokenizer, &d->c->o.fim, &(struct err){ "" });
	return r;
}

/* NULL is allowed. */
void
data_reader_free(struct data_reader *r)
{
	if (!r)
		return;
	for (int i = 0; i < r->d->num_sets; i++)
		sampler_free(r->sampler[i]);
	free(r->sampler);
	free(r->samples);
	free(r->ids);
	free(r->mask);
	free(r->begin);
	free(r->part);
	free(r->one.tokens);
	free(r->one.labels);
	free(r->one.position_ids);
	free(r->one.loss_mask);
	free(r->one.documents);
	fim_free(r->fim);
	free(r);
}

/* In order, unless a permutation of the whole set is asked for, which the sampler holds by epochs;
 * full validation reads every sample once in any case. */
int
data_samples(struct data_reader *r, const struct data_place *at, int64_t *out, struct err *e)
{
	const struct train_config *c = r->d->c;
	const struct set *s = &r->d->set[at->set];
	struct sampler **sampler = &r->sampler[at->set];
	int64_t consumed = at->consumed - s->start, b = data_micro_batch(r->d, s->which);
	bool whole = c->o.full_validation && s->which == SPLIT_VALID;

	if (c->o.dataloader_type == SAMPLER_CYCLIC && !whole) {
		struct sampler_config sc = {
			.type = SAMPLER_CYCLIC,
			.no_data_sharding = c->o.no_data_sharding,
			.total = s->count,
			.micro_batch_size = b,
			.data_parallel_size = c->plan.layout.data_parallel_size,
		};

		if (!*sampler && !(*sampler = sampler_new(&sc, e)))
			return -1;
		return sampler_batch(*sampler, consumed, at->rank, out, e);
	}
	for (int64_t i = 0; i < b; i++) {
		int64_t n = consumed + at->rank * b + i;

		out[i] = n < s->count ? n : -1;
		if (out[i] < 0 && s->which == SPLIT_TRAIN)
			return err_set(e, "sample %lld of %lld: the train split is used up",
			    (long long)n, (long long)s->count);
	}
	return 0;
}

/* A token outside the vocabulary, and its position in its sample. */
struct bad {
	int64_t at, id;
};

/* Reports where a bad token of a sample comes from: its parts tell which sequence holds it. */
static int
bad_token(const struct data *d, const struct set *s, int64_t sample, struct bad bad, struct err *e)
{
	int64_t cap = 64, n;
	struct sample_part *part = mem_alloc((size_t)cap, sizeof *part);
	int64_t at = bad.at, i = 0;
	struct blend_corpus corpus;
	int k;

	n = blend_parts(s->blend, sample, &k, part, cap);
	if (n > cap) {
		part = mem_realloc(part, (size_t)n, sizeof *part);
		blend_parts(s->blend, sample, &k, part, n);
	}
	while (i < n - 1 && at >= part[i].count)
		at -= part[i++].count;
	blend_corpus(s->blend, k, &corpus);
	err_set(e,
	    "%s: document %lld: token id %lld is outside the vocabulary of %lld (%s sample %lld)",
	    dataset_prefix(corpus.dataset),
	    (long long)dataset_document_at(corpus.dataset, part[i].sequence), (long long)bad.id,
	    (long long)d->c->plan.model.vocab_size, split_name[s->which], (long long)sample);
	free(part);
	return -1;
}

/* Tokens of one sample, checked, into ids. Returns their number or -1. Mock tokens are a function
 * of seed, split, sample and position, like real ones. */
static int64_t
read_sample(const struct data *d, const struct set *s, int64_t sample, int64_t *ids, struct err *e)
{
	int64_t n = d->c->plan.shape.seq_length + 1, vocab = d->c->plan.model.vocab_size;

	if (!d->corpora) {
		uint64_t seed = (uint64_t)d->c->o.seed + s->which;
		uint32_t stream = rng_stream("mock data");

		for (int64_t t = 0; t < n; t++)
			ids[t] =
			    (int64_t)(rng_uniform(seed, (uint64_t)(sample * n + t), stream, 0) *
				(float)vocab);
		return n;
	}
	n = blend_tokens(s->blend, sample, ids, e);
	for (int64_t t = 0; t < n; t++)
		if (ids[t] < 0 || ids[t] >= vocab)
			return bad_token(d, s, sample, (struct bad){ t, ids[t] }, e);
	return n;
}

/* Rearranges the documents of a sample of n tokens. Returns how many there are before the filling,
 * which ends the sample. */
static int64_t
rearrange(
    const struct data_reader *r, const struct set *s, int64_t sample, int64_t n, struct err *e)
{
	struct blend_corpus corpus;
	struct mt19937 draws;
	struct err why;
	int64_t of_corpus, kept;
	int k;

	blend_locate(s->blend, sample, &k, &of_corpus);
	fim_draws(&draws, r->d->c->o.seed, of_corpus);
	kept = fim_rearrange(r->fim, &draws, r->ids, n, &why);
	if (kept >= 0)
		return kept;
	blend_corpus(s->blend, k, &corpus);
	return err_set(e, "--fim-data: sample %lld of %s: %s", (long long)of_corpus,
	    dataset_prefix(corpus.dataset), why.msg);
}

/* Where the document of each token of a sample begins: a part is a document. */
static void
find_begins(struct data_reader *r, const struct set *s, int64_t sample)
{
	int64_t most = r->d->c->plan.shape.seq_length + 1, at = 0, parts;
	int k;

	parts = blend_parts(s->blend, sample, &k, r->part, most);
	for (int64_t i = 0; i < parts; i++) {
		for (int64_t t = 0; t < r->part[i].count; t++)
			r->begin[at + t] = (int32_t)at;
		at += r->part[i].count;
	}
}

/* Divides the weight of every label of a sample of n tokens by the sum of those of its document in
 * this sample, so that each document counts as one. Before the rows are dealt to context ranks. */
static void
weigh_documents(struct data_reader *r, int64_t n)
{
	float *weight = r->one.loss_mask;

	for (int64_t t = 1, end; t < n; t = end) {
		double sum = 0;

		for (end = t; end < n && r->begin[end] == r->begin[t]; end++)
			sum += (double)weight[end - 1];
		for (int64_t k = t; k < end && sum > 0; k++)
			weight[k - 1] = (float)((double)weight[k - 1] / sum);
	}
}

/* Sample i of a set, with its inputs and labels, in r->one. */
static int
make_sample(struct data_reader *r, const struct set *s, int64_t sample, struct err *e)
{
	const struct data *d = r->d;
	int64_t len = d->c->plan.shape.seq_length, n = read_sample(d, s, sample, r->ids, e),
		kept = n;

	if (n >= 0 && r->fim)
		kept = rearrange(r, s, sample, n, e);
	if (kept < 0 || (r->mask && blend_weights(s->blend, sample, r->mask, e) < 0))
		return -1;
	if (r->begin)
		find_begins(r, s, sample);
	sample_assemble(&d->options,
	    &(struct sample_tokens){ .id = r->ids,
		.count = n,
		.mask = r->mask,
		.begin = train_documents_apart(&d->c->o) ? r->begin : NULL },
	    len, &r->one);
	if (d->c->o.loss_per == LOSS_PER_DOCUMENT)
		weigh_documents(r, n);
	for (int64_t label = kept; label < n; label++)
		if (label > 0)
			r->one.loss_mask[label - 1] = 0;
	return 0;
}

/* All samples are requested from the disk before the first is read. */
double
data_batch(
    struct data_reader *r, const struct data_place *at, const struct batch *out, struct err *e)
{
	const struct data *d = r->d;
	const struct set *s = &d->set[at->set];
	int64_t b = data_micro_batch(d, s->which), len = d->c->plan.shape.seq_length;
	struct deal deal = { &d->c->plan, b, at->context };
	double weight = 0;

	if (data_samples(r, at, r->samples, e) < 0)
		return -1;
	for (int64_t i = 0; i < b && d->corpora; i++)
		if (r->samples[i] >= 0)
			blend_will_need(s->blend, r->samples[i]);
	for (int64_t i = 0; i < b; i++) {
		if (r->samples[i] < 0)
			deal_padding(&r->one, 0, len);
		else if (make_sample(r, s, r->samples[i], e) < 0)
			return -1;
		weight += deal_sample(&deal, &r->one, i, out);
		deal_later(&deal, &r->one, i, out);
	}
	return weight;
}
