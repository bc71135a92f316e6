#!/bin/sh
# others.sh DIRECTORY COMMIT [NAME] - what a component took in another project: of its commit in a
# checkout, the files that were there before and were edited, the lines added to them and removed,
# and the files and lines that are its own
#
# A merge is compared with its first parent, another commit with its parent. Prints the columns of
# the table of extend.sh, a header first: name, edited files, lines, own files, lines. Documents and
# tests count apart from both, since a toy of tests/extend has its tests elsewhere; their number is
# the last column. Beside our table:
#   others.sh llama.cpp $(git -C llama.cpp log --format=%H --grep '(#27000)' -1) architecture
#   others.sh Megatron-LM $(git -C Megatron-LM log --format=%H --grep '#2259' -1) 'layer type'
#   others.sh ggml d962a305 'operation on the CPU'
set -u
[ $# -ge 2 ] || { echo 'others.sh DIRECTORY COMMIT [NAME]' >&2; exit 2; }
git -C "$1" rev-parse -q --verify "$2^1" >/dev/null ||
	{ echo "others.sh: $1: no commit '$2' with a parent" >&2; exit 1; }
printf 'name\tedited files\tlines\town files\tlines\tdocuments and tests\n'
git -C "$1" diff --raw --numstat --no-renames --abbrev=40 "$2^1" "$2" |
	awk -F '\t' -v name="${3:-$2}" '
		/^:/ { split($1, word, " "); how[$2] = word[5]; next }
		NF < 3 { next }
		$3 ~ /(^|\/)(docs?|tests?|examples|golden)\// { apart++; next }
		$3 ~ /\.(md|rst|txt|1)$/ { apart++; next }
		{ lines = ($1 == "-" ? 0 : $1 + $2) }
		how[$3] == "A" { own_files++; own += lines; next }
		{ files++; edited += lines }
		END {
			printf "%s\t%d\t%d\t", name, files, edited
			printf "%d\t%d\t%d\n", own_files, own, apart
		}'
