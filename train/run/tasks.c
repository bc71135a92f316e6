/*
 * tasks.c - what the model makes of tasks
 *
 * Samples of packed requests pass through the pipeline as those of an evaluation. The last stage
 * leaves the loss of each row in host memory, and the likeliest token of this rank's columns with
 * its logit. Each rank puts what it has of the rated tokens into an array of all of them; what the
 * ranks have together makes the answers, added up in the order of the tokens, so that these do not
 * depend on who held which.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "train/run/tasks.h"
#include "train/step/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rating {
	struct engine *e;
	struct task_requests *r;
	struct batch batch;
	int64_t first;                /* sample of the pass */
	char *losses;                 /* of its micro batches, on the last stage; else NULL */
	double *loss, *logit, *token; /* [num_rated] */
};

/* --- passes ----------------------------------------------------------------------------------- */

/* The engine has read the arrays before the next micro batch changes them. */
static void
load(void *ctx, int microbatch, struct batch *out)
{
	struct rating *t = ctx;
	const struct run_plan *p = &t->e->plan;
	struct deal deal = { p, p->shape.micro_batch_size, t->e->coord[AX_CP] };

	task_requests_batch(t->r, &deal,
	    pipeline_first_sample(p, t->first, microbatch, t->e->coord[AX_DP]), &t->batch);
	*out = t->batch;
}

/* What the head has told of row `row` of a micro batch, whose arrays begin at `at`: loss and mask,
 * and then logit and token. */
static void
take_row(struct rating *t, const char *at, int64_t row, int64_t answer)
{
	enum dtype real = memory_compute(t->e->plan.shape.dtype);
	size_t rows = (size_t)run_rows(&t->e->plan), width = dtype_size(real);
	const char *best = at + rows * (width + 4);
	int32_t token;

	if (t->e->coord[AX_TP] == 0)
		dtype_convert(&t->loss[answer], DTYPE_F64, at + (size_t)row * width, real, 1);
	dtype_convert(&t->logit[answer], DTYPE_F64, best + (size_t)row * width, real, 1);
	memcpy(&token, best + rows * width + (size_t)row * 4, 4);
	t->token[answer] = token;
}

/* Of a request those rated tokens whose rows this context rank has. */
static void
take_request(struct rating *t, const struct task_request *q, int64_t of_batch, const char *at)
{
	const struct run_plan *p = &t->e->plan;
	int64_t end = q->at + q->count - 1;

	for (int64_t i = 0; i < q->rated; i++) {
		int64_t number;

		if (layout_holder(&p->layout, p->shape.seq_length, end - q->rated + i, &number) ==
		    t->e->coord[AX_CP])
			take_row(
			    t, at, number * p->shape.micro_batch_size + of_batch, q->answer + i);
	}
}

static void
take_microbatch(struct rating *t, int microbatch)
{
	const struct run_plan *p = &t->e->plan;
	const struct packing *bins = &t->r->packing;
	int64_t first = pipeline_first_sample(p, t->first, microbatch, t->e->coord[AX_DP]),
		end = int64_min(first + p->shape.micro_batch_size, bins->bins);
	const char *at = t->losses + (size_t)microbatch * pipeline_loss_bytes(t->e);

	for (int64_t k = first; k < end; k++)
		for (int64_t i = bins->begin[k]; i < bins->begin[k + 1]; i++)
			take_request(t, &t->r->item[bins->item[i]], k - first, at);
}

/* All samples, as many at a time as an evaluation takes. */
static void
run_passes(struct rating *t)
{
	const struct run_plan *p = &t->e->plan;
	int64_t all = t->r->packing.bins,
		once = p->shape.micro_batch_size * p->layout.data_parallel_size;

	for (; t->first < all; t->first += p->eval_batch_size) {
		int64_t left = int64_min(all - t->first, p->eval_batch_size);
		struct pipeline line = { .e = t->e,
			.num_microbatches = (int)int64_div_up(left, once),
			.first_sample = t->first,
			.load = load,
			.ctx = t,
			.losses = t->losses };

		prog_progress(
		    "evaluating tasks: %lld of %lld samples", (long long)t->first, (long long)all);
		pipeline_run(&line);
		engine_sync(t->e);
		for (int m = 0; t->losses && m < line.num_microbatches; m++)
			take_microbatch(t, m);
	}
}

/* --- answers ---------------------------------------------------------------------------------- */

static void
reduce(const struct rating *t, double *x, enum reduce how)
{
	struct comm *w = t->e->groups.world;
	struct tensor all = tensor_1d(x, DTYPE_F64, t->r->num_rated);

	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ all, how });
}

