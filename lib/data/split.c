/*
 * split.c - which part of a corpus is for training, validation and testing
 *
 * Megatron-LM finds the numbers with the expression [.0-9]+, so that any other character separates
 * them: a minus sign is lost and 1e3 is two numbers. That is kept, so that a split has the same
 * sequences here. Source: Megatron-LM core/datasets/utils.py, normalize;
 * blended_megatron_dataset_config.py, parse_and_normalize_split.
 */
#include "lib/base/mem.h"
#include "lib/data/samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* One run of digits and points as a number; a run that is not a number is an error, as for Python's
 * float(). */
static int
parse_share(const char *run, size_t len, double *out, struct err *e)
{
	size_t points = 0, digits = 0;
	char *copy;

	for (size_t i = 0; i < len; i++) {
		points += run[i] == '.';
		digits += run[i] != '.';
	}
	if (points > 1 || digits == 0)
		return err_set(e, "'%.*s' is not a number", len > 40 ? 40 : (int)len, run);
	copy = mem_strndup(run, len); /* "1e3" must not be read past the 1 */
	*out = strtod(copy, NULL);
	free(copy);
	return isfinite(*out) ? 0 : err_set(e, "a share is too large");
}

/* A word that Python's float() takes for a number, though the expression does not see it: such a
 * share would be left out, and the others would move up. */
static int
check_words(const char *text, struct err *e)
{
	static const char *const words[] = { "nan", "inf", "infinity" };
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (const char *p = text; *p; p += *p != 0) {
		size_t len = strspn(p, letters);

		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			if (len == strlen(words[i]) && !strncasecmp(p, words[i], len))
				return err_set(e,
				    "'%.*s' is not a share: shares are up to three numbers from 0, "
				    "such as 969,30,1",
				    (int)len, p);
		p += len;
	}
	return 0;
}

/* Every run of digits and points is a share, whatever separates them; missing shares are zero. */
static int
parse_shares(const char *text, double share[SPLIT_COUNT], struct err *e)
{
	int n = 0;

	if (check_words(text, e) < 0)
		return -1;
	for (const char *p = text; *p;) {
		size_t len = strspn(p, "0123456789.");

		if (len == 0) {
			p++;
			continue;
		}
		if (n == SPLIT_COUNT)
			return err_set(e,
			    "'%.*s' is a fourth share: there are at most three, of training, "
			    "validation and test",
			    len > 40 ? 40 : (int)len, p);
		if (parse_share(p, len, &share[n++], e) < 0)
			return -1;
		p += len;
	}
	return n ? 0 : err_set(e, "it has no share: a split is, for example, 969,30,1");
}

/* The bookends are running sums of the shares, in doubles and in this order, because their rounding
 * determines the sequences. */
int
split_parse(const char *text, struct split_matrix *out, struct err *e)
{
	double share[SPLIT_COUNT] = { 0 }, sum, at = 0;
	struct err why;

	if (parse_shares(text, share, &why) < 0)
		return err_set(e, "--split '%.60s': %s", text, why.msg);
	sum = share[0] + share[1] + share[2];
	if (!(sum > 0) || !isfinite(sum))
		return err_set(
		    e, "--split '%.60s': the shares must have a finite sum above 0", text);
	for (int i = 0; i < SPLIT_COUNT; i++) {
		double next = at + share[i] / sum;

		out->begin[i] = at;
		out->end[i] = next;
		out->present[i] = next > at;
		at = next;
	}
	return 0;
}

/* Halves round to even, as in Python. */
void
split_range(const struct split_matrix *m, enum split which, int64_t num_sequences, int64_t *begin,
    int64_t *end)
{
	*begin = *end = 0;
	if (!m->present[which])
		return;
	*begin = (int64_t)rint(m->begin[which] * (double)num_sequences);
	*end = (int64_t)rint(m->end[which] * (double)num_sequences);
}
