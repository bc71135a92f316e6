#!/bin/sh
# mutants.sh [NAME...] - mistakes in sums and messages between hosts, each of which a test must find
#
# A mutant of this directory names besides the programs that are then built, and the test of parity
# that must fail, which passes without it. It is made in a copy of the tree with the objects of B,
# the build directory, which must be complete: one file is compiled. A line for each; fails where a
# test passes, or an expression is not there.
set -u
: "${B:=build}"
cd "${TOP:-.}" || exit 1
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
{
	git ls-files
	find tests/parity/mutants -type f
	find "$B" -name '*.[oad]' -o -name flags -o -name '*.mk' -o -type d -empty
	find "$B" -maxdepth 1 -type f
} | sort -u | tar -cf - --files-from - | tar -xf - -C "$copy"
[ ! -e config.mk ] || cp -p config.mk "$copy"

# shellcheck source=tests/tools/mutants
. tests/tools/mutants

# passes MUTANT: true when its programs are made and its test passes
passes()
{
	programs=$(field build "$1" | sed "s|[^ ]*|$B/&|g")
	# shellcheck disable=SC2086
	(cd "$copy" && make -s -o "$B/flags" B="$B" $programs) >"$copy/log" 2>&1 ||
		{ echo "$1: its programs cannot be made:"; cat "$copy/log"; exit 1; }
	(cd "$copy" && ONLY=$(field test "$1") sh tests/run.sh parity) >"$copy/log" 2>&1
}

# found MUTANT: true when its test passes without it, and fails with it
found()
{
	place "$1" "$copy/mutant.c" || return 1
	passes "$1" || { echo "without it fails:"; cat "$copy/log"; return 1; }
	# written now, it is newer than the object that the first of these made
	cat "$copy/mutant.c" >"$copy/$file"
	! passes "$1"
}

failed=0
for m in "$PWD"/tests/parity/mutants/*.txt; do
	name=$(basename "$m" .txt)
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	if found "$m"; then
		echo "$name: found: $(field text "$m")"
	else
		echo "$name: NOT FOUND: $(field text "$m")"
		failed=1
	fi
	[ -z "$file" ] || { cp -p "$file" "$copy/$file" && touch "$copy/$file"; }
done
exit $failed
