#!/bin/sh
# options.sh [--check] - write each tool's option lists into its page, between the lines 'begin
# options' and 'end options'
#
# The lists come from the option tables (TOOL --mdoc). With --check nothing is written: pages that
# would change are named, exit status 1. B is the build directory.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${B:=build}"
new=$(mktemp -d) || exit 1
trap 'rm -rf "$new"' EXIT
status=0

for page in man/*.1; do
	tool=$(basename "$page" .1)
	if ! "$B/$tool" --mdoc >"$new/list"; then
		echo "$page: $B/$tool --mdoc failed"
		status=1
		continue
	fi
	awk -v list="$new/list" '
		!inside { print }
		/^\.\\" begin options/ { inside = 1; while ((getline line <list) > 0) print line }
		/^\.\\" end options/ { print; inside = 0; seen = 1 }
		END { exit !seen || inside }
	' "$page" >"$new/page" || {
		echo "$page: the lines 'begin options' and 'end options' are missing"
		status=1
		continue
	}
	cmp -s "$new/page" "$page" && continue
	if [ "${1:-}" = --check ]; then
		echo "$page: the option lists differ from $tool --mdoc: run make man"
		status=1
	else
		cat "$new/page" >"$page"
	fi
done
exit $status
