/*
 * data.c - the samples of a step and their order do not depend on data ranks, micro batches or
 * where a run was resumed: for mock data, one corpus and blends; --data-change decides what a
 * changed list means on resume
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "lib/base/rng.h"
#include "lib/ckpt/ckpt.h"
#include "lib/data/blend.h"
#include "lib/data/sampler.h"
#include "tests/check.h"
#include "tests/one_document.h"
#include "train/data/data.h"
#include "train/data/data_impl.h"
#include "train/step/pipeline.h"

#include <unistd.h>

enum {
	VOCAB = 499,
	EOD = VOCAB - 1,
	SEQ = 16,
	GLOBAL = 8,
	STEPS = 12,
	DOCUMENTS = 60,
	CORPORA = 3
};

/* The samples of a run's steps in their global order. */
struct order {
	uint64_t step[STEPS]; /* hash of all samples of the step, in order */
	int64_t unmasked[STEPS];
};

/* The source of the samples. */
enum data_from { MOCK, ONE, WEIGHTED, SIZES, SOURCES };

static struct err e;
static struct comm *world;
static char dir[] = "/tmp/mikoshi-data-XXXXXX";
static char corpus[CORPORA][64];
static char *prefixes[CORPORA] = { corpus[0], corpus[1], corpus[2] };
static double weights[CORPORA] = { 0.5, 0.3, 0.2 };

/* Documents of 1 to 40 tokens, each followed by EOD. */
static void
write_dataset(const char *path, uint64_t seed, uint32_t documents)
{
	struct dataset_writer *w = dataset_writer_new(path, DTYPE_U16, &e);
	int64_t ids[40];

	for (uint32_t i = 0; i < documents; i++) {
		int32_t n = 1 + (int32_t)(40 * rng_uniform(seed, i, 1, 0));

		for (int32_t t = 0; t < n; t++)
			ids[t] = t == n - 1
			    ? EOD
			    : (int64_t)(EOD *
				  rng_uniform(seed, (uint64_t)(i * 40 + (uint32_t)t), 2, 0));
		CHECK(add_ids(w, DTYPE_U16, ids, n, &e) == 0);
	}
	CHECK(dataset_commit(w, &e) == 0);
}

/* A run on this many data ranks. */
static struct train_config
config(int64_t data_ranks, int64_t micro_batch, enum data_from source)
{
	struct train_config c = { .eod = EOD, .train_iters = STEPS };

	c.o.mock_data = source == MOCK;
	c.o.eod_mask_loss = true;
	c.paths.list[0] = (struct path_list){ source == ONE ? 1 : CORPORA, prefixes,
		source == WEIGHTED ? weights : NULL };
	c.o.split = "100,0,0";
	c.o.seed = 1234;
	c.o.eval_interval = 1000;
	c.o.surplus = BLEND_SURPLUS;
	c.o.drop_last_partial = true;
	c.o.run.model.typed.pad_token_id = c.o.run.model.typed.bos_token_id = -1;
	c.plan.model.vocab_size = VOCAB;
	c.plan.layout = (struct layout){ 1, 1, data_ranks, 1 };
	c.plan.global_batch_size = c.plan.eval_batch_size = GLOBAL;
	c.plan.ramp = batch_constant(GLOBAL);
	c.plan.shape.seq_length = SEQ;
	c.plan.shape.micro_batch_size = micro_batch;
	c.plan.shape.num_microbatches = GLOBAL / (data_ranks * micro_batch);
	return c;
}

/* A batch of at most GLOBAL samples. */
static int32_t tokens[GLOBAL * SEQ], labels[GLOBAL * SEQ], positions[GLOBAL * SEQ];
static float mask[GLOBAL * SEQ];
static const struct batch x = { tokens, labels, positions, mask, NULL };

