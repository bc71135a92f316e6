#!/bin/sh
# declares.sh - a header of train/ or lib/model declares what its own unit defines: X.h what X.c and
# X_*.c beside it define, by the symbols of the objects in B
#
# impl.h and X_impl.h are a directory's own. The contracts of train/ are implemented elsewhere,
# among them that of a GPU with its communicators, and so are the lists of operations and calls.
set -u
cd "${TOP:-.}" || exit 1
contracts='train/(backend|comm|ops|uses|cuda/device)\.h|impl\.h|/op/|/call/'
objects=$(find train lib/model -name '*.c' | sed "s|.*|$B/&.o|" | while read -r object; do
	[ ! -e "$object" ] || echo "$object"
done)
[ -n "$objects" ] || { echo "no objects in $B: nothing is checked"; exit 0; }
# shellcheck disable=SC2086
found=$({
	nm -A --defined-only $objects | sed -n "s|^$B/\(.*\)\.c\.o:.* T \(.*\)|define \1 \2|p"
	find train lib/model -name '*.h' | sort | grep -vE "$contracts" | while read -r header; do
		awk -v header="$header" '
			{ gsub(/\/\*.*\*\//, "") }
			/^[ \t]*\/\*/ { inside = 1 }
			inside { if (/\*\//) inside = 0; next }
			/^[a-z]/ && !/^(static|extern|typedef)/ && match($0, /[a-z_0-9]+\(/) {
				print "declare", header, substr($0, RSTART, RLENGTH - 1)
			}' "$header"
	done
} | awk '
	$1 == "define" { unit[$3] = $2; next }
	$3 in unit {
		stem = $2
		sub(/\.h$/, "", stem)
		if (unit[$3] != stem && index(unit[$3], stem "_") != 1)
			print $2 ": " $3 " is defined in " unit[$3] ".c"
	}')
[ -z "$found" ] || { echo "$found"; exit 1; }
