/*
 * resume.c - PREFIX.resume: how far a run over many files has come
 *
 * Lines are "word value ...". The description of the run comes first and is compared as text; the
 * numbers after it are read with bounds, and the files are checked against them.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "tok/files.h"
#include "tok/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_MAX = 1 << 30 };

/* Beside the datasets, so that it moves with them. */
char *
resume_path(const char *prefix)
{
	struct str s = { 0 };

	str_addf(&s, "%s.resume", prefix);
	return str_detach(&s);
}

/* "option NAME VALUE" with the value as a JSON string, so that it is one line whatever it holds. */
static void
add_option(struct str *out, const char *name, const char *value)
{
	str_addf(out, "option --%s ", name);
	str_add_json(out, value ? value : "", value ? strlen(value) : 0);
	str_addc(out, '\n');
}

/* Adds a line like that of any other option. */
static void
add_switch(struct str *out, const char *name, bool value)
{
	add_option(out, name, value ? "yes" : "no");
}

/* --workers is missing on purpose: the output does not depend on it. Names of tokenizer files do
 * not count either, only their contents, and what these do not say. */
void
resume_describe(const struct encode_config *c, const struct tokenizer *t, int64_t eod,
    const struct input_list *files, struct str *out)
{
	const struct tokenizer_spec *s = &c->tokenizer;
	char number[32];

	str_addf(out, "mtok resume 1 %s\n", c->version);
	add_option(out, "tokenizer-type", tokenizer_type(t));
	add_option(out, "tokenizer-model", tokenizer_hash(t));
	add_switch(out, "special-as-text", s->special_as_text);
	add_switch(out, "tokenizer-hf-no-include-special-tokens", s->hf_no_include_special_tokens);
	add_option(out, "unigram-ties", unigram_ties_names[s->unigram_ties]);
	add_option(out, "tokenizer-like", tokenizer_like_names[s->like]);
	add_option(out, "tiktoken-pattern", s->tiktoken_pattern);
	snprintf(number, sizeof number, "%" PRId64, s->tiktoken_num_special_tokens);
	add_option(out, "tiktoken-num-special-tokens", number);
	for (int i = 0; i < s->tiktoken_special_tokens.count; i++)
		add_option(out, "tiktoken-special-tokens", s->tiktoken_special_tokens.item[i]);
	snprintf(number, sizeof number, "%" PRId64, s->vocab_size);
	add_option(out, "vocab-size", number);
	for (int i = 0; i < c->json_keys.count; i++)
		add_option(out, "json-keys", c->json_keys.item[i]);
	add_switch(out, "append-eod", c->append_eod);
	snprintf(number, sizeof number, "%" PRId64, eod);
	add_option(out, "eod-id", number);
	add_switch(out, "prepend-bos", c->prepend_bos);
	add_switch(out, "split-sentences", c->split_sentences);
	add_switch(out, "keep-newlines", c->keep_newlines);
	add_option(out, "on-error", c->on_error == ON_ERROR_SKIP ? "skip" : "stop");
	snprintf(number, sizeof number, "%" PRId64, c->max_document_bytes);
	add_option(out, "max-document-bytes", number);
	add_option(out, "error-list", c->error_list);
	add_option(out, "mask-key", c->chat.mask_key);
	add_option(out, "spans-key", c->chat.spans_key);
	add_switch(out, "segments", c->chat.segments);
	add_option(out, "chat-format", c->chat.format);
	for (int i = 0; i < c->chat.ignore.count; i++)
		add_option(out, "chat-ignore", c->chat.ignore.item[i]);
	add_switch(out, "allow-control", c->chat.allow_control);
	add_option(out, "part", c->part);
	add_option(out, "format", files_format_names[c->format]);
	add_option(out, "document-by", files_document_by_names[c->document_by]);
	add_option(out, "document-separator", c->document_separator);
	for (int i = 0; i < files->count; i++) {
		const struct input_file *f = &files->item[i];

		str_adds(out, "input ");
		str_add_json(out, f->name, strlen(f->name));
		str_addf(out, " %" PRId64 " bytes, changed at %" PRId64 "\n", f->size, f->mtime);
	}
}

/* The file is replaced whole. */
int
resume_write(const char *path, const struct str *what, const struct resume_state *s,
    const struct encode_counts *n, struct lock *lock, struct err *e)
{
	struct str out = { 0 };
	int rc;

	str_add(&out, what->buf, what->len);
	str_addf(&out, "place %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", s->at.file,
	    s->at.offset, s->at.lines, s->at.first);
	str_addf(&out, "errors %" PRId64 "\ncommitting %d\n", s->error_bytes, s->committing);
	str_addf(&out, "counts %" PRId64 " %" PRId64 " %" PRId64 "\n", n->documents, n->blank,
	    n->input_bytes);
	for (int i = 0; i < JSONL_CLASSES; i++)
		str_addf(&out, "bad %" PRId64 "\n", n->bad[i]);
	for (int k = 0; k < n->num_keys; k++) /* resumed runs have one tokenizer */
		str_addf(&out,
		    "key %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
		    " %" PRId64 " %" PRId64 "\n",
		    s->key[k].bin_bytes, s->key[k].sequences, s->key[k].documents,
		    n->key[k].sequences, n->key[k].tokens, n->key[k].bytes, n->key[k].longest,
		    n->key[k].trained);
	str_adds(&out, "end\n");
	rc = outfile_write_held(path, out.buf, out.len, lock, e);
	str_release(&out);
	return rc;
}

