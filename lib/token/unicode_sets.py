#!/usr/bin/env python3
"""unicode_sets.py - print unicode_sets_table.h: sets of code points and small letters as in huggingface/tokenizers

Every component of the reference has tables of its own, of Unicode versions from 8 (punctuation) to 17 (numbers), so
the sets are asked of the reference itself, a code point at a time. Made with tokenizers 0.23.3 (PyPI).
"""
import tokenizers
from tokenizers import normalizers, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def pieces(component):
    """How many pieces 'a', a code point and 'a' are."""
    return lambda c: len(component.pre_tokenize_str("a" + chr(c) + "a"))


digits = pieces(pre_tokenizers.Digits(individual_digits=True))
punctuation = pieces(pre_tokenizers.Punctuation("removed"))
white = pieces(pre_tokenizers.Whitespace())
white_split = pieces(pre_tokenizers.WhitespaceSplit())
accents = normalizers.StripAccents()

SETS = [
    ("NUMERIC", "Digits: Rust's char::is_numeric", lambda c: digits(c) == 3),
    ("PUNCTUATION", "Punctuation: category P of unicode_categories, and ASCII's", lambda c: punctuation(c) == 2),
    ("WORD", "Whitespace: \\w of the crate regex", lambda c: white(c) == 1),
    ("ACCENT", "StripAccents: is_combining_mark of unicode-normalization-alignments",
     lambda c: accents.normalize_str(chr(c)) == ""),
    ("WHITE", "WhitespaceSplit: Rust's char::is_whitespace", lambda c: white_split(c) == 2),
]


def ranges(holds):
    out = []
    for c in POINTS:
        if not holds(c):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, text, holds):
    print("/* " + text + " */")
    print("static const struct unicode_range unicode_%s[] = {" % name.lower())
    cells = ["{0x%x, 0x%x}," % tuple(r) for r in ranges(holds)]
    line = "\t"
    for cell in cells:
        if len(line) + len(cell) > 92:
            print(line.rstrip())
            line = "\t"
        line += cell + " "
    print(line.rstrip())
    print("};\n")


def lower_rows():
    """[first, last, step, distance]: every step-th code point becomes the one at the distance; U+0130 has two."""
    lower = normalizers.Lowercase()
    out = []
    for c in POINTS:
        to = lower.normalize_str(chr(c))
        if to == chr(c) or c == 0x130:
            continue
        distance = ord(to) - c
        row = out[-1] if out and out[-1][3] == distance else None
        if row and row[0] == row[1] and c - row[1] in (1, 2):
            row[1], row[2] = c, c - row[1]
        elif row and row[0] != row[1] and c - row[1] == row[2]:
            row[1] = c
        else:
            out.append([c, c, 1, distance])
    return out


def lower_table():
    print("/* Lowercase: Rust's char::to_lowercase, but for U+0130 */")
    print("static const struct unicode_lower_row unicode_lower_rows[] = {")
    cells = ["{0x%x, 0x%x, %d, %d}," % tuple(r) for r in lower_rows()]
    for i in range(0, len(cells), 3):
        print("\t" + " ".join(cells[i:i + 3]))
    print("};\n")


print("""/* clang-format off */
/*
 * unicode_sets_table.h - sets of code points, as tokenizers 0.23.3 has them
 *
 * Printed by unicode_sets.py from the answers of the reference; do not edit. Rows are {first, last} in
 * increasing order, and for small letters {first, last, step, distance}.
 */
#ifndef TOKEN_UNICODE_SETS_TABLE_H
#define TOKEN_UNICODE_SETS_TABLE_H

#include <stdint.h>

struct unicode_range {
	uint32_t first, last;
};

struct unicode_lower_row {
	uint32_t first, last;
	int step, distance;
};
""")
for row in SETS:
    table(*row)
lower_table()
print("#endif")