/* Adds one column of the batch to a hash: a sample's tokens, labels, positions and mask. */
static void
add_sample(struct hash_stream *h, int64_t b, int64_t i)
{
	for (int64_t t = 0; t < SEQ; t++) {
		hash_stream_add(h, &tokens[t * b + i], sizeof *tokens);
		hash_stream_add(h, &labels[t * b + i], sizeof *labels);
		hash_stream_add(h, &positions[t * b + i], sizeof *positions);
		hash_stream_add(h, &mask[t * b + i], sizeof *mask);
	}
}

/* One step: every micro batch of every data rank, in the order of the step loop. Samples must
 * follow each other without gap or overlap. */
static void
read_step(struct data_reader *r, const struct train_config *c, int step, struct order *out)
{
	struct hash_stream *h = hash_stream_new();
	int64_t b = c->plan.shape.micro_batch_size, next = step * GLOBAL;

	out->unmasked[step] = 0;
	for (int m = 0; m < c->plan.shape.num_microbatches; m++)
		for (int j = 0; j < c->plan.layout.data_parallel_size; j++) {
			struct data_place at = { SPLIT_TRAIN,
				pipeline_first_sample(&c->plan, step * GLOBAL, m, 0), j };
			int64_t first = pipeline_first_sample(&c->plan, step * GLOBAL, m, j);
			double n;

			CHECK(first == next);
			n = data_batch(r, &at, &x, &e);
			CHECK(n >= 0);
			out->unmasked[step] += (int64_t)n;
			for (int64_t i = 0; i < b; i++)
				add_sample(h, b, i);
			next = first + b;
		}
	CHECK(next == (step + 1) * GLOBAL);
	out->step[step] = hash_stream_free(h);
}

/* Steps from first_step on, by a process that starts with that step. */
static struct order
read_order(const struct train_config *c, int first_step)
{
	struct order out = { { 0 }, { 0 } };
	struct data *d = data_open(c, world, NULL, &e);
	struct data_reader *r;

	CHECK(d != NULL);
	if (!d) {
		fprintf(stderr, "%s\n", e.msg);
		return out;
	}
	r = data_reader_new(d);
	for (int s = first_step; s < STEPS; s++)
		read_step(r, c, s, &out);
	data_reader_free(r);
	data_close(d);
	return out;
}

static bool
same(const struct order *a, const struct order *b, int first_step)
{
	size_t n = STEPS - (size_t)first_step;

	return !memcmp(a->step + first_step, b->step + first_step, n * sizeof *a->step) &&
	    !memcmp(a->unmasked + first_step, b->unmasked + first_step, n * sizeof *a->unmasked);
}

static void
check_layouts(enum data_from source)
{
	static const int64_t micro[] = { 1, 2, 4, 8 };
	struct train_config one = config(1, 1, source);
	struct order want = read_order(&one, 0), got;

	for (int64_t ranks = 1; ranks <= 8; ranks *= 2)
		for (size_t i = 0; i < 4 && ranks * micro[i] <= GLOBAL; i++) {
			struct train_config c = config(ranks, micro[i], source);

			got = read_order(&c, 0);
			CHECK(same(&got, &want, 0));
			got = read_order(&c, 5);
			CHECK(same(&got, &want, 5));
		}
	for (int s = 1; s < STEPS; s++)
		CHECK(want.step[s] != want.step[s - 1]);
	one.o.seed++;
	got = read_order(&one, 0);
	CHECK(!same(&got, &want, 0));
}

/* A token outside the vocabulary is an error of its batch that names dataset and document. */
static void
check_bad_token(void)
{
	struct train_config c = config(1, 1, WEIGHTED);
	struct data *d;
	struct data_reader *r;
	int bad = 0;

	c.plan.model.vocab_size = EOD;
	d = data_open(&c, world, NULL, &e);
	CHECK(d != NULL);
	r = data_reader_new(d);
	for (int64_t s = 0; s < GLOBAL && !bad; s++)
		bad = data_batch(r, &(struct data_place){ SPLIT_TRAIN, s, 0, 0 }, &x, &e) < 0;
	CHECK(bad && strstr(e.msg, ": document ") &&
	    strstr(e.msg, "token id 498 is outside the vocabulary of 498"));
	data_reader_free(r);
	data_close(d);
}

