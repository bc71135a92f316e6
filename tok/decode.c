/*
 * decode.c - token ids back to text
 *
 * Plain output is the bytes that the ids stand for; JSON Lines must be UTF-8, so there a character
 * that was cut off at the edge of a document becomes U+FFFD.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/data/dataset.h"
#include "tok/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Ids as they are in files, before they are known to be in the vocabulary. */
struct raw_ids {
	int64_t *id;
	size_t count, cap;
};

/* A document being decoded; the next one reuses the lists. */
struct document {
	struct tokenizer_worker *worker;
	const struct tokenizer *tokenizer;
	struct raw_ids raw;
	struct token_ids ids;
};

/* Room for n more. */
static void
raw_reserve(struct raw_ids *r, size_t n)
{
	if (r->count + n <= r->cap)
		return;
	r->cap = 2 * (r->count + n);
	r->id = mem_realloc(r->id, r->cap, sizeof *r->id);
}

/* The tokenizer stays the caller's. */
static void
document_init(struct document *d, const struct tokenizer *t)
{
	*d = (struct document){ .worker = tokenizer_worker_new(t), .tokenizer = t };
}

/* Frees the lists and the worker. */
static void
document_release(struct document *d)
{
	free(d->raw.id);
	token_ids_release(&d->ids);
	tokenizer_worker_free(d->worker);
}

/* Decodes one document and writes it, as {"text": ...} on a line, where each byte that is not UTF-8
 * becomes U+FFFD, or as it is. A line feed ends a document in both forms; text may hold more. */
static int
put_document(const struct decode_config *c, struct document *d, FILE *out, struct err *e)
{
	struct str text = { 0 }, clean = { 0 }, line = { 0 };
	int rc;

	d->ids.count = 0;
	rc = tokenizer_check_ids(d->tokenizer, d->raw.id, d->raw.count, &d->ids, e);
	if (rc == 0)
		rc = tokenizer_decode(d->worker, &d->ids, c->skip_special, &text, e);
	if (rc == 0 && c->json) {
		utf8_repair(text.buf, text.len, &clean);
		str_adds(&line, "{\"text\": ");
		str_add_json(&line, clean.len ? clean.buf : "", clean.len);
		str_adds(&line, "}");
		fwrite(line.buf, 1, line.len, out);
	} else if (rc == 0 && text.len) {
		fwrite(text.buf, 1, text.len, out);
	}
	if (rc == 0)
		putc('\n', out);
	str_release(&text);
	str_release(&clean);
	str_release(&line);
	return rc;
}

/* The ids of all sequences of a document. Sequences are joined without anything between them:
 * encoding put nothing there. */
static int
document_ids(const struct dataset *d, int64_t document, struct raw_ids *ids, struct err *e)
{
	ids->count = 0;
	for (int64_t s = dataset_document_start(d, document);
	     s < dataset_document_start(d, document + 1); s++) {
		int64_t n = dataset_length(d, s);

		raw_reserve(ids, (size_t)n);
		if (dataset_tokens(d, s, 0, n, ids->id + ids->count, e) < 0)
			return -1;
		ids->count += (size_t)n;
	}
	return 0;
}

/* A full output is noticed by the caller when it closes. An id that the tokenizer does not know
 * ends it with -1 and the document's number. */
int
decode_dataset(const struct decode_config *c, const struct tokenizer *t, const char *prefix,
    FILE *out, struct err *e)
{
	struct dataset *d = dataset_open(prefix, e);
	struct document doc;
	struct err why;
	int rc = 0;

	if (!d && prefix[strspn(prefix, "0123456789")] == '\0')
		return err_set(e,
		    "there is no dataset '%s'; ids are given by --ids, or on standard input",
		    prefix);
	if (!d)
		return -1;
	document_init(&doc, t);
	for (int64_t i = 0; i < dataset_num_documents(d) && rc == 0 && !ferror(out); i++)
		if (document_ids(d, i, &doc.raw, &why) < 0 || put_document(c, &doc, out, &why) < 0)
			rc = err_set(e, "%s: document %lld: %s", prefix, (long long)i, why.msg);
	document_release(&doc);
	dataset_close(d);
	return rc;
}

/* The ids of one line. Blanks or commas separate numbers, so that output of mshard head and of
 * Python can be read. A number that overflows is not an id. */
static int
line_ids(const char *s, struct raw_ids *ids, struct err *e)
{
	ids->count = 0;
	for (s += strspn(s, " \t,\r\n"); *s; s += strspn(s, " \t,\r\n")) {
		char *end;
		long long v;

		errno = 0;
		v = strtoll(s, &end, 10);
		if (end == s || errno || (*end && !strchr(" \t,\r\n", *end)))
			return err_set(
			    e, "'%.*s' is not a token id", (int)strcspn(s, " \t,\r\n"), s);
		raw_reserve(ids, 1);
		ids->id[ids->count++] = v;
		s = end;
	}
	return 0;
}

/* The words of the option are decoded like a line. */
int
decode_ids(const struct decode_config *c, const struct tokenizer *t, FILE *out, struct err *e)
{
	struct document doc;
	struct str line = { 0 };
	struct err why;
	int rc;

	for (int i = 0; i < c->ids.count; i++)
		str_addf(&line, "%s ", c->ids.item[i]);
	document_init(&doc, t);
	rc = line_ids(line.buf, &doc.raw, &why) < 0 || put_document(c, &doc, out, &why) < 0
	    ? err_set(e, "--ids: %s", why.msg)
	    : 0;
	document_release(&doc);
	str_release(&line);
	return rc;
}

/* Every line is a document, an empty line an empty one. -1 with the line's number. */
int
decode_lines(
    const struct decode_config *c, const struct tokenizer *t, FILE *in, FILE *out, struct err *e)
{
	struct document doc;
	struct err why;
	char *line = NULL;
	size_t cap = 0;
	int rc = 0;

	document_init(&doc, t);
	for (long number = 1; rc == 0 && getline(&line, &cap, in) >= 0 && !ferror(out); number++)
		if (line_ids(line, &doc.raw, &why) < 0 || put_document(c, &doc, out, &why) < 0)
			rc = err_at(e, "standard input", number, "%s", why.msg);
	if (rc == 0 && ferror(in))
		rc = err_sys(e, "read", "standard input");
	free(line);
	document_release(&doc);
	return rc;
}
