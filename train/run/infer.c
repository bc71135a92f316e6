/*
 * infer.c - what a run without training is asked for: logits of a sequence, or text
 *
 * Both use the training engine as it stands, with a plan of their own that is made before it takes
 * memory.
 */
#include "lib/base/int64.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/data/npy.h"
#include "train/run/forward.h"
#include "train/run/generate.h"
#include "train/run/infer.h"

#include <stdlib.h>
#include <string.h>

/* The sequence length of --tokens-file, needed before the engine is planned; -1 with a reason when
 * the array is not usable or longer than the model can take: a learned position is a row of a table
 * that has only the rows it was trained with. Each rank reads the file itself. */
static int64_t
seq_length(const struct train_config *c, struct err *err)
{
	const char *path = c->o.tokens_file;
	const struct model_config *m = &c->plan.model;
	struct npy a;
	int64_t s;

	if (npy_open(&a, path, err) < 0)
		return -1;
	s = a.ndim == 1 && (a.dtype == DTYPE_I32 || a.dtype == DTYPE_I64) ? a.count : 0;
	npy_close(&a);
	if (s == 0)
		return err_set(err,
		    "--tokens-file %s: must hold a one-dimensional int32 or int64 array, not empty",
		    path);
	if (m->position == POSITION_LEARNED && s > m->max_position_embeddings)
		return err_set(err,
		    "--tokens-file %s: %lld tokens: must be at most the %lld that the model has "
		    "learned positions for",
		    path, (long long)s, (long long)m->max_position_embeddings);
	if (model_check_length(m, s, err) < 0)
		return -1;
	return layout_check_length(
		   &c->plan.layout, s, "half of the tokens of --tokens-file,", err) < 0
	    ? -1
	    : s;
}

/* The plan of one sequence of the file's length. */
static int
plan_logits(struct train_config *c, struct err *err)
{
	struct run_plan *p = &c->plan;
	int64_t length = seq_length(c, err);

	if (length < 0)
		return -1;
	p->shape.seq_length = length;
	p->layout.sequence_parallel &=
	    layout_check_rows(&p->layout, length, &(struct err){ "" }) == 0;
	p->shape.micro_batch_size = p->shape.num_microbatches = p->eval_micro_batch_size = 1;
	return 0;
}

int
infer_plan(struct train_config *c, struct comm *world, struct requests *r, struct err *err)
{
	struct request_lengths lengths;
	int rc = EXIT_DONE;

	if (c->o.tokens_file && plan_logits(c, err) < 0)
		rc = EXIT_USAGE;
	if (!c->o.generate || c->o.tokens_file)
		return rc;
	if (requests_read(r, c, world, err) < 0)
		return EXIT_FAILED;
	lengths = requests_lengths(r);
	return generate_plan(c, &lengths, err) < 0 ? EXIT_USAGE : EXIT_DONE;
}

/* Prompts that are not here, or can be read only once, may fill all positions. */
int
infer_planned(struct train_config *c, struct err *err)
{
	const char *path = c->o.prompts ? c->o.prompts : c->o.prompt_file;
	bool here = c->tokenizer && (!path || (strcmp(path, "-") != 0 && io_there(path, NULL) > 0));
	int64_t s = c->plan.shape.seq_length, n = int64_min(c->o.generate, s - 1);
	struct request_lengths most = { INT32_MAX, s - n, n, s };
	struct requests r = { 0 };
	int rc;

	if (!c->o.generate)
		return EXIT_DONE;
	if (here) {
		rc = infer_plan(c, NULL, &r, err);
		requests_release(&r);
		return rc;
	}
	if (!path || c->o.prompt_file)
		most.count = 1;
	return generate_plan(c, &most, err) < 0 ? EXIT_USAGE : EXIT_DONE;
}

/* seq_length has checked rank, type and length of the same file, so only the ids are left to check:
 * the embedding trusts them. */
