#!/usr/bin/env python3
"""unicode_recent.py - print unicode_recent_table.h: general categories that came after Unicode 14.0

Patterns without a scanner go through PCRE2, whose releases since 10.40 have Unicode 14.0 or later; the reference,
tokenizers 0.23.3 (PyPI), has 16.0. Run by Python 3.11, whose own tables are those of 14.0.
"""
import unicodedata

import tokenizers
from unicode_table import members

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()


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


print("""/* clang-format off */
/*
 * unicode_recent_table.h - general categories that Unicode 15.0 to 16.0 assigned or changed
 *
 * Printed by unicode_recent.py from the answers of tokenizers 0.23.3; do not edit. Rows are {first, last, category,
 * the one of 14.0} in increasing order.
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

#endif""")
