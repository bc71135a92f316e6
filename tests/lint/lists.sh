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

# headers LIST DIR: each header of a directory but call.h has its line
headers()
{
	for file in "$2"/*.h; do
		[ "$file" = "$2/call.h" ] || grep -q "^#include \"$file\"" "$1" ||
			echo "$file: has no line in $1"
	done
}

# cases: each header of operations has a file of cases
cases()
{
	for header in train/op/*.h; do
		name=$(basename "$header" .h)
		[ "$name" = call ] || [ -e "tests/op/$name.c" ] ||
			echo "$header: has no tests/op/$name.c"
	done
}

# entries DIR ROOM PREFIX ENTRY: each operation or call that a header names by ENTRY has its
# function in a room
entries()
{
	grep -HnoE "^$4\([a-z0-9_]+" "$1"/*.h | sed -E 's/^([^:]*:[0-9]+):.*\(/\1 /' |
		while read -r where name; do
			grep -rqE "^$3$name\)?\(" "$2" ||
				echo "$where: '$name' has no function $3$name in $2"
		done
}

# used FILE...: what a file with a list of what it uses calls is in the list
used()
{
	for file in "$@"; do
		grep -q '^static const enum use uses' "$file" || continue
		grep -noE 'ops->[a-z0-9_]+\(' "$file" | sed -E 's/^([0-9]+):ops->(.*)\(/\1 \2/' |
			while read -r line name; do
				grep -qE "(OP|CALL)_$name\b" "$file" ||
					echo "$file:$line: '$name' is not in its list of uses"
			done
	done
}

found=$(
	lines lib/model/lr_list.h lib/model/lr
	files lib/model/lr_list.h lib/model/lr
	lines lib/model/family_list.h lib/model/family
	files lib/model/family_list.h lib/model/family rows
	kinds lib/model/optim_list.h train/optim optim_kind optim_
	kinds lib/model/block/list.h lib/model/block block_kind block_
	kinds lib/model/block/list.h train/layers layer_kind layer_
	headers train/ops_list.h train/op
	headers train/comm_list.h train/call
	entries train/op train/cpu 'cpu_name\(' 'OPERATION(_CPU)?'
	entries train/op train/cuda cuda_ OPERATION
	entries train/call train/mpi mpi_ 'CALL(_MPI)?'
	entries train/call train/nccl nccl_ CALL
	cases
	used train/optim/*.c train/layers/*.c
)
[ -z "$found" ] && exit 0
echo "$found"
exit 1
