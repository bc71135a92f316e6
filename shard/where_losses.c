/* where_losses.c - the losses of samples that a run wrote, and the greatest of them */
#include "lib/base/mem.h"
#include "shard/where.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char header[] = "iteration\tsample\tcorpus\ttokens\tloss";

/* The next field of a line as a number, and the tab or the end after it. */
static bool
take(const char **at, const char *end, double *out)
{
	char copy[40], *stop;
	const char *tab = memchr(*at, '\t', (size_t)(end - *at));
	size_t len = (size_t)((tab ? tab : end) - *at);

	if (len == 0 || len >= sizeof copy)
		return false;
	memcpy(copy, *at, len);
	copy[len] = '\0';
	*out = strtod(copy, &stop);
	*at = tab ? tab + 1 : end;
	return *stop == '\0' && strspn(copy, "0123456789.e+-naif") == len;
}

/* A whole number that a file of losses may hold. */
static bool
take_whole(const char **at, const char *end, int64_t least, int64_t *out)
{
	double x;

	if (!take(at, end, &x) || !(x >= (double)least && x <= 0x1p53) || x != floor(x))
		return false;
	*out = (int64_t)x;
	return true;
}

/* "iteration sample corpus tokens loss", between tabs. */
static bool
take_row(const char *at, const char *end, struct where_loss *r)
{
	const char *tab;

	if (!take_whole(&at, end, 1, &r->iteration) || !take_whole(&at, end, 0, &r->sample))
		return false;
	tab = memchr(at, '\t', (size_t)(end - at));
	if (!tab)
		return false;
	at = tab + 1;
	return take(&at, end, &r->tokens) && r->tokens >= 0 && take(&at, end, &r->loss) &&
	    at == end;
}

/* Rows of an iteration lie together: each gets its distance from their mean over tokens. */
static void
compare(struct where_loss *r, int64_t count)
{
	for (int64_t i = 0, end; i < count; i = end) {
		double tokens = 0, sum = 0;

		for (end = i; end < count && r[end].iteration == r[i].iteration; end++) {
			tokens += r[end].tokens;
			sum += r[end].tokens > 0 ? r[end].tokens * r[end].loss : 0;
		}
		for (int64_t k = i; k < end; k++)
			r[k].above = r[k].tokens > 0 ? r[k].loss - sum / tokens : -INFINITY;
	}
}

/* A loss that is no number is the greatest. */
static int
by_above(const void *x, const void *y)
{
	const struct where_loss *a = x, *b = y;
	double p = isnan(a->above) ? INFINITY : a->above, q = isnan(b->above) ? INFINITY : b->above;

	if (p != q)
		return p > q ? -1 : 1;
	return a->sample < b->sample ? -1 : a->sample > b->sample;
}

int64_t
where_losses_parse(const char *text, size_t len, const char *name, int64_t from,
    struct where_loss **out, struct err *e)
{
	const char *end = text + len;
	int64_t count = 0, cap = 0;
	long line = 1;

	*out = NULL;
	for (const char *p = text, *stop; p < end; p = stop + 1, line++) {
		const char *feed = memchr(p, '\n', (size_t)(end - p));

		stop = feed ? feed : end;
		if (line == 1) {
			if ((size_t)(stop - p) != sizeof header - 1 ||
			    memcmp(p, header, sizeof header - 1))
				return err_at(e, name, 1,
				    "not a file of --sample-losses, which "
				    "begins with the names of its columns");
			continue;
		}
		if (count == cap)
			*out = mem_realloc(*out, (size_t)(cap = 2 * cap + 1024), sizeof **out);
		if (!take_row(p, stop, &(*out)[count]))
			return err_at(e, name, line,
			    "must be iteration, sample, corpus, tokens and loss between tabs");
		count++;
	}
	compare(*out, count);
	cap = 0;
	for (int64_t i = 0; i < count; i++)
		if ((*out)[i].sample >= from)
			(*out)[cap++] = (*out)[i];
	if (cap)
		qsort(*out, (size_t)cap, sizeof **out, by_above);
	return cap;
}
