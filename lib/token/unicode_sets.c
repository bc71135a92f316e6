/*
 * unicode_sets.c - sets of code points as huggingface/tokenizers has them
 *
 * Its components use tables of different Unicode versions, so these are sets and not classes.
 */
#include "lib/token/unicode_sets.h"
#include "lib/token/unicode_sets_table.h"

#include <stddef.h>

/* clang-format off */
#define ROWS(table) { table, sizeof table / sizeof *table }
/* clang-format on */

static const struct {
	const struct unicode_range *row;
	size_t rows;
} sets[UNICODE_SETS] = {
	[UNICODE_NUMERIC] = ROWS(unicode_numeric),
	[UNICODE_PUNCTUATION] = ROWS(unicode_punctuation),
	[UNICODE_WORD] = ROWS(unicode_word),
	[UNICODE_ACCENT] = ROWS(unicode_accent),
	[UNICODE_WHITE] = ROWS(unicode_white),
};

/* A binary search over the rows. */
bool
unicode_in(enum unicode_set set, uint32_t cp)
{
	const struct unicode_range *row = sets[set].row;
	size_t low = 0, high = sets[set].rows;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (row[middle].first <= cp)
			low = middle;
		else
			high = middle;
	}
	return cp >= row[low].first && cp <= row[low].last;
}

/* Row by row. */
void
unicode_set_points(enum unicode_set set, struct points *out)
{
	for (size_t i = 0; i < sets[set].rows; i++)
		points_add(out, sets[set].row[i].first, sets[set].row[i].last);
	points_order(out);
}

/* The same search over the rows of capitals. */
uint32_t
unicode_lower(uint32_t cp)
{
	const struct unicode_lower_row *row = unicode_lower_rows;
	size_t low = 0, high = sizeof unicode_lower_rows / sizeof *unicode_lower_rows;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (row[middle].first <= cp)
			low = middle;
		else
			high = middle;
	}
	row += low;
	if (cp < row->first || cp > row->last || (cp - row->first) % (uint32_t)row->step)
		return cp;
	return (uint32_t)((int64_t)cp + row->distance);
}
