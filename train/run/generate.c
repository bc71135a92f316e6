/*
 * generate.c - text that follows prompts
 *
 * Prompts are taken in groups, in their order, a group for each data rank at a time; ranks pass in
 * step, since they may share experts or weights. Those of a group end at the same position: pass
 * over prompts first, some positions at a time, and then over the one position of each token that
 * was chosen. Without kept keys each pass is over all positions. What is chosen goes to all ranks,
 * so each of them knows where every text ends. How likely it was is computed beside the next pass.
 */
#include "lib/base/clock.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/base/prog.h"
#include "lib/data/npy.h"
#include "lib/model/generation.h"
#include "lib/model/rope.h"
#include "train/run/choose.h"
#include "train/run/forward.h"
#include "train/run/generate.h"
#include "train/step/open.h"
#include "train/step/replay.h"

#include <math.h>
#include <stdlib.h>

struct generator {
	struct engine *e;
	struct requests *r;
	struct forward prompts, next; /* next: of one position; without kept keys there is none */
	int64_t batch, ranks;         /* prompts of a group, and data ranks */
	struct request **row;         /* [ranks][batch] of the groups that are taken; or NULL */
	/* [ranks][batch]: tokens that were chosen last, -inf where none was; the logarithms of
	 * their probabilities */
	double *chosen, *logprob;
	struct logits *logits;      /* [batch], by which they were, */
	char *rows;                 /* [batch][v], and where they lie */
	struct pool *pool;          /* of the host's threads, which choose */
	struct replay *replay;      /* of passes over one position */
	const struct forward *pass; /* the one that they choose after */
	int64_t taken, printed;     /* requests */
	int64_t tokens;             /* that passes after those over prompts have made, */
	double seconds;             /* in so long */
	struct str kept_logits;     /* of --logits-file, [choices, v] */
};

/* --- the plan --------------------------------------------------------------------------------- */

int
generate_plan(struct train_config *c, const struct request_lengths *l, struct err *err)
{
	int64_t each = int64_div_up(int64_max(1, l->count), c->plan.layout.data_parallel_size);
	struct generation g = { .batch = int64_min(c->o.generate_batch_size, each),
		.prompt = l->prompt,
		.new = l->new,
		.keeps = c->o.kv_cache };

	if (c->o.logits_file && l->count > 1)
		return err_set(err, "--logits-file: with --generate of one prompt, not %lld",
		    (long long)l->count);
	if (g.keeps && c->plan.layout.context_parallel_size > 1)
		return err_set(err,
		    "--context-parallel-size %lld: context ranks keep no keys: must be 1 with "
		    "--generate, or give --no-kv-cache",
		    (long long)c->plan.layout.context_parallel_size);
	if (c->plan.shape.expert_capacity > 0)
		return err_set(err,
		    "--moe-expert-capacity-factor: with --generate a text would depend on the "
		    "others of its batch: leave it out");
	c->plan = generation_plan(&c->plan, &g);
	return 0;
}

/* --- a pass ----------------------------------------------------------------------------------- */

/* Where a row's prompt begins, when all rows end before position `end`. */
static int64_t
begin_of(const struct request *q, int64_t end)
{
	return end - (q ? (int64_t)q->ids.count : 1);
}

/* What is before a prompt are documents of one position. */
static int32_t
document_of(const struct request *q, int64_t end, int64_t position)
{
	return (int32_t)int64_min(position, begin_of(q, end));
}

/* This data rank's rows. */
static struct request **
own_rows(const struct generator *g)
{
	return g->row + g->e->coord[AX_DP] * g->batch;
}

/* Attention by heads reads the documents of all positions. */
static void
fill_documents(const struct generator *g, struct forward *f, int64_t end)
{
	struct request **q = own_rows(g);
	int64_t rows = run_document_rows(&f->e->plan);

	for (int64_t row = 0; rows > run_rows(&f->e->plan) && row < rows; row++)
		f->batch.documents[row] = document_of(q[row % g->batch], end, row / g->batch);
}