/* Sample numbers of one step of the cyclic loader, counted over all ranks. */
static void
count_step(struct data_reader *r, const struct train_config *c, int64_t step, int *seen)
{
	int64_t numbers[GLOBAL];

	for (int m = 0; m < c->plan.shape.num_microbatches; m++)
		for (int j = 0; j < c->plan.layout.data_parallel_size; j++) {
			struct data_place at = { SPLIT_TRAIN,
				pipeline_first_sample(&c->plan, step * GLOBAL, m, 0), j };

			CHECK(data_samples(r, &at, numbers, &e) == 0);
			for (int64_t i = 0; i < c->plan.shape.micro_batch_size; i++)
				seen[numbers[i]]++;
		}
}

/* Each epoch of the cyclic loader gives every sample of its groups once, in a different order than
 * the previous epoch; a process that starts in the middle continues from there. */
static void
check_cyclic(bool no_sharding)
{
	struct train_config c = config(2, 2, WEIGHTED);
	int64_t epoch[2][GLOBAL], groups, late[2], straight[2];
	struct data_reader *r, *again;
	struct data_set set;
	struct data *d;
	int *seen;

	c.o.dataloader_type = SAMPLER_CYCLIC;
	c.o.no_data_sharding = no_sharding;
	d = data_open(&c, world, NULL, &e);
	CHECK(d != NULL);
	data_set(d, SPLIT_TRAIN, &set);
	groups = set.count / 4;
	r = data_reader_new(d);
	again = data_reader_new(d);
	seen = calloc((size_t)set.count, sizeof *seen);
	/* GLOBAL is two groups of 4. */
	for (int64_t step = 0; step < groups / 2; step++)
		count_step(r, &c, step, seen);
	for (int64_t i = 0; i < set.count; i++)
		CHECK(seen[i] <= 1);
	for (int i = 0; i < 2; i++)
		CHECK(data_samples(r, &(struct data_place){ SPLIT_TRAIN, i * groups * 4, 1, 0 },
			  epoch[i], &e) == 0);
	CHECK(memcmp(epoch[0], epoch[1], 2 * sizeof **epoch) != 0);
	CHECK(data_samples(r, &(struct data_place){ SPLIT_TRAIN, 40, 1, 0 }, straight, &e) == 0);
	CHECK(data_samples(again, &(struct data_place){ SPLIT_TRAIN, 40, 1, 0 }, late, &e) == 0);
	CHECK(!memcmp(straight, late, sizeof late));
	CHECK(data_samples(r, &(struct data_place){ SPLIT_TRAIN, 42, 1, 0 }, straight, &e) < 0);
	free(seen);
	data_reader_free(again);
	data_reader_free(r);
	data_close(d);
}

/* --- resuming with other data ----------------------------------------------------------------- */

