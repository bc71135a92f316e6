#!/bin/sh
# make.sh [--places] [NAME...] - builds a simulator with each mistake of mutants/, in
# $B/mutants/made
#
# A mutant names a function and an expression in it, wherever they are; one that changes nothing, or
# does not compile, fails. --places builds nothing, and looks for the expressions alone. The
# Makefile sets B, COMPILE, LINK, LIBS, OBJECTS (the simulator's) and PRODUCT. mutants.sh needs
# nothing but the directory.
set -u
here=tests/sim
work=$B/mutants
made=$work/made
mkdir -p "$made"

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

# place MUTANT: $file is where its expression is, and $work/mutant.c the changed file
place()
{
	function=$(field function "$1") from=$(field from "$1") to=$(field to "$1")
	file=
	grep -lE "^$function\(" bin/*.c lib/*/*.c train/*.c train/*/*.c tok/*.c shard/*.c ckpt/*.c \
		export/*.c >"$work/files"
	while read -r f; do
		if mutate "$f" "$function" >"$work/mutant.c"; then
			file=$f
			break
		fi
	done <"$work/files"
	[ -n "$file" ] || { echo "no function $function holds: $from"; return 1; }
}

# build MUTANT: makes $work/sim
build()
{
	place "$1" || return 1
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

# make MUTANT: builds it into $made, or looks for its place
make()
{
	if [ -n "$places" ]; then
		place "$1"
	else
		build "$1" && strip -o "$made/$name.sim" "$work/sim" && cp "$1" "$made"
	fi
}

places=
[ "${1:-}" != --places ] || { places=yes; shift; }
failed=0
for m in "$here"/mutants/*.txt; do
	name=$(basename "$m" .txt)
	case " $* " in '  ' | *" $name "*) ;; *) continue ;; esac
	make "$m" >"$work/log" 2>&1 || {
		cat "$work/log"
		echo "$name: was not made"
		failed=1
	}
done
exit $failed
