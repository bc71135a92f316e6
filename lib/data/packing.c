/*
 * packing.c - documents into samples without cutting them: best-fit decreasing
 *
 * Bins of one room wait in a list, first in, first out; a bin without room is in none. Which rooms
 * have bins is a tree of words of 64 bits, four levels for a million tokens, so that the least
 * room that is enough is found in a few steps.
 */
#include "lib/data/packing.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 6 }; /* 64^6 rooms: more than 32 bits count */

const char *const sample_packing_names[] = { "cut", "best-fit", NULL };
const char *const long_documents_names[] = { "cut", "truncate", "drop", NULL };

/* Numbers from 0 to capacity, each in or out. */
struct bits {
	uint64_t *word[LEVELS]; /* of level 0 a bit a number, of the others a bit a word below */
	int levels;
};

/* The bins under construction. */
struct bins {
	struct bits rooms;
	int64_t *head, *tail; /* [capacity + 1]: bins of that room; -1: none */
	int64_t *next;        /* [n] of a bin, in the list of its room */
	int64_t *room;        /* [n] of a bin */
	int64_t *count;       /* [n] items of a bin */
	int64_t bins;
};

static void
bits_init(struct bits *b, int64_t numbers)
{
	for (b->levels = 0; b->levels == 0 || numbers > 1; b->levels++) {
		numbers = (numbers + 63) / 64;
		b->word[b->levels] = mem_zalloc((size_t)numbers, sizeof(uint64_t));
	}
}

static void
bits_set(struct bits *b, int64_t i)
{
	for (int k = 0; k < b->levels; k++, i >>= 6)
		b->word[k][i >> 6] |= (uint64_t)1 << (i & 63);
}

static void
bits_clear(struct bits *b, int64_t i)
{
	for (int k = 0; k < b->levels; k++, i >>= 6) {
		b->word[k][i >> 6] &= ~((uint64_t)1 << (i & 63));
		if (b->word[k][i >> 6])
			return;
	}
}

/* The least number from i on that is in; -1: none. Up while a word has no higher bit, then down. */
static int64_t
bits_from(const struct bits *b, int64_t i, int64_t numbers)
{
	for (int k = 0; k < b->levels && i < numbers; k++) {
		uint64_t rest = b->word[k][i >> 6] >> (i & 63);

		if (rest) {
			i += __builtin_ctzll(rest);
			while (k-- > 0)
				i = i << 6 | __builtin_ctzll(b->word[k][i]);
			return i;
		}
		i = (i >> 6) + 1;
		numbers = (numbers + 63) >> 6;
	}
	return -1;
}

/* Puts a bin at the end of the list of its room; full ones are in none. */
static void
give_room(struct bins *b, int64_t bin, int64_t room)
{
	b->room[bin] = room;
	b->next[bin] = -1;
	if (room == 0)
		return;
	if (b->head[room] < 0) {
		b->head[room] = bin;
		bits_set(&b->rooms, room);
	} else {
		b->next[b->tail[room]] = bin;
	}
	b->tail[room] = bin;
}

/* The bin for an item, out of its list; a new one when none has the room. */
static int64_t
take_bin(struct bins *b, int64_t length, int64_t capacity)
{
	int64_t room = bits_from(&b->rooms, length, capacity + 1), bin;

	if (room < 0) {
		b->room[b->bins] = capacity;
		return b->bins++;
	}
	bin = b->head[room];
	b->head[room] = b->next[bin];
	if (b->head[room] < 0)
		bits_clear(&b->rooms, room);
	return bin;
}

/* The items in the order of falling lengths, equal ones as given: a counting sort. */
static uint32_t *
by_length(const int32_t *length, const uint32_t *order, int64_t n, int64_t capacity)
{
	int64_t *at = mem_zalloc((size_t)capacity + 2, sizeof *at);
	uint32_t *sorted = mem_alloc((size_t)n + 1, sizeof *sorted);

	for (int64_t i = 0; i < n; i++)
		at[capacity - length[order ? order[i] : i] + 1]++;
	for (int64_t k = 1; k <= capacity + 1; k++)
		at[k] += at[k - 1];
	for (int64_t i = 0; i < n; i++) {
		uint32_t item = order ? order[i] : (uint32_t)i;

		sorted[at[capacity - length[item]]++] = item;
	}
	free(at);
	return sorted;
}

/* From the bin of each item to the items of each bin. */
static void
list_items(
    const struct bins *b, const uint32_t *sorted, const int64_t *of, int64_t n, struct packing *out)
{
	int64_t *at = mem_alloc((size_t)b->bins + 1, sizeof *at);

	out->bins = b->bins;
	out->item = mem_alloc((size_t)n + 1, sizeof *out->item);
	out->begin = mem_alloc((size_t)b->bins + 1, sizeof *out->begin);
	out->begin[0] = 0;
	for (int64_t k = 0; k < b->bins; k++) {
		at[k] = out->begin[k];
		out->begin[k + 1] = out->begin[k] + b->count[k];
	}
	for (int64_t i = 0; i < n; i++)
		out->item[at[of[i]]++] = sorted[i];
	free(at);
}

void
packing_best_fit(
    const int32_t *length, const uint32_t *order, int64_t n, int64_t capacity, struct packing *out)
{
	uint32_t *sorted = by_length(length, order, n, capacity);
	size_t rooms = (size_t)capacity + 1, most = (size_t)n + 1;
	int64_t *of = mem_alloc(most, sizeof *of);
	struct bins b = { .head = mem_alloc(rooms, sizeof(int64_t)),
		.tail = mem_alloc(rooms, sizeof(int64_t)),
		.next = mem_alloc(most, sizeof(int64_t)),
		.room = mem_alloc(most, sizeof(int64_t)),
		.count = mem_zalloc(most, sizeof(int64_t)) };

	bits_init(&b.rooms, (int64_t)rooms);
	memset(b.head, 0xff, rooms * sizeof *b.head);
	for (int64_t i = 0; i < n; i++) {
		int64_t len = length[sorted[i]], bin = take_bin(&b, len, capacity);

		of[i] = bin;
		b.count[bin]++;
		give_room(&b, bin, b.room[bin] - len);
	}
	list_items(&b, sorted, of, n, out);
	for (int k = 0; k < b.rooms.levels; k++)
		free(b.rooms.word[k]);
	free(b.head);
	free(b.tail);
	free(b.next);
	free(b.room);
	free(b.count);
	free(of);
	free(sorted);
}

void
packing_release(struct packing *p)
{
	free(p->item);
	free(p->begin);
	*p = (struct packing){ 0 };
}
