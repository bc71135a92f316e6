#!/bin/sh
# sanitize.sh - the operations of the GPU under compute-sanitizer: memcheck and racecheck, without a
# finding
#
# The cases of each file of tests/op are a run of their own; four go side by side.
# Left out are an allocation that a test wants refused (no error of an API call counts), and of
# racecheck what is not ours: cuDNN's kernels by name, whose barriers of the copy engine it does not
# know, and the groups of GEMMs, where it breaks off with an error of its own in cuBLASLt's
# kernels.
#
# B is the build directory. Without a GPU, or without the sanitizer, it says so and succeeds.
set -eu
: "${B:=build}"
PATH=$PATH:/usr/local/cuda/bin
if ! command -v compute-sanitizer >/dev/null; then
	echo "no compute-sanitizer: nothing is checked"
	exit 0
fi
if ! nvidia-smi >/dev/null 2>&1; then
	echo "no GPU: nothing is checked"
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# check TOOL PROGRAM GROUP: one group under one tool; its line goes to the output, and the report
# too where it failed
check()
{
	rc=0 name=$(basename "$2").$3
	began=$(date +%s)
	options=
	[ "$1" = memcheck ] || options="--kernel-name-exclude kns=cudnn"
	# shellcheck disable=SC2086
	compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 1 $options \
		"$B/tests/$2" "$3" >"$dir/$1.$name" 2>&1 || rc=$?
	summary=$(grep -o 'SUMMARY: .*' "$dir/$1.$name" || echo broken off)
	echo "$1 $name: $summary, $(($(date +%s) - began)) s"
	[ "$rc" = 0 ] || { tail -n 40 "$dir/$1.$name"; : >"$dir/failed"; }
}

# checks: of the lines TOOL PROGRAM GROUP that come in, one after another
checks()
{
	while read -r tool program group; do
		check "$tool" "$program" "$group"
	done
}

# both PROGRAM GROUP...: jobs of both tools
both()
{
	program=$1
	shift
	for group in "$@"; do
		echo "racecheck $program $group"
		echo "memcheck $program $group"
	done
}

{
	for name in act attention dropout embedding experts loss norm optim quantise rope route \
		vector; do
		both op/$name cuda
	done
	echo "memcheck op/gemm cuda"
	echo "memcheck op/gemm8 cuda"
	echo "memcheck op/grouped cuda"
	echo "memcheck gpu/device all"
	for tool in memcheck racecheck synccheck; do
		echo "$tool gpu/attention 8"
	done
} >"$dir/jobs"
for lane in 0 1 2 3; do
	awk -v lane="$lane" 'NR % 4 == lane' "$dir/jobs" | checks &
done
wait
[ ! -e "$dir/failed" ]
