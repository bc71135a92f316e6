/*
 * ends.c - where the documents of a file end, found in pieces of any size
 *
 * A line is compared byte by byte as long as it may be one that ends a document, which most lines
 * are not from their first byte on; the rest of it is searched for its line feed alone.
 */
#include "tok/ends.h"

#include <string.h>

/* True when a line that may end a document may have this byte next. */
static bool
may_follow(const struct ends *s, char c)
{
	size_t want;

	if (s->by == BY_BLANK_LINE)
		return !s->cr && s->seen < s->most && (c == ' ' || c == '\t' || c == '\r');
	want = strlen(s->separator);
	return s->seen < want ? c == s->separator[s->seen] : s->seen == want && c == '\r';
}

/* Takes bytes of a line other than its line feed. Every line is one by line. */
static void
take(struct ends *s, const char *p, size_t n)
{
	if (s->by == BY_LINE && n) {
		s->cr = p[n - 1] == '\r';
		return;
	}
	for (size_t i = 0; i < n && !s->other; i++) {
		s->other = !may_follow(s, p[i]);
		s->seen += !s->other;
		s->cr = p[i] == '\r';
	}
}

/* True when the line that was read ends a document. */
static bool
is_end(const struct ends *s)
{
	return !s->other && (s->by != BY_SEPARATOR || s->seen >= strlen(s->separator));
}

/* What is left of the last line of a file belongs to its document by line, also a CR. */
size_t
ends_last(const struct ends *s)
{
	return is_end(s) && !s->cr ? s->seen : 0;
}

/* A line end before a blank line goes with it. */
size_t
ends_open(const struct ends *s)
{
	static const size_t line_end = 2;

	return (s->by == BY_BLANK_LINE    ? line_end
		       : s->by == BY_LINE ? s->cr
					  : 0) +
	    (s->other ? 0 : s->seen);
}

/* What was read of a line is forgotten at its end. */
size_t
ends_next(struct ends *s, const char *text, size_t len, size_t *at)
{
	size_t bytes = 0;

	if (s->by == BY_FILE)
		*at = len;
	while (*at < len && !bytes) {
		const char *feed = memchr(text + *at, '\n', len - *at);
		size_t end = feed ? (size_t)(feed - text) : len;

		take(s, text + *at, end - *at);
		*at = end + (feed != NULL);
		if (feed) {
			bytes = is_end(s) ? 1 + (s->by == BY_LINE ? s->cr : s->seen) : 0;
			s->seen = 0;
			s->other = s->cr = false;
		}
	}
	return bytes;
}
