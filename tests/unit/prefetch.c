/* prefetch.c - tests of reading ahead on made-up data: alternating training and evaluation give the
 * batches of a plain reader, nothing is read twice, and neither waits for the other */
#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/config/config.h"
#include "train/data/prefetch.h"
#include "train/step/pipeline.h"

#include <unistd.h>

/* A micro batch is of B samples of S tokens, a step of M of them, an evaluation of EVAL steps, a
 * ring of two steps. */
enum { S = 4, B = 2, M = 2, EVAL = 2, RING = 2 * M, START = 8 };

static struct err e;
static struct data_reader *reader;

/* The device never has work, so it is always idle. */
static int
device_sync(struct stream *st, struct err *err)
{
	(void)st;
	(void)err;
	return 0;
}

/* Waits until the thread has read this many batches, 20 seconds at most, and checks that it reads
 * no more. */
static void
reads(struct prefetch *p, int64_t count)
{
	for (int i = 0; i < 20000 && prefetch_stats(p).reads < count; i++)
		usleep(1000);
	CHECK(prefetch_stats(p).reads == count);
}

/* Compares the micro batches of a step with those of a separate reader. */
static void
step(struct prefetch *p, const struct engine *engine, int set, int64_t first)
{
	static int32_t tokens[S * B], labels[S * B], positions[S * B];
	static float mask[S * B];
	const struct batch want = { tokens, labels, positions, mask, NULL };

	for (int m = 0; m < M; m++) {
		struct data_place at = { set, pipeline_first_sample(&engine->plan, first, m, 0),
			0 };
		double counted = data_batch(reader, &at, &want, &e);
		struct batch have;

		CHECK(counted >= 0);
		CHECK(prefetch_batch(p, (struct prefetch_key){ set, first, m }, &have, &e) ==
		    counted);
		CHECK(!memcmp(have.tokens, tokens, sizeof tokens) &&
		    !memcmp(have.labels, labels, sizeof labels));
		CHECK(!memcmp(have.loss_mask, mask, sizeof mask));
	}
}

/* An evaluation, after which the device has passed its batches. */
static void
evaluation(struct prefetch *p, const struct engine *engine, int set)
{
	for (int i = 0; i < EVAL; i++)
		step(p, engine, set, i * B * M);
	prefetch_passed(p);
}

/* A run that continues after START samples and evaluates after every second step. The batches read
 * are always those given out and two full rings. */
static void
test_turns(struct prefetch *p, const struct engine *engine)
{
	int64_t given = 0, sample = START;

	prefetch_start(p, START);
	for (int i = 0; i < 6; i++) {
		reads(p, given + 2 * RING);
		step(p, engine, SPLIT_TRAIN, sample);
		prefetch_passed(p);
		sample += B * M;
		given += M;
		if (i % 2) {
			reads(p, given + 2 * RING);
			evaluation(p, engine, SPLIT_VALID);
			given += EVAL * M;
		}
	}
	CHECK(prefetch_stats(p).waits == 0);
	/* Another split replaces the evaluation's ready batches; those of training stay. */
	reads(p, given + 2 * RING);
	evaluation(p, engine, SPLIT_TEST);
	CHECK(prefetch_stats(p).waits > 0);
	given += EVAL * M;
	reads(p, given + 3 * RING);
	given = prefetch_stats(p).waits;
	step(p, engine, SPLIT_TRAIN, sample);
	CHECK(prefetch_stats(p).waits == given);
	/* A repeated step, and more batches than a ring holds without prefetch_passed. */
	for (int i = 0; i < 6; i++)
		step(p, engine, SPLIT_TRAIN, sample + i * B * M);
}

/* The tokens of a step before its batches are taken, of another step than the next one too: the
 * batches are those of a plain reader, and none is waited for. */
static void
test_tokens(struct prefetch *p, const struct engine *engine)
{
	int64_t waits;

	prefetch_start(p, START);
	for (int64_t at = START; at < START + 9 * B * M; at += 3 * B * M) {
		struct token_weights w;

		prefetch_tokens(p, (struct prefetch_key){ SPLIT_TRAIN, at, 0 }, M, &w);
		CHECK(w.next == M * B * S && w.layers == 0);
		waits = prefetch_stats(p).waits;
		step(p, engine, SPLIT_TRAIN, at);
		CHECK(prefetch_stats(p).waits == waits);
		prefetch_passed(p);
	}
}

/* Evaluation alone has no ring for training. */
static void
test_evaluation_alone(struct engine *engine, const struct data *d)
{
	struct prefetch *p;

	engine->plan.shape.forward_only = true;
	p = prefetch_new(engine, d, false);
	prefetch_start(p, 0);
	reads(p, RING);
	evaluation(p, engine, SPLIT_VALID);
	evaluation(p, engine, SPLIT_TEST);
	prefetch_free(p);
}

int
main(void)
{
	char *argv[] = { "mtrain", "-q", "--num-layers=1", "--hidden-size=8",
		"--num-attention-heads=2", "--vocab-size=4000", "--seq-length=4",
		"--micro-batch-size=2", "--global-batch-size=4", "--train-iters=40", "--lr=1e-3",
		"--eval-interval=2", "--eval-iters=2", "--mock-data" };
	struct backend backend = { .sync = device_sync };
	struct engine engine = { .backend = &backend };
	struct comm *world = mpi_world(&e);
	struct prefetch *p;
	struct train_config c;
	struct data *d;

	CHECK(train_parse(&c, sizeof argv / sizeof *argv, argv, &e) == 0);
	CHECK(train_configure(&c, 1, &e) == 0);
	engine.plan = c.plan;
	d = data_open(&c, world, NULL, &e);
	CHECK(d != NULL);
	reader = data_reader_new(d);
	p = prefetch_new(&engine, d, false);
	test_turns(p, &engine);
	prefetch_free(p);
	p = prefetch_new(&engine, d, true);
	test_tokens(p, &engine);
	prefetch_free(p);
	test_evaluation_alone(&engine, d);
	data_reader_free(reader);
	data_close(d);
	train_release(&c);
	mpi_end();
	return check_done();
}