/* The positions of a pass, of which `end` are there after it. */
static void
fill(const struct generator *g, struct forward *f, int64_t end)
{
	const struct position_range *has = f->e->position_range;
	struct request **q = own_rows(g);
	int64_t row = 0;

	for (int i = 0; i < f->e->num_ranges; i++)
		for (int64_t k = 0; k < has[i].count * g->batch; k++, row++) {
			const struct request *of = q[k % g->batch];
			int64_t at = f->kept + has[i].first + k / g->batch,
				number = at - begin_of(of, end);

			f->batch.tokens[row] = number >= 0 && of ? (int32_t)of->ids.id[number] : 0;
			f->batch.positions[row] = (int32_t)int64_max(0, number);
			f->batch.documents[row] = document_of(of, end, at);
		}
	fill_documents(g, f, end);
}

/* --- a token of each text --------------------------------------------------------------------- */

/* Ids that are chosen: a model may have more than its tokenizer, as padding. */
static int64_t
num_ids(const struct generator *g)
{
	return int64_min(g->e->plan.model.vocab_size, tokenizer_vocab_size(g->r->c->tokenizer));
}

/* Of the logits of a position. */
static size_t
row_bytes(const struct generator *g)
{
	const struct run_plan *p = &g->e->plan;

	return (size_t)p->model.vocab_size * dtype_size(p->shape.dtype);
}

/* The choice of one row of this rank's group, by its logits; -1 when they are not finite. Rows have
 * places of their own, so threads take one each. */
static void
choose_row(void *ctx, int i)
{
	struct generator *g = ctx;
	const struct run_plan *p = &g->pass->e->plan;
	const struct train_options *o = &g->r->c->o;
	int64_t number, at = g->e->coord[AX_DP] * g->batch + i, last = p->shape.seq_length - 1;
	const struct request *q = g->row[at];
	struct sampling s = { o->temperature, o->top_k, o->top_p, 0, 0 };

	if (!q || q->done)
		return;
	s.seed = q->seed;
	s.prompt = (uint32_t)(q - g->r->item);
	g->logits[i] = forward_row(g->pass, layout_holder(&p->layout, last + 1, last, &number), i,
	    g->rows + (size_t)i * row_bytes(g));
	g->chosen[at] = (double)choose(&s, &g->logits[i], num_ids(g), (int64_t)q->ids.count);
}

/* How likely that choice was. */
static void
weigh_row(void *ctx, int i)
{
	struct generator *g = ctx;
	int64_t at = g->e->coord[AX_DP] * g->batch + i;

	if (g->chosen[at] >= 0)
		g->logprob[at] = choose_logprob(&g->logits[i], (int64_t)g->chosen[at]);
}

/* Collective. Runs a job of rows on ranks with logits, each of which sets an element of x; all get
 * all of them, -infinity where there is none, which other ranks offer to a maximum. */
static void
run_rows_of_all(struct generator *g, void (*job)(void *, int), double *x)
{
	int64_t n = g->ranks * g->batch;
	struct comm *w = g->e->groups.world;
	struct tensor t = tensor_1d(x, DTYPE_F64, n);

	for (int64_t i = 0; i < n; i++)
		x[i] = -INFINITY;
	if (g->e->last_stage)
		pool_run(g->pool, (int)g->batch, job, g);
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
}

/* Collective. How likely the tokens were that were chosen last, where that is printed. */
static void
weigh_all(struct generator *g)
{
	if (!g->r->c->o.prompts)
		return;
	run_rows_of_all(g, weigh_row, g->logprob);
	for (int64_t i = 0; i < g->ranks * g->batch; i++)
		if (g->chosen[i] >= 0)
			request_weigh(g->r, g->row[i], (int64_t)g->chosen[i], g->logprob[i]);
}

