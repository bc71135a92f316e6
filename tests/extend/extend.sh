#!/bin/sh
# extend.sh - what a stranger's component takes: toys of every kind are added to a copy of the tree,
# built once, and run; edits of files that were there are counted against budget.tsv
#
# tests/extend/KIND/ holds a toy: its own files by their paths in the tree, `lines` with the lines
# that it adds to others (the file, the line after which, or "- " and the line in whose place, the
# lines; an empty line ends them), and run.sh (see the file toy). An operation has a use where
# others call it: such lines, in `calls`, are added to the copy that is built and count for nothing.
# A toy whose file `needs` names others uses theirs. tests/extend/mistakes/KIND/ holds what a
# stranger may get wrong: files of its own, `lines` of one file, and `expect` with what is built,
# the command that is run then, each or `-`, and the message by which one of them must fail; they
# come after the toys.
#
# A number of files or lines above the budget fails, and so does one below it: the budget falls with
# it. B is the build directory, whose objects the copy starts from, without those of a GPU; the own
# .cu of toys are compiled where B has CUDA. ONLY=PATTERN takes the toys and mistakes whose name
# matches. Prints the table, a line for each of them, and "N passed, N failed".
here=$(cd "$(dirname "$0")" && pwd)
TOP=$(cd "$here/../.." && pwd)
B=$(cd "$B" && pwd) || exit 1
export TOP B BEFORE="$B"
# shellcheck source=tests/extend/environment
. "$here/environment"
# shellcheck source=tests/parity/common
. "$TOP/tests/parity/common"

# kinds: the toys that are taken
kinds()
{
	for run in "$here"/*/run.sh; do
		kind=$(basename "$(dirname "$run")")
		case $kind in *${ONLY:-}*) echo "$kind" ;; esac
	done
}

# mistakes: those that are taken
mistakes()
{
	for expect in "$here"/mistakes/*/expect; do
		kind=$(basename "$(dirname "$expect")")
		case mistakes/$kind in *${ONLY:-}*) echo "mistakes/$kind" ;; esac
	done
}

# taken: the toys, and those that they and mistakes need
taken()
{
	kinds | cat - "$tmp/needed" | sort -u
}

# own KIND: the paths of its own files
own()
{
	(cd "$here/$1" && find . -type f ! -path ./lines ! -path ./calls ! -path ./needs \
		! -path ./expect ! -path ./run.sh | sed 's|^\./||' | sort)
}

# add KIND TREE: a toy's files and lines
add()
{
	own "$1" | while read -r file; do
		[ ! -e "$2/$file" ] || fail "$1: $file is in the tree already"
		mkdir -p "$2/$(dirname "$file")"
		cp "$here/$1/$file" "$2/$file"
	done
	[ ! -e "$here/$1/lines" ] || insert "$1" lines "$2"
}

