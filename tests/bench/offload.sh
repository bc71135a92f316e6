#!/bin/sh
# offload.sh - what updates by the host cost: the time of a step without them, with a share of 0,
# 0.3 and 1, beside the host's own rates of the same run
#
# Llama-8B shapes with LAYERS (8) layers, MICRO_BATCH (1) sample of 8192 tokens, BATCH (4) a step,
# bf16. The median of the last 10 steps of STEPS (20), and of them what a step waited for weights;
# peak memory of the device as planned. SHAPE replaces the shape. B is the build directory. The
# rates bound the time beside the passes: an update by the host takes at least 28 bytes a parameter
# at that of adam, and 4 bytes to the host and 2 from it.
set -eu
: "${B:=build}" "${LAYERS:=8}" "${MICRO_BATCH:=1}" "${BATCH:=4}" "${STEPS:=20}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$tmp"
: "${SHAPE:=--num-layers $LAYERS --hidden-size 4096 --ffn-hidden-size 14336
	--num-attention-heads 32 --group-query-attention --num-query-groups 8
	--vocab-size 128256 --seq-length 8192}"
model="$SHAPE --swiglu --normalization RMSNorm --position-embedding-type rope
	--rotary-base 500000 --disable-bias-linear --untie-embeddings-and-output-weights
	--attention-dropout 0 --hidden-dropout 0 --bf16 --mock-data --lr 1e-5 --eval-iters 0
	--micro-batch-size $MICRO_BATCH --global-batch-size $BATCH --train-iters $STEPS
	--use-precision-aware-optimizer --timing-log-level 1 --log-interval 1"

# median: of the last 10 numbers of a list
median()
{
	tail -n 10 | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

echo 'the host, GB/s:'
"$B/tests/bench/host"
printf 'share\tdevice_bytes\thost_bytes\tms\twait_ms\n'
for share in none 0 0.3 1; do
	options=
	[ $share = none ] || options="--optimizer-cpu-offload --optimizer-offload-fraction $share"
	# shellcheck disable=SC2086
	bytes=$(mtrain -q $model $options --dry-run | awk 'NR == 2 { print $9 "\t" $10 }')
	# shellcheck disable=SC2086
	mtrain -q $model $options --metrics-file m >log 2>err || {
		printf '%s\t%s\tfailed: %s\n' "$share" "$bytes" "$(tail -n 1 err)"
		continue
	}
	ms=$(sed -n 's/.*"seconds": \([0-9.e-]*\),.*/\1/p' m | awk '{ print 1000 * $1 }' | median)
	wait=$(sed -n 's/.*optimizer-offload \.*: (\([0-9.]*\),.*/\1/p' log | median)
	printf '%s\t%s\t%s\t%s\n' "$share" "$bytes" "$ms" "${wait:-0}"
done
