/* task_requests.c - tasks as sequences of tokens, packed into samples */
#include "lib/base/int64.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "train/config/agree.h"
#include "train/data/task_requests.h"

#include <stdlib.h>
#include <string.h>

enum { TASKS_MAX = 1 << 30 };

/* How texts become tokens. bare: without what the tokenizer adds by itself. */
struct encoder {
	const struct train_config *c;
	struct tokenizer *plain;            /* NULL: the run's adds nothing */
	struct tokenizer_worker *worker[2]; /* of the run's, and of the other */
	struct tokenizer_worker *full, *bare;
	int64_t bos;     /* stands before a text; -1: nothing, or the tokenizer adds it */
	int64_t prefix;  /* what the first token follows; -1: none */
	struct str mark; /* its text: what begins with it has it already */
	int64_t most;    /* rows of a request */
	struct token_ids context, whole;
};

/* --- from texts to tokens --------------------------------------------------------------------- */

/* What the tokenizer adds to every text is what it makes of none; to ids, nothing. */
static int
adds_tokens(const struct tokenizer *t, struct tokenizer_worker *w, bool *adds, struct err *err)
{
	struct token_ids ids = { 0 };
	int rc = tokenizer_has_text(t) ? tokenizer_encode(w, "", 0, &ids, err) : 0;

	*adds = ids.count > 0;
	token_ids_release(&ids);
	return rc;
}

/* Which of the tokenizers encodes what, by --eval-add-bos. */
static int
choose_workers(struct encoder *n, int64_t bos, struct err *err)
{
	struct tokenizer_spec plain = n->c->spec;
	bool adds;

	n->worker[0] = tokenizer_worker_new(n->c->tokenizer);
	if (adds_tokens(n->c->tokenizer, n->worker[0], &adds, err) < 0)
		return -1;
	plain.hf_no_include_special_tokens = true;
	if (adds && !(n->plain = tokenizer_open(&plain, err)))
		return -1;
	if (adds)
		n->worker[1] = tokenizer_worker_new(n->plain);
	n->bare = n->worker[adds];
	n->full = n->c->o.eval_add_bos == EVAL_BOS_NO ? n->bare : n->worker[0];
	if (n->c->o.eval_add_bos != EVAL_BOS_YES)
		return 0;
	if (bos < 0)
		return err_set(err, "--eval-add-bos yes: the tokenizer has no beginning of text");
	n->bos = tokenizer_adds_bos(n->c->tokenizer) ? -1 : bos;
	return 0;
}

static int
encoder_init(struct encoder *n, const struct train_config *c, struct err *err)
{
	int64_t bos = tokenizer_special(c->tokenizer, TOKENIZER_BOS);

	*n = (struct encoder){ .c = c,
		.bos = -1,
		.prefix = bos >= 0 ? bos : c->eod,
		.most = c->o.eval_max_length ? c->o.eval_max_length
					     : c->plan.model.max_position_embeddings };
	if (choose_workers(n, bos, err) < 0)
		return -1;
	if (n->prefix < 0)
		return 0;
	token_ids_add(&n->whole, (uint32_t)n->prefix);
	return tokenizer_decode(n->full, &n->whole, false, &n->mark, err);
}

static void
encoder_release(struct encoder *n)
{
	tokenizer_worker_free(n->worker[0]);
	tokenizer_worker_free(n->worker[1]);
	tokenizer_close(n->plain);
	token_ids_release(&n->context);
	token_ids_release(&n->whole);
	str_release(&n->mark);
}

/* The tokens of a text with what stands before every text, unless it is there already. */
static int
encode(struct encoder *n, const struct task_text *s, struct token_ids *out, struct err *err)
{
	bool marked =
	    n->mark.len && s->len >= n->mark.len && !memcmp(s->text, n->mark.buf, n->mark.len);

	out->count = 0;
	if (marked)
		return tokenizer_encode(n->bare, s->text, s->len, out, err);
	if (n->bos >= 0)
		token_ids_add(out, (uint32_t)n->bos);
	return tokenizer_encode(n->full, s->text, s->len, out, err);
}

/* The bytes of a text before the white space at its end. */
static size_t
stripped(const struct task_text *s)
{
	size_t end = s->len;

	while (end > 0) {
		size_t at = end - 1;
		uint32_t cp;

		while (at > 0 && (s->text[at] & 0xc0) == 0x80)
			at--;
		if (!utf8_decode((const unsigned char *)s->text + at, end - at, &cp) ||
		    !utf8_is_space(cp))
			break;
		end = at;
	}
	return end;
}

static int
needs_prefix(const struct encoder *n, struct err *err)
{
	return n->prefix >= 0
	    ? 0
	    : err_set(err,
		  "the tokenizer has neither a beginning of text nor an end of document for the "
		  "first token to follow");
}

