#!/usr/bin/env python3
"""unicode_table.py - print unicode_table.h: the classes of code points that pre-tokenizers tell apart

Asked of the reference, tokenizers 0.23.3 (PyPI), whose Oniguruma has Unicode 16.0: letters (Lu and Lt, Ll, Lm and Lo),
marks (M*), numbers (N*), and white space. Neighbouring code points of one class become one row; so does a stretch of
capital, small, capital, small... as the Latin and Cyrillic extensions have it.
"""
import tokenizers
from tokenizers import Regex, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
VERSION = "16.0.0"
CLASSES = [("SPACE", r"\s"), ("UPPER", r"[\p{Lu}\p{Lt}]"), ("LOWER", r"\p{Ll}"), ("LETTER", r"[\p{Lm}\p{Lo}]"),
           ("MARK", r"\p{M}"), ("NUMBER", r"\p{N}")]
BLOCK = 1024
HEAD = """/* clang-format off */
/*
 * unicode_table.h - classes of code points, Unicode %s
 *
 * Printed by unicode_table.py from the answers of tokenizers 0.23.3; do not edit.
 * Rows are {first, last, class} in increasing order; what no row covers is of class other. In a row of class TURNS
 * the first code point is a capital, the next a small letter, and so on by turns.
 */
#ifndef TOKEN_UNICODE_TABLE_H
#define TOKEN_UNICODE_TABLE_H

#include "lib/token/unicode_class.h"

#define UNICODE_TABLE_VERSION "%s"

enum { CLASS_TURNS = UNICODE_CLASSES };

static const struct {
	unsigned first : 24, class : 8, last;
} unicode_table[] = {"""


def members(pattern):
    """The code points that the pattern removes from a text of all of them."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    out = set()
    for start in range(0, 0x110000, BLOCK):
        points = [c for c in range(start, start + BLOCK) if not 0xD800 <= c < 0xE000]
        left = {ord(c) for piece, _ in split.pre_tokenize_str("".join(map(chr, points))) for c in piece}
        out.update(c for c in points if c not in left)
    return out


def rows():
    """[first, last, class] in increasing order; class TURNS: a capital, a small letter, and so on."""
    of = {c: name for name, pattern in CLASSES for c in members(pattern)}
    out = []
    for c in sorted(of):
        name = of[c]
        last = out[-1] if out and out[-1][1] == c - 1 else None
        turn = last and name == ("LOWER" if (c - last[0]) % 2 else "UPPER")
        if last and (last[2] == name or (last[2] == "TURNS" and turn)):
            last[1] = c
        elif last and last[0] == last[1] and last[2] == "UPPER" and name == "LOWER":
            last[1], last[2] = c, "TURNS"
        else:
            out.append([c, c, name])
    return out


def main():
    print(HEAD % (VERSION, VERSION))
    cells = ["{0x%04x, CLASS_%s, 0x%04x}," % (first, name, last) for first, last, name in rows()]
    for i in range(0, len(cells), 3):
        print("\t" + " ".join(cells[i:i + 3]))
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