/* A checkpoint of so many consumed samples of the run's data, in SAVE. */
static void
write_checkpoint(const struct data *d, int64_t consumed, const char *save)
{
	struct slice slice = { .ndim = 1, .start = { 0 }, .count = { 1 } };
	struct ckpt_commit commit = { .save = save,
		.iteration = consumed / GLOBAL,
		.options = "num-layers 1\nhidden-size 8\nnum-attention-heads 1\nvocab-size "
			   "8\nseq-length 16\n" };
	const struct blend *b = d->set[SPLIT_TRAIN].blend;
	struct str manifest = { 0 }, state = { 0 };
	struct ckpt_writer *w;
	int64_t shape = 1, counts[CORPORA];
	struct err ignored;
	char tmp[IO_PATH];
	float one = 1;

	io_remove_tree(save, &ignored);
	blend_consumed(b, consumed - d->set[SPLIT_TRAIN].start, counts);
	for (int k = 0; k < blend_num_corpora(b); k++) {
		struct blend_corpus c;

		blend_corpus(b, k, &c);
		counts[k] += c.first;
	}
	CHECK(io_mkdir_p(save, &e) == 0 && ckpt_begin(save, commit.iteration, tmp, &e) == 0);
	w = ckpt_writer_new(tmp, 0, &e);
	ckpt_declare(w, "x", DTYPE_F32, 1, &shape, &slice);
	CHECK(ckpt_write(w, &one, &e) == 0 && ckpt_writer_finish(w, &manifest, &e) == 0);
	str_addf(&state,
	    "iteration %lld\nconsumed_train_samples %lld\noptimizer_steps 0\nskipped_iterations "
	    "%lld\n",
	    (long long)commit.iteration, (long long)consumed, (long long)commit.iteration);
	data_state(d, counts, counts, &state);
	commit.tmp = tmp;
	commit.manifest = manifest.buf;
	commit.state = state.buf;
	CHECK(ckpt_commit(&commit, &e) == 0);
	str_release(&manifest);
	str_release(&state);
}

/* The corpus and its sample at a number of the run. */
static void
locate(const struct data *d, int64_t sample, int *k, int64_t *of_corpus)
{
	const struct set *s = &d->set[SPLIT_TRAIN];

	blend_locate(s->blend, sample - s->start, k, of_corpus);
}

/* A run of 40 samples of two corpora continues with three, in different shares: each corpus
 * continues after its last sample; the run then stops again, and the resumed run equals an
 * uninterrupted one. */
static void
check_exclude_seen(const char *save)
{
	struct train_config c = config(1, 1, WEIGHTED), more;
	static double other[CORPORA] = { 0.2, 0.2, 0.6 };
	int64_t next[CORPORA] = { 0 }, sample, again;
	struct data *d, *resumed;
	int k, l;

	c.paths.list[0].count = 2;
	d = data_open(&c, world, NULL, &e);
	CHECK(d != NULL);
	for (int64_t i = 0; i < 40; i++) {
		locate(d, i, &k, &sample);
		CHECK(sample == next[k]++);
	}
	write_checkpoint(d, 40, save);
	data_close(d);
	more = c;
	more.paths.list[0] = (struct path_list){ CORPORA, prefixes, other };
	more.start = START_RESUME;
	more.weights_from = save;
	CHECK(!data_open(&more, world, NULL, &e) &&
	    strstr(e.msg, "the list has 3 corpora and had 2; --data-change restart"));
	more.o.data_change = DATA_CHANGE_EXCLUDE_SEEN;
	d = data_open(&more, world, NULL, &e);
	CHECK(d != NULL);
	for (int64_t i = 40; i < STEPS * GLOBAL; i++) {
		locate(d, i, &k, &sample);
		CHECK(sample == next[k]++);
	}
	CHECK(next[2] > 20);
	write_checkpoint(d, 64, save);
	more.o.data_change = DATA_CHANGE_REFUSE;
	resumed = data_open(&more, world, NULL, &e);
	CHECK(resumed != NULL);
	for (int64_t i = 64; resumed && i < STEPS * GLOBAL; i++) {
		locate(d, i, &k, &sample);
		locate(resumed, i, &l, &again);
		CHECK(k == l && sample == again);
	}
	data_close(resumed);
	data_close(d);
}

/* A corpus that is removed and added again continues where it stopped; an exhausted one starts
 * over. */