/* Without a context: the prefix is one, or the first token is where it is the prefix. */
static int
encode_alone(struct encoder *n, const struct task_text *s, int64_t *rated, struct err *err)
{
	struct token_ids *k = &n->context;

	k->count = n->whole.count = 0;
	if (needs_prefix(n, err) < 0 || tokenizer_encode(n->bare, s->text, s->len, k, err) < 0)
		return -1;
	*rated = (int64_t)k->count;
	if (k->count && k->id[0] == (uint32_t)n->prefix)
		--*rated;
	else
		token_ids_add(&n->whole, (uint32_t)n->prefix);
	for (size_t i = 0; i < k->count; i++)
		token_ids_add(&n->whole, k->id[i]);
	return 0;
}

/* White space at the end of the context belongs to the continuation. Both are encoded as one text,
 * of which the context has as many tokens as it has alone, whichever these are. */
static int
encode_after(struct encoder *n, const struct task_pair *p, int64_t *rated, struct err *err)
{
	struct task_text context = { p->context.text, stripped(&p->context) }, all;
	struct str joined = { 0 };
	size_t a;
	int rc;

	str_add(&joined, p->context.text, p->context.len);
	str_add(&joined, p->continuation.text, p->continuation.len);
	all = (struct task_text){ joined.buf ? joined.buf : "", joined.len };
	rc = encode(n, &context, &n->context, err) < 0 ? -1 : encode(n, &all, &n->whole, err);
	str_release(&joined);
	if (rc < 0)
		return -1;
	a = n->context.count;
	if (a == 0)
		return err_set(err, "context: gives no token");
	*rated = (int64_t)n->whole.count - (int64_t)a;
	for (size_t i = 0; i<a && * rated> 0; i++)
		n->whole.id[i] = n->context.id[i];
	return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

/* Adds tokens of which the last are rated. */
static int
add_request(struct task_requests *r, const struct encoder *n, const struct task_request *of,
    const uint32_t *id, struct err *err)
{
	const struct run_plan *p = &n->c->plan;
	struct task_request *q;

	if (of->count - 1 > p->shape.seq_length)
		return err_set(err,
		    "a request of %lld tokens: must be at most --seq-length %lld, or give "
		    "--eval-max-length to cut it",
		    (long long)of->count - 1, (long long)p->shape.seq_length);
	for (int64_t i = 0; i < of->count; i++)
		if (id[i] >= p->model.vocab_size)
			return err_set(err, "token id %u is outside the model's vocabulary of %lld",
			    id[i], (long long)p->model.vocab_size);
	if (r->count % 64 == 0)
		r->item = mem_realloc(r->item, (size_t)r->count + 64, sizeof *r->item);
	q = &r->item[r->count++];
	*q = *of;
	q->first = (int64_t)r->id.count;
	q->answer = r->num_rated;
	r->num_rated += q->rated;
	for (int64_t i = 0; i < q->count; i++)
		token_ids_add(&r->id, id[i]);
	return 0;
}

/* The last tokens that the model can read, and the one after them. */
static int
add_pair(struct task_requests *r, struct encoder *n, const struct task_pair *p, int64_t pair,
    struct err *err)
{
	struct task_request q = { .pair = pair };
	int64_t all;

	if ((p->context.len ? encode_after(n, p, &q.rated, err)
			    : encode_alone(n, &p->continuation, &q.rated, err)) < 0)
		return -1;
	if (q.rated < 1)
		return err_set(err, "continuation: gives no token of its own");
	if (q.rated > n->most)
		return err_set(err,
		    "continuation: %lld tokens: must be at most the %lld that the model can read "
		    "(--eval-max-length)",
		    (long long)q.rated, (long long)n->most);
	all = (int64_t)n->whole.count;
	q.count = int64_min(all, n->most + 1);
	return add_request(r, n, &q, n->whole.id + (all - q.count), err);
}

/* Stretches that rate each token once: the first from the prefix on, others with one token more
 * than they can read, and so as much before those that they rate as there is room for. */
static int
add_rolling(struct task_requests *r, struct encoder *n, const struct task_text *s, int64_t pair,
    struct err *err)
{
	struct token_ids *t = &n->whole;
	int64_t count, begin = 0;

	if (needs_prefix(n, err) < 0 || encode(n, s, &n->context, err) < 0)
		return -1;
	t->count = 0;
	token_ids_add(t, (uint32_t)n->prefix);
	for (size_t i = 0; i < n->context.count; i++)
		token_ids_add(t, n->context.id[i]);
	count = (int64_t)t->count - 1;
	while (begin < count) {
		int64_t rated = int64_min(count - begin, n->most), end = begin + rated + 1;
		struct task_request q = {
			.pair = pair, .count = begin ? n->most + 1 : rated + 1, .rated = rated
		};

		if (add_request(r, n, &q, t->id + (end - q.count), err) < 0)
			return -1;
		begin += rated;
	}
	return 0;
}

static int
add_item(struct task_requests *r, struct encoder *n, const struct task_item *item, struct err *err)
{
	bool rolling = r->tasks.task[item->task].type == TASK_ROLLING;
	struct err why;

	for (int64_t i = 0; i < item->num_pairs; i++) {
		const struct task_pair *p = &item->pair[i];
		int64_t pair = item->first_pair + i;

		if ((rolling ? add_rolling(r, n, &p->continuation, pair, &why)
			     : add_pair(r, n, p, pair, &why)) < 0)
			return err_at(err, item->file, item->line, "%s", why.msg);
	}
	return 0;
}

/* Rows of samples. */
static void
pack(struct task_requests *r, int64_t seq_length)
{
	int32_t *length = mem_alloc((size_t)r->count + 1, sizeof *length);
	struct packing *p = &r->packing;

	for (int64_t i = 0; i < r->count; i++)
		length[i] = (int32_t)(r->item[i].count - 1);
	packing_best_fit(length, NULL, r->count, seq_length, p);
	for (int64_t k = 0; k < p->bins; k++)
		for (int64_t i = p->begin[k], at = 0; i < p->begin[k + 1]; i++) {
			struct task_request *q = &r->item[p->item[i]];

			q->sample = k;
			q->at = at;
			at += q->count - 1;
		}
	free(length);
}

static int
add_file(struct task_requests *r, const char *path, struct comm *world, struct err *err)
{
	char *text = NULL;
	size_t len = 0;
	int rc = 0;

	if (!world || world->rank == 0)
		rc = io_read_file(path, TASKS_MAX, &text, &len, err);
	if (world)
		rc = agree_bytes(world, rc, &text, &len, err);
	if (rc == 0)
		rc = tasks_add(&r->tasks, path, text, len, err);
	free(text);
	return rc;
}

int
task_requests_open(
    struct task_requests *r, const struct train_config *c, struct comm *world, struct err *err)
{
	const struct opt_list *files = &c->o.eval_tasks;
	size_t s = (size_t)c->plan.shape.seq_length;
	struct encoder n;
	struct err why;
	int rc = 0;

	*r = (struct task_requests){ .one = { mem_alloc(s, 4), mem_alloc(s, 4), mem_alloc(s, 4),
					 mem_alloc(s, sizeof(float)), mem_alloc(s, 4) } };
	for (int i = 0; rc == 0 && i < files->count; i++)
		rc = add_file(r, files->item[i], world, err);
	if (rc < 0)
		return -1;
	if (r->tasks.count == 0)
		return err_set(err, "--eval-tasks: the files have no line");
	if (tasks_check(&r->tasks, &why) < 0)
		return err_set(err, "--eval-tasks: %s", why.msg);
	rc = encoder_init(&n, c, err);
	for (int64_t i = 0; rc == 0 && i < r->tasks.count; i++)
		rc = add_item(r, &n, &r->tasks.item[i], err);
	encoder_release(&n);
	if (rc == 0)
		pack(r, c->plan.shape.seq_length);
	return rc;
}

void
task_requests_release(struct task_requests *r)
{
	tasks_release(&r->tasks);
	free(r->item);
	token_ids_release(&r->id);
	packing_release(&r->packing);
	free(r->one.tokens);
	free(r->one.labels);
	free(r->one.position_ids);
	free(r->one.loss_mask);
	free(r->one.documents);
	*r = (struct task_requests){ 0 };
}

/* --- batches ---------------------------------------------------------------------------------- */

/* The rows of a request: tokens, and as labels those after them. */
static void
fill_rows(struct task_requests *r, const struct task_request *q)
{
	const uint32_t *id = r->id.id + q->first;

	for (int64_t i = 0; i < q->count - 1; i++) {
		int64_t at = q->at + i;

		r->one.tokens[at] = (int32_t)id[i];
		r->one.labels[at] = (int32_t)id[i + 1];
		r->one.position_ids[at] = (int32_t)i;
		r->one.loss_mask[at] = i + 1 >= q->count - q->rated;
		r->one.documents[at] = (int32_t)q->at;
	}
}

void
task_requests_batch(
    struct task_requests *r, const struct deal *d, int64_t first, const struct batch *out)
{
	const struct packing *p = &r->packing;

	for (int64_t i = 0; i < d->samples; i++) {
		bool there = first + i < p->bins;
		int64_t rows = 0, k = there ? p->begin[first + i] : 0,
			end = there ? p->begin[first + i + 1] : 0;

		for (; k < end; k++) {
			const struct task_request *q = &r->item[p->item[k]];

			fill_rows(r, q);
			rows = q->at + q->count - 1;
		}
		deal_padding(&r->one, rows, d->plan->shape.seq_length);
		(void)deal_sample(d, &r->one, i, out);
	}
}
