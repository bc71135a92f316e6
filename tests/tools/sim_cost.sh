#!/bin/sh
# sim_cost.sh [COMMIT] - what the simulator costs the programs: instructions with and without it
#
# Builds the programs of the commit that brought the simulator, or of COMMIT, and of the one before
# it, and counts the instructions of a small run of mtrain and of an encode of mtok in both. Exit
# status 1 when one has grown by more than 0.5 %. A count holds all threads, and the watchdog's
# varies with the time, so the least of RUNS counts.
set -eu
: "${RUNS:=3}"
commit=${1:-$(git log --diff-filter=A --format=%h -- tests/sim/world.h | tail -n 1)}
dir=$(mktemp -d)
trap 'rm -rf "$dir" && git worktree prune' EXIT

# programs COMMIT NAME
programs()
{
	git worktree add --quiet --detach "$dir/$2" "$1"
	[ ! -e config.mk ] || cp config.mk "$dir/$2"
	make -s -j2 -C "$dir/$2" CUDA=0 build/mtrain build/mtok >"$dir/log" 2>&1 ||
		{ cat "$dir/log" && exit 1; }
}

# count PROGRAM ARGUMENTS...: instructions
count()
{
	for _ in $(seq "$RUNS"); do
		rm -rf "$dir/run" && mkdir "$dir/run"
		(cd "$dir/run" && valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" \
			>"$dir/out" 2>"$dir/log") || { cat "$dir/log" >&2 && exit 1; }
		sed -n 's/.*Collected : //p' "$dir/log"
	done | sort -n | head -n 1
}

# compare WHAT PROGRAM ARGUMENTS...
compare()
{
	what=$1 program=$2
	shift 2
	before=$(count "$dir/before/build/$program" "$@")
	after=$(count "$dir/after/build/$program" "$@")
	awk -v what="$what" -v a="$before" -v b="$after" 'BEGIN {
		printf "%s: %.0f instructions before, %.0f after: %+.4f %%\n", what, a, b,
			(b / a - 1) * 100
		exit b > a * 1.005
	}'
}

programs "$commit^" before
programs "$commit" after
for tool in mtrain mtok; do
	for x in before after; do
		objcopy -O binary --only-section=.text "$dir/$x/build/$tool" "$dir/$x.text"
	done
	if cmp -s "$dir/before.text" "$dir/after.text"; then
		echo "$tool: both programs have the same code"
	else
		echo "$tool: the code of the programs differs"
	fi
done
awk 'BEGIN { for (i = 0; i < 2000; i++) {
	printf "{\"text\": \""
	for (k = 0; k < 5 + i * 7 % 31; k++)
		printf "%s%d", k ? " " : "", i * k % 58
	print "\"}"
} }' >"$dir/text.jsonl"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
rc=0
compare "mtok encode of 2,000 documents" mtok encode -q --tokenizer-type NullTokenizer \
	--vocab-size 59 --append-eod --workers 1 -o ids "$dir/text.jsonl" || rc=1
compare "mtrain of 20 steps and a save" mtrain -q --num-layers 2 --hidden-size 32 \
	--num-attention-heads 2 --vocab-size 64 --seq-length 32 --global-batch-size 4 --lr 1e-3 \
	--train-iters 20 --eval-iters 0 --num-threads 1 --mock-data --save C || rc=1
exit $rc
