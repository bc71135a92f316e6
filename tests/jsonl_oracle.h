/*
 * jsonl_oracle.h - a slow reader of one line of JSON, to compare tok/jsonl with
 *
 * Shares nothing with the scanner: one byte at a time, the whole line as code points first, strings
 * as arrays of code points in which a lone surrogate is a code point like any other. The rules are
 * those of Python's json module and of the classes in mtok(1).
 */
#ifndef TESTS_JSONL_ORACLE_H
#define TESTS_JSONL_ORACLE_H

#include "tok/jsonl.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct oracle_string {
	uint32_t *cp;
	size_t len;
};

enum oracle_kind { ORACLE_STRING, ORACLE_LIST, ORACLE_OBJECT, ORACLE_OTHER };

/* The value of the wanted member: its strings and the class that it gives. */
struct oracle {
	uint32_t *cp; /* the line */
	size_t n, at;
	struct oracle_string *text;
	size_t num_texts;
	const char *class;
};

static struct oracle_string oracle_read_string(struct oracle *o, bool *good);
static enum oracle_kind oracle_value(
    struct oracle *o, int depth, const char *key, bool wanted, bool *good);

/* The line as code points; false when it is not UTF-8. */
static bool
oracle_decode(struct oracle *o, const unsigned char *s, size_t len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	o->cp = malloc((len + 1) * sizeof *o->cp);
	o->n = 0;
	for (size_t i = 0; i < len;) {
		size_t more = s[i] < 0x80 ? 1
		    : s[i] >> 5 == 6      ? 2
		    : s[i] >> 4 == 14     ? 3
		    : s[i] >> 3 == 30     ? 4
					  : 0;
		uint32_t v = more == 1 ? s[i] : more ? s[i] & (0x7fu >> more) : 0;

		if (more == 0 || len - i < more)
			return false;
		for (size_t k = 1; k < more; k++) {
			if (s[i + k] >> 6 != 2)
				return false;
			v = v * 64 + (s[i + k] & 63);
		}
		if (v < least[more] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
			return false;
		o->cp[o->n++] = v;
		i += more;
	}
	return true;
}

/* The next code point, or a value that is none at the end. */
static uint32_t
oracle_peek(const struct oracle *o)
{
	return o->at < o->n ? o->cp[o->at] : UINT32_MAX;
}

static void
oracle_space(struct oracle *o)
{
	uint32_t c;

	while ((c = oracle_peek(o)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		o->at++;
}

/* Takes an ASCII word if it is next. */
static bool
oracle_word(struct oracle *o, const char *word)
{
	size_t i = 0;

	while (word[i] && o->at + i < o->n && o->cp[o->at + i] == (unsigned char)word[i])
		i++;
	if (word[i])
		return false;
	o->at += i;
	return true;
}

/* One code unit or code point of a string. */
static uint32_t
oracle_character(struct oracle *o, bool *good)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	uint32_t c = oracle_peek(o), v = 0;

	o->at++;
	if (c != '\\') {
		*good = *good && c >= 0x20 && c != UINT32_MAX;
		return c;
	}
	c = oracle_peek(o);
	o->at++;
	for (int i = 0; from[i]; i++)
		if (c == (unsigned char)from[i])
			return (unsigned char)to[i];
	*good = *good && c == 'u';
	for (int i = 0; i < 4; i++) {
		c = oracle_peek(o);
		o->at++;
		v = v * 16 + (c - (c >= 'a' ? 'a' - 10 : c >= 'A' ? 'A' - 10 : '0'));
		*good = *good &&
		    ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'));
	}
	return v;
}

/* A string whose quote is next. Pairs of surrogate escapes are joined afterwards, as Python
 * does. */
static struct oracle_string
oracle_read_string(struct oracle *o, bool *good)
{
	struct oracle_string s = { malloc((o->n + 1) * sizeof(uint32_t)), 0 };
	size_t n = 0;

	o->at++;
	while (*good && oracle_peek(o) != '"')
		s.cp[s.len++] = oracle_character(o, good);
	o->at++;
	for (size_t i = 0; i < s.len; i++) {
		uint32_t c = s.cp[i];

		if (c >> 10 == 0x36 && i + 1 < s.len && s.cp[i + 1] >> 10 == 0x37)
			c = 0x10000 + ((c & 0x3ff) << 10) + (s.cp[++i] & 0x3ff);
		s.cp[n++] = c;
	}
	s.len = n;
	return s;
}

static bool
oracle_is_lone(const struct oracle_string *s)
{
	for (size_t i = 0; i < s->len; i++)
		if (s->cp[i] >> 11 == 0x1b)
			return true;
	return false;
}

static bool
oracle_is_named(const struct oracle_string *s, const char *name)
{
	size_t i = 0;

	while (i < s->len && name[i] && s->cp[i] == (unsigned char)name[i])
		i++;
	return i == s->len && !name[i];
}

static void
oracle_digits(struct oracle *o, bool *good)
{
	size_t from = o->at;

	while (oracle_peek(o) >= '0' && oracle_peek(o) <= '9')
		o->at++;
	*good = *good && o->at > from;
}

/* JSON number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?, anchored */
static void
oracle_number(struct oracle *o, bool *good)
{
	oracle_word(o, "-");
	if (!oracle_word(o, "0"))
		oracle_digits(o, good);
	if (oracle_word(o, "."))
		oracle_digits(o, good);
	if (oracle_word(o, "e") || oracle_word(o, "E")) {
		if (!oracle_word(o, "+"))
			oracle_word(o, "-");
		oracle_digits(o, good);
	}
}

/* Forgets what an earlier member of the name had. */
static void
oracle_forget(struct oracle *o, const char *class)
{
	for (size_t i = 0; i < o->num_texts; i++)
		free(o->text[i].cp);
	o->num_texts = 0;
	o->class = class;
}

/* Keeps or frees a string. */
static void
oracle_take(struct oracle *o, struct oracle_string s, bool wanted)
{
	if (!wanted) {
		free(s.cp);
		return;
	}
	if (oracle_is_lone(&s) && !strcmp(o->class, "ok"))
		o->class = "lone-surrogate";
	o->text = realloc(o->text, (o->num_texts + 1) * sizeof *o->text);
	o->text[o->num_texts++] = s;
}

static void
oracle_list(struct oracle *o, int depth, bool wanted, bool *good)
{
	o->at++;
	oracle_space(o);
	if (oracle_word(o, "]"))
		return;
	do {
		oracle_space(o);
		if (oracle_peek(o) != '"' && wanted && !strcmp(o->class, "ok"))
			o->class = "wrong-type";
		oracle_value(o, depth + 1, NULL, wanted && oracle_peek(o) == '"', good);
		oracle_space(o);
	} while (*good && oracle_word(o, ","));
	*good = *good && oracle_word(o, "]");
}

/* key: the member that is wanted of this object, or NULL. */
static void
oracle_object(struct oracle *o, int depth, const char *key, bool *good)
{
	o->at++;
	oracle_space(o);
	if (oracle_word(o, "}"))
		return;
	do {
		struct oracle_string name;
		bool wanted;

		oracle_space(o);
		*good = *good && oracle_peek(o) == '"';
		if (!*good)
			return;
		name = oracle_read_string(o, good);
		wanted = key && oracle_is_named(&name, key);
		free(name.cp);
		oracle_space(o);
		*good = *good && oracle_word(o, ":");
		oracle_space(o);
		if (wanted)
			oracle_forget(o,
			    oracle_peek(o) == '"' || oracle_peek(o) == '[' ? "ok" : "wrong-type");
		oracle_value(o, depth + 1, NULL, wanted, good);
		oracle_space(o);
	} while (*good && oracle_word(o, ","));
	*good = *good && oracle_word(o, "}");
}

static enum oracle_kind
oracle_value(struct oracle *o, int depth, const char *key, bool wanted, bool *good)
{
	*good = *good && depth <= 512;
	if (!*good)
		return ORACLE_OTHER;
	switch (oracle_peek(o)) {
	case '"': oracle_take(o, oracle_read_string(o, good), wanted); return ORACLE_STRING;
	case '[': oracle_list(o, depth, wanted, good); return ORACLE_LIST;
	case '{': oracle_object(o, depth, key, good); return ORACLE_OBJECT;
	default:
		if (!oracle_word(o, "true") && !oracle_word(o, "false") &&
		    !oracle_word(o, "null") && !oracle_word(o, "NaN") &&
		    !oracle_word(o, "Infinity") && !oracle_word(o, "-Infinity"))
			oracle_number(o, good);
		return ORACLE_OTHER;
	}
}

/* The class of a line for one key; the strings are in o->text until oracle_release. */
static const char *
oracle_class(struct oracle *o, const char *line, size_t len, const char *key)
{
	const unsigned char *s = (const unsigned char *)line;
	size_t first = 0;
	bool good = true;
	enum oracle_kind kind;

	memset(o, 0, sizeof *o);
	o->class = "missing-key";
	while (first < len && strchr(" \t\r\n", line[first]) && line[first])
		first++;
	if (first == len)
		return "blank";
	if (len - first >= 3 && s[first] == 0xef && s[first + 1] == 0xbb && s[first + 2] == 0xbf)
		return "bom";
	if (!oracle_decode(o, s, len))
		return "bad-utf8";
	oracle_space(o);
	kind = oracle_value(o, 0, key, false, &good);
	oracle_space(o);
	if (!good || o->at != o->n)
		return "syntax";
	return kind == ORACLE_OBJECT ? o->class : "not-object";
}

static void
oracle_release(struct oracle *o)
{
	oracle_forget(o, "");
	free(o->text);
	free(o->cp);
}

/* Whether a text of the scanner is the oracle's i-th. */
static bool
oracle_equals(const struct oracle *o, size_t i, const char *bytes, size_t len)
{
	size_t at = 0;

	if (i >= o->num_texts)
		return false;
	for (size_t k = 0; k < o->text[i].len; k++) {
		uint32_t c = o->text[i].cp[k];
		int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
		static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };

		if (at + (size_t)more >= len ||
		    (unsigned char)bytes[at++] != (unsigned char)(lead[more] | c >> 6 * more))
			return false;
		for (int m = more - 1; m >= 0; m--)
			if ((unsigned char)bytes[at++] != (0x80 | (c >> 6 * m & 63)))
				return false;
	}
	return at == len;
}

/* Whether the scanner gives the class and the texts of one line that the oracle gives. The class is
 * that of the first key that is not "ok". */
static bool
oracle_agrees(struct jsonl *j, const char *const *names, int keys, const char *line, size_t len)
{
	const char *got = jsonl_class_name[jsonl_parse(j, line, len)], *want = "ok";
	bool same = true;

	for (int k = 0; k < keys; k++) {
		struct oracle o;
		const char *class = oracle_class(&o, line, len, names[k]);

		want = strcmp(want, "ok") ? want : class;
		if (!strcmp(got, "ok") && !strcmp(class, "ok")) {
			struct jsonl_text t;
			size_t i = 0;

			jsonl_walk(j, k);
			for (; jsonl_next(j, &t); i++)
				same =
				    same && i < o.num_texts && oracle_equals(&o, i, t.bytes, t.len);
			same = same && i == o.num_texts;
		}
		oracle_release(&o);
	}
	if (strcmp(got, want))
		fprintf(stderr, "the oracle says %s, the scanner %s\n", want, got);
	return same && !strcmp(got, want);
}

#endif
