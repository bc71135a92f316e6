#!/bin/sh
# unicode_table.sh [DIRECTORY] - print unicode_table.h from UnicodeData.txt (Debian package unicode-data, version 15.0)
#
# Only what the pre-tokenizers ask for: letters (Lu and Lt, Ll, Lm and Lo), marks (M*), numbers (N*), and the property
# White_Space, whose members are taken from PropList.txt. Neighbouring code points of one class become one row; so does a stretch
# of capital, small, capital, small... as the Latin and Cyrillic extensions have it.
set -eu
dir=${1:-/usr/share/unicode}
version=$(sed -n '1s/.*-\([0-9.]*\)\.txt.*/\1/p' "$dir/PropList.txt")
cat <<END
/*
 * unicode_table.h - classes of code points, Unicode $version
 *
 * Printed by unicode_table.sh from UnicodeData.txt and PropList.txt of the Unicode Character Database; do not edit.
 * Rows are {first, last, class} in increasing order; what no row covers is of class other. In a row of class TURNS
 * the first code point is a capital, the next a small letter, and so on by turns.
 */
#ifndef TOKEN_UNICODE_TABLE_H
#define TOKEN_UNICODE_TABLE_H

#include "lib/token/unicode.h"

#define UNICODE_TABLE_VERSION "$version"

enum { CLASS_TURNS = UNICODE_CLASSES };

static const struct {
	unsigned first : 24, class : 8, last;
} unicode_table[] = {
END
awk -F'[;#]' '
function hex(s,    v, i) {
	v = 0
	for (i = 1; i <= length(s); i++)
		v = v * 16 + index("0123456789ABCDEF", substr(s, i, 1)) - 1
	return v
}
FILENAME ~ /PropList/ {
	if ($2 !~ /^ *White_Space *$/)
		next
	gsub(/ /, "", $1)
	n = split($1, r, /\.\./)
	for (c = hex(r[1]); c <= hex(r[n]); c++)
		space[c] = 1
	next
}
function put(first, last, class) {
	if (class == "")
		return
	if (first == l0 + 1 && (class == c0 || c0 == "TURNS" && first == last &&
	    class == ((first - f0) % 2 ? "LOWER" : "UPPER"))) {
		l0 = last
		return
	}
	if (first == l0 + 1 && first == last && f0 == l0 && c0 == "UPPER" && class == "LOWER") {
		c0 = "TURNS"
		l0 = last
		return
	}
	flush()
	f0 = first; l0 = last; c0 = class
}
function flush() {
	if (c0 == "")
		return
	cell = sprintf("{0x%04x, CLASS_%s, 0x%04x},", f0, c0, l0)
	line = line (line == "" ? "\t" : " ") cell
	if (++cells % 3 == 0) {
		print line
		line = ""
	}
}
{
	c = hex($1)
	if ($2 ~ /, First>$/) {
		begin = c
		next
	}
	major = substr($3, 1, 1)
	class = major == "L" ? "LETTER" : major == "M" ? "MARK" : major == "N" ? "NUMBER" : ""
	class = (c in space) ? "SPACE" : $3 == "Lu" || $3 == "Lt" ? "UPPER" : $3 == "Ll" ? "LOWER" : class
	put($2 ~ /, Last>$/ ? begin : c, c, class)
}
END {
	flush()
	if (line != "")
		print line
}' "$dir/PropList.txt" "$dir/UnicodeData.txt"
cat <<END
};

#endif
END
