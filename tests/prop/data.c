/* data.c - the samples of a step and their order depend neither on the data ranks and micro batches
 * nor on where a run resumed */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "lib/base/rng.h"
#include "tests/check.h"
#include "train/data.h"
#include "train/pipeline.h"

#include <unistd.h>

enum { VOCAB = 499, EOD = VOCAB - 1, SEQ = 16, GLOBAL = 8, STEPS = 12, DOCUMENTS = 60 };

/* What the steps of a run hold: samples in their global order. */
struct order {
	uint64_t step[STEPS];           /* hash of all samples of the step, in order */
	int64_t unmasked[STEPS];
};

static struct err e;
static struct comm *world;
static char dir[] = "/tmp/mikoshi-data-XXXXXX";
static const char *prefix;

/* Documents of 1 to 40 tokens, each closed by EOD. */
static void
write_dataset(const char *path, uint64_t seed)
{
	struct dataset_writer *w = dataset_writer_new(path, DTYPE_U16, &e);
	int64_t ids[40];

	for (uint32_t i = 0; i < DOCUMENTS; i++) {
		int64_t n = 1 + (int64_t)(40 * rng_uniform(seed, i, 1, 0));

		for (int64_t t = 0; t < n; t++)
			ids[t] = t == n - 1
			    ? EOD
			    : (int64_t)(EOD * rng_uniform(seed, (uint64_t)(i * 40 + t), 2, 0));
		CHECK(dataset_add_sequence(w, ids, n, &e) == 0 && dataset_end_document(w, &e) == 0);
	}
	CHECK(dataset_commit(w, &e) == 0);
}

/* A run on so many data ranks, of mock data or of the dataset. */
static struct train_config
config(int64_t data_ranks, int64_t micro_batch, bool mock)
{
	struct train_config c = { .eod = EOD, .train_iters = STEPS };

	c.o.mock_data = mock;
	c.o.eod_mask_loss = true;
	c.o.data_path = (struct opt_list){ 1, &prefix };
	c.o.split = "100,0,0";
	c.o.seed = 1234;
	c.o.eval_interval = 1000;
	c.plan.model.vocab_size = VOCAB;
	c.plan.layout = (struct layout){ 1, 1, data_ranks, 1 };
	c.plan.global_batch_size = GLOBAL;
	c.plan.shape.seq_length = SEQ;
	c.plan.shape.micro_batch_size = micro_batch;
	c.plan.shape.num_microbatches = GLOBAL / (data_ranks * micro_batch);
	return c;
}

/* A batch of at most GLOBAL samples. */
static int32_t tokens[GLOBAL * SEQ], labels[GLOBAL * SEQ], positions[GLOBAL * SEQ];
static float mask[GLOBAL * SEQ];
static const struct batch x = { tokens, labels, positions, mask };

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

/* One step: every micro batch of every data rank, as the step loop asks for them. Samples must meet
 * without gap or overlap. */
static void
read_step(struct data *d, const struct train_config *c, int step, struct order *out)
{
	struct hash_stream *h = hash_stream_new();
	int64_t b = c->plan.shape.micro_batch_size, next = step * GLOBAL;

	out->unmasked[step] = 0;
	for (int m = 0; m < c->plan.shape.num_microbatches; m++)
		for (int j = 0; j < c->plan.layout.data_parallel_size; j++) {
			int64_t first = pipeline_first_sample(&c->plan, step * GLOBAL, m, j), n;

			CHECK(first == next);
			n = data_batch(d, SPLIT_TRAIN, first, &x, &e);
			CHECK(n >= 0);
			out->unmasked[step] += n;
			for (int64_t i = 0; i < b; i++)
				add_sample(h, b, i);
			next = first + b;
		}
	CHECK(next == (step + 1) * GLOBAL);
	out->step[step] = hash_stream_free(h);
}

/* Steps from first_step on, by a process that starts there. */
static struct order
read_order(const struct train_config *c, int first_step)
{
	struct order out = { { 0 }, { 0 } };
	struct data *d = data_open(c, world, &e);

	CHECK(d != NULL);
	for (int s = first_step; d && s < STEPS; s++)
		read_step(d, c, s, &out);
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
check_layouts(bool mock)
{
	static const int64_t micro[] = { 1, 2, 4, 8 };
	struct train_config one = config(1, 1, mock);
	struct order want = read_order(&one, 0), got;

	for (int64_t ranks = 1; ranks <= 8; ranks *= 2)
		for (size_t i = 0; i < 4 && ranks * micro[i] <= GLOBAL; i++) {
			struct train_config c = config(ranks, micro[i], mock);

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

/* A token outside the vocabulary stops at its batch, named by dataset and document. */
static void
check_bad_token(void)
{
	struct train_config c = config(1, 1, false);
	struct data *d;
	int bad = 0;

	c.plan.model.vocab_size = EOD;
	d = data_open(&c, world, &e);
	CHECK(d != NULL);
	for (int64_t s = 0; s < GLOBAL && !bad; s++)
		bad = data_batch(d, SPLIT_TRAIN, s, &x, &e) < 0;
	CHECK(bad && strstr(e.msg, ": document ") &&
	    strstr(e.msg, "token id 498 is outside the vocabulary of 498"));
	data_close(d);
}

int
main(void)
{
	char path[64];
	struct err ignored;

	prog_quiet(-1);
	world = mpi_world(&e);
	CHECK(world && mkdtemp(dir));
	snprintf(path, sizeof path, "%s/text", dir);
	prefix = path;
	write_dataset(path, check_seed());
	check_layouts(true);
	check_layouts(false);
	check_bad_token();
	CHECK(io_remove_tree(dir, &ignored) == 0);
	mpi_end();
	return check_done();
}
