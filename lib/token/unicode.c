/*
 * unicode.c - the classes and properties of code points
 *
 * The table is part of the tree: ids must not depend on the Unicode version of the machine's
 * libraries.
 */
#include "lib/token/unicode.h"
#include "lib/token/unicode_table.h"

#include <string.h>

enum { NUM_ROWS = sizeof unicode_table / sizeof *unicode_table };

/* clang-format off */
#define SCRIPT(name) { #name, unicode_##name, sizeof unicode_##name / sizeof *unicode_##name }
/* clang-format on */

static const struct {
	const char *name;
	const struct unicode_script_row *row;
	size_t rows;
} scripts[] = { SCRIPT(arabic), SCRIPT(cyrillic), SCRIPT(devanagari), SCRIPT(greek), SCRIPT(han),
	SCRIPT(hangul), SCRIPT(hebrew), SCRIPT(hiragana), SCRIPT(katakana), SCRIPT(latin),
	SCRIPT(thai) };

/* By category; control characters that are white space are an exception. */
static const unsigned char class_of[CATEGORIES] = {
	[LU] = CLASS_UPPER,
	[LT] = CLASS_UPPER,
	[LL] = CLASS_LOWER,
	[LM] = CLASS_LETTER,
	[LO] = CLASS_LETTER,
	[MN] = CLASS_MARK,
	[MC] = CLASS_MARK,
	[ME] = CLASS_MARK,
	[ND] = CLASS_NUMBER,
	[NL] = CLASS_NUMBER,
	[NO] = CLASS_NUMBER,
	[ZS] = CLASS_SPACE,
	[ZL] = CLASS_SPACE,
	[ZP] = CLASS_SPACE,
};

/* True for the control characters that are white space. */
static bool
is_white_control(uint32_t cp)
{
	return (cp >= 0x9 && cp <= 0xd) || cp == 0x85;
}

/* A row of alternating case begins with a capital. */
static enum unicode_class
class_in_row(size_t row, uint32_t cp)
{
	unsigned category = unicode_table[row].category;

	if (category == CC && is_white_control(cp))
		return CLASS_SPACE;
	if (category != TURNS)
		return (enum unicode_class)class_of[category];
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

/* White_Space is the separators and a few control characters. */
void
unicode_white(struct points *out)
{
	unicode_property("z", out);
	points_add(out, 0x9, 0xd);
	points_add(out, 0x85, 0x85);
	points_order(out);
}

/* True when a category, such as Lu, has the name in small letters, or begins with it. */
static bool
named(size_t category, const char *name)
{
	const char *c = unicode_category_name[category];

	return name[0] == (c[0] | 0x20) && (!name[1] || (name[1] == c[1] && !name[2]));
}

/* Adds the rows of the categories of that name. */
static bool
add_category(const char *name, struct points *out)
{
	bool wanted[CATEGORIES], any = false;

	for (size_t c = 0; c < CATEGORIES; c++) {
		wanted[c] = named(c, name);
		any |= wanted[c];
	}
	for (size_t i = 0; any && i < NUM_ROWS; i++) {
		uint32_t first = unicode_table[i].first, last = unicode_table[i].last;

		if (unicode_table[i].category != TURNS) {
			if (wanted[unicode_table[i].category])
				points_add(out, first, last);
			continue;
		}
		for (uint32_t cp = first; cp <= last; cp++)
			if (wanted[(cp - first) % 2 ? LL : LU])
				points_add(out, cp, cp);
	}
	points_order(out);
	return any;
}

/* A category that takes in unassigned code points, "c" or "cn", is not in the table. */
bool
unicode_property(const char *name, struct points *out)
{
	if (!strcmp(name, "c"))
		return false;
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
		if (strcmp(scripts[i].name, name))
			continue;
		for (size_t k = 0; k < scripts[i].rows; k++)
			points_add(out, scripts[i].row[k].first, scripts[i].row[k].last);
		points_order(out);
		return true;
	}
	return *name && add_category(name, out);
}

int
unicode_hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0'
	    : c >= 'a' && c <= 'f'  ? c - 'a' + 10
	    : c >= 'A' && c <= 'F'  ? c - 'A' + 10
				    : -1;
}
