/*
 * decoder.c - the decoder of a tokenizer.json
 *
 * Source: tokenizers/src/decoders of huggingface/tokenizers. One difference: bytes that do not form
 * whole characters are passed on, while the reference replaces them by U+FFFD.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/hf/component.h"
#include "lib/token/hf/decoder.h"
#include "lib/token/split.h"
#include "lib/token/unicode.h"

#include <stdlib.h>
#include <string.h>

/* A bound for hostile files: published decoders shorten tokens. */
enum { GROWTH_MAX = 4096 };

struct decoder_kind {
	const char *name;
	int (*parse)(
	    struct decoder *d, struct decoder_step *s, const struct json_value *v, struct err *e);
	/* Adds the changed tokens of in to out; NULL: no change. */
	void (*run)(const struct decoder_step *s, struct regex_scratch *x,
	    const struct token_list *in, struct token_list *out);
};

struct decoder_step {
	const struct decoder_kind *kind;
	struct regex *pattern;
	char *text; /* replacement, character or suffix */
	size_t len;
	int64_t start, stop; /* Strip: at most this many on each side */
	bool drop_first;     /* Metaspace: the first token loses its replacements */
};

/* Ends the token: the text added since the last end. */
static void
end_token(struct token_list *l)
{
	if (l->count == l->cap) {
		l->cap = 2 * l->cap + 64;
		l->end = mem_realloc(l->end, l->cap, sizeof *l->end);
	}
	l->end[l->count++] = l->text.len;
}

/* The i-th token. */
static struct span
token_at(const struct token_list *l, size_t i)
{
	size_t start = i ? l->end[i - 1] : 0;

	return (struct span){ l->text.buf ? l->text.buf + start : "", l->end[i] - start, i == 0 };
}

/* Leaves an empty list with its memory. */
static void
clear(struct token_list *l)
{
	str_clear(&l->text);
	l->count = 0;
}

/* Keeps nothing of earlier calls but memory. */
void
decoder_begin(struct decoder_scratch *x)
{
	clear(&x->list[0]);
}

/* The bytes are copied. */
void
decoder_add(struct decoder_scratch *x, const char *token, size_t len)
{
	str_add(&x->list[0].text, token, len);
	end_token(&x->list[0]);
}

/* Its tokens are given as bytes, so no earlier step may have changed them. */
static int
parse_byte_level(
    struct decoder *d, struct decoder_step *s, const struct json_value *v, struct err *e)
{
	(void)s, (void)v;
	d->bytes = true;
	return d->count == 1 ? 0 : err_set(e, "ByteLevel must be the first step");
}

/* A kind without members. */
static int
parse_nothing(struct decoder *d, struct decoder_step *s, const struct json_value *v, struct err *e)
{
	(void)d, (void)s, (void)v, (void)e;
	return 0;
}

/* All tokens become one. */
static void
run_fuse(const struct decoder_step *s, struct regex_scratch *x, const struct token_list *in,
    struct token_list *out)
{
	(void)s, (void)x;
	str_add(&out->text, in->text.buf, in->text.len);
	end_token(out);
}

/* The value of "<0xNN>", or -1. */
static int
byte_value(const struct span *t)
{
	int value = 0;

	if (t->n != 6 || memcmp(t->s, "<0x", 3) != 0 || t->s[5] != '>')
		return -1;
	for (int i = 3; i < 5; i++) {
		int digit = unicode_hex_digit(t->s[i]);

		if (digit < 0)
			return -1;
		value = 16 * value + digit;
	}
	return value;
}

/* A run of byte tokens becomes one token. */
static void
run_byte_fallback(const struct decoder_step *s, struct regex_scratch *x,
    const struct token_list *in, struct token_list *out)
{
	bool open = false;

	(void)s, (void)x;
	for (size_t i = 0; i < in->count; i++) {
		struct span t = token_at(in, i);
		int byte = byte_value(&t);

		if (byte >= 0) {
			str_addc(&out->text, (char)byte);
			open = true;
			continue;
		}
		if (open)
			end_token(out);
		open = false;
		str_add(&out->text, t.s, t.n);
		end_token(out);
	}
	if (open)
		end_token(out);
}

/* The numbers are optional; the character is not. */
static int
parse_strip(struct decoder *d, struct decoder_step *s, const struct json_value *v, struct err *e)
{
	(void)d;
	if (json_int(v, "start", 0, &s->start, e) < 0 || json_int(v, "stop", 0, &s->stop, e) < 0 ||
	    component_character(v, "content", &s->text, &s->len, e) < 0)
		return -1;
	return 0;
}

/* Strips at most that many of the character on each side of each token. */
static void
run_strip(const struct decoder_step *s, struct regex_scratch *x, const struct token_list *in,
    struct token_list *out)
{
	(void)x;
	for (size_t i = 0; i < in->count; i++) {
		struct span t = token_at(in, i);

		for (int64_t k = 0; k < s->start && t.n >= s->len && !memcmp(t.s, s->text, s->len);
		     k++) {
			t.s += s->len;
			t.n -= s->len;
		}
		for (int64_t k = 0;
		     k < s->stop && t.n >= s->len && !memcmp(t.s + t.n - s->len, s->text, s->len);
		     k++)
			t.n -= s->len;
		str_add(&out->text, t.s, t.n);
		end_token(out);
	}
}

/* Several steps multiply: an expression may match between any two bytes, a string only at its own
 * occurrences. */
