/* forward.c - a forward pass whose logits come to the host */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/model/block/head.h"
#include "train/run/check.h"
#include "train/run/forward.h"
#include "train/step/pipeline.h"

#include <stdlib.h>
#include <string.h>

void
forward_init(struct forward *f, struct engine *e, int64_t rows)
{
	const struct run_plan *p = &e->plan;
	size_t n = (size_t)run_rows(p);

	*f = (struct forward){ .e = e,
		.rows = rows,
		.batch = { .tokens = mem_zalloc(n, 4), .positions = mem_zalloc(n, 4) },
		.columns = memory_buffer(&e->mem, HEAD_LOGITS)->shape[1] };
	if (p->shape.reset_attention_mask)
		f->batch.documents = mem_zalloc((size_t)run_document_rows(p), 4);
	f->local = mem_zalloc(1, forward_bytes(f));
	f->all = f->local;
	if (e->last_stage && e->groups.host->size > 1)
		f->all = mem_alloc(
		    (size_t)(e->groups.host->size * rows * f->columns), dtype_size(p->shape.dtype));
}

void
forward_release(struct forward *f)
{
	free(f->batch.tokens);
	free(f->batch.positions);
	free(f->batch.documents);
	if (f->all != f->local)
		free(f->all);
	free(f->local);
}

size_t
forward_bytes(const struct forward *f)
{
	return (size_t)(f->rows * f->columns) * dtype_size(f->e->plan.shape.dtype);
}

/* There is one micro batch, so its number is not used. The engine has read the arrays before the
 * next pass changes them, since a pass ends in a sync. */
static void
give_batch(void *ctx, int microbatch, struct batch *out)
{
	const struct forward *f = ctx;

	(void)microbatch;
	*out = f->batch;
}

/* Context ranks that do not hold the last positions give as much: a gather takes equal parts. */
static void
gather(struct forward *f)
{
	struct comm *host = f->e->groups.host;
	enum dtype t = f->e->plan.shape.dtype;
	int64_t n = f->rows * f->columns;

	host->ops->all_gather(COMM_HERE(host), NULL,
	    &(struct comm_gather){
		tensor_1d(f->all, t, n * host->size), tensor_1d(f->local, t, n) });
}

void
forward_queue(struct forward *f)
{
	struct pipeline line = { .e = f->e,
		.num_microbatches = 1,
		.load = give_batch,
		.ctx = f,
		.replay = f->replay,
		.kept = f->kept,
		.logits = f->e->last_stage ? f->local : NULL,
		.first_logits = run_rows(&f->e->plan) - f->rows };

	pipeline_run(&line);
}

void
forward_wait(struct forward *f)
{
	engine_sync(f->e);
	if (f->all != f->local && f->rows)
		gather(f);
}

void
forward_run(struct forward *f)
{
	forward_queue(f);
	forward_wait(f);
}

/* Padding columns come after the vocabulary on the last rank and are cut off here. */
struct logits
forward_row(const struct forward *f, int holder, int64_t row, void *out)
{
	const struct run_plan *p = &f->e->plan;
	size_t size = dtype_size(p->shape.dtype);
	int64_t v = p->model.vocab_size, ranks = f->e->groups.tp->size, first = 0;

	for (int64_t r = holder * ranks; first < v; r++, first += f->columns)
		memcpy((char *)out + (size_t)first * size,
		    f->all + (size_t)((r * f->rows + row) * f->columns) * size,
		    (size_t)int64_min(f->columns, v - first) * size);
	return (struct logits){ out, p->shape.dtype, v, p->model.final_logit_softcapping };
}

static void
rerun_pass(void *ctx)
{
	forward_run(ctx);
}

int
forward_not_finite(struct forward *f, const char *what)
{
	struct str where = { 0 };

	check_find(f->e, rerun_pass, f, &where);
	if (f->e->rank == 0)
		warn("%s are not finite; first: %s", what,
		    where.len ? where.buf : "not found when the pass was repeated");
	str_release(&where);
	return EXIT_NUMERICAL;
}
