/*
 * path.c - the best path through a long piece, stretch by stretch (path.h)
 *
 * The places of the last two stretches are in memory: a stretch that becomes certain with the next
 * one, as nearly all do, is searched once.
 */
#include "lib/base/mem.h"
#include "lib/token/path.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

/* A stretch whose tokens are not yet emitted. */
struct held {
	struct path_part part;
	void *before;  /* its carried places, before its search */
	size_t *entry; /* for the places from `starts` on: the carried one on their path */
	size_t exit;   /* the first place from `starts` on that is on the path of the piece */
};

struct search {
	const struct path_text *text;
	struct held *held;
	size_t count, cap;
	/* places of the last stretch, of the one before it, and of one searched a second time */
	unsigned char *place[3];
	size_t *entry, *step; /* of all places; a path, from its end */
};

/* Opens the stretch after the last one, with the places that it has reached; its own places go to
 * place[0]. */
static struct held *
open_range(struct search *s, size_t at, size_t starts)
{
	size_t bytes = s->text->place_bytes;
	unsigned char *last = s->place[0];
	struct held *h;

	if (s->count == s->cap) {
		s->cap = 2 * s->cap + 8;
		s->held = mem_realloc(s->held, s->cap, sizeof *s->held);
	}
	h = &s->held[s->count++];
	*h = (struct held){ .part = { .at = at, .starts = starts } };
	if (s->count > 1) {
		const struct path_part *before = &h[-1].part;

		h->part.first = before->first + before->starts;
		h->part.carried = before->n - before->starts + 1;
		h->before = mem_alloc(h->part.carried, bytes);
		memcpy(h->before, last + before->starts * bytes, h->part.carried * bytes);
	}
	s->place[0] = s->place[1];
	s->place[1] = last;
	return h;
}

/* Searches a stretch whose symbols are read. */
static int
search_range(const struct search *s, const struct held *h, unsigned char *place, struct err *e)
{
	if (h->part.carried)
		memcpy(place, h->before, h->part.carried * s->text->place_bytes);
	return s->text->search(s->text->ctx, place, &h->part, e);
}

/* The symbols of the token on the path to place k; 0 for a carried place, whose token began before
 * the stretch. */
static size_t
back(const struct search *s, const struct held *h, const unsigned char *place, size_t k)
{
	size_t n = k ? s->text->back(s->text->ctx, place, &h->part, k) : 0;

	return n <= k ? n : 0;
}

/* Finds the entries of the places that the last stretch reaches; returns their common entry, or
 * NONE. */
static size_t
find_entries(const struct search *s, struct held *h)
{
	const struct path_part *part = &h->part;
	size_t *entry = s->entry, common = NONE;

	for (size_t k = 0; k <= part->n; k++) {
		size_t n = k ? s->text->back(s->text->ctx, s->place[0], part, k) : 1;

		entry[k] = n == 0 ? NONE : n > k ? k : entry[k - n];
	}
	h->entry = mem_alloc(part->n - part->starts + 1, sizeof *h->entry);
	for (size_t k = part->starts; k <= part->n; k++)
		h->entry[k - part->starts] = entry[k];
	for (size_t k = part->starts; k <= part->n; k++) {
		if (entry[k] == NONE)
			continue;
		if (common != NONE && common != entry[k])
			return NONE;
		common = entry[k];
	}
	return common;
}

/* The places of held stretch i, searched again if they are no longer in memory. It is known to have
 * a path. */
static const unsigned char *
places_of(const struct search *s, size_t i)
{
	struct held *h = &s->held[i];
	struct err e;

	if (s->count - i <= 2)
		return s->place[s->count - i - 1];
	s->text->read(s->text->ctx, &h->part);
	if (search_range(s, h, s->place[2], &e) < 0)
		BUG("a path was lost: %s", e.msg);
	return s->place[2];
}

/* Emits the tokens of the first `count` of the held stretches, the last of which has this exit. */
static void
put_held(struct search *s, size_t count, size_t exit)
{
	for (size_t i = count; i-- > 0;) {
		struct held *h = &s->held[i];

		h->exit = h->part.starts + exit;
		exit = h->entry[exit];
	}
	for (size_t i = 0; i < count; i++) {
		const struct held *h = &s->held[i];
		const unsigned char *place = places_of(s, i);
		size_t steps = 0;

		for (size_t k = h->exit, n; (n = back(s, h, place, k)) > 0; k -= n)
			s->step[steps++] = k;
		while (steps > 0)
			s->text->put(s->text->ctx, place, s->step[--steps]);
	}
	for (size_t i = 0; i < count; i++) {
		free(s->held[i].before);
		free(s->held[i].entry);
	}
	s->count -= count;
	memmove(s->held, s->held + count, s->count * sizeof *s->held);
}

/* One stretch after the other. Those before one that has a single entry are certain with it. */
static int
search_all(struct search *s, size_t stretch, struct err *e)
{
	bool more;

	for (size_t at = 0, next; at != NONE; at = more ? next : NONE) {
		struct held *h = open_range(s, at, stretch);
		size_t entry;

		next = s->text->read(s->text->ctx, &h->part);
		more = h->part.starts < h->part.n;
		if (!more)
			h->part.starts = h->part.n;
		if (search_range(s, h, s->place[0], e) < 0)
			return -1;
		entry = find_entries(s, h);
		if (!more)
			put_held(s, s->count, 0);
		else if (entry != NONE && s->count > 1)
			put_held(s, s->count - 1, entry);
	}
	return 0;
}

/* Besides the piece it needs the memory of a few stretches, and some places of each held one. */
int
path_search(const struct path_text *t, size_t stretch, struct err *e)
{
	struct search s = { .text = t };
	size_t places = stretch + t->longest + 1;
	int rc;

	for (int i = 0; i < 3; i++)
		s.place[i] = mem_alloc(places, t->place_bytes);
	s.entry = mem_alloc(places, sizeof *s.entry);
	s.step = mem_alloc(places, sizeof *s.step);
	rc = search_all(&s, stretch, e);
	for (size_t i = 0; i < s.count; i++) {
		free(s.held[i].before);
		free(s.held[i].entry);
	}
	for (int i = 0; i < 3; i++)
		free(s.place[i]);
	free(s.held);
	free(s.entry);
	free(s.step);
	return rc;
}
