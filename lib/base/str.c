/* str.c - a growing byte string */
#include "lib/base/str.h"
#include "lib/base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void
str_clear(struct str *s)
{
	s->len = 0;
	if (s->buf)
		s->buf[0] = '\0';
}

void
str_release(struct str *s)
{
	free(s->buf);
	memset(s, 0, sizeof *s);
}

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
