/*
 * document.c - what a worker does: from a batch of lines to the ids and lengths of their documents
 *
 * A document is in the datasets of all keys or of none, since their document numbers must agree:
 * what the keys before a refused one have added is removed.
 */
#include "lib/base/mem.h"
#include "tok/document.h"
#include "tok/errors.h"
#include "tok/sentence.h"

#include <stdlib.h>
#include <string.h>

/* A large batch and a long list of ids give their memory back after use. */
enum { TEXT_KEPT = 4 << 20, IDS_KEPT = 4 << 20 };

/* Bytes of a byte order mark: a batch with a larger offset is not the first of its file. */
enum { BOM = 3 };

/* The extent of a part: its bytes of tokens, of lengths and of documents, and its counts. */
struct mark {
	uint64_t stored;
	size_t lengths, documents;
	int64_t sequences, tokens, bytes, trained;
};

/* What a worker keeps between batches. None of it is shared, so workers need no lock. */
struct scratch {
	const struct document_plan *plan;
	struct tokenizer_worker **tokenizer;
	struct jsonl *jsonl;
	struct token_ids ids;
	/* where the ids of the sequence being encoded go, how many have gone there, and bits of
	 * them that do not fit the type */
	struct job *job;
	struct part *part;
	uint64_t taken, beyond;
	struct mark *before;   /* the extents of the parts before the current document */
	struct chat_line line; /* with chat: the current one, and what its marks need */
	uint8_t *mark;
	size_t cap_marks;
	struct str surface;
};

/* The number of parts of a job. */
static int
num_parts(const struct document_plan *p)
{
	return p->num_tokenizers * p->keys->count;
}

/* Empty, with a part for every tokenizer and key. */
void
job_init(struct job *j, const struct document_plan *p)
{
	memset(j, 0, sizeof *j);
	j->part = mem_zalloc((size_t)num_parts(p), sizeof *j->part);
}

/* Frees what the job has grown to. A job of zeroes is fine. */
void
job_release(struct job *j, const struct document_plan *p)
{
	for (int i = 0; j->part && i < num_parts(p); i++) {
		spool_release(&j->part[i].tokens);
		spool_release(&j->part[i].mask);
		str_release(&j->part[i].lengths);
		str_release(&j->part[i].sequences);
	}
	str_release(&j->batch.text);
	str_release(&j->words);
	free(j->bad);
	free(j->part);
}

/* In the machine's byte order, which is that of the dataset's format (only little-endian machines
 * are supported). */
static void
add_int32(struct str *s, int32_t v)
{
	str_add(s, &v, sizeof v);
}

/* An id that does not fit would silently train on other text, and tokenizers may have ids beyond
 * their own vocabulary size. */
static int
check_fit(const struct document_plan *p, uint64_t beyond, struct err *e)
{
	if (beyond)
		return err_set(e, "an id does not fit %s, the type for the size of the vocabulary",
		    dtype_torch_name(p->dtype));
	return 0;
}

/* Appends ids in the dataset's type. Returns the bits that do not fit, or 0: all bits are ORed,
 * since the compiler vectorises a loop without a branch. */
static uint64_t
add_tokens(const struct document_plan *p, struct part *part, const uint32_t *id, size_t count)
{
	struct str *s = &part->tokens.tail;
	uint64_t bits = 0;
	char *to;

	if (p->discard)
		return 0;
	if (p->dtype != DTYPE_U16) {
		for (size_t i = 0; i < count; i++)
			bits |= id[i];
		str_add(s, id, count * sizeof *id);
		return bits >> 31;
	}
	str_reserve(s, 2 * count);
	to = s->buf + s->len;
	for (size_t i = 0; i < count; i++) {
		uint16_t v = (uint16_t)id[i];

		bits |= id[i];
		memcpy(to + 2 * i, &v, sizeof v);
	}
	s->len += 2 * count;
	return bits >> 16;
}

/* Takes the next ids of the sequence being encoded: the tokenizer calls it when it has many, and
 * for the last of them. */
static void
take_ids(void *ctx, const uint32_t *id, size_t count)
{
	struct scratch *s = ctx;

	s->beyond |= add_tokens(s->plan, s->part, id, count);
	s->taken += count;
	if (!s->job->failed && !s->plan->discard)
		s->job->failed = spool_store(&s->part->tokens, s->plan->prefix, &s->job->why) < 0;
}

