/*
 * infer.c - logits of a sequence, and text from them
 *
 * Inference uses the training engine as it stands: a batch of one sequence, one micro batch, the
 * forward schedule. The head leaves each rank's columns of its positions' logits in host memory,
 * [s/c, v/t]; the last stage's tensor and context ranks put rows together there. Every rank takes
 * part in each pass and in each agreement on an error, whether it has logits or not.
 */
#include "lib/model/block/head.h"
#include "lib/base/int64.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/base/rng.h"
#include "lib/data/npy.h"
#include "lib/model/rope.h"
#include "train/run/check.h"
#include "train/run/infer.h"
#include "train/step/open.h"
#include "train/step/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A batch of one sequence. */
struct pass {
	struct engine *e;
	int64_t seq_length;
	int32_t *tokens;    /* the sequence */
	struct batch batch; /* this rank's part of it */
	char *local;        /* [s/c, v/t] in the run's type: this rank's rows and columns */
	int64_t columns;
};

/* Host memory of the run's sequence length; labels and mask stay zero, so the loss that the head
 * computes along the way is zero. pass_release frees it. */
static void
pass_init(struct pass *p, struct engine *e)
{
	size_t rows = (size_t)run_rows(&e->plan);

	p->e = e;
	p->seq_length = e->plan.shape.seq_length;
	p->columns = memory_buffer(&e->mem, HEAD_LOGITS)->shape[1];
	p->tokens = mem_zalloc((size_t)p->seq_length, sizeof *p->tokens);
	p->batch = (struct batch){ mem_zalloc(rows, 4), mem_zalloc(rows, 4), mem_zalloc(rows, 4),
		mem_zalloc(rows, sizeof(float)) };
	p->local = mem_zalloc(rows * (size_t)p->columns, dtype_size(e->plan.shape.dtype));
}

/* The engine belongs to the caller and is not touched. */
static void
pass_release(struct pass *p)
{
	free(p->tokens);
	free(p->batch.tokens);
	free(p->batch.labels);
	free(p->batch.positions);
	free(p->batch.loss_mask);
	free(p->local);
}

/* There is one micro batch, so its number is not used. The engine has read the arrays before the
 * next pass changes them, since run() ends in a sync. */
static void
give_batch(void *ctx, int microbatch, struct batch *out)
{
	const struct pass *p = ctx;
	const struct position_range *has = p->e->position_range;
	int64_t row = 0;

	(void)microbatch;
	for (int i = 0; i < p->e->num_ranges; i++)
		for (int64_t k = 0; k < has[i].count; k++, row++) {
			p->batch.positions[row] = (int32_t)(has[i].first + k);
			p->batch.tokens[row] = p->tokens[has[i].first + k];
		}
	*out = p->batch;
}

/* Collective. Returns when the logits are in p->local; a device error ends the program in
 * engine_sync. */
static void
run(struct pass *p)
{
	struct pipeline line = {
		.e = p->e, .num_microbatches = 1, .load = give_batch, .ctx = p, .logits = p->local
	};

	if (!p->e->last_stage)
		line.logits = NULL;
	pipeline_run(&line);
	engine_sync(p->e);
}

/* Repeats the pass that gave the logits. */
static void
rerun_pass(void *ctx)
{
	run(ctx);
}

/* Collective. Reports the first operation whose output is not finite; there is no result. Returns
 * the exit status. */
static int
not_finite(struct pass *p, const char *what)
{
	struct str where = { 0 };

	check_find(p->e, rerun_pass, p, &where);
	if (p->e->rank == 0)
		warn("%s are not finite; first: %s", what,
		    where.len ? where.buf : "not found when the pass was repeated");
	str_release(&where);
	return EXIT_NUMERICAL;
}

/* The logits of a position over the whole vocabulary, doubles, on all tensor and context ranks of
 * the last stage; the model makes c tanh(x / c) of them. Padding columns come after the vocabulary
 * on the last rank and are cut off here. Every context rank gives a row, since a gather takes as
 * much of each. */
static void
whole_row(struct pass *p, int64_t position, double *out)
{
	struct comm *host = p->e->groups.host;
	int64_t v = p->e->plan.model.vocab_size, row, width = p->columns * p->e->groups.tp->size;
	int holder = layout_holder(&p->e->plan.layout, p->seq_length, position, &row);
	double *mine = mem_alloc((size_t)p->columns, sizeof *mine),
	       *all = mem_alloc((size_t)(p->columns * host->size), sizeof *all);
	struct tensor in = tensor_1d(mine, DTYPE_F64, p->columns),
		      gathered = tensor_1d(all, DTYPE_F64, p->columns * host->size);
	enum dtype dtype = p->e->plan.shape.dtype;
	double cap = p->e->plan.model.final_logit_softcapping;

	dtype_convert(mine, DTYPE_F64, p->local + (size_t)(row * p->columns) * dtype_size(dtype),
	    dtype, p->columns);
	for (int64_t i = 0; cap > 0 && i < p->columns; i++)
		mine[i] = cap * tanh(mine[i] / cap);
	host->ops->all_gather(COMM_HERE(host), NULL, &(struct comm_gather){ gathered, in });
	memcpy(out, all + holder * width, (size_t)v * sizeof *out);
	free(mine);
	free(all);
}