/* Reports which line of the description differs from the state. The value is what follows the
 * second word, or for an input the whole line. */
static int
say_changed(const char *path, const char *was, const char *is, struct err *e)
{
	int was_len = (int)strcspn(was, "\n"), is_len = (int)strcspn(is, "\n");

	if (!strncmp(was, "option ", 7) || !strncmp(is, "option ", 7))
		return err_set(e,
		    "--resume: an option is not that of the run that stopped: %.*s there, %.*s "
		    "here (%s)",
		    was_len > 7 ? was_len - 7 : 0, was + (was_len > 7 ? 7 : 0),
		    is_len > 7 ? is_len - 7 : 0, is + (is_len > 7 ? 7 : 0), path);
	if (!strncmp(was, "input ", 6) || !strncmp(is, "input ", 6))
		return err_set(e,
		    "--resume: the inputs are not those of the run that stopped: %.*s there, %.*s "
		    "here (%s)",
		    strncmp(was, "input ", 6) ? 7 : was_len - 6,
		    strncmp(was, "input ", 6) ? "nothing" : was + 6, is_len > 6 ? is_len - 6 : 7,
		    is_len > 6 ? is + 6 : "nothing", path);
	return err_set(
	    e, "--resume: '%s' was written by another version: %.*s", path, was_len, was);
}

/* Compares the first lines with this run's description. Returns what follows them, or NULL. */
static const char *
compare(const char *path, const char *text, const struct str *what, struct err *e)
{
	const char *was = text, *is = what->buf;

	while (*is) {
		size_t n = strcspn(is, "\n") + 1;

		if (strncmp(was, is, n)) {
			say_changed(path, was, is, e);
			return NULL;
		}
		was += n;
		is += n;
	}
	if (!strncmp(was, "input ", 6)) {
		say_changed(path, was, "", e);
		return NULL;
	}
	return was;
}

/* Reads "word n n n\n" at *p into the numbers, none below 0. */
static bool
take(const char **p, const char *word, int64_t *const *number, int count)
{
	size_t n = strlen(word);

	if (strncmp(*p, word, n))
		return false;
	*p += n;
	for (int i = 0; i < count; i++) {
		int used = 0;

		if (sscanf(*p, " %" SCNd64 "%n", number[i], &used) != 1 || *number[i] < 0)
			return false;
		*p += used;
	}
	return *(*p)++ == '\n';
}

/* Reads the numbers after the description. */
static bool
take_state(const char *p, struct resume_state *s, struct encode_counts *n)
{
	int64_t committing;

	if (!take(&p, "place",
		(int64_t *[]){ &s->at.file, &s->at.offset, &s->at.lines, &s->at.first }, 4) ||
	    !take(&p, "errors", (int64_t *[]){ &s->error_bytes }, 1) ||
	    !take(&p, "committing", (int64_t *[]){ &committing }, 1) ||
	    !take(&p, "counts", (int64_t *[]){ &n->documents, &n->blank, &n->input_bytes }, 3))
		return false;
	s->committing = committing != 0;
	for (int i = 0; i < JSONL_CLASSES; i++)
		if (!take(&p, "bad", (int64_t *[]){ &n->bad[i] }, 1))
			return false;
	for (int k = 0; k < n->num_keys; k++) {
		struct resume_key *r = &s->key[k];
		struct key_counts *c = &n->key[k];

		if (!take(&p, "key",
			(int64_t *[]){ &r->bin_bytes, &r->sequences, &r->documents, &c->sequences,
			    &c->tokens, &c->bytes, &c->longest, &c->trained },
			8))
			return false;
	}
	return !strcmp(p, "end\n");
}

/* The file may be anybody's: everything is checked, and a refusal changes nothing. */
int
resume_read(const char *path, const struct str *what, struct resume_state *s,
    struct encode_counts *n, struct err *e)
{
	const char *rest;
	char *text;
	size_t len;
	int rc;

	rc = io_there(path, e);
	if (rc <= 0)
		return rc;
	if (io_read_regular(path, STATE_MAX, &text, &len, e) < 0)
		return -1;
	rest = compare(path, text, what, e);
	rc = !rest                   ? -1
	    : take_state(rest, s, n) ? 1
				     : err_set(e, "--resume: '%s' is damaged", path);
	free(text);
	return rc;
}
