/*
 * sample_losses.c - a file with the loss of every sample of training
 *
 * Rows "iteration sample corpus tokens loss" between tabs, under a header line: the sample's number
 * in the run, its tokens of a weight above 0 and their weighted mean loss. The last stage leaves
 * the losses and weights of all tokens in host memory; ranks of data and context add theirs up by
 * the sample's place in the step, and rank 0 writes.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "train/data/data_impl.h"
#include "train/data/sample_losses.h"
#include "train/step/pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a sample: weighted losses, weights, tokens of a weight. */
enum { LOSS, WEIGHT, TOKENS, SUMS };

struct sample_losses {
	const struct data *d;
	struct engine *e;
	const char *path;
	FILE *out; /* rank 0's */
	struct data_reader *reader;
	int64_t *samples; /* [b]; rank 0 */
	double *sums;     /* [samples of the largest step][SUMS] */
	bool adds;        /* this rank has losses */
};

static const char header[] = "iteration\tsample\tcorpus\ttokens\tloss\n";

/* Where the first row after an iteration begins, or one that is not whole: iterations rise. 0:
 * there is no header; -1: the file is another. */
static long
end_of(FILE *f, int64_t iteration)
{
	char *line = NULL;
	size_t cap = 0;
	long end = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n') {
		if (end == 0 && strcmp(line, header))
			break;
		if (end > 0 && atoll(line) > iteration)
			break;
		end += n;
	}
	if (end == 0 && n > 0 && strncmp(line, header, (size_t)n))
		end = -1;
	free(line);
	return end;
}

/* A run that begins anew has no rows. */
static int
open_file(struct sample_losses *l, int64_t iteration, struct err *e)
{
	long end;

	l->out = fopen(l->path, "a+");
	if (!l->out)
		return err_sys(e, "create", l->path);
	rewind(l->out);
	end = end_of(l->out, iteration);
	if (end < 0)
		return err_set(e, "'%s' exists, and is no file of losses", l->path);
	if (fflush(l->out) != 0 || ftruncate(fileno(l->out), end) != 0)
		return err_sys(e, "write", l->path);
	if (end == 0)
		fputs(header, l->out);
	return fflush(l->out) == 0 ? 0 : err_sys(e, "write", l->path);
}

struct sample_losses *
sample_losses_open(const struct data *d, struct engine *e, int64_t iteration)
{
	const struct train_config *c = d->c;
	struct sample_losses *l;
	struct err err;

	if (!c->o.sample_losses)
		return NULL;
	l = mem_zalloc(1, sizeof *l);
	l->d = d;
	l->e = e;
	l->path = c->o.sample_losses;
	l->adds = e->last_stage && e->coord[AX_TP] == 0;
	l->sums = mem_zalloc((size_t)batch_largest(&e->plan.ramp), SUMS * sizeof *l->sums);
	if (e->rank != 0)
		return l;
	l->reader = data_reader_new(d);
	l->samples = mem_alloc((size_t)e->plan.shape.micro_batch_size, sizeof *l->samples);
	if (open_file(l, iteration, &err) < 0)
		die("--sample-losses: %s", err.msg);
	return l;
}

void
sample_losses_close(struct sample_losses *l)
{
	if (!l)
		return;
	if (l->out && fclose(l->out) != 0)
		warn("--sample-losses: cannot write '%s': %s", l->path, strerror(errno));
	data_reader_free(l->reader);
	free(l->samples);
	free(l->sums);
	free(l);
}

/* Adds the rows of a micro batch of this rank, which are in the layers' order. */
static void
add_rows(struct sample_losses *l, const char *losses, int64_t place)
{
	const struct train_shape *s = &l->e->plan.shape;
	int64_t b = s->micro_batch_size, rows = run_rows(&l->e->plan);
	size_t width = dtype_size(memory_compute(s->dtype));
	const char *weights = losses + (size_t)rows * width;

	for (int64_t t = 0; t < rows; t++) {
		double *sum = l->sums + SUMS * (place + t % b), value;
		float w;

		memcpy(&w, weights + (size_t)t * sizeof w, sizeof w);
		if (!(w > 0))
			continue;
		dtype_convert(
		    &value, DTYPE_F64, losses + (size_t)t * width, memory_compute(s->dtype), 1);
		sum[LOSS] += w * value;
		sum[WEIGHT] += w;
		sum[TOKENS]++;
	}
}

/* The rows of a micro batch of a data rank. */
static void
write_rows(struct sample_losses *l, int64_t iteration, int64_t first, const struct data_place *at)
{
	int64_t b = l->e->plan.shape.micro_batch_size, number = at->consumed + at->rank * b;
	struct err err;

	/* The samples of a past step are a function of its number. */
	if (data_samples(l->reader, at, l->samples, &err) < 0)
		BUG("%s", err.msg);
	for (int64_t i = 0; i < b; i++, number++) {
		const double *sum = l->sums + SUMS * (number - first);
		const struct blend *blend = l->d->set[SPLIT_TRAIN].blend;
		struct blend_corpus c;
		int64_t of_corpus;
		int k;

		blend_locate(blend, l->samples[i], &k, &of_corpus);
		blend_corpus(blend, k, &c);
		fprintf(l->out, "%lld\t%lld\t%s\t%.0f\t%.6g\n", (long long)iteration,
		    (long long)number, dataset_prefix(c.dataset), sum[TOKENS],
		    sum[WEIGHT] > 0 ? sum[LOSS] / sum[WEIGHT] : 0);
	}
}

void
sample_losses_step(struct sample_losses *l, const void *losses, int64_t iteration, int64_t first)
{
	const struct run_plan *p;
	struct comm *w;
	struct tensor t;
	int64_t batch;
	int n;

	if (!l || iteration % l->d->c->o.sample_losses_interval)
		return;
	p = &l->e->plan;
	w = l->e->groups.world;
	batch = batch_at(&p->ramp, first);
	n = run_microbatches(p, batch);
	t = tensor_1d(l->sums, DTYPE_F64, SUMS * batch);
	memset(l->sums, 0, SUMS * (size_t)batch * sizeof *l->sums);
	for (int m = 0; m < n && l->adds; m++)
		add_rows(l, (const char *)losses + (size_t)m * pipeline_loss_bytes(l->e),
		    pipeline_first_sample(p, 0, m, l->e->coord[AX_DP]));
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	for (int m = 0; m < n && l->out; m++)
		for (int rank = 0; rank < p->layout.data_parallel_size; rank++)
			write_rows(l, iteration, first,
			    &(struct data_place){
				SPLIT_TRAIN, pipeline_first_sample(p, first, m, 0), rank, 0 });
	if (l->out && fflush(l->out) != 0)
		die("--sample-losses: cannot write '%s': %s", l->path, strerror(errno));
}
