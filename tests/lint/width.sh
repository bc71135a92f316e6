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

# wide: prints FILE:LINE of each line above 100 columns; characters of UTF-8 are one, by their first
# byte, and tabs go to the next multiple of 8
# shellcheck disable=SC2016 # a program of awk
wide='
	FNR == 1 {
		code = list = 0
		free = FILENAME ~ /(^Makefile|\.bats|\.bash|_table\.h)$/
		document = FILENAME ~ /\.md$/
		page = FILENAME ~ /\.[157]$/
	}
	document && /^```/ { code = !code }
	page && /begin options/ { list = 1 }
	page && /end options/ { list = 0 }
	free || code || list || (document && /^\|/) { next }
	length($0) * 8 > 100 {
		gsub(/[\200-\277]/, "")
		columns = 0
		parts = split($0, part, "\t")
		for (i = 1; i < parts; i++)
			columns += length(part[i]) + 8 - (columns + length(part[i])) % 8
		if (columns + length(part[parts]) > 100)
			print FILENAME ":" FNR ": above 100 columns"
	}'

files="Makefile README.md $(echo docs/*.md) install.sh .ci/run tests/parity/common
	$(echo tests/bench/*.py)
	$(find bin lib tok shard plan ckpt export train tests examples man packaging recipes \
	-type f \( -name '*.[ch157]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \
	-o -name '*.sh' -o -name '*.awk' -o -name '*.bats' -o -name '*.bash' \) | sort)"
# shellcheck disable=SC2086 # lists of words
found=$(
	LC_ALL=C awk "$wide" $files
	grep -nE "[ $tab]+\$" $files | sed 's/\(:[0-9]*\):.*/\1: blanks at the end/'
	grep -nE "^$tab* +$tab" $files | sed 's/\(:[0-9]*\):.*/\1: blank before a tab/'
)
[ -z "$found" ] || { echo "$found"; exit 1; }