/* One text as one sequence; none when it encodes to nothing. first: bos belongs before it. */
static int
encode_sequence(struct scratch *s, int tokenizer, struct part *part, const struct jsonl_text *text,
    bool first, struct err *e)
{
	const struct document_plan *p = s->plan;
	uint32_t bos = (uint32_t)p->bos;
	uint64_t before = spool_bytes(&part->tokens), extra = first && p->bos >= 0;

	s->part = part;
	s->ids.count = 0;
	s->taken = 0;
	s->beyond = extra ? add_tokens(p, part, &bos, 1) : 0;
	if (tokenizer_encode(s->tokenizer[tokenizer], text->bytes, text->len, &s->ids, e) < 0)
		return -1;
	if (s->ids.count)
		take_ids(s, s->ids.id, s->ids.count);
	if (s->taken >= INT32_MAX - 1)
		return err_set(e, "a text of %llu tokens: at most %d fit a sequence",
		    (unsigned long long)s->taken, INT32_MAX - 2);
	if (s->taken == 0) {
		spool_cut(&part->tokens, before);
		return 0;
	}
	add_int32(&part->lengths, (int32_t)(s->taken + extra));
	part->counts.tokens += (int64_t)(s->taken + extra);
	return check_fit(p, s->beyond, e);
}

/*
 * Encodes the strings of one document and key: each is a sequence, or several when it is to be
 * split, and empty ones are left out. The eod is added to the last sequence instead of making its
 * own.
 */
static int
encode_value(struct scratch *s, int tokenizer, int key, struct part *part, struct err *e)
{
	const struct document_plan *p = s->plan;
	size_t start = part->lengths.len, sequences;
	uint32_t eod = (uint32_t)p->eod;
	struct jsonl_text text;

	jsonl_walk(s->jsonl, key);
	while (jsonl_next(s->jsonl, &text)) {
		struct sentence_walk walk = { text.bytes, text.bytes + text.len, p->keep_newlines };
		struct jsonl_text one = text;
		bool more = !p->split_sentences || sentence_next(&walk, &one.bytes, &one.len);

		part->counts.bytes += (int64_t)text.len;
		for (; more;
		     more = p->split_sentences && sentence_next(&walk, &one.bytes, &one.len))
			if (encode_sequence(
				s, tokenizer, part, &one, part->lengths.len == start, e) < 0)
				return -1;
	}
	sequences = (part->lengths.len - start) / sizeof(int32_t);
	if (sequences > INT32_MAX)
		return err_set(e, "a document of %zu sequences: at most %d", sequences, INT32_MAX);
	add_int32(&part->sequences, (int32_t)sequences);
	part->counts.sequences += (int64_t)sequences;
	if (sequences && p->eod >= 0) {
		char *at = part->lengths.buf + part->lengths.len - sizeof(int32_t);
		int32_t last;

		memcpy(&last, at, sizeof last);
		last++;
		memcpy(at, &last, sizeof last);
		part->counts.tokens++;
		return check_fit(p, add_tokens(p, part, &eod, 1), e);
	}
	return 0;
}

/* The ids of the current line, and their marks, which are in s->mark or in the line: none where
 * there is no id. */
static int
chat_ids(struct scratch *s, int tokenizer, const uint8_t **mark, struct err *e)
{
	const struct chat_line *l = &s->line;
	const struct tokenizer *t = s->plan->tokenizer[tokenizer];
	int rc;

	s->ids.count = 0;
	*mark = l->mark;
	if (l->has_ids)
		return tokenizer_check_ids(t, l->id, l->count, &s->ids, e);
	s->ids.pass = NULL; /* places need all of them */
	rc = tokenizer_encode(
	    s->tokenizer[tokenizer], l->text.buf ? l->text.buf : "", l->text.len, &s->ids, e);
	s->ids.pass = take_ids;
	if (rc < 0)
		return -1;
	if (s->cap_marks < s->ids.count + 1) {
		s->cap_marks = s->ids.count + s->ids.count / 2 + 1;
		s->mark = mem_realloc(s->mark, s->cap_marks, 1);
	}
	*mark = s->mark;
	if (chat_mark(t, l, &s->ids, s->mark, &s->surface) == 0)
		return 0;
	return err_set(e, "the tokenizer does not give this text back; give ids by --mask-key");
}

