#!/bin/sh
# mutants.sh - each mistake that a test must find is about an expression that the sources have
set -u
cd "${TOP:-.}" || exit 1
# shellcheck source=tests/tools/mutants
. tests/tools/mutants
changed=$(mktemp)
trap 'rm -f "$changed"' EXIT
failed=0
for m in tests/*/mutants/*.txt; do
	place "$m" "$changed" || failed=1
done
exit $failed
