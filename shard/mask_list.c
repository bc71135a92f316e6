/* mask_list.c - a list of documents, or of spans of them */
#include "shard/mask_list.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A number from 0 on of at most 15 digits at *p, which moves past it and the blanks there; -1
 * when there is none. */
static int64_t
take_number(const char **p, const char *end)
{
	int64_t v = 0;
	int digits = 0;

	for (; *p < end && **p >= '0' && **p <= '9' && digits < 16; ++*p, digits++)
		v = 10 * v + (**p - '0');
	if (digits == 0 || digits > 15 || (*p < end && **p != ' ' && **p != '\t'))
		return -1;
	while (*p < end && (**p == ' ' || **p == '\t'))
		++*p;
	return v;
}

/* One line, which is not empty: 1 or 3 numbers. */
static int
take_line(const char *p, const char *end, struct mask_span *s)
{
	*s = (struct mask_span){ take_number(&p, end), 0, -1 };
	if (s->document < 0)
		return -1;
	if (p == end)
		return 0;
	s->first = take_number(&p, end);
	s->count = take_number(&p, end);
	return s->first < 0 || s->count < 0 || p < end ? -1 : 0;
}

int
mask_list_parse(const char *text, size_t len, const char *name, struct mask_span **out,
    int64_t *count, struct err *e)
{
	static const char head[] = "document";
	const char *end = text + len;
	int64_t cap = 0;
	long line = 1;

	*out = NULL;
	*count = 0;
	for (const char *p = text, *stop; p < end; p = stop + 1, line++) {
		const char *feed = memchr(p, '\n', (size_t)(end - p)), *last;

		stop = feed ? feed : end;
		last = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
		if (last == p ||
		    (line == 1 && (size_t)(last - p) >= sizeof head - 1 &&
			!memcmp(p, head, sizeof head - 1)))
			continue;
		if (*count == cap) {
			cap = 2 * cap + 64;
			*out = mem_realloc(*out, (size_t)cap, sizeof **out);
		}
		if (take_line(p, last, &(*out)[*count]) < 0)
			return err_at(e, name, line,
			    "must be a document, or document, first token and number of tokens");
		++*count;
	}
	return 0;
}
