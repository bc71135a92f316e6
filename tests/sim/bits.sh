#!/bin/sh
# bits.sh - an undisturbed run in the simulator leaves the checkpoints that mpirun's ranks leave
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# compare LAYOUT RANKS OPTIONS...
compare()
{
	layout=$1 ranks=$2
	shift 2
	"$B/sim" --seed 1 --plain --layout "$layout" --export "$dir/$layout" >"$dir/out" ||
		{ cat "$dir/out" && exit 1; }
	mkdir "$dir/real"
	cp "$dir/$layout/run/tiny.conf" "$dir/real"
	(cd "$dir/real" && mpirun -np "$ranks" "$B/mtrain" --config tiny.conf --mock-data \
		--eval-iters 0 --save-interval 2 --train-iters 6 "$@" >out 2>&1) ||
		{ cat "$dir/real/out" && exit 1; }
	diff -r "$dir/real/s" "$dir/$layout/run/s"
	rm -rf "$dir/real"
}

compare data 4
compare pipeline 2 --pipeline-model-parallel-size 2