/* Collective. A token for each text of all groups that is not done. 1: there is more to do; 0: all
 * are done; -1 with a reason; or an exit status beyond 1. */
static int
choose_all(struct generator *g, struct forward *f, struct err *err)
{
	int more = 0;

	g->pass = f;
	run_rows_of_all(g, choose_row, g->chosen);
	if (g->e->last_stage && g->r->c->o.logits_file)
		str_add(&g->kept_logits, g->rows, row_bytes(g));
	for (int64_t i = 0; i < g->ranks * g->batch; i++) {
		struct request *q = g->row[i];

		if (!q || q->done)
			continue;
		if (g->chosen[i] < 0)
			return forward_not_finite(f, "the logits of the next token");
		if (request_add(g->r, q, (int64_t)g->chosen[i], err) < 0)
			return -1;
		g->tokens++;
		more |= !q->done;
	}
	return more;
}

/* --- groups ----------------------------------------------------------------------------------- */

/* Takes the next prompts that can be continued; returns the tokens of the longest, or 0. */
static int64_t
take_groups(struct generator *g)
{
	int64_t longest = 0;

	for (int64_t i = 0; i < g->ranks * g->batch; i++) {
		while (g->taken < g->r->count && g->r->item[g->taken].wrong)
			g->taken++;
		g->row[i] = g->taken < g->r->count ? &g->r->item[g->taken++] : NULL;
		if (g->row[i])
			longest = int64_max(longest, g->row[i]->length);
	}
	return longest;
}

/* Passes over the prompts, of which the last gives logits. Returns how many positions are kept. */
static int64_t
pass_prompts(struct generator *g, int64_t longest)
{
	struct forward *f = &g->prompts;
	int64_t s = f->e->plan.shape.seq_length,
		end = g->e->decoder ? generation_prompt(&f->e->plan, longest) : s;

	for (int64_t first = 0; first < end; first += s) {
		f->kept = first;
		f->rows = first + s == end ? g->batch : 0;
		fill(g, f, end);
		forward_run(f);
	}
	return end;
}

/* The token after position `end` - 1 of each text, while how likely the one before was is
 * computed. Returns as choose_all. */
static int
run_next(struct generator *g, struct forward *f, int64_t end, struct err *err)
{
	fill(g, f, end);
	forward_queue(f);
	weigh_all(g);
	forward_wait(f);
	return choose_all(g, f, err);
}

/* Texts of the groups to their ends. 0, -1 with a reason, or an exit status. */
static int
run_groups(struct generator *g, int64_t longest, struct err *err)
{
	int64_t end = pass_prompts(g, longest), tokens = g->tokens;
	int rc = choose_all(g, &g->prompts, err);
	double since = clock_seconds();

	g->tokens = tokens;
	while (rc == 1 && !g->e->decoder)
		rc = run_next(g, &g->prompts, end, err);
	for (; rc == 1; end++) {
		g->next.kept = end;
		rc = run_next(g, &g->next, end + 1, err);
	}
	if (rc == 0)
		weigh_all(g);
	g->seconds += clock_seconds() - since;
	return rc;
}

/* On rank 0, in the order of the prompts: all before the first that is not done. */
static int
print_done(struct generator *g, struct err *err)
{
	for (; g->printed < g->r->count; g->printed++) {
		const struct request *q = &g->r->item[g->printed];

		if (!q->done && !q->wrong)
			break;
		if (g->e->rank == 0 && request_print(g->r, q, err) < 0)
			return -1;
	}
	fflush(stdout);
	return 0;
}

/* Angles of a generation are those of all its tokens. */
static void
take_length(struct engine *e, const struct requests *r)
{
	struct str words = { 0 };
	int64_t length = requests_lengths(r).total;

	longrope_words(&e->plan.model, length, &words);
	if (words.len)
		engine_set_length(e, length);
	if (words.len && e->rank == 0)
		note("%s", words.buf);
	str_release(&words);
}

