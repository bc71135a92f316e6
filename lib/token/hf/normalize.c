/*
 * normalize.c - the normalizer of a tokenizer.json
 *
 * Source: tokenizers/src/normalizers of huggingface/tokenizers, for the meaning of each kind.
 */
#include "lib/base/base64.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/hf/component.h"
#include "lib/token/hf/normalize.h"
#include "lib/token/spm/charsmap.h"
#include "lib/token/unicode_sets.h"

#include <stdlib.h>
#include <string.h>

/* A bound for hostile files: the longest expansion of Unicode's forms is elevenfold. */
enum { GROWTH_MAX = 64, GROWTH_SLACK = 1 << 16 };
/* Bytes of a string kept for the next text. */
enum { KEEP = 1 << 20 };

struct normal_kind {
	const char *name;
	/* Members of the step from those of v; NULL: there are none. */
	int (*parse)(
	    struct normalizer *z, struct normal_step *s, const struct json_value *v, struct err *e);
	/* Appends the changed text to out and returns 1; or narrows or keeps *text and returns 0;
	 * or fails. */
	int (*run)(const struct normal_step *s, struct normal_scratch *x, struct span *text,
	    struct str *out, struct err *e);
	bool realigns; /* the reference fails, or changes other characters, after an insertion
			* before the first one */
};

struct normal_step {
	const struct normal_kind *kind;
	const struct form *form; /* owned by the normalizer */
	struct regex *pattern;
	struct charsmap *charsmap;
	char *text; /* replacement or prefix */
	size_t len;
	bool left, right;
};

/* One form in a table of four, made once. */
static int
parse_form(struct normalizer *z, struct normal_step *s, const struct json_value *v, struct err *e)
{
	static const char *const names[] = { "NFC", "NFD", "NFKC", "NFKD" };
	int kind = 0;

	(void)v, (void)e;
	while (strcmp(names[kind], s->kind->name))
		kind++;
	if (!z->form[kind])
		z->form[kind] = form_new((enum form_kind)kind);
	s->form = z->form[kind];
	return 0;
}

/* Most text is already in its form and is then not copied. */
static int
run_form(const struct normal_step *s, struct normal_scratch *x, struct span *text, struct str *out,
    struct err *e)
{
	(void)e;
	if (!form_apply(s->form, &x->form, text->s, text->n, out))
		return 0;
	if (text->first)
		text->first = form_first(s->form, &x->form, text->s, text->n, text->first);
	return 1;
}

/* Character by character, without the final sigma; only U+0130 becomes two. */
static int
run_lowercase(const struct normal_step *s, struct normal_scratch *x, struct span *text,
    struct str *out, struct err *e)
{
	size_t first = text->first;

	(void)s, (void)x, (void)e;
	str_reserve(out, text->n);
	for (size_t i = 0; i < text->n;) {
		unsigned char bytes[4];
		uint32_t cp;
		int len = utf8_decode((const unsigned char *)text->s + i, text->n - i, &cp);

		i += len ? (size_t)len : 1;
		if (cp == 0x130)
			str_adds(out, "i\xcc\x87");
		else if (len)
			str_add(out, bytes, (size_t)utf8_encode(unicode_lower(cp), bytes));
		if (i <= first)
			text->first = out->len;
	}
	return 1;
}

/* An empty string is allowed and does nothing. */
static int
parse_prepend(
    struct normalizer *z, struct normal_step *s, const struct json_value *v, struct err *e)
{
	(void)z;
	return component_string(v, "prepend", &s->text, &s->len, e);
}

/* An empty text stays empty. What is prepended comes from the first character; if it is empty, that
 * one comes from the beginning of the text. */
static int
run_prepend(const struct normal_step *s, struct normal_scratch *x, struct span *text,
    struct str *out, struct err *e)
{
	uint32_t cp;

	(void)e;
	if (text->n == 0)
		return 0;
	if (text->first)
		text->first += s->len;
	else if (x->origin && s->len == 0)
		text->first = (size_t)utf8_decode((const unsigned char *)text->s, text->n, &cp);
	str_add(out, s->text, s->len);
	str_add(out, text->s, text->n);
	return 1;
}

/* The content may be empty: then matches are dropped. */
static int
parse_replace(
    struct normalizer *z, struct normal_step *s, const struct json_value *v, struct err *e)
{
	(void)z;
	if (component_string(v, "content", &s->text, &s->len, e) < 0)
		return -1;
	s->pattern = pattern_parse(json_get(v, "pattern"), e);
	return s->pattern ? 0 : -1;
}

