/*
 * jsonnumber.c - numbers that JSON allows and simdjson does not, and those that Python adds
 *
 * JSON bounds no number, and Python writes integers of any length: transformers says "no limit" by
 * one of 31 digits. simdjson refuses the whole text then. So a text that it refuses is rewritten
 * with such numbers brought into its range. Source of the grammar: RFC 8259, part 6.
 */
#include "lib/base/jsonnumber.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The byte at a position of the text; NUL at the end. */
static char
at(const char *s, size_t n, size_t pos)
{
	return pos < n ? s[pos] : '\0';
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The position after the digits that begin at pos. */
static size_t
digits(const char *s, size_t n, size_t pos)
{
	while (is_digit(at(s, n, pos)))
		pos++;
	return pos;
}

/* The position after the number at pos, or pos when there is none; *whole is true when it has
 * neither a fraction nor an exponent. */
static size_t
number_end(const char *s, size_t n, size_t pos, bool *whole)
{
	size_t first = pos + (at(s, n, pos) == '-'), end = digits(s, n, first), more;

	*whole = true;
	if (end == first || (s[first] == '0' && end > first + 1))
		return pos;
	if (at(s, n, end) == '.') {
		more = digits(s, n, end + 1);
		if (more == end + 1)
			return pos;
		*whole = false;
		end = more;
	}
	if ((at(s, n, end) | 0x20) == 'e') {
		size_t sign = at(s, n, end + 1) == '+' || at(s, n, end + 1) == '-';

		more = digits(s, n, end + 1 + sign);
		if (more == end + 1 + sign)
			return pos;
		*whole = false;
		end = more;
	}
	return end;
}

/* Appends a number, brought into range. */
static bool
add_number(const char *s, size_t len, bool whole, struct str *out)
{
	size_t start = out->len;

	str_add(out, s, len);
	if (isinf(strtod(out->buf + start, NULL))) {
		out->len = start;
		str_adds(out, *s == '-' ? "-1.7976931348623157e308" : "1.7976931348623157e308");
		return true;
	}
	errno = 0;
	if (!whole || (strtoll(out->buf + start, NULL, 10), errno != ERANGE))
		return false;
	str_adds(out, ".0");
	return true;
}

/* The position after the closing quote of the string that begins at pos. */
static size_t
string_end(const char *s, size_t n, size_t pos)
{
	for (pos++; pos < n && s[pos] != '"'; pos++)
		pos += s[pos] == '\\';
	return pos < n ? pos + 1 : n;
}

/* Strings and numbers are the only tokens that can hold digits. */
bool
json_fit_numbers(const char *text, size_t len, struct str *out)
{
	bool changed = false, whole;

	for (size_t pos = 0, end; pos < len; pos = end) {
		end = text[pos] == '"' ? string_end(text, len, pos)
				       : number_end(text, len, pos, &whole);
		if (text[pos] != '"' && end > pos) {
			changed |= add_number(text + pos, end - pos, whole, out);
			continue;
		}
		/* digits that are not a number stay one token; otherwise their tail could be one */
		if (end == pos)
			end = is_digit(text[pos]) ? digits(text, len, pos) : pos + 1;
		str_add(out, text + pos, end - pos);
	}
	return changed;
}

/* The length of one of Python's words at pos, or 0. */
static size_t
word_at(const char *s, size_t n, size_t pos)
{
	static const char *const words[] = { "NaN", "Infinity", "-Infinity" };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		size_t len = strlen(words[i]);

		if (n - pos >= len && !memcmp(s + pos, words[i], len))
			return len;
	}
	return 0;
}

bool
json_quote_words(const char *text, size_t len, struct str *out)
{
	bool changed = false;

	for (size_t pos = 0, end; pos < len; pos = end) {
		size_t word = word_at(text, len, pos);

		if (word) {
			str_addf(out, "\"%.*s\"", (int)word, text + pos);
			changed = true;
			end = pos + word;
			continue;
		}
		end = text[pos] == '"' ? string_end(text, len, pos) : pos + 1;
		str_add(out, text + pos, end - pos);
	}
	return changed;
}