static int
parse_replace(struct decoder *d, struct decoder_step *s, const struct json_value *v, struct err *e)
{
	const struct json_value *pattern = json_get(v, "pattern"),
				*string = json_get(pattern, "String");
	size_t times;

	s->pattern = pattern_parse(pattern, e);
	if (!s->pattern || component_string(v, "content", &s->text, &s->len, e) < 0)
		return -1;
	times = regex_is_string(s->pattern) ? (s->len + string->len - 1) / string->len : 1 + s->len;
	d->growth = (d->growth ? d->growth : 1) * (times ? times : 1);
	return d->growth <= GROWTH_MAX
	    ? 0
	    : err_set(e, "the steps could make a token more than %d times longer", GROWTH_MAX);
}

/* Replaces the matches in a token with `by`. An expression that reaches its limit leaves the rest
 * unchanged; it never sees bytes that are not text. */
static void
add_replaced(const struct decoder_step *s, struct regex_scratch *x, const struct span *t,
    const struct span *by, struct token_list *out)
{
	struct regex_walk w = { .s = t->s, .n = t->n };
	bool text =
	    regex_is_string(s->pattern) || utf8_check((const unsigned char *)t->s, t->n) == t->n;
	size_t done = 0;

	while (text && regex_next(s->pattern, x, &w, NULL) > 0) {
		str_add(&out->text, t->s + done, w.start - done);
		str_add(&out->text, by->s, by->n);
		done = w.end;
	}
	str_add(&out->text, t->s + done, t->n - done);
	end_token(out);
}

/* The same in every token. */
static void
run_replace(const struct decoder_step *s, struct regex_scratch *x, const struct token_list *in,
    struct token_list *out)
{
	struct span by = { s->text, s->len, false };

	for (size_t i = 0; i < in->count; i++) {
		struct span t = token_at(in, i);

		add_replaced(s, x, &t, &by, out);
	}
}

/* Has the members of the pre-tokenizer of that name. */
static int
parse_metaspace(
    struct decoder *d, struct decoder_step *s, const struct json_value *v, struct err *e)
{
	enum metaspace_prepend prepend;

	(void)d;
	if (metaspace_prepend(v, &prepend, e) < 0 ||
	    component_character(v, "replacement", &s->text, &s->len, e) < 0)
		return -1;
	s->drop_first = prepend != METASPACE_NEVER;
	s->pattern = regex_new_string(s->text, s->len);
	return 0;
}

/* Replacements become spaces, and are dropped in the first token when one was prepended. */
static void
run_metaspace(const struct decoder_step *s, struct regex_scratch *x, const struct token_list *in,
    struct token_list *out)
{
	for (size_t i = 0; i < in->count; i++) {
		struct span t = token_at(in, i), by = { " ", i > 0 || !s->drop_first, false };

		add_replaced(s, x, &t, &by, out);
	}
}

/* The suffix marks the end of a word. */
static int
parse_bpe(struct decoder *d, struct decoder_step *s, const struct json_value *v, struct err *e)
{
	(void)d;
	if (component_string(v, "suffix", &s->text, &s->len, e) < 0)
		return -1;
	if (s->len == 0)
		return err_set(e, "\"suffix\" must not be empty");
	s->pattern = regex_new_string(s->text, s->len);
	return 0;
}

/* The suffix of a word becomes a space; that of the last token is dropped. */
static void
run_bpe(const struct decoder_step *s, struct regex_scratch *x, const struct token_list *in,
    struct token_list *out)
{
	for (size_t i = 0; i < in->count; i++) {
		struct span t = token_at(in, i), by = { " ", i + 1 < in->count, false };

		add_replaced(s, x, &t, &by, out);
	}
}

static const struct decoder_kind kinds[] = {
	{ "ByteLevel", parse_byte_level, run_fuse },
	{ "Fuse", parse_nothing, run_fuse },
	{ "ByteFallback", parse_nothing, run_byte_fallback },
	{ "Strip", parse_strip, run_strip },
	{ "Replace", parse_replace, run_replace },
	{ "Metaspace", parse_metaspace, run_metaspace },
	{ "BPEDecoder", parse_bpe, run_bpe },
};

/* Room for one more step. */
static int
add_step(void *owner, const void *kind, const struct json_value *v, struct err *e)
{
	struct decoder *d = owner;
	struct decoder_step *s;

	d->step = mem_realloc(d->step, (size_t)d->count + 1, sizeof *d->step);
	s = &d->step[d->count++];
	*s = (struct decoder_step){ .kind = kind };
	return s->kind->parse(d, s, v, e);
}

static const struct component component = { "decoder", "decoders", COMPONENT_STEPS, kinds,
	sizeof *kinds, sizeof kinds / sizeof *kinds, add_step };

/* Adds the decoders in order. */
int
decoder_parse(struct decoder *d, const struct json_value *v, struct err *e)
{
	return component_parse(&component, d, v, e);
}

/* Also after a failed parse. */
void
decoder_release(struct decoder *d)
{
	for (int i = 0; i < d->count; i++) {
		regex_free(d->step[i].pattern);
		free(d->step[i].text);
	}
	free(d->step);
	memset(d, 0, sizeof *d);
}

/* The owner frees the regex scratch. */
void
decoder_scratch_release(struct decoder_scratch *x)
{
	for (int i = 0; i < 2; i++) {
		str_release(&x->list[i].text);
		free(x->list[i].end);
		x->list[i] = (struct token_list){ 0 };
	}
}

/* Without steps there is a space between two tokens, as in the reference. */
void
decoder_run(const struct decoder *d, struct decoder_scratch *x, struct str *out)
{
	int now = 0;

	for (int i = 0; i < d->count; i++) {
		clear(&x->list[!now]);
		d->step[i].kind->run(&d->step[i], x->regex, &x->list[now], &x->list[!now]);
		now = !now;
	}
	for (size_t i = 0; i < x->list[now].count; i++) {
		struct span t = token_at(&x->list[now], i);

		if (i > 0 && d->count == 0)
			str_addc(out, ' ');
		str_add(out, t.s, t.n);
	}
}
