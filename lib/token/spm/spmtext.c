/* spmtext.c - filling sets of bytes and maps of code points */
#include "lib/base/mem.h"
#include "lib/token/spm/spmtext.h"

#include <stdlib.h>
#include <string.h>

/* Bits of the set from the table. */
void
byte_set_close(struct byte_set *s)
{
	memset(&s->bits, 0, sizeof s->bits);
	for (int c = 0; c < 256; c++)
		if (s->in[c])
			s->bits.row[c >> 7][c & 15] |= (unsigned char)(1 << (c >> 4 & 7));
}

/* Starts with only the empty page. */
void
code_map_init(struct code_map *m)
{
	memset(m, 0, sizeof *m);
	m->block = mem_zalloc(1, sizeof *m->block);
	m->blocks = 1;
}

/* Pages are made on demand: 16 bits hold their number, as there are at most 4352. */
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

/* A map of zeroes is allowed. */
void
code_map_release(struct code_map *m)
{
	free(m->block);
}