/* The sequence length of --tokens-file, needed before the engine is planned; 0 without the option
 * (--seq-length counts then), -1 with a reason when the array is not usable or longer than the
 * model can take: a learned position is a row of a table that has only the rows it was trained
 * with. Each rank reads the file itself. */
int64_t
infer_seq_length(const struct train_config *c, struct err *err)
{
	const char *path = c->o.tokens_file;
	const struct model_config *m = &c->plan.model;
	struct npy a;
	int64_t s;

	if (!path)
		return 0;
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

/* infer_seq_length has checked rank, type and length of the same file, so only the ids are left
 * to check: the embedding trusts them. */
static int
read_tokens(struct pass *p, const char *path, struct err *err)
{
	struct npy a;
	int64_t v = p->e->plan.model.vocab_size;
	int rc = npy_open(&a, path, err);

	for (int64_t i = 0; rc == 0 && i < a.count; i++) {
		int64_t id = a.dtype == DTYPE_I32 ? ((const int32_t *)a.data)[i]
						  : ((const int64_t *)a.data)[i];

		if (id < 0 || id >= v)
			rc = err_set(err,
			    "%s: element %lld: token id %lld is outside the vocabulary of %lld",
			    path, (long long)i, (long long)id, (long long)v);
		p->tokens[i] = (int32_t)id;
	}
	npy_close(&a);
	return rc;
}

/* Collective. Runs the pass and puts its logits together: [s, v] of type t, on the ranks of the
 * last stage. Returns how many of them are not finite, the most of all ranks, on all of them. */
static double
whole_logits(struct pass *p, enum dtype t, char *out)
{
	int64_t v = p->e->plan.model.vocab_size;
	struct comm *w = p->e->groups.world;
	double *row = mem_alloc((size_t)v, sizeof *row), bad = 0;
	struct tensor most = tensor_1d(&bad, DTYPE_F64, 1);

	run(p);
	for (int64_t i = 0; p->e->last_stage && i < p->seq_length; i++) {
		char *to = out + (size_t)(i * v) * dtype_size(t);

		whole_row(p, i, row);
		dtype_convert(to, t, row, DTYPE_F64, v);
		bad += (double)dtype_count_nonfinite(to, t, v);
	}
	free(row);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ most, REDUCE_MAX });
	return bad;
}

/* Collective. The file holds [s, v] in F32, or F64 when the run computes in that; one rank of the
 * last stage writes it, the others of its tensor group give it their columns. Logits that are not
 * finite are an error, and no file appears. */
int
infer_logits(struct engine *e, const struct train_config *c, struct err *err)
{
	struct pass p;
	int64_t v = e->plan.model.vocab_size, shape[2] = { e->plan.shape.seq_length, v };
	enum dtype out_type = e->plan.shape.dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	char *out = mem_alloc((size_t)(shape[0] * v), dtype_size(out_type)), what[96];
	double bad = 0;
	int rc;

	pass_init(&p, e);
	rc = comm_agree(COMM_HERE(e->groups.world), read_tokens(&p, c->o.tokens_file, err), err)
	    ? -1
	    : 0;
	if (rc == 0)
		bad = whole_logits(&p, out_type, out);
	snprintf(what, sizeof what, "%.0f of %lld logits", bad, (long long)(shape[0] * v));
	if (bad > 0)
		rc = not_finite(&p, what);
	else if (rc == 0 && e->last_stage && e->coord[AX_TP] == 0 &&
	    layout_data_rank(&e->plan.layout, e->coord) == 0)
		rc = npy_write(c->o.logits_file, out_type, 2, shape, out, err);
	pass_release(&p);
	free(out);
	return rc;
}

/* A token and its weight: e^(logit / temperature), or the logit when temperature is 0. */
struct ranked {
	double p;
	int64_t id;
};

/* Likeliest first; equal ones by their number, so that the order does not depend on the
 * library's qsort. */
static int
by_probability(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->p < y->p ? 1 : x->p > y->p ? -1 : x->id > y->id ? 1 : -1;
}

/* The next token: the likeliest, or drawn by temperature, top-k and top-p with the counter RNG of
 * the position. The draw depends on seed and position alone: every rank of the last stage chooses
 * the same token, and a longer generation begins like a shorter one. Temperature 0 takes the first
 * of the likeliest tokens. Probabilities are not normalised: the draw is scaled by their sum
 * instead. */
