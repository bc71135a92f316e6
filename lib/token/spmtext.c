/*
 * spmtext.c - sets of bytes and maps of code points
 *
 * The loops over a block are free of branches and of dependences between bytes, so that compilers
 * make vector instructions of them on any machine.
 */
#include "lib/token/spmtext.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { RANGES_MAX = 8 };

/* Finds the ranges of neighbouring bytes; a set of more than eight is kept as a table alone. */
void
byte_set_close(struct byte_set *s)
{
	s->ranges = 0;
	for (int c = 0; c < 256; c++) {
		int first = c;

		if (!s->in[c])
			continue;
		while (c < 255 && s->in[c + 1])
			c++;
		if (s->ranges == RANGES_MAX) {
			s->ranges = -1;
			return;
		}
		s->first[s->ranges] = (unsigned char)first;
		s->span[s->ranges++] = (unsigned char)(c - first);
	}
}

/* Eight flags of 0 or 1 become eight bits: the product moves bit 0 of byte j to bit 56 + j, and no
 * two terms meet. */
static uint64_t
gather(const unsigned char flag[BYTE_BLOCK])
{
	uint64_t mask = 0;

	for (int k = 0; k < BYTE_BLOCK / 8; k++) {
		uint64_t eight;

		memcpy(&eight, flag + 8 * k, 8);
		mask |= (eight * 0x0102040810204080u >> 56) << (8 * k);
	}
	return mask;
}

/* One pass a range; the subtraction wraps, so that one comparison tests both ends. */
uint64_t
byte_set_find(const struct byte_set *s, const unsigned char block[BYTE_BLOCK])
{
	unsigned char flag[BYTE_BLOCK] = { 0 };

	if (s->ranges < 0)
		for (int i = 0; i < BYTE_BLOCK; i++)
			flag[i] = s->in[block[i]];
	for (int r = 0; r < s->ranges; r++) {
		unsigned char first = s->first[r], span = s->span[r];

		for (int i = 0; i < BYTE_BLOCK; i++)
			flag[i] |= (unsigned char)(block[i] - first) <= span;
	}
	return gather(flag);
}

/* With the empty page alone. */
void
code_map_init(struct code_map *m)
{
	memset(m, 0, sizeof *m);
	m->block = mem_zalloc(1, sizeof *m->block);
	m->blocks = 1;
}

/* Pages are made as they are needed: 16 bits hold their number, as there are at most 4352. */
void
code_map_set(struct code_map *m, uint32_t cp, uint32_t value)
{
	uint16_t *page = &m->page[cp >> 8];

	if (*page == 0) {
		m->block = mem_realloc(m->block, (size_t)m->blocks + 1, sizeof *m->block);
		memset(m->block[m->blocks], 0, sizeof *m->block);
		*page = (uint16_t)m->blocks++;
	}
	m->block[*page][cp & 255] = value;
}

/* A map of zeros is fine too. */
void
code_map_release(struct code_map *m)
{
	free(m->block);
}
