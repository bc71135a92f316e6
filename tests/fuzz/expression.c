/*
 * expression.c - fuzz target: up to three expressions and a text, with NULs between them
 *
 * If they have a scanner, its pieces must cover any bytes, the same by blocks as one by one, and on
 * UTF-8 they must be those of PCRE2, where that takes the expressions and does not give up.
 */
#include "lib/base/utf8.h"
#include "lib/token/pretok.h"
#include "lib/token/regex.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENDS = 128, STEPS = 3, TEXT_MAX = 2000 };

/* PCRE2's steps, and the ends of the pieces so far. */
struct reference {
	struct regex *step[STEPS];
	struct regex_scratch *scratch;
	int count;
	const char *text;
	size_t end[TEXT_MAX], ends;
};

/* Cuts a piece by a step and those after it; false when PCRE2 gives up. */
static bool
cut(struct reference *r, int step, size_t start, size_t end)
{
	struct regex_walk w = { .s = r->text + start, .n = end - start };
	size_t done = 0;
	struct err e;
	int rc;

	if (start == end)
		return true;
	if (step == r->count || step == STEPS) {
		r->end[r->ends++] = end;
		return true;
	}
	while ((rc = regex_next(r->step[step], r->scratch, &w, &e)) > 0) {
		if (!cut(r, step + 1, start + done, start + w.start) ||
		    !cut(r, step + 1, start + w.start, start + w.end))
			return false;
		done = w.end;
	}
	return rc == 0 && cut(r, step + 1, start + done, end);
}

/* Both ways of the scanner agree with each other and with the reference, if there is one. */
static void
compare(const struct pretok *p, const struct reference *r, const uint8_t *s, size_t n)
{
	struct pretok_text t = { s, n, 0 };
	size_t pos = 0, at = 0, count;
	uint32_t end[ENDS];

	while ((count = pretok_ends(p, &t, end, ENDS)) > 0)
		for (size_t i = 0; i < count; pos = end[i++])
			if (end[i] <= pos || end[i] > n || pretok_next(p, s, n, pos) != end[i] ||
			    (r && (at == r->ends || r->end[at++] != end[i])))
				abort();
	if (pos != n || (r && at != r->ends))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pretok_step step[STEPS] = { 0 };
	struct reference r = { .scratch = regex_scratch_new() };
	const uint8_t *nul;
	struct pretok *p;
	struct err e;
	bool all = true;

	while (r.count < STEPS && (nul = memchr(data, 0, size))) {
		step[r.count].regex = (const char *)data;
		step[r.count].len = (size_t)(nul - data);
		r.step[r.count] = regex_new((const char *)data, (size_t)(nul - data), &e);
		all &= r.step[r.count++] != NULL;
		size -= (size_t)(nul + 1 - data);
		data = nul + 1;
	}
	p = r.count > 0 && size <= TEXT_MAX ? pretok_compile(step, r.count, &e) : NULL;
	r.text = (const char *)data;
	if (p)
		compare(p, all && utf8_check(data, size) == size && cut(&r, 0, 0, size) ? &r : NULL,
		    data, size);
	pretok_free(p);
	for (int i = 0; i < r.count; i++)
		regex_free(r.step[i]);
	regex_scratch_free(r.scratch);
	return 0;
}
