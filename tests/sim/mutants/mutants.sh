#!/bin/sh
# mutants.sh DIR [NAME...] - finds each mistake of which make.sh has built a simulator in DIR
#
# SEEDS seeds must do, JOBS at once.
#
# A case, arguments of sim, is what finds it at once: cases.sh runs them all without a mistake.
# Where a mistake needs several faults in one order, so that seeds find it by tens of thousands, the
# file says "found: case", and no seeds are simulated. Prints the seed that finds each, and the
# median and the highest.
set -u
: "${SEEDS:=10000}" "${JOBS:=2}"
dir=$1
shift
log=$(mktemp)
trap 'rm -f "$log" "$log.found"' EXIT
# shellcheck source=tests/tools/mutants
. tests/tools/mutants

missed=0 cases=0
: >"$log.found"
for m in "$dir"/*.txt; do
	name=$(basename "$m" .txt)
	case " $* " in '  ' | *" $name "*) ;; *) continue ;; esac
	sim=$dir/$name.sim
	# shellcheck disable=SC2046
	if [ -n "$(field case "$m")" ] && "$sim" $(field case "$m") >"$log" 2>&1; then
		echo "$name: its case does not find it: $(field case "$m")"
		missed=$((missed + 1))
	fi
	if [ "$(field found "$m")" = case ] && [ -n "$(field case "$m")" ]; then
		cases=$((cases + 1))
		continue
	fi
	"$sim" --seeds "1:$SEEDS" --jobs "$JOBS" --stop >"$log" 2>&1
	seed=$(sed -n 's/^FAILED --seed \([0-9]*\):.*/\1/p' "$log" | head -n 1)
	# a mistake that an undisturbed run shows is found before the first seed
	! grep -q 'sim: the undisturbed run' "$log" || seed=0
	if [ -n "$seed" ]; then
		echo "$seed" >>"$log.found"
		echo "$name: seed $seed: $(sed -n 's/^FAILED --seed [0-9]*: //p' "$log" |
			head -n 1 | cut -c 1-150)"
	else
		tail -n 1 "$log"
		echo "$name: not found in $SEEDS seeds: $(field text "$m")"
		missed=$((missed + 1))
	fi
done
sort -n "$log.found" | awk -v missed="$missed" -v cases="$cases" '
	{ seed[NR] = $1 }
	END {
		printf "%d found, %d by their cases alone, %d not", NR, cases, missed
		if (NR)
			printf ": median %d seeds, at most %d", seed[int((NR + 1) / 2)], seed[NR]
		print ""
	}'
[ "$missed" = 0 ]
