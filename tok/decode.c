/*
 * decode.c - token ids back to text
 *
 * Plain output is the bytes that the ids stand for; JSON Lines must be UTF-8, so there a character
 * that was cut off at the edge of a document becomes U+FFFD.
 */
#include "tok/decode.h"
#include "lib/base/utf8.h"
#include "lib/format/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* {"text": ...} on a line; each byte that is no UTF-8 becomes U+FFFD. */
static void
put_json(const struct str *text, struct str *line, FILE *out)
{
	struct str clean = { 0 };

	utf8_repair(text->buf, text->len, &clean);
	str_clear(line);
	str_adds(line, "{\"text\": ");
	str_add_json(line, clean.len ? clean.buf : "", clean.len);
	str_adds(line, "}");
	fwrite(line->buf, 1, line->len, out);
	str_release(&clean);
}

/* Decodes one document and writes it. The line feed ends a document in both forms; text may hold
 * others. */
static int
put_document(const struct decode_config *c, struct tokenizer_worker *w, const struct token_ids *ids,
    FILE *out, struct err *e)
{
	struct str text = { 0 }, line = { 0 };
	int rc = tokenizer_decode(w, ids->id, ids->count, c->skip_special, &text, e);

	if (rc == 0 && c->json)
		put_json(&text, &line, out);
	else if (rc == 0 && text.len)
		fwrite(text.buf, 1, text.len, out);
	if (rc == 0)
		putc('\n', out);
	str_release(&text);
	str_release(&line);
	return rc;
}

/* The ids of all sequences of a document. Sequences are joined without anything between them:
 * encoding put nothing there. */
static int
document_ids(const struct dataset *d, int64_t document, struct token_ids *ids, struct err *e)
{
	ids->count = 0;
	for (int64_t s = dataset_document_start(d, document);
	     s < dataset_document_start(d, document + 1); s++) {
		int64_t n = dataset_length(d, s);

		token_ids_reserve(ids, (size_t)n);
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
	struct tokenizer_worker *w;
	struct token_ids ids = { 0 };
	struct err why;
	int rc = 0;

	if (!d)
		return -1;
	w = tokenizer_worker_new(t);
	for (int64_t i = 0; i < dataset_num_documents(d) && rc == 0 && !ferror(out); i++)
		if (document_ids(d, i, &ids, &why) < 0 || put_document(c, w, &ids, out, &why) < 0)
			rc = err_set(e, "%s: document %lld: %s", prefix, (long long)i, why.msg);
	token_ids_release(&ids);
	tokenizer_worker_free(w);
	dataset_close(d);
	return rc;
}

/* The ids of one line. Blanks or commas between numbers, so that output of mshard head and of
 * Python fit. Overflow is no id. */
static int
line_ids(const char *s, struct token_ids *ids, struct err *e)
{
	ids->count = 0;
	for (s += strspn(s, " \t,\r\n"); *s; s += strspn(s, " \t,\r\n")) {
		char *end;
		long long v;

		errno = 0;
		v = strtoll(s, &end, 10);
		if (end == s || errno || (*end && !strchr(" \t,\r\n", *end)))
			return err_set(e, "'%.*s' is no token id", (int)strcspn(s, " \t,\r\n"), s);
		token_ids_add(ids, v);
		s = end;
	}
	return 0;
}

/* Every line is a document. An empty line is an empty document. -1 with the line's number. */
int
decode_lines(
    const struct decode_config *c, const struct tokenizer *t, FILE *in, FILE *out, struct err *e)
{
	struct tokenizer_worker *w = tokenizer_worker_new(t);
	struct token_ids ids = { 0 };
	struct err why;
	char *line = NULL;
	size_t cap = 0;
	int rc = 0;

	for (long number = 1; rc == 0 && getline(&line, &cap, in) >= 0 && !ferror(out); number++)
		if (line_ids(line, &ids, &why) < 0 || put_document(c, w, &ids, out, &why) < 0)
			rc = err_at(e, "standard input", number, "%s", why.msg);
	if (rc == 0 && ferror(in))
		rc = err_sys(e, "read", "standard input");
	free(line);
	token_ids_release(&ids);
	tokenizer_worker_free(w);
	return rc;
}
