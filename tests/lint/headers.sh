#!/bin/sh
# headers.sh - every header compiles alone as C17; those that C++ or CUDA sources include also as
# C++17
#
# A declaration follows it, since a unit of nothing but a header's macros would be empty.
#
# Headers of train/cuda and train/nccl are checked by the CUDA build, which is the only one that has
# their includes, and those of a block of tests/extend with their line, by make test-extend.
set -u
cd "${TOP:-.}" || exit 1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
flags="-I. -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -fsyntax-only"
mpi=$(mpicc --showme:compile 2>/dev/null | tr ' ' '\n' | sed -n 's/^-I/-isystem /p' | tr '\n' ' ')

find lib tok shard plan ckpt export train tests -name '*.h' \
	! -path 'train/cuda/*' ! -path 'train/nccl/*' ! -path 'tests/extend/*/block/*' 2>/dev/null |
	sort >"$out/all"
find lib tok train \( -name '*.cc' -o -name '*.cu' \) \
	-exec sed -n 's/^#include "\(.*\)"/\1/p' {} + 2>/dev/null |
	grep -v '^train/\(cuda\|nccl\)/' | sort -u >"$out/shared"

# compile LANGUAGE STANDARD <HEADERS: prints the first error of each header that does not compile
compile()
{
	while read -r header; do
		# shellcheck disable=SC2086 # lists of words
		printf '#include "%s"\nextern int unit;\n' "$header" |
			${CC:-cc} $flags $mpi -x "$1" -std="$2" - >"$out/log" 2>&1 ||
			echo "$header: as $2: $(grep -m 1 'error' "$out/log")"
	done
}

compile c c17 <"$out/all" >"$out/found"
compile c++ c++17 <"$out/shared" >>"$out/found"
cat "$out/found"
[ ! -s "$out/found" ]
