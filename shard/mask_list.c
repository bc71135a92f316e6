/* mask_list.c - a list of documents, or of spans of them */
#include "shard/mask_list.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 1 << 30 };

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
	*s = (struct mask_span){ take_number(&p, end), 0, -1, 0 };
	if (s->document < 0)
		return -1;
	if (p == end)
		return 0;
	s->first = take_number(&p, end);
	s->count = take_number(&p, end);
	return s->first < 0 || s->count < 0 || p < end ? -1 : 0;
}

/* A column of a line of a table: its bytes up to the next tab. */
static bool
take_column(const char *p, const char *end, int column, const char **out, size_t *len)
{
	for (; column > 0 && p; column--) {
		p = memchr(p, '\t', (size_t)(end - p));
		p = p ? p + 1 : NULL;
	}
	if (!p)
		return false;
	*out = p;
	p = memchr(p, '\t', (size_t)(end - p));
	*len = (size_t)((p ? p : end) - *out);
	return true;
}

/* Columns of `mshard where`, in the order of its header. */
enum { CORPUS = 4, DOCUMENT = 5, FIRST = 7, COUNT = 8 };

static bool
take_field(const char *p, const char *end, int column, int64_t *out)
{
	const char *at;
	size_t len;

	if (!take_column(p, end, column, &at, &len) || len == 0)
		return false;
	*out = take_number(&at, at + len);
	return *out >= 0;
}

/* A line of a table: 1 with its span, 0 when it is of another corpus, -1 when it is no such
 * line. */
static int
take_row(const char *p, const char *end, const char *corpus, struct mask_span *s)
{
	const char *name;
	size_t len;

	if (!take_column(p, end, CORPUS, &name, &len) ||
	    !take_field(p, end, DOCUMENT, &s->document) || !take_field(p, end, FIRST, &s->first) ||
	    !take_field(p, end, COUNT, &s->count))
		return -1;
	return len == strlen(corpus) && !memcmp(name, corpus, len);
}

/* Whether a text begins with a word. */
static bool
begins(const char *text, const char *end, const char *word)
{
	return (size_t)(end - text) >= strlen(word) && !memcmp(text, word, strlen(word));
}

int
mask_list_parse(const char *text, size_t len, const char *name, const char *corpus,
    struct mask_list *out, struct err *e)
{
	const char *end = text + len;
	bool table = begins(text, end, "iteration");
	int64_t cap = 0;
	long line = 1;

	*out = (struct mask_list){ 0 };
	if (table && !corpus)
		return err_at(e, name, 0,
		    "a table of several datasets: --corpus says of which its "
		    "rows are read");
	if (corpus && !table)
		return err_at(e, name, 0,
		    "--corpus: is for a table of mshard where, which begins "
		    "with the word iteration");
	for (const char *p = text, *stop; p < end; p = stop + 1, line++) {
		const char *feed = memchr(p, '\n', (size_t)(end - p)), *last;
		int taken = 1;

		stop = feed ? feed : end;
		last = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
		if (last == p || (line == 1 && (table || begins(p, last, "document"))))
			continue;
		if (out->count == cap) {
			cap = 2 * cap + 64;
			out->span = mem_realloc(out->span, (size_t)cap, sizeof *out->span);
		}
		if (table)
			taken = take_row(p, last, corpus, &out->span[out->count]);
		else if (take_line(p, last, &out->span[out->count]) < 0)
			taken = -1;
		if (taken < 0)
			return err_at(e, name, line,
			    table ? "no row of mshard where"
				  : "must be a document, or document, first token and number of "
				    "tokens");
		out->span[out->count].line = line;
		out->count += taken;
	}
	return 0;
}

int
mask_list_read(const char *path, const char *corpus, const struct dataset *d, struct mask_list *out,
    struct err *e)
{
	int64_t documents = dataset_num_documents(d);
	char *text;
	size_t len;
	int rc;

	*out = (struct mask_list){ 0 };
	if (io_read_regular(path, LIST_MAX, &text, &len, e) < 0)
		return -1;
	rc = mask_list_parse(text, len, path, corpus, out, e);
	free(text);
	for (int64_t i = 0; i < out->count && rc == 0; i++)
		if (out->span[i].document >= documents)
			rc = err_at(e, path, out->span[i].line,
			    "document %lld: %s has %lld, counted from 0",
			    (long long)out->span[i].document, dataset_prefix(d),
			    (long long)documents);
	return rc;
}