static void
check_return(const char *save)
{
	struct train_config c = config(1, 1, WEIGHTED), less;
	int64_t gave, sample, count, first = -1;
	struct blend_corpus b;
	struct data *d;
	int k;

	c.start = START_RESUME;
	c.weights_from = save;
	c.o.data_change = DATA_CHANGE_EXCLUDE_SEEN;
	less = c;
	less.paths.list[0].count = 1;
	less.paths.list[0].weight = NULL;
	d = data_open(&less, world, NULL, &e);
	CHECK(d != NULL && d->num_gone == 2);
	gave = d->gone[1]->consumed;
	write_checkpoint(d, 72, save);
	data_close(d);
	c.train_iters = 200;
	d = data_open(&c, world, NULL, &e);
	CHECK(d != NULL && d->num_gone == 0);
	blend_corpus(d->set[SPLIT_TRAIN].blend, 2, &b);
	count = samples_count(b.samples);
	CHECK(b.first == gave && b.drawn > count);
	for (int64_t i = 72; i < 200 * GLOBAL; i++) {
		locate(d, i, &k, &sample);
		if (k != 2)
			continue;
		CHECK(sample == (first < 0 ? gave : (first + 1) % count));
		first = sample;
	}
	data_close(d);
}

/* restart: the new list gives what a run of the remaining samples would read. */
static void
check_restart(const char *save)
{
	struct train_config c = config(1, 1, ONE), other, fresh;
	struct data *d, *want;
	int k, l;
	int64_t sample, expected;

	d = data_open(&c, world, NULL, &e);
	CHECK(d != NULL);
	write_checkpoint(d, 40, save);
	data_close(d);
	other = config(1, 1, WEIGHTED);
	other.start = START_RESUME;
	other.weights_from = save;
	other.o.data_change = DATA_CHANGE_RESTART;
	d = data_open(&other, world, NULL, &e);
	fresh = config(1, 1, WEIGHTED);
	fresh.train_iters = STEPS - 5;
	want = data_open(&fresh, world, NULL, &e);
	CHECK(d && want);
	for (int64_t i = 0; i < (STEPS - 5) * GLOBAL; i++) {
		locate(d, 40 + i, &k, &sample);
		locate(want, i, &l, &expected);
		CHECK(k == l && sample == expected);
	}
	data_close(want);
	data_close(d);
}

/* A longer run whose corpus needs one more epoch has a different order; exclude-seen keeps the old
 * one. */
static void
check_longer(const char *save)
{
	struct train_config c = config(1, 1, ONE);
	struct data *d;
	int64_t sample;
	int k;

	d = data_open(&c, world, NULL, &e);
	CHECK(d != NULL);
	write_checkpoint(d, 40, save);
	data_close(d);
	c.train_iters = 100;
	c.start = START_RESUME;
	c.weights_from = save;
	d = data_open(&c, world, NULL, &e);
	CHECK(d && data_record_reordered(d, false) && d->set[SPLIT_TRAIN].start == 0);
	data_close(d);
	c.o.data_change = DATA_CHANGE_EXCLUDE_SEEN;
	d = data_open(&c, world, NULL, &e);
	CHECK(d && !data_record_reordered(d, false) && d->set[SPLIT_TRAIN].start == 40);
	locate(d, 41, &k, &sample);
	CHECK(sample == 41);
	data_close(d);
	c.o.seed++;
	CHECK(!data_open(&c, world, NULL, &e) &&
	    strstr(e.msg, "exclude-seen: corpora keep their order only") &&
	    strstr(e.msg, "--seed is 1235 and was 1234"));
}

int
main(void)
{
	struct err ignored;
	char save[64];
	uint64_t seed = check_seed();

	prog_quiet(-1);
	world = mpi_world(&e);
	CHECK(world && mkdtemp(dir));
	for (int k = 0; k < CORPORA; k++) {
		snprintf(corpus[k], sizeof corpus[k], "%s/text%d", dir, k);
		write_dataset(corpus[k], seed + (uint64_t)k, DOCUMENTS * (1 + (uint32_t)k));
	}
	for (int s = MOCK; s < SOURCES; s++)
		check_layouts((enum data_from)s);
	check_bad_token();
	check_cyclic(false);
	check_cyclic(true);
	snprintf(save, sizeof save, "%s/save", dir);
	check_exclude_seen(save);
	check_return(save);
	check_restart(save);
	check_longer(save);
	CHECK(io_remove_tree(dir, &ignored) == 0);
	mpi_end();
	return check_done();
}
