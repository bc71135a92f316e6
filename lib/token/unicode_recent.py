#!/usr/bin/env python3
"""unicode_recent.py - print unicode_recent_table.h: general categories and scripts that came after Unicode 14.0

Patterns without a scanner go through PCRE2, whose releases since 10.40 have Unicode 14.0 or later; the reference,
tokenizers 0.23.3 (PyPI), has 16.0. Run by Python 3.11, whose own tables are those of 14.0, beside PCRE2 10.40 to
10.42, whose scripts are.
"""
import ctypes
import unicodedata

import tokenizers
from unicode_table import members

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()


def rows():
    """[first, last, category, the one before] of code points whose category was another, in increasing order."""
    now = {c: name for name in CATEGORIES for c in members(r"\p{%s}" % name)}
    out = []
    for c in sorted(now):
        was = unicodedata.category(chr(c))
        if was == now[c]:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2:] == [now[c], was]:
            out[-1][1] = c
        else:
            out.append([c, c, now[c], was])
    return out


# The scripts of Unicode 14.0 that came to have more since, with their short names.
SCRIPTS = {
    "Arabic": "Arab", "Balinese": "Bali", "Common": "Zyyy", "Cyrillic": "Cyrl", "Devanagari": "Deva",
    "Egyptian_Hieroglyphs": "Egyp", "Han": "Hani", "Hiragana": "Hira", "Kannada": "Knda", "Katakana": "Kana",
    "Khitan_Small_Script": "Kits", "Khojki": "Khoj", "Lao": "Laoo", "Latin": "Latn", "Myanmar": "Mymr"}


def script_members(name):
    """The code points of a script to PCRE2, which is given them all in one text."""
    lib = ctypes.CDLL("libpcre2-8.so.0")
    for f in (lib.pcre2_compile_8, lib.pcre2_match_data_create_8, lib.pcre2_get_ovector_pointer_8):
        f.restype = ctypes.c_void_p
    pattern, number, at = (r"\p{sc:%s}+" % name).encode(), ctypes.c_int(), ctypes.c_size_t()
    utf = 0x80000
    code = ctypes.c_void_p(lib.pcre2_compile_8(
        pattern, ctypes.c_size_t(len(pattern)), utf, ctypes.byref(number), ctypes.byref(at), None))
    assert code, name
    data = ctypes.c_void_p(lib.pcre2_match_data_create_8(1, None))
    ovector = ctypes.cast(lib.pcre2_get_ovector_pointer_8(data), ctypes.POINTER(ctypes.c_size_t))
    text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000).encode()
    out, start = set(), 0
    while lib.pcre2_match_8(code, text, ctypes.c_size_t(len(text)), ctypes.c_size_t(start), 0, data, None) > 0:
        out.update(map(ord, text[ovector[0]:ovector[1]].decode()))
        start = ovector[1]
    return out


def script_rows():
    """[first, last, name, short name] of code points that a script got; none lost any."""
    out = []
    for name, short in SCRIPTS.items():
        now, was = members(r"\p{%s}" % name), script_members(name)
        assert was < now, name
        for c in sorted(now - was):
            row = [c, c, name.replace("_", "").lower(), short.lower()]
            if out and out[-1][1] == c - 1 and out[-1][2:] == row[2:]:
                out[-1][1] = c
            else:
                out.append(row)
    return out


print("""/* clang-format off */
/*
 * unicode_recent_table.h - general categories and scripts that Unicode 15.0 to 16.0 assigned or changed
 *
 * Printed by unicode_recent.py from the answers of tokenizers 0.23.3; do not edit. Rows are {first, last, category,
 * the one of 14.0} in increasing order, and for scripts {first, last, name, short name}.
 */
#ifndef TOKEN_UNICODE_RECENT_TABLE_H
#define TOKEN_UNICODE_RECENT_TABLE_H

#include <stdint.h>

static const struct {
	uint32_t first, last;
	char category[3], before[3];
} unicode_recent[] = {""")
cells = ['{0x%x, 0x%x, "%s", "%s"},' % tuple(r) for r in rows()]
for i in range(0, len(cells), 3):
    print("\t" + " ".join(cells[i:i + 3]))
print("""};

static const struct {
	uint32_t first, last;
	char name[24], alias[5];
} unicode_recent_scripts[] = {""")
cells = ['{0x%x, 0x%x, "%s", "%s"},' % tuple(r) for r in script_rows()]
for i in range(0, len(cells), 2):
    print("\t" + " ".join(cells[i:i + 2]))
print("""};

enum {
	UNICODE_RECENT = sizeof unicode_recent / sizeof *unicode_recent,
	UNICODE_RECENT_SCRIPTS = sizeof unicode_recent_scripts / sizeof *unicode_recent_scripts
};

#endif""")
