/*
 * regex.c - the patterns of tokenizer.json
 *
 * Expressions are translated (dialect.c), compiled by PCRE2 and searched within its limits.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/token/dialect.h"
#include "lib/token/regex.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	STEPS_MAX = 10000000,
	MEMORY_MAX = 1 << 16, /* KiB, of the interpreter */
	JIT_STACK_MIN = 1 << 15,
	JIT_STACK_MAX = 1 << 20,
};

struct regex {
	pcre2_code *code; /* NULL: the string */
	char *string;
	size_t len;
};

struct regex_scratch {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack;
};

/* The caller adds the location to the reason, PCRE2's message and the position. Without a JIT
 * compiler for the machine, the interpreter is used. */
struct regex *
regex_new(const char *pattern, size_t len, struct err *e)
{
	pcre2_compile_context *context;
	struct str text = { 0 };
	struct regex *r = NULL;
	unsigned char why[256];
	pcre2_code *code;
	PCRE2_SIZE at;
	int number;

	if (dialect_translate(pattern, len, &text, e) < 0) {
		str_release(&text);
		return NULL;
	}
	context = pcre2_compile_context_create(NULL);
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	code = pcre2_compile((PCRE2_SPTR)(text.buf ? text.buf : ""), text.len,
	    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &number, &at, context);
	pcre2_compile_context_free(context);
	if (code) {
		pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
		r = mem_zalloc(1, sizeof *r);
		r->code = code;
	} else {
		pcre2_get_error_message(number, why, sizeof why);
		err_set(e, "%s, at byte %zu of '%.200s'", (const char *)why, at, text.buf);
	}
	str_release(&text);
	return r;
}

/* It needs no engine. */
struct regex *
regex_new_string(const char *text, size_t len)
{
	struct regex *r = mem_zalloc(1, sizeof *r);

	r->string = mem_strndup(text, len);
	r->len = len;
	return r;
}

/* Matches nothing but itself. */
bool
regex_is_string(const struct regex *r)
{
	return r->code == NULL;
}

/* No thread may be using it. */
void
regex_free(struct regex *r)
{
	if (!r)
		return;
	pcre2_code_free(r->code);
	free(r->string);
	free(r);
}

/* Only the offsets of the whole match are needed, not those of groups. */
struct regex_scratch *
regex_scratch_new(void)
{
	struct regex_scratch *m = mem_zalloc(1, sizeof *m);

	m->data = pcre2_match_data_create(1, NULL);
	m->context = pcre2_match_context_create(NULL);
	m->stack = pcre2_jit_stack_create(JIT_STACK_MIN, JIT_STACK_MAX, NULL);
	pcre2_set_match_limit(m->context, STEPS_MAX);
	pcre2_set_heap_limit(m->context, MEMORY_MAX);
	pcre2_jit_stack_assign(m->context, NULL, m->stack);
	return m;
}

/* NULL is fine. */
void
regex_scratch_free(struct regex_scratch *m)
{
	if (!m)
		return;
	pcre2_match_data_free(m->data);
	pcre2_match_context_free(m->context);
	pcre2_jit_stack_free(m->stack);
	free(m);
}

/* Finds the next occurrence of the string. */
static int
find_string(const struct regex *r, struct regex_walk *w)
{
	const char *hit = r->len == 1 ? memchr(w->s + w->pos, *r->string, w->n - w->pos)
				      : memmem(w->s + w->pos, w->n - w->pos, r->string, r->len);

	if (!hit)
		return 0;
	w->start = (size_t)(hit - w->s);
	w->end = w->start + r->len;
	return 1;
}

/* The interpreter takes over when the compiled code has used up its stack. */
static int
find_match(const struct regex *r, struct regex_scratch *m, struct regex_walk *w, struct err *e)
{
	PCRE2_SPTR s = (PCRE2_SPTR)w->s;
	unsigned char why[256];
	int rc;

	rc = pcre2_match(r->code, s, w->n, w->pos, PCRE2_NO_UTF_CHECK, m->data, m->context);
	if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
		rc = pcre2_match(r->code, s, w->n, w->pos, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
		    m->data, m->context);
	if (rc == PCRE2_ERROR_NOMATCH)
		return 0;
	if (rc < 0) {
		pcre2_get_error_message(rc, why, sizeof why);
		return err_set(e, "a regular expression gave up at byte %zu of the text: %s",
		    w->pos, (const char *)why);
	}
	w->start = pcre2_get_ovector_pointer(m->data)[0];
	w->end = pcre2_get_ovector_pointer(m->data)[1];
	return 1;
}

/* An empty match at the end of the last one is skipped by a character, or the walk would not end.
 * \K can move a start after the end; such a match counts as empty. */
int
regex_next(const struct regex *r, struct regex_scratch *m, struct regex_walk *w, struct err *e)
{
	while (w->pos <= w->n) {
		int rc = r->code ? find_match(r, m, w, e) : find_string(r, w);

		if (rc <= 0)
			return rc;
		if (w->start > w->end || w->start < w->pos)
			w->start = w->end;
		if (w->start < w->end || w->guard != w->end + 1) {
			w->pos = w->end;
			w->guard = w->end + 1;
			return 1;
		}
		w->pos = w->end + 1;
		while (w->pos < w->n && ((unsigned char)w->s[w->pos] & 0xc0) == 0x80)
			w->pos++;
	}
	return 0;
}

/* The library's date is left out. */
void
regex_version(struct str *out)
{
	char text[64] = "";

	pcre2_config(PCRE2_CONFIG_VERSION, text);
	str_add(out, text, strcspn(text, " "));
}