/* The losses of all, and the likeliest tokens: of those that have the largest logit the lowest. */
static void
gather(const struct rating *t)
{
	int64_t n = t->r->num_rated;
	double *own;

	if (n == 0)
		return;
	own = mem_alloc((size_t)n, sizeof *own);
	memcpy(own, t->logit, (size_t)n * sizeof *own);
	reduce(t, t->loss, REDUCE_SUM);
	reduce(t, t->logit, REDUCE_MAX);
	for (int64_t i = 0; i < n; i++)
		t->token[i] = own[i] == t->logit[i] ? -t->token[i] : -INFINITY;
	reduce(t, t->token, REDUCE_MAX);
	free(own);
}

static void
add_up(const struct rating *t, struct task_answer *answers)
{
	for (int64_t i = 0; i < t->r->tasks.num_pairs; i++)
		answers[i] = (struct task_answer){ 0, true };
	for (int64_t k = 0; k < t->r->count; k++) {
		const struct task_request *q = &t->r->item[k];
		const uint32_t *label = t->r->id.id + q->first + q->count - q->rated;
		struct task_answer *a = &answers[q->pair];

		for (int64_t i = 0; i < q->rated; i++) {
			a->ll -= t->loss[q->answer + i];
			a->greedy &= -t->token[q->answer + i] == label[i];
		}
	}
}

void
tasks_answer(struct engine *e, struct task_requests *r, struct task_answer *answers)
{
	const struct run_plan *p = &e->tasks->plan;
	size_t n = (size_t)r->num_rated, rows = (size_t)run_rows(p);
	struct rating t = { .e = e->tasks,
		.r = r,
		.batch = { mem_zalloc(rows, 4), mem_zalloc(rows, 4), mem_zalloc(rows, 4),
		    mem_zalloc(rows, sizeof(float)), mem_zalloc((size_t)run_document_rows(p), 4) },
		.loss = mem_zalloc(n, sizeof *t.loss),
		.logit = mem_alloc(n, sizeof *t.logit),
		.token = mem_zalloc(n, sizeof *t.token) };

	for (size_t i = 0; i < n; i++)
		t.logit[i] = -INFINITY;
	if (e->last_stage)
		t.losses = mem_alloc(
		    (size_t)run_microbatches(p, p->eval_batch_size), pipeline_loss_bytes(t.e));
	run_passes(&t);
	gather(&t);
	add_up(&t, answers);
	free(t.batch.tokens);
	free(t.batch.labels);
	free(t.batch.positions);
	free(t.batch.loss_mask);
	free(t.batch.documents);
	free(t.losses);
	free(t.loss);
	free(t.logit);
	free(t.token);
}

/* --- reports ---------------------------------------------------------------------------------- */

/* A line of --eval-tasks-output. JSON has no number for what is not finite. */
static void
add_line(const struct tasks *t, const struct task_item *item, const struct task_answer *answers,
    struct str *out)
{
	const struct task *task = &t->task[item->task];
	const struct task_answer *a = answers + item->first_pair;

	str_adds(out, "{\"task\": ");
	str_add_json(out, task->name, strlen(task->name));
	str_addf(out, ", \"id\": %s, \"lls\": [", item->id);
	for (int64_t i = 0; i < item->num_pairs; i++)
		if (isfinite(a[i].ll))
			str_addf(out, "%s%.17g", i ? ", " : "", a[i].ll);
		else
			str_addf(out, "%snull", i ? ", " : "");
	str_addc(out, ']');
	for (int64_t i = 0; i < item->num_pairs && task->type != TASK_ROLLING; i++)
		str_addf(out, "%s%s", i ? ", " : ", \"greedy\": [", a[i].greedy ? "true" : "false");
	if (task->type != TASK_ROLLING)
		str_addc(out, ']');
	if (task->type == TASK_MULTIPLE_CHOICE)
		str_addf(out, ", \"chosen\": %lld", (long long)task_chosen(item, answers));
	str_adds(out, "}\n");
}

void
tasks_report(
    const struct tasks *t, const struct task_answer *answers, int64_t iteration, struct metrics *m)
{
	for (int i = 0; i < t->num_tasks; i++) {
		struct metrics_task s = { .iteration = iteration, .name = t->task[i].name };

		s.count = task_scores(t, i, answers, s.score, &s.samples);
		metrics_task(m, &s);
	}
}

int
tasks_write(
    const struct tasks *t, const struct task_answer *answers, const char *path, struct err *err)
{
	struct str text = { 0 };
	int rc;

	for (int64_t i = 0; i < t->count; i++)
		add_line(t, &t->item[i], answers, &text);
	rc = outfile_write(path, text.buf, text.len, err);
	str_release(&text);
	return rc;
}
