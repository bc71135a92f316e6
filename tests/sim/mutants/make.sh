#!/bin/sh
# make.sh [NAME...] - builds a simulator with each mistake of mutants/, in $B/mutants/made
#
# One that changes nothing, or does not compile, fails. The Makefile sets B, COMPILE, LINK, LIBS,
# OBJECTS (the simulator's) and PRODUCT. mutants.sh needs nothing but the directory.
set -u
here=tests/sim
work=$B/mutants
made=$work/made
mkdir -p "$made"
# shellcheck source=tests/tools/mutants
. tests/tools/mutants

# build MUTANT: makes $made/$name.sim
build()
{
	place "$1" "$work/mutant.c" || return 1
	# shellcheck disable=SC2086
	mkdir -p "$work/$(dirname "$file")" &&
		$COMPILE -w -c -o "$work/$file.o" "$work/mutant.c" || return 1
	changed=
	for o in $PRODUCT; do
		[ "$o" != "$B/$file.o" ] || o=$work/$file.o
		changed="$changed $o"
	done
	# shellcheck disable=SC2086
	sh "$here/bundle/bundle.sh" "$work/product.o" $changed &&
		$LINK -o "$work/sim" $OBJECTS "$work/product.o" "$B/libmikoshi.a" $LIBS &&
		strip -o "$made/$name.sim" "$work/sim" && cp "$1" "$made"
}

failed=0
for m in "$here"/mutants/*.txt; do
	name=$(basename "$m" .txt)
	case " $* " in '  ' | *" $name "*) ;; *) continue ;; esac
	build "$m" >"$work/log" 2>&1 || {
		cat "$work/log"
		echo "$name: was not made"
		failed=1
	}
done
exit $failed
