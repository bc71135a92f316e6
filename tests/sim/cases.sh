#!/bin/sh
# cases.sh - what finds a mistake of mutants/ at once ends as it should without it
#
# Most are defects that the simulator has found: make sim-mutants tells whether the calls are still
# those that showed them.
set -u
failed=0
for m in tests/sim/mutants/*.txt; do
	case=$(sed -n 's/^case: //p' "$m")
	[ -n "$case" ] || continue
	# shellcheck disable=SC2086
	out=$("$B/sim" $case 2>&1) || {
		echo "$case: $(sed -n 's/^text: //p' "$m")"
		echo "$out" | grep FAILED
		failed=1
	}
done
exit $failed
