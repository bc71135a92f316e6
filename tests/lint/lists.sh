#!/bin/sh
# lists.sh - a component is its file and its line: no line of a list without its file, no file
# without its line
set -u
cd "${TOP:-.}" || exit 1

# names LIST: "LINE NAME" of each row
names()
{
	grep -nE '^	DO\([a-z0-9_]+' "$1" | sed -E 's/^([0-9]+):	DO\(([a-z0-9_]+).*/\1 \2/'
}

# lines LIST DIR: each name has its file
lines()
{
	names "$1" | while read -r line name; do
		[ -e "$2/$name.c" ] || echo "$1:$line: '$name' has no $2/$name.c"
	done
}

# files LIST DIR [HELPER]: each file but the helper's has its line
files()
{
	for file in "$2"/*.c; do
		name=$(basename "$file" .c)
		[ "$name" = "${3:-}" ] || grep -qE "^	DO\(${name}[,)]" "$1" ||
			echo "$file: has no line DO($name...) in $1"
	done
}

# kinds LIST DIR STRUCT PREFIX: each name has its struct in one file, and each struct its line
kinds()
{
	names "$1" | while read -r line name; do
		grep -qE "^const struct $3 $4$name = " "$2"/*.c ||
			echo "$1:$line: '$name' has no struct $3 $4$name in $2"
	done
	grep -HE "^const struct $3 $4[a-z0-9_]+ = " "$2"/*.c |
		sed -E "s/^([^:]*):const struct $3 $4([a-z0-9_]+) = .*/\1 \2/" |
		while read -r file name; do
			grep -qE "^	DO\(${name}[,)]" "$1" ||
				echo "$file: has no line DO($name...) in $1"
		done
}

found=$(
	lines lib/model/lr_list.h lib/model/lr
	files lib/model/lr_list.h lib/model/lr
	lines lib/model/family_list.h lib/model/family
	files lib/model/family_list.h lib/model/family rows
	kinds lib/model/optim_list.h train/optim optim_kind optim_
)
[ -z "$found" ] && exit 0
echo "$found"
exit 1
