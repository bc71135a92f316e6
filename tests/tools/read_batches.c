/*
 * read_batches.c - read_batches RANKS ITERATION CONSUMED LAST OPTION...: what the data-parallel
 * ranks of a run of mtrain with these options read, from an iteration that begins after so many
 * samples to another
 *
 * Prints a line for each sample: iteration, rank, number of the sample in the run, its tokens that
 * count, and all inputs and its last label, between blanks. It opens the data and reads micro
 * batches as mtrain does.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/config/config.h"
#include "train/data/data.h"
#include "train/step/pipeline.h"

#include <stdlib.h>

static struct batch x;

static void
print_sample(const struct run_plan *p, int64_t i)
{
	int64_t b = p->shape.micro_batch_size, s = p->shape.seq_length, counts = 0;

	for (int64_t t = 0; t < s; t++)
		counts += x.loss_mask[t * b + i] > 0;
	printf(" %lld", (long long)counts);
	for (int64_t t = 0; t < s; t++)
		printf(" %d", x.tokens[t * b + i]);
	printf(" %d\n", x.labels[(s - 1) * b + i]);
}

/* One iteration; returns the sample after it. */
static int64_t
print_iteration(
    const struct run_plan *p, struct data_reader *r, int64_t iteration, int64_t consumed)
{
	int64_t b = p->shape.micro_batch_size, batch = batch_at(&p->ramp, consumed);
	struct err e;

	for (int m = 0; m < run_microbatches(p, batch); m++)
		for (int rank = 0; rank < p->layout.data_parallel_size; rank++) {
			struct data_place at = { SPLIT_TRAIN,
				pipeline_first_sample(p, consumed, m, 0), rank, 0 };

			if (data_batch(r, &at, &x, &e) < 0)
				die("%s", e.msg);
			for (int64_t i = 0; i < b; i++) {
				printf("%lld %d %lld", (long long)iteration, rank,
				    (long long)(at.consumed + rank * b + i));
				print_sample(p, i);
			}
		}
	return consumed + batch;
}

int
main(int argc, char **argv)
{
	struct train_config c = { 0 };
	int64_t ranks, iteration, consumed, last;
	struct data_reader *r;
	struct comm *world;
	struct data *d;
	struct err e;
	size_t rows;

	if (argc < 6)
		die_usage("read_batches RANKS ITERATION CONSUMED LAST OPTION...");
	ranks = atoll(argv[1]);
	iteration = atoll(argv[2]);
	consumed = atoll(argv[3]);
	last = atoll(argv[4]);
	argv[4] = argv[0];
	prog_quiet(-1);
	world = mpi_world(&e);
	if (!world || train_parse(&c, argc - 4, argv + 4, &e) < 0 ||
	    train_configure(&c, ranks, &e) < 0 || !(d = data_open(&c, world, NULL, &e)))
		die("%s", e.msg);
	rows = (size_t)run_rows(&c.plan);
	x = (struct batch){ mem_alloc(rows, 4), mem_alloc(rows, 4), mem_alloc(rows, 4),
		mem_alloc(rows, 4), c.plan.shape.reset_attention_mask ? mem_alloc(rows, 4) : NULL };
	r = data_reader_new(d);
	for (; iteration <= last; iteration++)
		consumed = print_iteration(&c.plan, r, iteration, consumed);
	data_reader_free(r);
	data_close(d);
	train_release(&c);
	mpi_end();
	return 0;
}
