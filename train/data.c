/*
 * data.c - the batches of a run
 *
 * A batch is a function of the seed and the number of its first sample: nothing advances, so
 * resuming needs no state and every rank of a data rank's tensor and pipeline group reads the
 * same bytes. Sample maps follow Megatron-LM's so exactly that its cached index files and its
 * order are ours (lib/format/samples). Token ids are checked here, sample by sample; embedding
 * and loss trust them.
 */
#include "train/data.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/base/rng.h"

#include <stdlib.h>
#include <string.h>

/* A run's samples; read-only once open. */
struct data {
	struct dataset *dataset;                /* NULL: mock data */
	struct samples *samples[SPLIT_COUNT];
	int64_t count[SPLIT_COUNT];
	struct sample_options options;
	int64_t vocab_size, seq_length, micro_batch_size;
	uint64_t seed;
	char fingerprint[128];
};

/* What one sample is made in. */
struct making {
	int64_t *ids;                           /* [s + 1] */
	struct sample one;                      /* [s] each */
};

/* Samples that the run asks of each split; Megatron-LM's numbers, so that the maps are the same.
 * Evaluations are counted as Megatron-LM does, one more than fit between the steps. */
static void
wanted(const struct train_config *c, int64_t out[SPLIT_COUNT])
{
	int64_t b = c->plan.global_batch_size, evals = c->train_iters / c->o.eval_interval + 1;

	out[SPLIT_TRAIN] = c->o.train_samples ? c->o.train_samples : c->train_iters * b;
	out[SPLIT_VALID] = evals * c->o.eval_iters * b;
	out[SPLIT_TEST] = c->o.eval_iters * b;
}

/* Evaluation alone needs no training map; a split that is asked for nothing is left out. */
static bool
needs(const struct train_config *c, enum split which, int64_t num_samples)
{
	return num_samples > 0 && !(which == SPLIT_TRAIN && c->o.skip_train);
}

/* A map that cannot be written is an error only where the user named the place. On the other
 * ranks it is read from the cache or built in memory, with the same content. */
static int
open_split(struct data *d, const struct train_config *c, enum split which, int64_t num_samples,
    bool write, struct err *e)
{
	struct samples_config s = {
		.which = which,
		.split = c->o.split,
		.num_samples = num_samples,
		.seq_length = c->plan.shape.seq_length,
		.seed = c->o.seed,
		.add_extra_token = true,
		.drop_last_partial = true,
		.cache_dir = c->o.data_cache_path,
		.write_cache = write,
	};

	d->samples[which] = samples_open(d->dataset, &s, e);
	if (!d->samples[which] && write && !c->o.data_cache_path) {
		/* The default place may not be writable: every rank then builds its own in memory.
		 */
		s.write_cache = false;
		d->samples[which] = samples_open(d->dataset, &s, e);
	}
	if (!d->samples[which])
		return -1;
	d->count[which] = samples_count(d->samples[which]);
	return 0;
}

/* Splits of no share, or asked for nothing, stay NULL with a count of 0, which is how evaluation
 * knows to leave them out. */
static int
open_splits(struct data *d, const struct train_config *c, bool write, struct err *e)
{
	struct split_matrix m;
	int64_t n[SPLIT_COUNT];

	if (split_parse(c->o.split, &m, e) < 0)
		return -1;
	wanted(c, n);
	for (int w = 0; w < SPLIT_COUNT; w++)
		if (m.present[w] && needs(c, (enum split)w, n[w]) &&
		    open_split(d, c, (enum split)w, n[w], write, e) < 0)
			return -1;
	return 0;
}

/* Rank 0's, once a run; cached maps are named because a stale cache is a thing to know of. */
static void
report(const struct data *d)
{
	for (int w = 0; w < SPLIT_COUNT; w++)
		if (d->samples[w])
			note("data: %s: %lld samples, %lld epochs of %lld tokens%s", split_name[w],
			    (long long)d->count[w], (long long)samples_num_epochs(d->samples[w]),
			    (long long)samples_tokens_per_epoch(d->samples[w]),
			    samples_from_cache(d->samples[w]) ? " (maps from the cache)" : "");
}

/* Collective; fails on all ranks when it does on one. */
static int
open_dataset(struct data *d, const struct train_config *c, struct comm *world, struct err *e)
{
	d->dataset = dataset_open(c->o.data_path.item[0], e);
	if (comm_agree(world, d->dataset ? 0 : -1, e))
		return -1;
	dataset_fingerprint(d->dataset, d->fingerprint);
	/* Rank 0 builds and writes; the others wait, then find the maps. */
	if (comm_agree(world, world->rank == 0 ? open_splits(d, c, true, e) : 0, e) ||
	    comm_agree(world, world->rank != 0 ? open_splits(d, c, false, e) : 0, e))
		return -1;
	if (world->rank == 0)
		report(d);
	return 0;
}

/* Collective over world unless the data are made up. */
struct data *
data_open(const struct train_config *c, struct comm *world, struct err *e)
{
	struct data *d = mem_zalloc(1, sizeof *d);

	d->options = (struct sample_options){ .eod = c->eod, .pad = -1, .add_extra_token = true,
	                                      .eod_mask_loss = c->o.eod_mask_loss,
	                                      .reset_position_ids = c->o.reset_position_ids };
	d->vocab_size = c->plan.model.vocab_size;
	d->seq_length = c->plan.shape.seq_length;
	d->micro_batch_size = c->plan.shape.micro_batch_size;
	d->seed = (uint64_t)c->o.seed;
	if (c->o.mock_data) {
		snprintf(d->fingerprint, sizeof d->fingerprint, "mock");
		wanted(c, d->count);
	} else if (open_dataset(d, c, world, e) < 0) {
		data_close(d);
		return NULL;
	}
	return d;
}

