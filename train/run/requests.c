/* requests.c - prompts that are continued */
#include "lib/base/int64.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "train/config/agree.h"
#include "train/run/requests.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPTS_MAX = 1 << 30 };

/* --- reading ---------------------------------------------------------------------------------- */

/* The text of the option's file, or none; freed by the caller. */
static int
read_text(const struct train_config *c, char **text, size_t *len, struct err *err)
{
	const char *path = c->o.prompts ? c->o.prompts : c->o.prompt_file;

	*text = NULL;
	*len = 0;
	if (!path)
		return 0;
	return io_read_file(strcmp(path, "-") ? path : "/dev/stdin", PROMPTS_MAX, text, len, err);
}

/* The one prompt of --prompt-file, less the line feeds at its end. */
static void
take_text(struct prompts *p, const char *text, size_t len)
{
	*p = (struct prompts){ mem_alloc(1, sizeof *p->item), 1, { 0 } };
	while (len > 0 && text[len - 1] == '\n')
		len--;
	p->item[0] = (struct prompt){ .id = "0", .text = text ? text : "", .len = len, .seed = -1 };
}

/* What an empty prompt is: the beginning of text. */
static int
begin_text(const struct train_config *c, struct token_ids *ids, struct err *err)
{
	int64_t first = tokenizer_special(c->tokenizer, TOKENIZER_BOS);

	if (first < 0)
		first = c->eod;
	if (first < 0)
		return err_set(
		    err, "the prompt is empty and the tokenizer has no beginning of text");
	token_ids_add(ids, (uint32_t)first);
	return 0;
}

static int
decode(struct requests *r, const uint32_t *id, size_t count, struct str *out, struct err *err)
{
	struct token_ids ids = { .id = (uint32_t *)(uintptr_t)id, .count = count };

	return tokenizer_decode(r->worker, &ids, true, out, err);
}

/* Tokens of a prompt, its length and its own numbers. */
static int
take_prompt(struct requests *r, struct request *q, struct err *err)
{
	const struct train_config *c = r->c;
	const struct prompt *p = q->prompt;
	int64_t s = c->plan.shape.seq_length, v = c->plan.model.vocab_size;

	if (p->wrong)
		return err_set(err, "%s", p->wrong);
	if (p->text ? tokenizer_encode(r->worker, p->text, p->len, &q->ids, err) < 0
		    : tokenizer_check_ids(c->tokenizer, p->ids, p->num_ids, &q->ids, err) < 0)
		return -1;
	if (q->ids.count == 0 && begin_text(c, &q->ids, err) < 0)
		return -1;
	q->length = (int64_t)q->ids.count;
	for (int64_t i = 0; i < q->length; i++)
		if (q->ids.id[i] >= v)
			return err_set(err, "token id %u is outside the model's vocabulary of %lld",
			    q->ids.id[i], (long long)v);
	if (q->length >= s)
		return err_set(err, "%lld tokens: must be fewer than --seq-length %lld",
		    (long long)q->length, (long long)s);
	q->most = int64_min(p->max_tokens ? p->max_tokens : c->o.generate, s - q->length);
	q->seed = (uint64_t)(p->seed < 0 ? c->o.seed : p->seed);
	return decode(r, q->ids.id, q->ids.count, &q->before, err);
}

/* A request for each prompt. The reason of one that is wrong is kept with it. */
static int
take_prompts(struct requests *r, struct err *err)
{
	struct prompts *p = &r->prompts;

	r->count = p->count;
	r->item = mem_zalloc((size_t)p->count + 1, sizeof *r->item);
	for (int64_t i = 0; i < p->count; i++) {
		struct request *q = &r->item[i];

		q->prompt = &p->item[i];
		if (take_prompt(r, q, err) < 0)
			q->wrong = mem_pool_strndup(&p->pool, err->msg, strlen(err->msg));
		if (q->wrong && !r->c->o.prompts)
			return err_set(err, "--prompt-file: %s", q->wrong);
	}
	return 0;
}

int
requests_read(struct requests *r, const struct train_config *c, struct comm *world, struct err *err)
{
	size_t len = 0;
	int rc = 0;

	*r = (struct requests){ .c = c, .worker = tokenizer_worker_new(c->tokenizer) };
	if (!world || world->rank == 0)
		rc = read_text(c, &r->text, &len, err);
	if (world)
		rc = agree_bytes(world, rc, &r->text, &len, err);
	if (rc == 0 && c->o.prompts)
		prompts_parse(&r->prompts, r->text, len);
	else if (rc == 0)
		take_text(&r->prompts, r->text, len);
	if (rc == 0)
		rc = take_prompts(r, err);
	if (rc < 0)
		requests_release(r);
	return rc;
}

void
requests_release(struct requests *r)
{
	for (int64_t i = 0; i < r->count; i++) {
		token_ids_release(&r->item[i].ids);
		str_release(&r->item[i].before);
	}
	free(r->item);
	prompts_release(&r->prompts);
	tokenizer_worker_free(r->worker);
	free(r->text);
	*r = (struct requests){ 0 };
}

