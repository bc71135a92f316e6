/*
 * window.c - a list merged stretch by stretch, each as far as its tokens are certain (window.h)
 *
 * Places are looked at from the last token of a stretch backwards: in most texts one of the last
 * few is certain, so that hardly a symbol is merged twice.
 */
#include "lib/base/mem.h"
#include "lib/token/window.h"

#include <stdlib.h>

/* Places that are looked at before a stretch is made longer: to look at one may take as many
 * merges as the widest token has symbols. */
enum { PLACES = 64 };

/* Reads on until there are n symbols; returns how many there are if there are fewer, else n. */
static size_t
fill(struct window *w, const struct window_list *list, size_t n)
{
	if (w->symbols.count < n)
		list->read(list->ctx, &w->symbols, n - w->symbols.count);
	return w->symbols.count < n ? w->symbols.count : n;
}

/* Merges n > 0 symbols from one of the stretch on. */
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
	r->count = rule->merge(rule->ctx, r->token, r->width, n);
}

/* Whether the place after a token is certain: whether it stays what it is with any number of
 * symbols after it that a token could have. */
static bool
is_certain(struct window *w, const struct window_list *list, const struct window_rule *rule,
    size_t place, uint32_t width)
{
	size_t end = fill(w, list, place + rule->widest);

	for (size_t i = place + 1; i <= end; i++) {
		merge_run(w, rule, &w->trial, place - width, i - (place - width));
		if (w->trial.width[0] != width)
			return false;
	}
	return true;
}

/* How many tokens of a stretch of n symbols are certain, and how many symbols they are made of. */
static size_t
count_certain(struct window *w, const struct window_list *list, const struct window_rule *rule,
    size_t n, size_t *symbols)
{
	size_t count = w->run.count;

	*symbols = n;
	for (int i = 0; i < PLACES && count > 0; i++, count--) {
		if (is_certain(w, list, rule, *symbols, w->run.width[count - 1]))
			return count;
		*symbols -= w->run.width[count - 1];
	}
	return 0;
}

/* An empty list has no tokens. */
void
window_merge(
    struct window *w, const struct window_list *list, const struct window_rule *rule, size_t size)
{
	size_t want = size, n, tokens, symbols;

	w->symbols.count = 0;
	while ((n = fill(w, list, want)) > 0) {
		merge_run(w, rule, &w->run, 0, n);
		tokens = count_certain(w, list, rule, n, &symbols);
		if (tokens == 0) {
			want *= 2;
			continue;
		}
		list->take(list->ctx, w->run.token, tokens);
		w->symbols.count -= symbols;
		memmove(w->symbols.id, w->symbols.id + symbols,
		    w->symbols.count * sizeof *w->symbols.id);
		want = size;
	}
}

/* Zeroes are fine; the struct may be used again. */
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
