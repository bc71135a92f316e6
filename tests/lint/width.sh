#!/bin/sh
# width.sh - no line above 130 columns (100 is the aim), no blanks at its end, no blank before a tab in the indentation
#
# Makefile rules and bats files, which quote whole messages, may be wider.
set -u
cd "${TOP:-.}" || exit 1
export LC_ALL=C.UTF-8
tab=$(printf '\t')
found=0

# finding FILE WHAT <LINES: prints "FILE:LINE: WHAT" for each line number
finding()
{
	while IFS=: read -r line _; do
		echo "$1:$line: $2"
		found=1
	done
}

for file in Makefile install.sh .ci/run $(find bin lib tok shard plan ckpt export train tests examples man \
	\( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.sh' -o -name '*.awk' -o -name '*.bats' \) \
	2>/dev/null | sort); do
	case $file in
	Makefile | *.bats) : >"${TMPDIR:-/tmp}/width.$$" ;;
	*) expand -t 8 "$file" | grep -nE '^.{131,}' >"${TMPDIR:-/tmp}/width.$$" ;;
	esac
	finding "$file" 'above 130 columns' <"${TMPDIR:-/tmp}/width.$$"
	grep -nE "[ $tab]+\$" "$file" >"${TMPDIR:-/tmp}/width.$$"
	finding "$file" 'blanks at the end' <"${TMPDIR:-/tmp}/width.$$"
	grep -nE "^$tab* +$tab" "$file" >"${TMPDIR:-/tmp}/width.$$"
	finding "$file" 'blank before a tab' <"${TMPDIR:-/tmp}/width.$$"
done
rm -f "${TMPDIR:-/tmp}/width.$$"
exit $found