# insert KIND LINES TREE: its lines, each run of them after the only line that is as said, or in its
# place where that is preceded by "- "
insert()
{
	rm -rf runs
	mkdir runs
	awk -v RS= '{ print >sprintf("runs/%02d", NR) }' "$here/$1/$2"
	for run in runs/*; do
		file=$3/$(head -n 1 "$run")
		awk -v run="$run" '
			BEGIN {
				getline <run
				getline after <run
				instead = sub(/^- /, "", after)
				while ((getline line <run) > 0)
					text = text line "\n"
			}
			!(instead && $0 == after) { print }
			$0 == after {
				printf "%s", text
				found++
			}
			END { exit found != 1 }' "$file" >inserted ||
			fail "$1: $file: not one line is: $(sed -n 2p "$run")"
		cp inserted "$file"
	done
}

# sources TREE: of the repository, without what is built
sources()
{
	mkdir "$1"
	(cd "$TOP" && cp -pR Makefile VERSION bin ckpt export lib plan shard tok train "$tmp/$1")
}

# edits KIND: how many files of the tree it changes, and how many lines
edits()
{
	sources changed
	add "$1" changed
	(cd "$TOP" && for part in Makefile VERSION bin ckpt export lib plan shard tok train; do
		diff -r "$part" "$tmp/changed/$part" || true
	done) | grep -v '^Only in .*changed' | awk '
		/^diff / || /^Only in / { files++ }
		/^[<>]/ { lines++ }
		END { printf "%d\t%d\n", files, lines }'
	rm -r changed
}

# counts: the table; fails where it is not the budget
counts()
{
	printf 'kind\tfiles\tlines\tbudget: files\tlines\town files\tlines\n'
	for kind in $(kinds); do
		(cd "$here/$kind" && own "$kind" | xargs -r cat) >text
		edited=$(edits "$kind") || { echo "$edited" >&2 && exit 1; }
		printf '%s\t%s\t%s\t%s\t%s\n' "$kind" "$edited" \
			"$(awk -F '\t' -v kind="$kind" '$1 == kind { print $2 "\t" $3 }' \
				"$here/budget.tsv")" "$(own "$kind" | wc -l)" "$(wc -l <text)"
	done
}

# passes WHAT COMMAND...: a line for one test, with its output where it fails
passes()
{
	what=$1 start=$(date +%s) word=ok
	shift
	if "$@" >out 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1)) word=FAIL
	fi
	printf '  %-4s  %s (%ss)\n' "$word" "$what" $(($(date +%s) - start))
	[ $word = ok ] || sed 's/^/        /' out
}

# within_budget: of the table
within_budget()
{
	awk -F '\t' 'NR > 1 && ($2 != $4 || $3 != $5) {
		bad = 1
		printf "%s: %d files and %d lines, the budget is %d and %d\n", $1, $2, $3, $4, $5
	} END { exit bad }' counts.tsv
}

# built: the copy with all toys, on the CPU; without its own path in what is compiled, so that a
# cache of the compiler finds it again
built()
{
	# shellcheck disable=SC2046
	set -- $(programs)
	rm -f "tree/$build/train/backends.c.o"
	make -C tree -o "$build/flags" -o "$build/version" B="$build" CUDA=0 sanflags= \
		-j"$(nproc)" \
		"$build/mtrain" "$build/mckpt" "$build/mexport" "$build/mplan" \
		"$build/tests/recorded/mtrain" "$@"
}

# programs: the toys' own tests, as targets
programs()
{
	for kind in $(taken); do
		own "$kind" | sed -n "s|^\(tests/.*\)\.c\$|$build/\1|p"
	done
}

# built_cuda: the toys' own .cu
built_cuda()
{
	# shellcheck disable=SC2046
	set -- $(for kind in $(taken); do own "$kind" | grep '\.cu$'; done)
	# shellcheck disable=SC2046
	[ $# = 0 ] || make -C tree -o "$build/flags" -o "$build/version" B="$build" CUDA=1 \
		CUDA_ARCH=90a $(printf "$build/%s.o " "$@")
}

# mistaken KIND: a mistake is refused by the message that it should be; the tree is as it was then
mistaken()
{
	edited=$(sed -n 1p "$here/$1/lines" 2>/dev/null) || edited=
	[ -z "$edited" ] || cp "tree/$edited" right
	add "$1" tree
	made=0 target=$(sed -n 1p "$here/$1/expect") command=$(sed -n 2p "$here/$1/expect")
	[ "$target" = - ] || make -C tree -o "$build/flags" -o "$build/version" B="$build" CUDA=0 \
		sanflags= -j"$(nproc)" "$build/$target" >said 2>&1 || made=$?
	if [ "$command" != - ] && [ "$made" = 0 ]; then
		(cd tree && BUILD=$build sh -c "$command") >said 2>&1 || made=$?
	fi
	[ -z "$edited" ] || cp right "tree/$edited"
	own "$1" | (cd tree && xargs -r rm -f)
	cat said
	[ "$made" != 0 ] && grep -q -e "$(sed -n 3p "$here/$1/expect")" said
}

for kind in $(kinds) $(mistakes); do
	[ ! -e "$here/$kind/needs" ] || cat "$here/$kind/needs"
done >needed
passed=0 failed=0 build=$(basename "$B")
counts >counts.tsv
column -t -s "$(printf '\t')" counts.tsv
passes "edited files and lines are the budget" within_budget
copy_tree
for part in plan shard tok; do
	[ ! -e "$B/$part" ] || cp -pR "$B/$part" "tree/$build"
done
mkdir -p tree/tests "tree/$build/tests"
cp -pR "$TOP/tests/recorded" "$TOP/tests/check.h" "$TOP/tests/gpu.h" "$TOP/tests/sized_model.h" \
	tree/tests
mkdir tree/tests/unit tree/tests/lint tree/tests/op
cp -p "$TOP"/tests/op/* tree/tests/op
cp -p "$TOP/tests/unit/lists.c" tree/tests/unit
cp -p "$TOP/tests/lint/lists.sh" "$TOP/tests/lint/args.sh" tree/tests/lint
[ ! -e "$B/tests/recorded" ] || cp -pR "$B/tests/recorded" "tree/$build/tests"
for kind in $(taken); do
	add "$kind" tree
	[ ! -e "$here/$kind/calls" ] || insert "$kind" calls tree
done
passes "all toys built in one copy of the tree" built
[ "$(sed -n 's/.*cuda=//p' "$B/flags")" != 1 ] || passes "the toys' CUDA compiled" built_cuda
export B="$tmp/tree/$build" PATH="$tmp/tree/$build:$PATH"
for kind in $(kinds); do
	passes "$kind" sh "$here/$kind/run.sh"
done
for mistake in $(mistakes); do
	passes "$mistake" mistaken "$mistake"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
