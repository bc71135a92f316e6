#!/bin/sh
# dead.sh - every function and table that an object exports, and every entry of a table of
# functions, is used elsewhere
#
# Exported names come from the objects of the build, tests apart. A name is alive when another
# object needs it, when sources that this build may leave out (CUDA, NCCL) name it, or when its own
# file calls it and so do tests. What its own file alone calls is to be static; what tests alone
# call is to be theirs.
set -u
cd "${TOP:-.}" || exit 1
: "${B:=build}"
export LC_ALL=C
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
comments='s|/\*.*\*/||; /^[ ]*\/\*/,/\*\//d'

# names DIRECTORY...: every word of the sources below, comments apart
names()
{
	find "$@" \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) \
		-exec sed "$comments" {} + |
		grep -oE '[a-z_][a-z0-9_]+' | sort -u
}

# symbols OPTION...: what nm says of every object
symbols()
{
	find "$B" -path "$B/tests" -prune -o -name '*.o' -exec nm -A "$@" {} +
}

# entries HEADER...: the names of their entries, each after its place
entries()
{
	grep -HnE '^(OPERATION|CALL)(_CPU|_MPI)?\([a-z_0-9]+, [a-z_0-9]+\)' "$@" |
		sed -E 's/^([^:]*:[0-9]+):[A-Z_]+\(([a-z_0-9]+),.*/\1 \2/'
}

# unused NAME OBJECT: which no other object needs; its own file names it once more than defining
# does when it calls it
unused()
{
	source=$(echo "${2#"$B"/}" | sed -E 's/\.f(32|64)$//')
	[ -e "$source" ] || return
	if [ "$(sed "$comments" "$source" | grep -cw "$1")" -lt 2 ]; then
		echo "$source: $1: nobody calls it, tests apart"
	elif ! grep -qx "$1" "$tmp/tests"; then
		echo "$source: $1: its own file alone calls it: static"
	fi
}

for main in bin/*.c; do
	[ -e "$B/$main.o" ] ||
		{ echo "$B/$main.o: is not there: make builds what this reads"; exit 1; }
done
symbols -g --defined-only | sed -nE 's|^(.*)\.o:[0-9a-f]* [TDBR] ([a-z_][a-z0-9_]*)$|\2 \1|p' |
	sort >"$tmp/exported"
{ symbols -u | sed -nE 's/^.* U //p'; names train/cuda train/nccl; echo main
	entries train/call/*.h | sed 's/.* /mpi_/'; } |
	sort -u >"$tmp/needed"
names tests >"$tmp/tests"
{
	join -v 1 "$tmp/exported" "$tmp/needed" | while read -r name object; do
		unused "$name" "$object"
	done
	# Members that are pointers to functions stand one tab in, or are entries of a list.
	{
		grep -rnE --include='*.h' '^	[a-z].*\(\*(const )?[a-z_0-9]+\)\(' \
			bin lib tok shard plan ckpt export train |
			sed -E 's/^([^:]*:[0-9]+):.*\(\*(const )?([a-z_0-9]+)\)\(.*/\1 \3/'
		entries train/op/*.h train/call/*.h
	} |
		while read -r where name; do
			grep -rqE "(->|\.)$name\(" bin lib tok shard plan ckpt export train ||
				echo "$where: $name: nobody calls it, tests apart"
		done
} >"$tmp/found"
cat "$tmp/found"
[ ! -s "$tmp/found" ]
