/*
 * str.c - a growing byte string
 *
 * buf is NULL or ends in a NUL at buf[len]; a struct of zeroes is an empty string. It may hold any
 * bytes, including NUL.
 */
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Doubling makes appending byte by byte linear. One more byte is reserved for the NUL.
 */
void
str_reserve(struct str *s, size_t extra)
{
	size_t want = s->len + extra + 1;

	if (want <= s->cap)
		return;
	if (want < 2 * s->cap)
		want = 2 * s->cap;
	s->buf = mem_realloc(s->buf, want, 1);
	s->cap = want;
}

/*
 * bytes must not point into s, which may move. bytes may be NULL when n is 0; s still gets a
 * buffer.
 */
void
str_add(struct str *s, const void *bytes, size_t n)
{
	str_reserve(s, n);
	if (n)
		memcpy(s->buf + s->len, bytes, n);
	s->len += n;
	s->buf[s->len] = '\0';
}

void
str_addc(struct str *s, char c)
{
	str_add(s, &c, 1);
}

void
str_adds(struct str *s, const char *z)
{
	str_add(s, z, strlen(z));
}

/*
 * Formats twice, first for the length. Arguments must not point into s. Adds nothing when the
 * library cannot format it.
 */
void
str_addf(struct str *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	str_reserve(s, (size_t)n);
	va_start(ap, fmt);
	vsnprintf(s->buf + s->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	s->len += (size_t)n;
}

/* A word is what stands between blanks, and may be parted after a bar. */
void
str_add_wrapped(struct str *s, const char *text, size_t column, size_t left)
{
	enum { COLUMNS = 80 };
	bool blank = false;

	while (*text) {
		size_t n = strcspn(text, " |");

		n += text[n] == '|';
		if (column > left && column + blank + n > COLUMNS) {
			str_addf(s, "\n%*s", (int)left, "");
			column = left;
			blank = false;
		}
		str_addf(s, "%s%.*s", blank ? " " : "", (int)n, text);
		column += blank + n;
		text += n;
		blank = *text == ' ';
		text += strspn(text, " ");
	}
}

void
str_clear(struct str *s)
{
	s->len = 0;
	if (s->buf)
		s->buf[0] = '\0';
}

/* A text that is gathered first and written at the end appears whole or not at all. */
void
str_put(struct str *s, FILE *out)
{
	if (s->len)
		fwrite(s->buf, 1, s->len, out);
	str_clear(s);
}

/* The struct is an empty string afterwards and may be reused. */
void
str_release(struct str *s)
{
	free(s->buf);
	memset(s, 0, sizeof *s);
}

/* Not NULL even for a string that nothing was added to. */
char *
str_detach(struct str *s)
{
	char *buf;

	str_reserve(s, 0);
	buf = s->buf;
	buf[s->len] = '\0';
	memset(s, 0, sizeof *s);
	return buf;
}

/*
 * Escapes what RFC 8259 demands and no more; bytes from 0x80 up go out as they are, so they must be
 * UTF-8 for a reader to accept them.
 */
void
str_add_json(struct str *s, const char *bytes, size_t n)
{
	str_addc(s, '"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)bytes[i];

		if (c == '"' || c == '\\') {
			str_addc(s, '\\');
			str_addc(s, (char)c);
		} else if (c < 0x20) {
			str_addf(s, "\\u%04x", c);
		} else {
			str_addc(s, (char)c);
		}
	}
	str_addc(s, '"');
}

/*
 * The fewest digits that read back as x, always with a point or an exponent, so that a reader takes
 * it for a float: what Python's json writes. JSON has no infinity or NaN; callers must not pass
 * them.
 */
void
str_add_double(struct str *s, double x)
{
	char text[40];

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, x);
		if (strtod(text, NULL) == x)
			break;
	}
	/* 1e+03 is 1000.0 here, as in Python: the exponent form starts at 1e16. */
	if (strchr(text, 'e') && fabs(x) >= 1e-4 && fabs(x) < 1e16)
		snprintf(text, sizeof text, "%.0f", x);
	str_adds(s, text);
	if (!strpbrk(text, ".en"))
		str_adds(s, ".0");
}
