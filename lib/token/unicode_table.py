#!/usr/bin/env python3
"""unicode_table.py - print unicode_table.h: general categories and some scripts of code points

Asked of the reference, tokenizers 0.23.3 (PyPI), whose Oniguruma has Unicode 16.0. Neighbouring code points of one
category become one row; so does a stretch of capital, small, capital, small... as the Latin and Cyrillic extensions
have it. Takes a minute.
"""
import tokenizers
from tokenizers import Regex, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
VERSION = "16.0.0"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SCRIPTS = "Arabic Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Katakana Latin Thai".split()
BLOCK = 1024
HEAD = """/* clang-format off */
/*
 * unicode_table.h - general categories and scripts of code points, Unicode %s
 *
 * Printed by unicode_table.py from the answers of tokenizers 0.23.3; do not edit.
 * Rows are {first, category, last} in increasing order; what no row covers is unassigned or a surrogate. In a row of
 * category TURNS the first code point is a capital, the next a small letter, and so on by turns. White space is Zs,
 * Zl, Zp, U+0009 to U+000D and U+0085. Rows of scripts are {first, last}.
 */
#ifndef TOKEN_UNICODE_TABLE_H
#define TOKEN_UNICODE_TABLE_H

#include <stdint.h>

#define UNICODE_TABLE_VERSION "%s"

enum { %s, CATEGORIES, TURNS = CATEGORIES };

static const char unicode_category_name[CATEGORIES][3] = { %s };

static const struct {
	unsigned first : 24, category : 8, last;
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
    """[first, last, category] in increasing order; TURNS: a capital, a small letter, and so on."""
    of = {c: name for name in CATEGORIES for c in members(r"\p{%s}" % name)}
    white = {c for c in of if of[c][0] == "Z"} | set(range(9, 14)) | {0x85}
    assert white == members(r"\s")
    out = []
    for c in sorted(of):
        name = of[c]
        last = out[-1] if out and out[-1][1] == c - 1 else None
        turn = last and name == ("Ll" if (c - last[0]) % 2 else "Lu")
        if last and (last[2] == name or (last[2] == "TURNS" and turn)):
            last[1] = c
        elif last and last[0] == last[1] and last[2] == "Lu" and name == "Ll":
            last[1], last[2] = c, "TURNS"
        else:
            out.append([c, c, name])
    return out


def ranges(points):
    """[first, last] in increasing order."""
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def wrap(cells):
    """Prints cells, as many in a line as 100 columns hold."""
    line = ""
    for cell in cells:
        if len(line) + 1 + len(cell) > 92:
            print("\t" + line.strip())
            line = ""
        line += " " + cell
    print("\t" + line.strip())


def main():
    print(HEAD % (VERSION, VERSION, ", ".join(c.upper() for c in CATEGORIES),
                  ",\n\t".join(", ".join('"%s"' % c for c in CATEGORIES[i:i + 14]) for i in (0, 14))))
    wrap(["{0x%x, %s, 0x%x}," % (first, name.upper(), last) for first, last, name in rows()])
    print("};")
    print("\nstruct unicode_script_row {\n\tuint32_t first, last;\n};")
    for name in SCRIPTS:
        print("\nstatic const struct unicode_script_row unicode_%s[] = {" % name.lower())
        wrap(["{0x%x, 0x%x}," % tuple(r) for r in ranges(members(r"\p{%s}" % name))])
        print("};")
    print("\n#endif")


if __name__ == "__main__":
    main()