static int
read_tokens(const struct train_config *c, int32_t *tokens, struct err *err)
{
	const char *path = c->o.tokens_file;
	struct npy a;
	int64_t v = c->plan.model.vocab_size;
	int rc = npy_open(&a, path, err);

	for (int64_t i = 0; rc == 0 && i < a.count; i++) {
		int64_t id = a.dtype == DTYPE_I32 ? ((const int32_t *)a.data)[i]
						  : ((const int64_t *)a.data)[i];

		if (id < 0 || id >= v)
			rc = err_set(err,
			    "%s: element %lld: token id %lld is outside the vocabulary of %lld",
			    path, (long long)i, (long long)id, (long long)v);
		tokens[i] = (int32_t)id;
	}
	npy_close(&a);
	return rc;
}

/* Of the sequence the positions that this rank holds. */
static void
fill(struct forward *f, const int32_t *tokens)
{
	const struct position_range *has = f->e->position_range;
	int64_t row = 0;

	for (int i = 0; i < f->e->num_ranges; i++)
		for (int64_t k = 0; k < has[i].count; k++, row++) {
			f->batch.positions[row] = (int32_t)(has[i].first + k);
			f->batch.tokens[row] = tokens[has[i].first + k];
		}
}

/* Collective. Runs the pass and puts its logits together: [s, v] of type t, on the ranks of the
 * last stage. Returns how many of them are not finite, the most of all ranks, on all of them. */
static double
whole_logits(struct forward *f, enum dtype t, char *out)
{
	const struct run_plan *p = &f->e->plan;
	int64_t v = p->model.vocab_size, s = p->shape.seq_length, number;
	struct comm *w = f->e->groups.world;
	char *row = mem_alloc((size_t)v, dtype_size(p->shape.dtype));
	double *x = mem_alloc((size_t)v, sizeof *x), bad = 0;
	struct tensor most = tensor_1d(&bad, DTYPE_F64, 1);

	forward_run(f);
	for (int64_t i = 0; f->e->last_stage && i < s; i++) {
		char *to = out + (size_t)(i * v) * dtype_size(t);
		int holder = layout_holder(&p->layout, s, i, &number);
		struct logits l = forward_row(f, holder, number, row);

		bad += (double)logits_count_nonfinite(&l);
		logits_double(&l, 0, v, x);
		dtype_convert(to, t, x, DTYPE_F64, v);
	}
	free(row);
	free(x);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ most, REDUCE_MAX });
	return bad;
}

/* Collective. The file holds [s, v] in F32, or F64 when the run computes in that; one rank of the
 * last stage writes it, the others of its tensor group give it their columns. Logits that are not
 * finite are an error, and no file appears. */
int
infer_logits(struct engine *e, const struct train_config *c, struct err *err)
{
	struct forward f;
	int64_t v = e->plan.model.vocab_size, shape[2] = { e->plan.shape.seq_length, v };
	enum dtype out_type = e->plan.shape.dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	char *out = mem_alloc((size_t)(shape[0] * v), dtype_size(out_type)), what[96];
	int32_t *tokens = mem_alloc((size_t)shape[0], sizeof *tokens);
	double bad = 0;
	int rc;

	forward_init(&f, e, run_rows(&e->plan));
	rc = comm_agree(COMM_HERE(e->groups.world), read_tokens(c, tokens, err), err) ? -1 : 0;
	if (rc == 0) {
		fill(&f, tokens);
		bad = whole_logits(&f, out_type, out);
	}
	snprintf(what, sizeof what, "%.0f of %lld logits", bad, (long long)(shape[0] * v));
	if (bad > 0)
		rc = forward_not_finite(&f, what);
	else if (rc == 0 && e->last_stage && e->coord[AX_TP] == 0 &&
	    layout_data_rank(&e->plan.layout, e->coord) == 0)
		rc = npy_write(c->o.logits_file, out_type, 2, shape, out, err);
	forward_release(&f);
	free(tokens);
	free(out);
	return rc;
}
