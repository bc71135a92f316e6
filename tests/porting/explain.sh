#!/bin/sh
# explain.sh [-u] - each script of tests/porting/scripts gives the command, the table and the status
# of its .txt file; -u writes these files anew
#
# The words after "# explain:" in a script are those after its name. Prints what differs.
set -u
cd "$(dirname "$0")/scripts" || exit 1
failed=0
for s in *.sh *.yaml; do
	words=$(sed -n 's/^# explain: *//p' "$s")
	expected=${s%.*}.txt
	# shellcheck disable=SC2086 # several words
	found=$(mtrain --explain "$s" $words 2>&1; echo "status $?")
	if [ "${1:-}" = -u ]; then
		printf '%s\n' "$found" >"$expected"
	elif ! printf '%s\n' "$found" | diff "$expected" -; then
		echo "$s differs"
		failed=1
	fi
done
exit "$failed"
