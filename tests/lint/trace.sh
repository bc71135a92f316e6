#!/bin/sh
# trace.sh - each name in the call trace of docs/ARCHITECTURE.md is a function of train/ or
# lib/model, and each ops->NAME an operation
set -u
cd "${TOP:-.}" || exit 1
trace=$(awk '/^## / { inside = /A step$/ } /^```/ { code = !code; next } inside && code' \
	docs/ARCHITECTURE.md)
found=$(
	[ "$(echo "$trace" | wc -l)" -ge 30 ] || echo 'docs/ARCHITECTURE.md: no call trace'
	for name in $(echo "$trace" | awk '{ print $1 }'); do
		grep -rqE --include='*.c' "^$name\\(" train lib/model ||
			echo "docs/ARCHITECTURE.md: no function is named $name"
	done
	for name in $(echo "$trace" | grep -o 'ops->[a-z_]*' | sort -u); do
		grep -rqE "\\(\\*${name#ops->}\\)\\(|^[A-Z_]+\\(${name#ops->}," train ||
			echo "docs/ARCHITECTURE.md: there is no $name"
	done
)
[ -z "$found" ] || { echo "$found"; exit 1; }
