#!/bin/sh
# width.sh - no line above 100 columns, no blanks at its end, no blank before a tab in the
# indentation
#
# Wider may be: the Makefile and bats files, which quote whole commands and messages; option lists
# of man pages, which the tools print; tables that scripts print; tables and code blocks of
# documents.
set -u
cd "${TOP:-.}" || exit 1
export LC_ALL=C.UTF-8
tab=$(printf '\t')

# prose FILE: its lines, those that may be wider left empty
prose()
{
	case $1 in
	Makefile | *.bats | *.bash | *_table.h) ;;
	*.md) awk '/^```/ { code = !code } { print code || /^\|/ ? "" : $0 }' "$1" ;;
	*.[157]) awk '/begin options/ { list = 1 } /end options/ { list = 0 }
		{ print list ? "" : $0 }' "$1" ;;
	*) cat "$1" ;;
	esac
}

files="Makefile README.md $(echo docs/*.md) install.sh .ci/run tests/parity/common
	$(echo tests/bench/*.py)
	$(find bin lib tok shard plan ckpt export train tests examples man recipes -type f \
	\( -name '*.[ch157]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' \
	-o -name '*.awk' -o -name '*.bats' -o -name '*.bash' \) | sort)"
# shellcheck disable=SC2086 # lists of words
found=$(
	for file in $files; do
		prose "$file" | expand -t 8 | grep -nE '^.{101,}' |
			sed "s|^\([0-9]*\):.*|$file:\1: above 100 columns|"
	done
	grep -nE "[ $tab]+\$" $files | sed 's/\(:[0-9]*\):.*/\1: blanks at the end/'
	grep -nE "^$tab* +$tab" $files | sed 's/\(:[0-9]*\):.*/\1: blank before a tab/'
)
[ -z "$found" ] || { echo "$found"; exit 1; }