struct request_lengths
requests_lengths(const struct requests *r)
{
	struct request_lengths l = { 0, 1, 1, 2 };

	for (int64_t i = 0; i < r->count; i++) {
		const struct request *q = &r->item[i];

		if (q->wrong)
			continue;
		l.count++;
		l.prompt = int64_max(l.prompt, q->length);
		l.new = int64_max(l.new, q->most);
		l.total = int64_max(l.total, q->length + q->most);
	}
	return l;
}

/* --- what follows ----------------------------------------------------------------------------- */

/* Whether the token ends any text. */
static bool
is_stop(const struct requests *r, int64_t id)
{
	if (id == r->c->eod)
		return true;
	for (int i = 0; i < r->c->o.stop_token_ids.count; i++)
		if (r->c->stop_ids[i] == id)
			return true;
	return false;
}

/* Where the first of the stop texts begins; len: there is none. */
static size_t
first_stop(const struct requests *r, const char *text, size_t len)
{
	const struct opt_list *l = &r->c->o.stop;
	size_t first = len;

	for (int i = 0; i < l->count; i++) {
		const char *at = memmem(text, len, l->item[i], strlen(l->item[i]));

		if (at && (size_t)(at - text) < first)
			first = (size_t)(at - text);
	}
	return first;
}

/* Appends the text that follows the prompt, up to a stop text; *found, that there is one. Tokens
 * are decoded together, since they may join in a character; where the prompt reads otherwise then,
 * the new ones are decoded alone. */
static int
continuation(
    struct requests *r, const struct request *q, struct str *out, bool *found, struct err *err)
{
	struct str all = { 0 };
	size_t skip = q->before.len, end;
	int rc = decode(r, q->ids.id, q->ids.count, &all, err);

	if (rc == 0 && (all.len < skip || (skip && memcmp(all.buf, q->before.buf, skip) != 0))) {
		str_clear(&all);
		skip = 0;
		rc = decode(r, q->ids.id + q->length, q->ids.count - (size_t)q->length, &all, err);
	}
	if (rc == 0 && all.len > skip) {
		end = first_stop(r, all.buf + skip, all.len - skip);
		*found = end < all.len - skip;
		str_add(out, all.buf + skip, end);
	}
	str_release(&all);
	return rc;
}

int
request_add(struct requests *r, struct request *q, int64_t id, struct err *err)
{
	struct str text = { 0 };
	int rc = 0;

	if (is_stop(r, id)) {
		q->done = q->stopped = true;
		return 0;
	}
	token_ids_add(&q->ids, (uint32_t)id);
	if (r->c->o.stop.count)
		rc = continuation(r, q, &text, &q->stopped, err);
	q->done = q->stopped || (int64_t)q->ids.count - q->length == q->most;
	str_release(&text);
	return rc;
}

void
request_weigh(const struct requests *r, struct request *q, int64_t id, double logprob)
{
	if (!is_stop(r, id))
		q->logprob += logprob;
}

/* --- printing --------------------------------------------------------------------------------- */

/* Text as JSON, with U+FFFD where a character is incomplete. */
static void
add_json_text(struct str *out, const struct str *text)
{
	struct str whole = { 0 };

	utf8_repair(text->buf ? text->buf : "", text->len, &whole);
	str_add_json(out, whole.buf ? whole.buf : "", whole.len);
	str_release(&whole);
}

static void
add_line(const struct request *q, const struct str *text, struct str *out)
{
	const struct prompt *p = q->prompt;
	struct str given = { (char *)(uintptr_t)p->text, p->len, 0 };

	str_addf(out, "{\"id\": %s, \"prompt\": ", p->id);
	add_json_text(out, p->text ? &given : &q->before);
	str_adds(out, ", \"text\": ");
	add_json_text(out, text);
	str_adds(out, ", \"tokens\": [");
	for (size_t i = (size_t)q->length; i < q->ids.count; i++)
		str_addf(out, "%s%u", i > (size_t)q->length ? ", " : "", q->ids.id[i]);
	str_addf(out, "], \"finish\": \"%s\", \"logprob\": %.6g}\n", q->stopped ? "stop" : "length",
	    q->logprob);
}

int
request_print(struct requests *r, const struct request *q, struct err *err)
{
	struct str text = { 0 }, out = { 0 };
	bool ignored;
	int rc = q->wrong ? 0 : continuation(r, q, &text, &ignored, err);

	if (rc == 0 && q->wrong) {
		str_addf(&text, "line %lld: %s", (long long)q->prompt->line, q->wrong);
		str_addf(&out, "{\"id\": %s, \"error\": ", q->prompt->id);
		str_add_json(&out, text.buf, text.len);
		str_adds(&out, "}\n");
	} else if (rc == 0 && r->c->o.prompts) {
		add_line(q, &text, &out);
	} else if (rc == 0) {
		str_add(&out, q->before.buf ? q->before.buf : "", q->before.len);
		str_add(&out, text.buf ? text.buf : "", text.len);
		str_addc(&out, '\n');
	}
	if (rc == 0)
		str_put(&out, stdout);
	str_release(&text);
	str_release(&out);
	return rc;
}
