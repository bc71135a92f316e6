#!/bin/sh
# saves.sh - how long an overlapped checkpoint delays a run, over five saves
#
# Llama of 1.2 billion parameters, 8 samples of 4096 tokens, saved every 40 steps (EVERY), which is
# longer than a disk of 1 GB/s takes for one: a save waits for the one before. The time from one
# step's end to the next's, where a save was begun between them, against the median of the steps
# without one; the last save is waited for and does not count. Memory of the device must not grow. B
# is the build directory, WHERE (default: the directory it is started in) takes the checkpoints, 15
# GB at a time.
set -eu
: "${B:=build}" "${WHERE:=.}"
PATH=$(cd "$B" && pwd):$PATH
dir=$(mktemp -d -p "$(cd "$WHERE" && pwd)")
trap 'rm -rf "$dir"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$dir"
every=${EVERY:-40}
gpu=${CUDA_VISIBLE_DEVICES:-0}
gpu=${gpu%%,*}
# Only the latest checkpoint is kept.
while sleep 0.5; do
	latest=$(cat S/latest_checkpointed_iteration.txt 2>/dev/null) || continue
	for old in S/iter_*; do
		[ "$old" = "S/iter_$(printf %07d "$latest")" ] || rm -rf "$old"
	done
	nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i "$gpu" >>memory
done &
cleaner=$!
mtrain --num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 32 \
	--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \
	--position-embedding-type rope --rotary-base 500000 --disable-bias-linear \
	--vocab-size 128256 --seq-length 4096 --micro-batch-size 8 --attention-dropout 0 \
	--hidden-dropout 0 --bf16 --mock-data --lr 1e-4 --eval-iters 0 \
	--train-iters $((6 * every)) --log-interval 1000 --metrics-file m --save S \
	--save-interval "$every" >log 2>&1 || { tail -n 3 log; kill $cleaner; exit 1; }
kill $cleaner
grep 'saved iteration' log
sed -n 's/.*"time": \([0-9.]*\).*/\1/p' m | awk -v every="$every" '
	NR > 1 { t[NR] = $1 - last } { last = $1 }
	END {
		for (i = 4; i <= NR; i++) if ((i - 1) % every) v[++n] = t[i]
		for (i = 1; i <= n; i++)
			for (k = i + 1; k <= n; k++)
				if (v[k] < v[i]) { x = v[i]; v[i] = v[k]; v[k] = x }
		m = v[int((n + 1) / 2)]
		for (i = every + 1; i <= NR; i += every) {
			d = 1000 * (t[i] - m); if (d > worst) worst = d
			printf "after step %d: %.0f ms, %+.0f ms against the median of %.0f ms\n",
				i - 1, 1000 * t[i], d, 1000 * m
		}
		printf "slowest step without a save: %.0f ms\n", 1000 * v[n]
		printf "a save holds the run up by at most %.0f ms (limit 50 ms)\n", worst
		exit !(worst <= 50)
	}'
sort -n memory | sed -n '1p;$p' | tr '\n' ' ' |
	awk '{ print "device memory between", $1, "and", $2, "MiB" }'