/* NULL is closed already. */
void
data_close(struct data *d)
{
	if (!d)
		return;
	for (int w = 0; w < SPLIT_COUNT; w++)
		samples_close(d->samples[w]);
	dataset_close(d->dataset);
	free(d);
}

/* Samples of the split's map, at least as many as the run asks for; 0 when the split was not
 * opened. */
int64_t
data_count(const struct data *d, enum split which)
{
	return d->count[which];
}

/* Goes into checkpoints, to notice on resume that the data changed. Valid until data_close. */
const char *
data_fingerprint(const struct data *d)
{
	return d->fingerprint;
}

/* The document that holds a sequence; sequences of a document stand side by side. Only for the
 * message about a bad token. */
static int64_t
document_of(const struct dataset *d, int64_t sequence)
{
	int64_t low = 0, high = dataset_num_documents(d);

	while (high - low > 1) {
		int64_t mid = low + (high - low) / 2;

		if (dataset_document_start(d, mid) <= sequence)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* A token that is no part of the vocabulary, and its number in its sample. */
struct bad {
	int64_t at, id;
};

/* Says where a bad token of a sample comes from. A sample is pieced together from several
 * sequences; the parts say which of them holds the token. */
static int
bad_token(const struct data *d, enum split which, int64_t sample, struct bad bad, struct err *e)
{
	int64_t cap = 64, n;
	struct sample_part *part = mem_alloc((size_t)cap, sizeof *part);
	int64_t at = bad.at, i = 0;

	n = samples_parts(d->samples[which], sample, part, cap);
	if (n > cap) {
		part = mem_realloc(part, (size_t)n, sizeof *part);
		samples_parts(d->samples[which], sample, part, n);
	}
	while (i < n - 1 && at >= part[i].count)
		at -= part[i++].count;
	err_set(e,
	    "%s: document %lld: token id %lld is outside the vocabulary of %lld (%s sample %lld)",
	    dataset_prefix(d->dataset), (long long)document_of(d->dataset, part[i].sequence),
	    (long long)bad.id, (long long)d->vocab_size, split_name[which], (long long)sample);
	free(part);
	return -1;
}

/* Tokens of one sample, checked, into ids. Returns their number or -1. Mock tokens are a function of
 * seed, split, sample and position, like real ones. */
static int64_t
read_sample(const struct data *d, enum split which, int64_t sample, int64_t *ids, struct err *e)
{
	int64_t n = d->seq_length + 1;

	if (!d->dataset) {
		uint32_t stream = rng_stream("mock data");

		for (int64_t t = 0; t < n; t++)
			ids[t] = (int64_t)(rng_uniform(d->seed + which, (uint64_t)(sample * n + t), stream, 0) *
			    (float)d->vocab_size);
		return n;
	}
	n = samples_tokens(d->samples[which], sample, ids, e);
	for (int64_t t = 0; t < n; t++)
		if (ids[t] < 0 || ids[t] >= d->vocab_size)
			return bad_token(d, which, sample, (struct bad){ t, ids[t] }, e);
	return n;
}

/* Memory for making samples of s tokens. */
static struct making
making_new(int64_t s)
{
	size_t n = (size_t)s;

	return (struct making){ mem_alloc(n + 1, sizeof(int64_t)),
		{ mem_alloc(n, 4), mem_alloc(n, 4), mem_alloc(n, 4), mem_alloc(n, sizeof(float)) } };
}

static void
making_free(struct making *m)
{
	free(m->ids);
	free(m->one.tokens);
	free(m->one.labels);
	free(m->one.position_ids);
	free(m->one.loss_mask);
}

/* Sample i of b goes into column i of arrays of [s, b], as the layers keep tokens. Returns the tokens
 * that the loss counts. */
static int64_t
interleave(const struct sample *one, int64_t s, int64_t b, int64_t i, const struct batch *out)
{
	int64_t unmasked = 0;

	for (int64_t t = 0; t < s; t++) {
		out->tokens[t * b + i] = one->tokens[t];
		out->labels[t * b + i] = one->labels[t];
		out->positions[t * b + i] = one->position_ids[t];
		out->loss_mask[t * b + i] = one->loss_mask[t];
		unmasked += one->loss_mask[t] != 0;
	}
	return unmasked;
}

/* Samples wrap round at the end of the map. */
int64_t
data_batch(const struct data *d, enum split which, int64_t first, const struct batch *out, struct err *e)
{
	int64_t b = d->micro_batch_size, unmasked = 0;
	struct making m = making_new(d->seq_length);

	for (int64_t i = 0; i < b && unmasked >= 0; i++) {
		int64_t n = read_sample(d, which, (first + i) % d->count[which], m.ids, e);

		if (n >= 0) {
			sample_assemble(&d->options, m.ids, n, d->seq_length, &m.one);
			unmasked += interleave(&m.one, d->seq_length, b, i, out);
		} else {
			unmasked = -1;
		}
	}
	making_free(&m);
	return unmasked;
}
