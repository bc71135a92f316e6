/*
 * window.c - merging a list in stretches, each as far as its tokens are certain (window.h)
 *
 * A list that ends within a token of the stretch usually has the same tokens up to the one before
 * that token. Where it does not, places ever farther back are tried, each at the cost of merging
 * the symbols in between. The work on all ends is limited in proportion to the stretch, and a place
 * in its first half is not worth repeating the second half.
 */
#include "lib/base/mem.h"
#include "lib/token/window.h"

#include <stdlib.h>

/* The number of symbols that may be merged in search of a certain place, per symbol of the stretch.
 */
enum { TRIALS = 4 };

/* A place between tokens of the stretch: how many tokens are before it, and symbols. */
struct place {
	size_t tokens, symbols;
};

/* Reads until there are n symbols; returns their number, at most n. */
static size_t
fill(struct window *w, const struct window_list *list, size_t n)
{
	if (w->symbols.count < n)
		list->read(list->ctx, &w->symbols, n - w->symbols.count);
	return w->symbols.count < n ? w->symbols.count : n;
}

/* Merges n > 0 symbols of the stretch. */
static void
merge_run(const struct window *w, const struct window_rule *rule, struct window_run *r, size_t from,
    size_t n)
{
	if (r->cap < n) {
		r->cap = n;
		r->token = mem_realloc(r->token, n, sizeof *r->token);
		r->width = mem_realloc(r->width, n, sizeof *r->width);
	}
	memcpy(r->token, w->symbols.id + from, n * sizeof *r->token);
	r->symbols = n;
	r->count = rule->merge(rule->ctx, r->token, r->width, n);
}

/* Goes back to a place with at most this many symbols before it. */
static void
go_back(const struct window_run *r, struct place *p, size_t symbols)
{
	while (p->symbols > symbols)
		p->symbols -= r->width[--p->tokens];
}

/* Moves p, a place not after `end`, back to one that the stretch cut at `end` also has: merging
 * from the last token before it on gives that token again. False if that is in the first half, or
 * needs more symbols than are left. */
static bool
find_common(
    struct window *w, const struct window_rule *rule, struct place *p, size_t end, size_t *left)
{
	size_t half = w->run.symbols / 2;

	for (size_t step = 1; p->symbols > half; step *= 2) {
		uint32_t width = w->run.width[p->tokens - 1];
		size_t merged = end - p->symbols + width;

		if (p->symbols == end)
			return true;
		if (merged > *left)
			return false;
		*left -= merged;
		merge_run(w, rule, &w->trial, p->symbols - width, merged);
		if (w->trial.width[0] == width)
			return true;
		go_back(&w->run, p, p->symbols > step ? p->symbols - step : 0);
	}
	return false;
}

/* The place up to which the tokens of the stretch are certain; 0 when none is known to be. */
static struct place
find_certain(struct window *w, const struct window_rule *rule)
{
	size_t n = w->run.symbols, left = TRIALS * n;
	struct place last = { w->run.count, n }, certain = last;

	for (size_t end = n; end + rule->widest > n; end--) {
		struct place p;

		go_back(&w->run, &last, end);
		p = last;
		if (!find_common(w, rule, &p, end, &left))
			return (struct place){ 0, 0 };
		if (p.symbols < certain.symbols)
			certain = p;
	}
	return certain;
}

/* Passes on the tokens before a place; the next stretch begins there. */
static void
take(struct window *w, const struct window_list *list, const struct place *p)
{
	struct token_ids *left = &w->symbols;

	list->take(list->ctx, w->run.token, p->tokens);
	left->count -= p->symbols;
	memmove(left->id, left->id + p->symbols, left->count * sizeof *left->id);
}

/* An empty list has no tokens; all are certain at its end. */
void
window_merge(
    struct window *w, const struct window_list *list, const struct window_rule *rule, size_t size)
{
	size_t want = size, n;
	struct place p;

	w->symbols.count = 0;
	while ((n = fill(w, list, want)) > 0) {
		merge_run(w, rule, &w->run, 0, n);
		p = n < want ? (struct place){ w->run.count, n } : find_certain(w, rule);
		if (p.tokens == 0) {
			want *= 2;
			continue;
		}
		take(w, list, &p);
		want = size;
	}
}

/* A struct of zeroes is allowed; the struct may be reused. */
void
window_release(struct window *w)
{
	token_ids_release(&w->symbols);
	free(w->run.token);
	free(w->run.width);
	free(w->trial.token);
	free(w->trial.width);
	memset(w, 0, sizeof *w);
}
