/*
 * unicode_forms.c - decompositions, compositions and classes of marks
 *
 * The tables are the reference's, so that forms depend on no library of the machine. Hangul's
 * syllables are arithmetic: chapter 3.12 of The Unicode Standard.
 */
#include "lib/token/unicode_compat_table.h"
#include "lib/token/unicode_forms.h"
#include "lib/token/unicode_forms_table.h"

#include <stddef.h>
#include <string.h>

#define COUNT(table) (sizeof table / sizeof *table)

enum {
	SYLLABLE = 0xac00,
	SYLLABLES = 11172,
	LEAD = 0x1100,
	LEADS = 19,
	VOWEL = 0x1161,
	VOWELS = 21,
	TAIL = 0x11a7,
	TAILS = 28
};

/* The last row that begins at or before cp, or NULL; a row has width numbers. */
static const uint32_t *
row_at(const uint32_t *table, size_t rows, size_t width, uint32_t cp)
{
	size_t low = 0, high = rows;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (table[middle * width] <= cp)
			low = middle;
		else
			high = middle;
	}
	return table[low * width] <= cp ? table + low * width : NULL;
}

/* In {first, last, value} rows: the row, or NULL. */
static const uint32_t *
range_of(const uint32_t (*table)[3], size_t rows, uint32_t cp)
{
	const uint32_t *row = row_at(*table, rows, 3, cp);

	return row && cp <= row[1] ? row : NULL;
}

/* In {composite, first, second} rows: the row, or NULL. */
static const uint32_t *
pair_of(const uint32_t (*table)[3], size_t rows, uint32_t cp)
{
	const uint32_t *row = row_at(*table, rows, 3, cp);

	return row && *row == cp ? row : NULL;
}

unsigned
unicode_mark_class(uint32_t cp)
{
	const uint32_t *row = range_of(forms_class, COUNT(forms_class), cp);

	return row ? row[2] : 0;
}

/* Pairs decompose from the left part on: the second part of a pair is never a pair itself. */
int
unicode_decompose(uint32_t cp, bool compat, uint32_t out[FORMS_PARTS])
{
	uint32_t index = cp - SYLLABLE, second[FORMS_PARTS];
	int seconds = 0, count = 0;
	const uint32_t *row;

	if (index < SYLLABLES) {
		out[0] = LEAD + index / (VOWELS * TAILS);
		out[1] = VOWEL + index / TAILS % VOWELS;
		out[2] = TAIL + index % TAILS;
		return out[2] == TAIL ? 2 : 3; /* the first of the tails is none */
	}
	if (compat && (row = range_of(compat_single, COUNT(compat_single), cp))) {
		*out = row[2] + (cp - row[0]);
		return 1;
	}
	if (compat && (row = row_at(*compat_longer, COUNT(compat_longer), 2, cp)) && *row == cp) {
		memcpy(out, compat_parts + row[1], (row[3] - row[1]) * sizeof *out);
		return (int)(row[3] - row[1]);
	}
	while ((row = pair_of(forms_joined, COUNT(forms_joined), cp)) ||
	    (row = pair_of(forms_parted, COUNT(forms_parted), cp))) {
		second[seconds++] = row[2];
		cp = row[1];
	}
	row = range_of(forms_single, COUNT(forms_single), cp);
	out[count++] = row ? row[2] + (cp - row[0]) : cp;
	while (seconds > 0)
		out[count++] = second[--seconds];
	return count;
}

/* A binary search in the order of the parts. */
uint32_t
unicode_compose(uint32_t a, uint32_t b)
{
	size_t low = 0, high = COUNT(forms_by_parts);
	const uint32_t *row;

	if (a - LEAD < LEADS && b - VOWEL < VOWELS)
		return SYLLABLE + ((a - LEAD) * VOWELS + (b - VOWEL)) * TAILS;
	if (a - SYLLABLE < SYLLABLES && (a - SYLLABLE) % TAILS == 0 && b - TAIL - 1 < TAILS - 1)
		return a + (b - TAIL);
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		row = forms_joined[forms_by_parts[middle]];
		if (row[1] < a || (row[1] == a && row[2] <= b))
			low = middle;
		else
			high = middle;
	}
	row = forms_joined[forms_by_parts[low]];
	return row[1] == a && row[2] == b ? row[0] : 0;
}

static void
set_bits(unsigned char *bits, uint32_t first, uint32_t last)
{
	for (uint32_t cp = first; cp <= last; cp++)
		bits[cp / 8] |= (unsigned char)(1 << cp % 8);
}

void
unicode_mark_special(unsigned char bits[FORMS_CODE_POINTS / 8])
{
	static const struct {
		const uint32_t (*row)[3];
		size_t rows;
		bool range;
	} tables[] = { { forms_joined, COUNT(forms_joined), false },
		{ forms_parted, COUNT(forms_parted), false },
		{ forms_single, COUNT(forms_single), true },
		{ forms_class, COUNT(forms_class), true },
		{ compat_single, COUNT(compat_single), true } };

	for (size_t t = 0; t < COUNT(tables); t++)
		for (size_t i = 0; i < tables[t].rows; i++)
			set_bits(bits, tables[t].row[i][0], tables[t].row[i][tables[t].range]);
	for (size_t i = 0; i + 1 < COUNT(compat_longer); i++)
		set_bits(bits, compat_longer[i][0], compat_longer[i][0]);
	set_bits(bits, SYLLABLE, SYLLABLE + SYLLABLES - 1);
}