/* One token with its byte of the mask, if there is one. */
static uint64_t
add_marked(struct scratch *s, struct part *part, int64_t id, uint8_t mark)
{
	uint32_t one = (uint32_t)id;

	if (id < 0)
		return 0;
	if (!s->plan->discard)
		str_add(&part->mask.tail, &mark, 1);
	part->counts.tokens++;
	part->counts.trained += mark;
	return add_tokens(s->plan, part, &one, 1);
}

/* The current line as a document of one sequence, or of none when it has no token. The eod counts
 * as the token before it does. */
static int
encode_chat(struct scratch *s, int tokenizer, struct part *part, struct err *e)
{
	const struct document_plan *p = s->plan;
	const uint8_t *mark;
	size_t n, all;
	uint64_t beyond;

	if (chat_ids(s, tokenizer, &mark, e) < 0)
		return -1;
	n = s->ids.count;
	all = n + (p->bos >= 0) + (p->eod >= 0);
	if (all >= INT32_MAX - 1)
		return err_set(
		    e, "a text of %zu tokens: at most %d fit a sequence", all, INT32_MAX - 2);
	part->counts.bytes += (int64_t)s->line.text.len;
	add_int32(&part->sequences, n > 0);
	if (n == 0)
		return 0;
	beyond = add_marked(s, part, p->bos, 0);
	beyond |= add_tokens(p, part, s->ids.id, n);
	for (size_t i = 0; i < n; i++)
		part->counts.trained += mark[i];
	if (!p->discard)
		str_add(&part->mask.tail, mark, n);
	part->counts.tokens += (int64_t)n;
	beyond |= add_marked(s, part, p->eod, mark[n - 1]);
	add_int32(&part->lengths, (int32_t)all);
	part->counts.sequences++;
	if (!p->discard &&
	    (spool_store(&part->tokens, p->prefix, e) < 0 ||
		spool_store(&part->mask, p->prefix, e) < 0))
		return -1;
	return check_fit(p, beyond, e);
}

/* Encodes all keys of the parsed line with all tokenizers, or none: what was added to a part is
 * removed again, while its memory is kept. The histogram gets only complete documents. */
static int
encode_document(struct scratch *s, struct job *j, struct err *e)
{
	int keys = s->plan->keys->count, n = num_parts(s->plan), rc = 0;

	for (int i = 0; i < n; i++) {
		const struct part *part = &j->part[i];

		s->before[i] = (struct mark){ spool_bytes(&part->tokens), part->lengths.len,
			part->sequences.len, part->counts.sequences, part->counts.tokens,
			part->counts.bytes, part->counts.trained };
	}
	for (int i = 0; i < n && rc == 0; i++)
		rc = s->plan->chat ? encode_chat(s, i, &j->part[i], e)
				   : encode_value(s, i / keys, i % keys, &j->part[i], e);
	for (int i = 0; i < n; i++) {
		struct part *part = &j->part[i];
		const struct mark *before = &s->before[i];
		int64_t tokens = part->counts.tokens - before->tokens;
		int bits = tokens ? 64 - __builtin_clzll((unsigned long long)tokens) : 0;

		if (rc == 0) {
			part->counts.bucket[bits < LENGTH_BUCKETS ? bits : LENGTH_BUCKETS - 1]++;
			if (tokens > part->counts.longest)
				part->counts.longest = tokens;
			continue;
		}
		spool_cut(&part->tokens, before->stored);
		spool_cut(&part->mask, before->stored / dtype_size(s->plan->dtype));
		part->lengths.len = before->lengths;
		part->sequences.len = before->documents;
		part->counts.sequences = before->sequences;
		part->counts.tokens = before->tokens;
		part->counts.bytes = before->bytes;
		part->counts.trained = before->trained;
	}
	return rc;
}

/*
 * Parses and encodes one line; the class says how it went. Blank lines are not errors in either
 * mode; they are counted apart, and bad lines are noted with their reasons. A large batch is freed
 * once nothing of it is needed after its last line was decoded, to make room for its ids.
 */
