#!/bin/sh
# gpu.sh [--profile] [WORKLOAD...] - training speed on one GPU, each workload beside the machine's
# own limits of the same run
#
# One row per workload: tokens/s (median of the last 20 steps, after at least 20 s), TFLOP/s and
# share of 989 (causal attention counted half), the share of the rate of a large GEMM measured in
# the same process, tokens/s of the step's ceiling and the share of it (ceiling.c, run after the
# training), peak memory of the device, seconds from launch to the end of the first step. Rows are
# appended to results.tsv where the tree is a repository, and always printed. --profile also leaves
# NAME.tsv, NAME.json and NAME.ceiling.tsv of each workload in $OUT (or the directory it is started
# in). PEERS=DIR runs PyTorch's step from DIR/torch_train.py after the workloads that it knows.
set -eu
: "${B:=build}" "${OUT:=.}" "${PEERS:=}"
B=$(cd "$B" && pwd)
OUT=$(cd "$OUT" && pwd)
PATH=$B:$PATH
top=$(pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The first that is visible, by number or by UUID.
gpu=${CUDA_VISIBLE_DEVICES:-0}
gpu=${gpu%%,*}
machine=$(nvidia-smi --query-gpu=name --format=csv,noheader -i "$gpu")
commit=$(git -C "$top" rev-parse --short HEAD 2>/dev/null || echo none)
profile=
if [ "${1:-}" = --profile ]; then
	profile=yes
	shift
fi
cd "$tmp"

run="--bf16 --mock-data --lr 1e-4 --clip-grad 1 --eval-iters 0"
# shellcheck source=tests/bench/workloads
. "$top/tests/bench/workloads"

# steps NAME: as many as 20 s and then 20 steps need on an H200
steps()
{
	case $1 in
	gpt2-124m) echo 240 ;;
	gpt2-1.5b | llama-8b-8L) echo 90 ;;
	qwen3-1.7b | gemma2-2b) echo 50 ;;
	*) echo 70 ;;
	esac
}

# peer NAME: arguments of torch_train.py, nothing where it has no such model
peer()
{
	case $1 in
	gpt2-124m) echo gpt2-124m 64 1024 1 ;;
	llama-1b) echo llama-1b 8 4096 1 ;;
	llama-8b-8L) echo llama-8b-8L 4 4096 1 ;;
	esac
}

# last KEY COUNT: median of a metric over the last COUNT steps
last()
{
	tail -n "$2" metrics.jsonl | sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" | sort -g |
		awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# watch_memory: MiB in use on the GPU that one rank takes, once a second, into the file `memory`
watch_memory()
{
	while :; do
		nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i "$gpu"
		sleep 1
	done >memory
}

[ $# -gt 0 ] || set -- gpt2-124m gpt3-1.3b gpt2-1.5b llama-1b llama-8b-8L
printf 'workload\ttokens_per_second\ttflops\tmfu\tshare_of_gemm\tceiling\tshare_of_ceiling\t'
printf 'peak_gib\tplanned_gib\tfirst_step_s\tpeer\n'
for name; do
	shape "$name" >options
	watch_memory &
	watcher=$!
	started=$(date +%s.%N)
	# shellcheck disable=SC2046,SC2086
	mtrain $(cat options) $run --train-iters "$(steps "$name")" --log-interval 1 \
		--metrics-file metrics.jsonl --profile --profile-step-start 10 \
		--profile-step-end 12 >log 2>err || {
		kill "$watcher"
		echo "$name failed: $(tail -n 3 err)"
		continue
	}
	kill "$watcher"
	[ -z "$profile" ] || cp profile.tsv "$OUT/$name.tsv"
	[ -z "$profile" ] || cp profile.json "$OUT/$name.json"
	first=$(sed -n '1s/.*"time": \([0-9.]*\).*/\1/p' metrics.jsonl)
	# shellcheck disable=SC2046,SC2086
	planned=$(mtrain $(cat options) $run --train-iters 1 --dry-run 2>err |
		awk -F '\t' 'NR == 2 { print $10 }')
	gemm=$(sed -n '1s/.*measured: \([0-9.]*\) TFLOP.*/\1/p' profile.tsv)
	"$B/tests/bench/ceiling" "$name" >ceiling.tsv
	[ -z "$profile" ] || cp ceiling.tsv "$OUT/$name.ceiling.tsv"
	ceiling=$(tail -n 1 ceiling.tsv | cut -f 8)
	other=-
	args=$(peer "$name")
	if [ -n "$PEERS" ] && [ -n "$args" ]; then
		# shellcheck disable=SC2086
		other=$(python3 "$PEERS/torch_train.py" $args --cudnn --steps 30 2>peer.err |
			grep PEER | head -n 1) ||
			other=failed
	fi
	tokens=$(last tokens_per_second 20) tflops=$(last tflops_per_rank 20)
	peak=$(sort -n memory | tail -n 1)
	echo "$tokens $tflops $gemm $peak $planned $started $first $ceiling" |
		awk -v name="$name" -v other="$other" '{
			printf "%s\t%.0f\t%.1f\t%.3f\t%.3f\t", name, $1, $2, $2 / 989, $2 / $3
			printf "%.0f\t%.3f\t%.2f\t%.2f\t", $8, $1 / $8, $4 / 1024, $5 / 2 ^ 30
			printf "%.2f\t%s\n", $7 - $6, other }'
	if [ -e "$top/.git" ]; then
		printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$(date +%F)" "$commit" "$machine" \
			"mtrain $name bf16 one GPU, tokens/s; peer: torch.compile" "$tokens" \
			"$other" >>"$top/tests/bench/results.tsv"
	fi
done