/* Replaces every match, until the text is too long; the replacement is plain text. It comes from
 * the last byte of the match, or the one before an empty match, or else the beginning of the text.
 */
static int
run_replace(const struct normal_step *s, struct normal_scratch *x, struct span *text,
    struct str *out, struct err *e)
{
	struct regex_walk w = { .s = text->s, .n = text->n };
	size_t done = 0, first = text->first, kept = 0;
	bool changed = false;
	int rc = 0;

	while (out->len <= x->limit && (rc = regex_next(s->pattern, x->regex, &w, e)) > 0) {
		str_add(out, text->s + done, w.start - done);
		if (done < first)
			kept = out->len - (w.start > first ? w.start - first : 0);
		str_add(out, s->text, s->len);
		if (w.end ? w.end <= first : x->origin)
			kept = out->len;
		x->inserted |= w.end == 0 && s->len > 0;
		done = w.end;
		changed = true;
	}
	if (rc < 0 || !changed)
		return rc;
	if (done < first)
		kept = out->len + (first - done);
	str_add(out, text->s + done, text->n - done);
	text->first = kept;
	return 1;
}

/* Both sides by default. */
static int
parse_strip(struct normalizer *z, struct normal_step *s, const struct json_value *v, struct err *e)
{
	(void)z;
	return json_bool(v, "strip_left", true, &s->left, e) < 0 ||
		json_bool(v, "strip_right", true, &s->right, e) < 0
	    ? -1
	    : 0;
}

/* Narrows the text; nothing is copied. */
static int
run_strip(const struct normal_step *s, struct normal_scratch *x, struct span *text, struct str *out,
    struct err *e)
{
	const unsigned char *u = (const unsigned char *)text->s;
	size_t start = 0, end = text->n;
	uint32_t cp;
	int len;

	(void)x, (void)out, (void)e;
	while (s->left && start < end && (len = utf8_decode(u + start, end - start, &cp)) > 0 &&
	    unicode_in(UNICODE_WHITE, cp))
		start += (size_t)len;
	while (s->right && end > start) {
		size_t i = end - 1;

		while (i > start && (u[i] & 0xc0) == 0x80)
			i--;
		if (utf8_decode(u + i, end - i, &cp) == 0 || !unicode_in(UNICODE_WHITE, cp))
			break;
		end = i;
	}
	text->s += start;
	text->n = end - start;
	text->first = text->first > start ? text->first - start : 0;
	return 0;
}

/* Removes marks, whatever precedes them. */
static int
run_strip_accents(const struct normal_step *s, struct normal_scratch *x, struct span *text,
    struct str *out, struct err *e)
{
	size_t first = text->first;

	(void)s, (void)x, (void)e;
	str_reserve(out, text->n);
	for (size_t i = 0; i < text->n;) {
		uint32_t cp;
		int len = utf8_decode((const unsigned char *)text->s + i, text->n - i, &cp);
		size_t step = len ? (size_t)len : 1;

		if (!len || !unicode_in(UNICODE_ACCENT, cp))
			str_add(out, text->s + i, step);
		i += step;
		if (i <= first)
			text->first = out->len;
	}
	return 1;
}

/* A SentencePiece model's rules in base 64. */
static int
parse_precompiled(
    struct normalizer *z, struct normal_step *s, const struct json_value *v, struct err *e)
{
	const struct json_value *text = json_get(v, "precompiled_charsmap");
	unsigned char *bytes;
	int64_t n;

	(void)z;
	if (!text || text->type != JSON_STRING)
		return err_set(e, "\"precompiled_charsmap\" must be a string");
	bytes = mem_alloc(text->len + 1, 1);
	n = base64_decode(text->string, text->len, bytes);
	if (n < 0)
		err_set(e, "\"precompiled_charsmap\" is not base 64");
	else
		s->charsmap = charsmap_new(bytes, (size_t)n, e);
	free(bytes);
	return s->charsmap ? 0 : -1;
}

/* The text is always copied: the rules touch most of it. */
static int
run_precompiled(const struct normal_step *s, struct normal_scratch *x, struct span *text,
    struct str *out, struct err *e)
{
	(void)e;
	charsmap_apply(s->charsmap, text->s, text->n, x->limit, out);
	if (text->first)
		text->first = charsmap_first(s->charsmap, text->s, text->n, text->first);
	return 1;
}

