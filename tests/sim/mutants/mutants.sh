#!/bin/sh
# mutants.sh [NAME...] - each mistake of mutants/ must be found within SEEDS seeds
#
# A mutant names a function and an expression in it, wherever they are; one that changes nothing, or
# does not compile, fails. A case, arguments of sim, is what finds it at once: cases.sh runs them
# all without a mistake. The Makefile sets B, COMPILE, LINK, LIBS, OBJECTS (the simulator's) and
# PRODUCT.
# Prints the seed that finds each, and the median and the highest.
set -u
: "${SEEDS:=10000}" "${JOBS:=2}"
here=tests/sim
work=$B/mutants
mkdir -p "$work"

# field NAME FILE
field()
{
	sed -n "s/^$1: //p" "$2"
}

# mutate FILE FUNCTION: the file with the expression of $from replaced by $to, once in the function
mutate()
{
	from=$from to=$to awk -v f="$2" '
		index($0, f "(") == 1 { inside = 1 }
		inside && !done && (at = index($0, ENVIRON["from"])) {
			$0 = substr($0, 1, at - 1) ENVIRON["to"] \
				substr($0, at + length(ENVIRON["from"]))
			done = 1
		}
		/^}/ { inside = 0 }
		{ print }
		END { exit !done }' "$1"
}

# build MUTANT: makes $work/sim
build()
{
	function=$(field function "$1") from=$(field from "$1") to=$(field to "$1")
	file=
	for f in bin/*.c lib/*/*.c train/*.c train/*/*.c tok/*.c shard/*.c ckpt/*.c export/*.c; do
		grep -qE "^$function\(" "$f" || continue
		if mutate "$f" "$function" >"$work/mutant.c"; then
			file=$f
			break
		fi
	done
	[ -n "$file" ] || { echo "no function $function holds: $from"; return 1; }
	# shellcheck disable=SC2086
	mkdir -p "$work/$(dirname "$file")" &&
		$COMPILE -c -o "$work/$file.o" "$work/mutant.c" || return 1
	changed=
	for o in $PRODUCT; do
		[ "$o" != "$B/$file.o" ] || o=$work/$file.o
		changed="$changed $o"
	done
	# shellcheck disable=SC2086
	sh "$here/bundle/bundle.sh" "$work/product.o" $changed &&
		$LINK -o "$work/sim" $OBJECTS "$work/product.o" "$B/libmikoshi.a" $LIBS
}

missed=0
: >"$work/found"
for m in "$here"/mutants/*.txt; do
	name=$(basename "$m" .txt)
	case " $* " in '  ' | *" $name "*) ;; *) continue ;; esac
	if ! build "$m" >"$work/log" 2>&1; then
		cat "$work/log"
		echo "$name: was not made"
		missed=$((missed + 1))
		continue
	fi
	# shellcheck disable=SC2046
	if [ -n "$(field case "$m")" ] && "$work/sim" $(field case "$m") >"$work/log" 2>&1; then
		echo "$name: its case does not find it: $(field case "$m")"
		missed=$((missed + 1))
	fi
	"$work/sim" --seeds "1:$SEEDS" --jobs "$JOBS" --stop >"$work/log" 2>&1
	seed=$(sed -n 's/^FAILED --seed \([0-9]*\):.*/\1/p' "$work/log" | head -n 1)
	# a mistake that an undisturbed run shows is found before the first seed
	! grep -q 'sim: the undisturbed run' "$work/log" || seed=0
	if [ -n "$seed" ]; then
		echo "$seed" >>"$work/found"
		echo "$name: seed $seed: $(sed -n 's/^FAILED --seed [0-9]*: //p' "$work/log" |
			head -n 1 | cut -c 1-150)"
	else
		tail -n 1 "$work/log"
		echo "$name: not found in $SEEDS seeds: $(field text "$m")"
		missed=$((missed + 1))
	fi
done
sort -n "$work/found" | awk -v missed="$missed" '
	{ seed[NR] = $1 }
	END {
		printf "%d found, %d not", NR, missed
		if (NR)
			printf ": median %d seeds, at most %d", seed[int((NR + 1) / 2)], seed[NR]
		print ""
	}'
[ "$missed" = 0 ]
