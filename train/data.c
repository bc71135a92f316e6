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

/* A run's samples. What a batch is made in is allocated once and used again for each. */
struct data {
	struct dataset *dataset;                /* NULL: mock data */
	struct samples *samples[SPLIT_COUNT];
	int64_t count[SPLIT_COUNT];
	struct sample_options options;
	int64_t vocab_size, seq_length, micro_batch_size;
	uint64_t seed;
	int64_t *ids;                           /* [s + 1], of one sample */
	struct sample one;                      /* [s] each */
	struct batch batch;                     /* [s b] each, sequence-major */
	char fingerprint[128];
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

/* Collective over world unless the data are made up. Host memory for one sample and one micro
 * batch is taken once here, and lives until data_close. */
struct data *
data_open(const struct train_config *c, struct comm *world, struct err *e)
{
	struct data *d = mem_zalloc(1, sizeof *d);
	int64_t s = c->plan.shape.seq_length, rows = s * c->plan.shape.micro_batch_size;

	d->options = (struct sample_options){ .eod = c->eod, .pad = -1, .add_extra_token = true,
	                                      .eod_mask_loss = c->o.eod_mask_loss,
	                                      .reset_position_ids = c->o.reset_position_ids };
	d->vocab_size = c->plan.model.vocab_size;
	d->seq_length = s;
	d->micro_batch_size = c->plan.shape.micro_batch_size;
	d->seed = (uint64_t)c->o.seed;
	d->ids = mem_alloc((size_t)s + 1, sizeof *d->ids);
	d->one = (struct sample){ mem_alloc((size_t)s, 4), mem_alloc((size_t)s, 4),
		mem_alloc((size_t)s, 4), mem_alloc((size_t)s, sizeof(float)) };
	d->batch = (struct batch){ mem_alloc((size_t)rows, 4), mem_alloc((size_t)rows, 4),
		mem_alloc((size_t)rows, 4), mem_alloc((size_t)rows, sizeof(float)) };
	if (c->o.mock_data) {
		snprintf(d->fingerprint, sizeof d->fingerprint, "mock");
		wanted(c, d->count);
	} else if (open_dataset(d, c, world, e) < 0) {
		data_close(d);
		return NULL;
	}
	return d;
}

/* NULL is closed already. Batches that were given out point into it. */
void
data_close(struct data *d)
{
	if (!d)
		return;
	for (int w = 0; w < SPLIT_COUNT; w++)
		samples_close(d->samples[w]);
	dataset_close(d->dataset);
	free(d->ids);
	free(d->one.tokens);
	free(d->one.labels);
	free(d->one.position_ids);
	free(d->one.loss_mask);
	free(d->batch.tokens);
	free(d->batch.labels);
	free(d->batch.positions);
	free(d->batch.loss_mask);
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

/* Says where token number `at` of a sample comes from. A sample is pieced together from several
 * sequences; the parts say which of them holds the token. */
static int
bad_token(const struct data *d, enum split which, int64_t sample, int64_t at, struct err *e)
{
	int64_t cap = 64, n;
	struct sample_part *part = mem_alloc((size_t)cap, sizeof *part);
	int64_t id = d->ids[at], i = 0;

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
	    (long long)id, (long long)d->vocab_size, split_name[which], (long long)sample);
	free(part);
	return -1;
}

/* Tokens of one sample, checked. Returns their number or -1. Mock tokens are a function of seed,
 * split, sample and position, like real ones. */
static int64_t
read_sample(struct data *d, enum split which, int64_t sample, struct err *e)
{
	int64_t n = d->seq_length + 1;

	if (!d->dataset) {
		for (int64_t t = 0; t < n; t++)
			d->ids[t] =
			    (int64_t)(rng_uniform(d->seed + which, (uint64_t)(sample * n + t),
					  rng_stream("mock data"), 0) *
				(float)d->vocab_size);
		return n;
	}
	n = samples_tokens(d->samples[which], sample, d->ids, e);
	for (int64_t t = 0; t < n; t++)
		if (d->ids[t] < 0 || d->ids[t] >= d->vocab_size)
			return bad_token(d, which, sample, t, e);
	return n;
}

/* Samples first .. first + b - 1, wrapping round at the end of the map, into arrays of [s, b]
 * with the sample fastest, as the layers keep tokens. *out points into d until the next call.
 * Returns the number of tokens that the loss counts, or -1 with the document of a bad id. */
int64_t
data_batch(struct data *d, enum split which, int64_t first, struct batch *out, struct err *e)
{
	int64_t b = d->micro_batch_size, unmasked = 0;

	for (int64_t i = 0; i < b; i++) {
		int64_t n = read_sample(d, which, (first + i) % d->count[which], e);

		if (n < 0)
			return -1;
		sample_assemble(&d->options, d->ids, n, d->seq_length, &d->one);
		for (int64_t t = 0; t < d->seq_length; t++) {
			d->batch.tokens[t * b + i] = d->one.tokens[t];
			d->batch.labels[t * b + i] = d->one.labels[t];
			d->batch.positions[t * b + i] = d->one.position_ids[t];
			d->batch.loss_mask[t * b + i] = d->one.loss_mask[t];
			unmasked += d->one.loss_mask[t] != 0;
		}
	}
	*out = d->batch;
	return unmasked;
}
