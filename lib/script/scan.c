/*
 * scan.c - where a word ends
 *
 * Quotes, substitutions and braces nest, so the functions call each other; DEEPEST bounds what a
 * hostile script can make of that.
 */
#include "lib/script/scan.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 48 };

static const char *piece(const char *s, int depth);

/* To the quote that ends what s is inside; pieces in between are skipped whole. */
static const char *
until(const char *s, char end, int depth)
{
	while (s && *s && *s != end)
		s = *s == '\'' && end == '"' ? s + 1 : piece(s, depth + 1);
	return s && *s ? s + 1 : NULL;
}

/* After the opening parenthesis of "$(". Comments hold quotes that quote nothing. */
static const char *
parentheses(const char *s, int depth)
{
	int open = 1;

	while (s && *s) {
		open += (*s == '(') - (*s == ')');
		if (open == 0)
			return s + 1;
		if (*s == '#' && isspace((unsigned char)s[-1]))
			s += strcspn(s, "\n");
		else
			s = piece(s, depth + 1);
	}
	return NULL;
}

/* In single quotes nothing is special, in $'...' a backslash is. */
static const char *
single(const char *s, bool escapes)
{
	while (*s && *s != '\'')
		s += escapes && *s == '\\' && s[1] ? 2 : 1;
	return *s ? s + 1 : NULL;
}

static const char *
dollar(const char *s, int depth)
{
	switch (s[1]) {
	case '(': return parentheses(s + 2, depth);
	case '{': return until(s + 2, '}', depth);
	case '\'': return single(s + 2, true);
	case '"': return until(s + 2, '"', depth);
	default: return s + 1;
	}
}

static const char *
backquotes(const char *s)
{
	while (*s && *s != '`')
		s += *s == '\\' && s[1] ? 2 : 1;
	return *s ? s + 1 : NULL;
}

static const char *
piece(const char *s, int depth)
{
	if (depth > DEEPEST)
		return NULL;
	switch (*s) {
	case '\\': return s + (s[1] ? 2 : 1);
	case '\'': return single(s + 1, false);
	case '"': return until(s + 1, '"', depth);
	case '`': return backquotes(s + 1);
	case '$': return dollar(s, depth);
	case '\1': return s + strcspn(s, "\2") + (strchr(s, '\2') != NULL);
	default: return s + 1;
	}
}

const char *
scan_piece(const char *s)
{
	return piece(s, 0);
}

const char *
scan_word(const char *s)
{
	while (s && *s && !strchr(" \t\r\n;&|<>()", *s))
		s = piece(s, 0);
	return s;
}

size_t
scan_name(const char *s)
{
	size_t n = 0;

	if (isdigit((unsigned char)*s))
		return 0;
	while (isalnum((unsigned char)s[n]) || s[n] == '_')
		n++;
	return n;
}

/* The class at p matches c; *end is after its ']'. Without one '[' is a plain character. */
static bool
class_match(const char *p, char c, const char **end)
{
	bool negated = p[1] == '!' || p[1] == '^', in = false;
	const char *s = p + 1 + negated, *first = s;

	for (; *s && (*s != ']' || s == first); s++) {
		if (s[1] == '-' && s[2] && s[2] != ']') {
			in |= c >= s[0] && c <= s[2];
			s += 2;
		} else {
			in |= c == *s;
		}
	}
	*end = *s ? s + 1 : p + 1;
	return *s ? in != negated : c == '[';
}

/* One character of text against one element of the pattern; *next is the element after. */
static bool
one_match(const char *p, char c, const char **next)
{
	*next = p + 1;
	switch (*p) {
	case '?': return true;
	case '[': return class_match(p, c, next);
	case '\\':
		if (p[1])
			*next = ++p + 1;
		return *p == c;
	default: return *p && *p == c;
	}
}

/* Goes back to the last '*' alone, which is enough: time is at most the product of the lengths. */
bool
scan_match(const char *pattern, const char *text, size_t n)
{
	const char *star = NULL, *next;
	size_t i = 0, from = 0;

	while (i < n) {
		if (*pattern == '*') {
			star = ++pattern;
			from = i;
		} else if (one_match(pattern, text[i], &next)) {
			pattern = next;
			i++;
		} else if (star) {
			pattern = star;
			i = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
