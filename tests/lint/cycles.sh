#!/bin/sh
# cycles.sh - no two units include each other, directly or by way of others
#
# X.c, X.h and X_impl.h, whatever their suffixes, are one unit. Each include from which a chain of
# others leads back to its own unit is printed.
set -u
cd "${TOP:-.}" || exit 1
find bin lib tok shard plan ckpt export train \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' \
	-o -name '*.cuh' \) 2>/dev/null | sort |
	xargs grep -HnE '^[ 	]*#[ 	]*include[ 	]*"' | awk '
function unit(path)
{
	sub(/\.[a-z]*$/, "", path)
	sub(/_impl$/, "", path)
	return path
}

# Marks all that can be reached from the unit `at` as reached from start.
function walk(start, at,    i, to)
{
	for (i = 1; i <= num_out[at]; i++) {
		to = out[at, i]
		if (!((start, to) in reached)) {
			reached[start, to] = 1
			walk(start, to)
		}
	}
}

{
	split($0, part, "\"")
	split(part[1], place, ":")
	from = unit(place[1])
	to = unit(part[2])
	if (from == to || (from, to) in edge)
		next
	edge[from, to] = 1
	out[from, ++num_out[from]] = to
	includer[++num_edges] = from
	included[num_edges] = to
	where[num_edges] = place[1] ":" place[2]
}

END {
	for (i = 1; i <= num_edges; i++) {
		from = includer[i]
		to = included[i]
		if (!(from in walked)) {
			walked[from] = 1
			walk(from, from)
		}
		if (!(to in walked)) {
			walked[to] = 1
			walk(to, to)
		}
		if ((to, from) in reached)
			print where[i] ": " to " leads back to " from
	}
}' | {
	found=$(cat)
	[ -z "$found" ] || { echo "$found"; exit 1; }
}
