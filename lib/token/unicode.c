/*
 * unicode.c - the classes of code points
 *
 * The table is part of the tree: ids must not depend on the Unicode version of the machine's
 * libraries.
 */
#include "lib/token/unicode.h"
#include "lib/token/unicode_table.h"

#include <string.h>

enum { NUM_ROWS = sizeof unicode_table / sizeof *unicode_table };

/* A row of alternating case begins with a capital. */
static enum unicode_class
class_in_row(size_t row, uint32_t cp)
{
	if (unicode_table[row].class != CLASS_TURNS)
		return (enum unicode_class)unicode_table[row].class;
	return (cp - unicode_table[row].first) % 2 ? CLASS_LOWER : CLASS_UPPER;
}

/* A binary search over the rows. */
enum unicode_class
unicode_class(uint32_t cp)
{
	size_t low = 0, high = NUM_ROWS;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (unicode_table[middle].first <= cp)
			low = middle;
		else
			high = middle;
	}
	return cp >= unicode_table[low].first && cp <= unicode_table[low].last
	    ? class_in_row(low, cp)
	    : CLASS_OTHER;
}

/* Takes a fraction of a millisecond; a class is one load afterwards. */
void
unicode_spread(unsigned char table[UNICODE_CODE_POINTS])
{
	for (size_t i = 0; i < NUM_ROWS; i++) {
		uint32_t first = unicode_table[i].first, last = unicode_table[i].last;

		if (unicode_table[i].class != CLASS_TURNS) {
			memset(table + first, (int)unicode_table[i].class, last - first + 1);
			continue;
		}
		for (uint32_t cp = first; cp <= last; cp++)
			table[cp] = (unsigned char)class_in_row(i, cp);
	}
}
