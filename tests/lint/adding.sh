#!/bin/sh
# adding.sh - the table in docs/ADDING.md is that of tests/extend/budget.tsv, where there is one
set -u
cd "${TOP:-.}" || exit 1
budget=tests/extend/budget.tsv
[ -e "$budget" ] || exit 0
want=$(awk -F '\t' '!/^#/ { print "| " $1 " | " $2 " | " $3 " | " $4 " |" }' "$budget")
have=$(awk '/^<!-- end -->/ { inside = 0 } inside && /^\| / && !/^\| toy/
	/^<!-- budget -->/ { inside = 1 }' docs/ADDING.md)
[ "$want" = "$have" ] || {
	echo 'docs/ADDING.md: the table is not that of tests/extend/budget.tsv:'
	echo "$want"
	exit 1
}
