#!/usr/bin/env python3
"""unicode_forms.py DIRECTORY - write unicode_forms_table.h and unicode_compat_table.h: the normal forms of Unicode

Asked of the reference, tokenizers 0.23.3 (PyPI), whose crate unicode-normalization-alignments has tables of its own:
what NFD and NFKD make of each code point, which of those NFC joins again, and by which classes NFD orders marks. Hangul
is arithmetic and in no table.
"""
import os
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__

HANGUL = range(0xAC00, 0xD7A4)
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c not in HANGUL]
NFC, NFD, NFKD = normalizers.NFC(), normalizers.NFD(), normalizers.NFKD()
LIMIT = 0x30000


def form(f, *points):
    return tuple(map(ord, f.normalize_str("".join(map(chr, points)))))


def is_mark(c):
    """Does it stand in the way of none of two marks, the first and the last of the order?"""
    return form(NFD, c) == (c,) and form(NFD, 0x61, 0x345, c, 0x334) != (0x61, 0x345, c, 0x334)


def classes():
    """Classes by code point. Python's tables give a mark of each class: the scale that the reference orders all by."""
    marks = [c for c in POINTS if is_mark(c)]
    scale = {}
    for c in marks:
        if unicodedata.combining(chr(c)):
            scale.setdefault(unicodedata.combining(chr(c)), c)
    order = sorted(scale)
    for low, high in zip(order, order[1:]):
        assert form(NFD, 0x61, scale[high], scale[low]) == (0x61, scale[low], scale[high])
    out = {}
    for c in marks:
        # how many classes of the scale are below, and how many are not above
        below = sum(form(NFD, 0x61, c, scale[k]) != (0x61, c, scale[k]) for k in order)
        upto = sum(form(NFD, 0x61, scale[k], c) == (0x61, scale[k], c) for k in order)
        assert upto == below + 1, hex(c)
        out[c] = order[below]
    return out


def pairs(canonical):
    """[composite, first, second, joined]: one step of decomposition."""
    out = []
    whole = {d: c for c, d in canonical.items() if len(d) > 1}
    for c, d in canonical.items():
        if len(d) == 1:
            continue
        first = form(NFC, *d[:-1])
        joined = form(NFC, *d) == (c,)
        # what NFC does not join has a code point all the same
        assert len(first) == 1 or not joined, hex(c)
        out.append((c, first[0] if len(first) == 1 else whole[d[:-1]], d[-1], joined))
    return out


def runs(single):
    """[first, last, to] of neighbours that become neighbours."""
    out = []
    for c, to in single:
        if out and out[-1][1] == c - 1 and out[-1][2] + c - out[-1][0] == to:
            out[-1][1] = c
        else:
            out.append([c, c, to])
    return out


def ranges(of):
    out = []
    for c in sorted(of):
        if out and out[-1][1] == c - 1 and out[-1][2] == of[c]:
            out[-1][1] = c
        else:
            out.append([c, c, of[c]])
    return out


def rows(out, text, head, cells):
    out.write("/* " + text + " */\n" + head + " = {\n")
    line = "\t"
    for cell in cells:
        if len(line) + len(cell) > 92:
            out.write(line.rstrip() + "\n")
            line = "\t"
        line += cell
    out.write(line.rstrip() + "\n};\n\n")


def begin(out, name, text):
    guard = "TOKEN_" + name.upper().replace(".", "_")
    out.write("""/* clang-format off */
/*
 * %s - %s, as tokenizers 0.23.3 has them
 *
 * Printed by unicode_forms.py from the answers of the reference; do not edit. Rows are in increasing order.
 */
#ifndef %s
#define %s

#include <stdint.h>

""" % (name, text, guard, guard))


def write_forms(path, canonical):
    with open(path, "w") as out:
        begin(out, os.path.basename(path), "canonical decompositions and the classes of marks")
        joins = pairs(canonical)
        singles = runs([(c, d[0]) for c, d in canonical.items() if len(d) == 1])
        rows(out, "Composite, first part, second part; NFC joins the parts again",
             "static const uint32_t forms_joined[][3]",
             ["{0x%x,0x%x,0x%x}," % (c, a, b) for c, a, b, joined in joins if joined])
        by_parts = sorted((a, b, i) for i, (_, a, b, _) in enumerate(j for j in joins if j[3]))
        rows(out, "The places of these rows by first part, then by second", "static const uint16_t forms_by_parts[]",
             ["%d," % i for _, _, i in by_parts])
        rows(out, "Composite, first part, second part; NFC does not join them", "static const uint32_t forms_parted[][3]",
             ["{0x%x,0x%x,0x%x}," % (c, a, b) for c, a, b, joined in joins if not joined])
        rows(out, "First, last, what the first becomes", "static const uint32_t forms_single[][3]",
             ["{0x%x,0x%x,0x%x}," % tuple(r) for r in singles])
        rows(out, "First, last, class", "static const uint32_t forms_class[][3]",
             ["{0x%x,0x%x,%d}," % tuple(r) for r in ranges(classes())])
        out.write("#endif\n")


def write_compat(path, compat):
    with open(path, "w") as out:
        begin(out, os.path.basename(path), "compatibility decompositions")
        singles = runs([(c, d[0]) for c, d in compat.items() if len(d) == 1])
        longer = [(c, d) for c, d in compat.items() if len(d) > 1]
        rows(out, "First, last, what the first becomes", "static const uint32_t compat_single[][3]",
             ["{0x%x,0x%x,0x%x}," % tuple(r) for r in singles])
        at, cells = 0, []
        for c, d in longer:
            cells.append("{0x%x,%d}," % (c, at))
            at += len(d)
        cells.append("{0x110000,%d}," % at)
        rows(out, "Code point, where its parts begin; they end where those of the next row begin",
             "static const uint32_t compat_longer[][2]", cells)
        rows(out, "The parts", "static const uint32_t compat_parts[]", ["0x%x," % p for _, d in longer for p in d])
        out.write("#endif\n")


def main(directory):
    canonical = {c: form(NFD, c) for c in POINTS if form(NFD, c) != (c,)}
    compat = {c: form(NFKD, c) for c in POINTS if form(NFKD, c) != form(NFD, c)}
    assert max(*canonical, *compat) < LIMIT
    write_forms(os.path.join(directory, "unicode_forms_table.h"), canonical)
    write_compat(os.path.join(directory, "unicode_compat_table.h"), compat)


main(sys.argv[1])