static const struct normal_kind kinds[] = {
	{ "NFC", parse_form, run_form, true },
	{ "NFD", parse_form, run_form, true },
	{ "NFKC", parse_form, run_form, true },
	{ "NFKD", parse_form, run_form, true },
	{ "Lowercase", NULL, run_lowercase, true },
	{ "Prepend", parse_prepend, run_prepend, false },
	{ "Replace", parse_replace, run_replace, false },
	{ "Strip", parse_strip, run_strip, true },
	{ "StripAccents", NULL, run_strip_accents, true },
	{ "Precompiled", parse_precompiled, run_precompiled, true },
};

/* An empty string would match everywhere. */
struct regex *
pattern_parse(const struct json_value *v, struct err *e)
{
	const struct json_value *string = json_get(v, "String"), *regex = json_get(v, "Regex");
	struct regex *out = NULL;
	struct err why;

	if (string && string->type == JSON_STRING && string->len)
		return regex_new_string(string->string, string->len);
	if (!regex || regex->type != JSON_STRING) {
		err_set(e, "\"pattern\" must be a non-empty {\"String\": ...} or {\"Regex\": ...}");
		return NULL;
	}
	out = regex_new(regex->string, regex->len, &why);
	if (!out)
		err_set(e, "\"pattern\": %s", why.msg);
	return out;
}

/* Room for one more step. */
static int
add_step(void *owner, const void *kind, const struct json_value *v, struct err *e)
{
	struct normalizer *z = owner;
	struct normal_step *s;

	z->step = mem_realloc(z->step, (size_t)z->count + 1, sizeof *z->step);
	s = &z->step[z->count++];
	*s = (struct normal_step){ .kind = kind };
	return s->kind->parse ? s->kind->parse(z, s, v, e) : 0;
}

static const struct component component = { "normalizer", "normalizers", COMPONENT_STEPS, kinds,
	sizeof *kinds, sizeof kinds / sizeof *kinds, add_step };

/* Each step gets the result of the one before it. */
int
normalizer_parse(struct normalizer *z, const struct json_value *v, struct err *e)
{
	return component_parse(&component, z, v, e);
}

/* Also after a failed parse. */
void
normalizer_release(struct normalizer *z)
{
	for (int k = 0; k < FORM_KINDS; k++)
		form_free(z->form[k]);
	for (int i = 0; i < z->count; i++) {
		regex_free(z->step[i].pattern);
		charsmap_free(z->step[i].charsmap);
		free(z->step[i].text);
	}
	free(z->step);
	memset(z, 0, sizeof *z);
}

/* The owner frees the regex scratch. */
void
normal_scratch_release(struct normal_scratch *x)
{
	str_release(&x->text[0]);
	str_release(&x->text[1]);
	form_scratch_release(&x->form);
}

/* Frees large memory. */
static void
trim(struct str *s)
{
	if (s->cap > KEEP)
		str_release(s);
}

/* The last result becomes invalid too. */
void
normal_scratch_trim(struct normal_scratch *x)
{
	trim(&x->text[0]);
	trim(&x->text[1]);
}

/* The output of a step is the input of the next, which writes to the other string. The limit is for
 * files whose steps double the text repeatedly. */
int
normalizer_run(
    const struct normalizer *z, struct normal_scratch *x, struct span *text, struct err *e)
{
	size_t length = text->n;
	int turn = 0;

	x->limit = GROWTH_MAX * length + GROWTH_SLACK;
	x->origin = text->first > 0;
	x->inserted = false;
	for (int i = 0; i < z->count; i++) {
		const struct normal_step *s = &z->step[i];
		struct str *out = &x->text[turn];
		int rc;

		if (x->inserted && s->kind->realigns)
			return err_set(e,
			    "a normalizer inserts text before the first character, where "
			    "tokenizers fails in the '%s' after it",
			    s->kind->name);
		str_clear(out);
		rc = s->kind->run(s, x, text, out, e);
		if (rc < 0)
			return -1;
		if (out->len > x->limit)
			return err_set(
			    e, "the normalizer makes more than %zu bytes of %zu", x->limit, length);
		if (rc == 0)
			continue;
		text->s = out->buf ? out->buf : "";
		text->n = out->len;
		turn = !turn;
		trim(&x->text[turn]);
	}
	return 0;
}