/* What chose the tokens of the one prompt, by the rank that has it. */
static int
write_logits(const struct generator *g, struct err *err)
{
	const struct run_plan *p = &g->e->plan;
	const char *path = g->r->c->o.logits_file;
	enum dtype type = p->shape.dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	int64_t v = p->model.vocab_size, n = (int64_t)(g->kept_logits.len / row_bytes(g)),
		shape[2] = { n, v };
	struct logits all = { g->kept_logits.buf, p->shape.dtype, n * v,
		p->model.final_logit_softcapping };
	double *x;
	void *out;
	int rc;

	if (!path || n == 0 || g->e->coord[AX_TP] || layout_data_rank(&p->layout, g->e->coord))
		return 0;
	x = mem_alloc((size_t)(n * v), sizeof *x);
	out = mem_alloc((size_t)(n * v), dtype_size(type));
	logits_double(&all, 0, n * v, x);
	dtype_convert(out, type, x, DTYPE_F64, n * v);
	rc = npy_write(path, type, 2, shape, out, err);
	free(x);
	free(out);
	return rc;
}

/* Passes over one position differ in what is in memory alone, so they are recorded. Their logits
 * are copied to pinned memory then. */
static void
open_next(struct generator *g)
{
	struct engine *e = g->e->decoder;
	struct forward *f = &g->next;

	if (!e)
		return;
	forward_init(f, e, g->batch);
	if (e->backend->pin)
		e->backend->pin(e->device, f->local, forward_bytes(f));
	if (g->r->c->o.cuda_graphs)
		f->replay = g->replay = replay_new(e);
}

/* The device has finished. */
static void
close_next(struct generator *g)
{
	struct engine *e = g->e->decoder;

	if (!e)
		return;
	replay_free(g->replay);
	if (e->backend->unpin)
		e->backend->unpin(e->device, g->next.local);
	forward_release(&g->next);
}

static void
generator_init(struct generator *g, struct engine *e, struct requests *r, int num_threads)
{
	size_t n;

	*g = (struct generator){ .e = e,
		.r = r,
		.batch = e->plan.shape.micro_batch_size,
		.ranks = e->plan.layout.data_parallel_size };
	n = (size_t)(g->batch * g->ranks);
	g->row = mem_zalloc(n, sizeof(struct request *));
	g->chosen = mem_alloc(n, sizeof *g->chosen);
	g->logprob = mem_alloc(n, sizeof *g->logprob);
	g->logits = mem_alloc((size_t)g->batch, sizeof *g->logits);
	g->rows = mem_alloc((size_t)g->batch, row_bytes(g));
	g->pool = pool_new((int)int64_min(num_threads, g->batch));
	forward_init(&g->prompts, e, g->batch);
	open_next(g);
}

static void
generator_release(struct generator *g)
{
	forward_release(&g->prompts);
	close_next(g);
	free(g->row);
	free(g->chosen);
	free(g->logprob);
	free(g->logits);
	free(g->rows);
	pool_free(g->pool);
	str_release(&g->kept_logits);
}

int
generate(struct engine *e, struct requests *r, int num_threads, struct err *err)
{
	struct generator g;
	int64_t longest;
	int rc;

	generator_init(&g, e, r, num_threads);
	take_length(e, r);
	rc = print_done(&g, err);
	while (rc == 0 && (longest = take_groups(&g)) > 0) {
		rc = run_groups(&g, longest, err);
		if (rc == 0)
			rc = print_done(&g, err);
	}
	if (rc == 0)
		rc = write_logits(&g, err);
	if (rc == 0 && e->rank == 0 && g.tokens > 0)
		note("%lld tokens in %.2f s after the passes over prompts: %.0f tokens/s",
		    (long long)g.tokens, g.seconds, (double)g.tokens / g.seconds);
	generator_release(&g);
	return rc == 0 && requests_lengths(r).count < r->count ? EXIT_FAILED : rc;
}