static int64_t
choose(const struct train_config *c, const double *logits, int64_t v, int64_t position)
{
	struct ranked *r = mem_alloc((size_t)v, sizeof *r);
	double max = logits[0], sum = 0, left, draw;
	int64_t n = v, id;

	for (int64_t i = 1; i < v; i++)
		max = fmax(max, logits[i]);
	for (int64_t i = 0; i < v; i++)
		r[i] = (struct ranked){ c->o.temperature > 0
			    ? exp((logits[i] - max) / c->o.temperature)
			    : logits[i] - max,
			i };
	qsort(r, (size_t)v, sizeof *r, by_probability);
	if (c->o.temperature == 0) {
		id = r[0].id;
		free(r);
		return id;
	}
	if (c->o.top_k > 0 && c->o.top_k < n)
		n = c->o.top_k;
	for (int64_t i = 0; i < n; i++)
		sum += r[i].p;
	for (left = 0, id = 0; id < n && left <= c->o.top_p * sum; id++)
		left += r[id].p;
	n = id;
	draw = (double)rng_uniform(
		   (uint64_t)c->o.seed, (uint64_t)position, rng_stream("generate"), 0) *
	    left;
	for (id = 0; id < n - 1 && draw >= r[id].p; id++)
		draw -= r[id].p;
	id = r[id].id;
	free(r);
	return id;
}

/* Ids of the prompt; an empty one becomes the beginning-of-text token. */
static int
read_prompt(const struct train_config *c, struct token_ids *ids, struct err *err)
{
	struct tokenizer_worker *w = tokenizer_worker_new(c->tokenizer);
	char *text = NULL;
	size_t len = 0;
	int rc = c->o.prompt_file ? io_read_file(c->o.prompt_file, 1 << 24, &text, &len, err) : 0;

	while (len > 0 && text[len - 1] == '\n')
		len--;
	if (rc == 0)
		rc = tokenizer_encode(w, text ? text : "", len, ids, err);
	if (rc == 0 && ids->count == 0) {
		int64_t first = tokenizer_special(c->tokenizer, TOKENIZER_BOS);

		if (first < 0)
			first = c->eod;
		if (first < 0)
			rc = err_set(err,
			    "--prompt-file: the prompt is empty and the tokenizer has no beginning "
			    "of text");
		else
			token_ids_add(ids, (uint32_t)first);
	}
	free(text);
	tokenizer_worker_free(w);
	return rc;
}

/* The next token after ids, on every rank. A sequence longer than those of the run is cut at its
 * beginning; positions then count from the cut. Ranks before the last stage offer -1 to the
 * maximum, so that the chosen id wins; the result is -1 when no token can be chosen, since the
 * logits are not finite. */
static int64_t
next_token(struct pass *p, const struct train_config *c, const struct token_ids *ids, double *row)
{
	struct engine *e = p->e;
	int64_t s = p->seq_length, n = (int64_t)ids->count, from = n > s ? n - s : 0;
	double id = -1;
	struct tensor t = tensor_1d(&id, DTYPE_F64, 1);

	for (int64_t i = 0; i < s; i++)
		p->tokens[i] = from + i < n ? (int32_t)ids->id[from + i] : 0;
	run(p);
	if (e->last_stage) {
		int64_t v = e->plan.model.vocab_size;

		whole_row(p, n - from - 1, row);
		if (dtype_count_nonfinite(row, DTYPE_F64, v) == 0)
			id = (double)choose(c, row, v, n);
	}
	e->groups.world->ops->all_reduce(
	    COMM_HERE(e->groups.world), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	return (int64_t)id;
}

/* Angles of a generation are those of all its tokens, of at most as many as the run's sequences
 * have. */
static void
take_length(struct pass *p, int64_t length)
{
	struct engine *e = p->e;
	struct str words = { 0 };

	length = int64_min(length, p->seq_length);
	longrope_words(&e->plan.model, length, &words);
	if (words.len)
		engine_set_length(e, length);
	if (words.len && e->rank == 0)
		note("%s", words.buf);
	str_release(&words);
}

/* Collective. Ends at --generate tokens or at the end of document, which is not printed; rank 0
 * writes prompt and continuation to stdout as one text, since tokens may join in the middle of a
 * character. */
int
infer_generate(struct engine *e, const struct train_config *c, struct err *err)
{
	struct pass p;
	struct token_ids ids = { 0 };
	struct str text = { 0 };
	double *row = mem_alloc((size_t)e->plan.model.vocab_size, sizeof *row);
	struct tokenizer_worker *w = tokenizer_worker_new(c->tokenizer);
	int rc;

	pass_init(&p, e);
	rc = comm_agree(COMM_HERE(e->groups.world), read_prompt(c, &ids, err), err) ? -1 : 0;
	if (rc == 0)
		take_length(&p, (int64_t)ids.count + c->o.generate);
	for (int64_t i = 0; rc == 0 && i < c->o.generate; i++) {
		int64_t id = next_token(&p, c, &ids, row);

		if (id < 0)
			rc = not_finite(&p, "the logits of the next token");
		if (id < 0 || id == c->eod)
			break;
		token_ids_add(&ids, (uint32_t)id);
	}
	if (rc == 0)
		rc = tokenizer_decode(w, &ids, true, &text, err);
	if (rc == 0 && e->rank == 0) {
		str_addc(&text, '\n');
		str_put(&text, stdout);
	}
	pass_release(&p);
	tokenizer_worker_free(w);
	token_ids_release(&ids);
	str_release(&text);
	free(row);
	return rc;
}
