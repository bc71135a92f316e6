/*
 * pattern.c - patterns of layers: read, printed, asked
 *
 * The grammar of lists is the part of Python's that launch scripts use:
 *   sum = product { '+' product }     product = list { '*' number }
 *   list = '[' bit { ',' bit } ']' | '(' sum ')'
 */
#include "lib/model/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8 };

static struct layer_pattern pattern_before_every(int64_t n);

const struct pattern_form pattern_attention = { pattern_every, 0 };
const struct pattern_form pattern_experts = { pattern_but_every, 0 };
const struct pattern_form pattern_no_rope = { pattern_every, 1 };
const struct pattern_form pattern_linear = { pattern_before_every, 1 };

bool
pattern_skips(const struct layer_pattern *p, int64_t layer)
{
	int64_t at = p->period > 0 ? layer % p->period : 0;

	return p->skipped[at / 64] >> at % 64 & 1;
}

int64_t
pattern_count(const struct layer_pattern *p, int64_t num_layers)
{
	int64_t whole = 0, rest = 0;

	if (p->period == 0 || num_layers <= 0)
		return 0;
	for (int64_t i = 0; i < p->period; i++) {
		whole += pattern_skips(p, i);
		rest += i < num_layers % p->period && pattern_skips(p, i);
	}
	return num_layers / p->period * whole + rest;
}

struct layer_pattern
pattern_every(int64_t n)
{
	struct layer_pattern p = { .period = n };

	p.skipped[(n - 1) / 64] = UINT64_C(1) << (n - 1) % 64;
	return p;
}

struct layer_pattern
pattern_but_every(int64_t n)
{
	bool skipped[PATTERN_MAX];

	for (int64_t i = 0; i < n; i++)
		skipped[i] = i > 0;
	return pattern_of(skipped, (int)n);
}

/* All but every n-th are skipped, the n-th as the last of each n. */
static struct layer_pattern
pattern_before_every(int64_t n)
{
	bool skipped[PATTERN_MAX];

	for (int64_t i = 0; i < n; i++)
		skipped[i] = i < n - 1;
	return pattern_of(skipped, (int)n);
}

/* Whether the list is its own first n entries over and over. */
static bool
repeats(const bool *skipped, int count, int n)
{
	for (int i = n; i < count; i++)
		if (skipped[i] != skipped[i - n])
			return false;
	return true;
}

struct layer_pattern
pattern_of(const bool *skipped, int count)
{
	struct layer_pattern p = { .period = 1 };

	while (!repeats(skipped, count, (int)p.period))
		p.period++;
	for (int i = 0; i < p.period; i++)
		if (skipped[i])
			p.skipped[i / 64] |= UINT64_C(1) << i % 64;
	if (p.period == 1 && !skipped[0])
		p.period = 0;
	return p;
}

/* What is left of an expression, and the entries read so far. */
struct reader {
	const char *s;
	bool skipped[PATTERN_MAX];
	int count, depth, skips; /* skips: the bit of a layer that is skipped */
};

/* Takes a character after blanks, if it is the next. */
static bool
take(struct reader *r, char c)
{
	while (isspace((unsigned char)*r->s))
		r->s++;
	if (*r->s != c)
		return false;
	r->s++;
	return true;
}

/* A whole number, or -1. */
static int64_t
number(struct reader *r)
{
	char *end;
	int64_t n;

	while (isspace((unsigned char)*r->s))
		r->s++;
	if (!isdigit((unsigned char)*r->s))
		return -1;
	errno = 0;
	n = strtoll(r->s, &end, 10);
	r->s = end;
	return errno ? -1 : n;
}

/* After the bracket. */
static int
bits(struct reader *r)
{
	do {
		int64_t bit = number(r);

		if (bit < 0 || bit > 1 || r->count == PATTERN_MAX)
			return -1;
		r->skipped[r->count++] = bit == r->skips;
	} while (take(r, ','));
	return take(r, ']') ? 0 : -1;
}

static int list(struct reader *r);

/* The entries from `first` on, n times in all. */
static int
multiply(struct reader *r, int first, int64_t n)
{
	int size = r->count - first;

	if (n < 0 || (size > 0 && n > (PATTERN_MAX - first) / size))
		return -1;
	for (int64_t i = 1; i < n; i++, r->count += size)
		memcpy(&r->skipped[r->count], &r->skipped[first], (size_t)size);
	if (n == 0)
		r->count = first;
	return 0;
}

static int
sum(struct reader *r)
{
	do {
		int first = r->count;

		if (list(r) < 0)
			return -1;
		while (take(r, '*'))
			if (multiply(r, first, number(r)) < 0)
				return -1;
	} while (take(r, '+'));
	return 0;
}

static int
list(struct reader *r)
{
	int rc;

	if (take(r, '['))
		return bits(r);
	if (!take(r, '(') || r->depth == DEPTH_MAX)
		return -1;
	r->depth++;
	rc = sum(r);
	r->depth--;
	return rc < 0 || !take(r, ')') ? -1 : 0;
}

int
pattern_read(const char *s, int64_t num_layers, const struct pattern_form *form,
    struct layer_pattern *out, struct err *e)
{
	struct reader r = { .s = s, .skips = form->skipped };
	int64_t n = number(&r);

	if (n < 0 && sum(&r) == 0 && r.count > 0 && take(&r, '\0')) {
		*out = pattern_of(r.skipped, r.count);
		return r.count == num_layers
		    ? 0
		    : err_set(e, "has %d entries: must have one for each of %lld layers", r.count,
			  (long long)num_layers);
	}
	if (n < 1 || n > PATTERN_MAX || !take(&r, '\0'))
		return err_set(e,
		    "must be from 1 to %d, or a list of at most %d such as ([1]*5+[0])*8",
		    PATTERN_MAX, PATTERN_MAX);
	*out = form->number(n);
	return 0;
}

/* Lists are of models that a list can describe. */
void
pattern_print(const struct layer_pattern *p, int64_t num_layers, const struct pattern_form *form,
    struct str *out)
{
	struct layer_pattern every = form->number(p->period > 0 ? p->period : 1);

	if (p->period == 0)
		return;
	if (!memcmp(p, &every, sizeof every)) {
		str_addf(out, "%lld", (long long)p->period);
		return;
	}
	for (int64_t i = 0; i < num_layers; i++)
		str_addf(out, "%s%d", i ? "," : "[", pattern_skips(p, i) == form->skipped);
	str_addc(out, ']');
}