static enum jsonl_class
encode_line(struct scratch *s, struct job *j, const struct jsonl_text *line, bool last)
{
	size_t offset = (size_t)(line->bytes - j->batch.text.buf);
	bool plain = j->batch.plain;
	enum jsonl_class class = plain ? jsonl_take_text(s->jsonl, line->bytes, line->len)
				       : jsonl_parse(s->jsonl, line->bytes, line->len);
	const char *why = jsonl_detail(s->jsonl), *advice;
	struct err e;

	if (class == JSONL_OK && s->plan->chat) {
		class = chat_read(s->plan->chat, line->bytes, line->len, &s->line);
		why = s->line.why;
	}

	if (last && class == JSONL_OK && j->batch.text.cap > TEXT_KEPT &&
	    jsonl_has_copied(s->jsonl))
		str_release(&j->batch.text);
	if (class == JSONL_OK && encode_document(s, j, &e) < 0) {
		class = JSONL_REFUSED;
		why = e.msg;
	}
	j->documents += class == JSONL_OK;
	j->blank += class == JSONL_BLANK;
	if (class == JSONL_OK || class == JSONL_BLANK)
		return class;
	if (j->num_bad == j->cap_bad) {
		j->cap_bad = 2 * j->cap_bad + 16;
		j->bad = mem_realloc(j->bad, j->cap_bad, sizeof *j->bad);
	}
	j->bad[j->num_bad++] = (struct bad_line){ j->lines, offset, class, j->words.len };
	advice = j->lines || j->batch.offset > BOM ? "" : errors_advice(class, plain, line->bytes);
	str_addf(&j->words, "%s%s", why, advice);
	str_addc(&j->words, '\0');
	return class;
}

/* One parser, and a worker of every tokenizer. */
struct scratch *
scratch_new(const struct document_plan *p)
{
	struct scratch *s = mem_zalloc(1, sizeof *s);

	s->plan = p;
	s->ids.pass = take_ids;
	s->ids.ctx = s;
	/* with chat the members are read from the whole line */
	s->jsonl = jsonl_new(p->chat ? &(struct opt_list){ 0 } : p->keys, p->max_bytes);
	s->before = mem_zalloc((size_t)num_parts(p), sizeof *s->before);
	s->tokenizer = mem_zalloc((size_t)p->num_tokenizers, sizeof(struct tokenizer_worker *));
	for (int i = 0; i < p->num_tokenizers; i++)
		s->tokenizer[i] = tokenizer_worker_new(p->tokenizer[i]);
	return s;
}

/* NULL is allowed. */
void
scratch_free(struct scratch *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->plan->num_tokenizers; i++)
		tokenizer_worker_free(s->tokenizer[i]);
	jsonl_free(s->jsonl);
	token_ids_release(&s->ids);
	chat_line_release(&s->line);
	str_release(&s->surface);
	free(s->mark);
	free(s->tokenizer);
	free(s->before);
	free(s);
}

/* Forgets the batch before; memory that only a very long text needed is given back. Stops at a line
 * that ends the run; whether the job's documents before that line are written is up to the
 * caller. */
void
job_work(struct job *j, struct scratch *s)
{
	struct jsonl_text line;
	size_t pos = 0;

	for (int i = 0; i < num_parts(s->plan); i++) {
		struct part *part = &j->part[i];

		spool_cut(&part->tokens, 0);
		spool_cut(&part->mask, 0);
		str_clear(&part->lengths);
		str_clear(&part->sequences);
		memset(&part->counts, 0, sizeof part->counts);
	}
	j->documents = j->blank = j->lines = 0;
	j->num_bad = 0;
	j->failed = false;
	str_clear(&j->words);
	s->job = j;
	while (!j->failed && batch_line(&j->batch, &pos, &line.bytes, &line.len)) {
		enum jsonl_class class = encode_line(s, j, &line, pos >= j->batch.text.len);

		if (class > JSONL_BLANK && s->plan->stop_at_bad)
			return;
		j->lines++;
	}
	if (s->ids.cap > IDS_KEPT)
		token_ids_release(&s->ids);
	if (j->batch.text.cap > TEXT_KEPT)
		str_release(&j->batch.text);
}
