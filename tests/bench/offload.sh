#!/bin/sh
# offload.sh optimizer|layers - what it costs that the host updates a share of the optimizer
# (--optimizer-offload-fraction), or holds the saved activations of layers between the passes
# (--cpu-offloading-num-layers), beside the host's own rates of the same run
#
# Llama-8B shapes with LAYERS (8) layers, MICRO_BATCH (1) sample of 8192 tokens, BATCH (4) a step,
# bf16. A row for each of VALUES: device memory as planned and as used, host memory as planned; the
# median of the last 10 steps of STEPS (20), and of them what a step waited; the last loss, the same
# for all numbers of layers with OPTIONS=--deterministic-mode. OPTIONS adds options, SHAPE replaces
# the shape. B is the build directory.
#
# The rates bound what runs beside the passes: an update by the host takes at least 28 bytes a
# parameter at that of adam, and 4 bytes to the host and 2 from it.
set -eu
: "${B:=build}" "${LAYERS:=8}" "${MICRO_BATCH:=1}" "${BATCH:=4}" "${STEPS:=20}" "${OPTIONS:=}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$tmp"
case ${1:-} in
optimizer)
	: "${VALUES:=none 0 0.3 1}"
	OPTIONS="--use-precision-aware-optimizer $OPTIONS"
	option="--optimizer-cpu-offload --optimizer-offload-fraction"
	timer=optimizer-offload
	;;
layers)
	: "${VALUES:=none $((LAYERS / 2)) $((LAYERS * 3 / 4)) $((LAYERS - 1))}"
	option=--cpu-offloading-num-layers
	timer=activation-offload
	;;
*)
	echo "usage: offload.sh optimizer|layers" >&2
	exit 2
	;;
esac
: "${SHAPE:=--num-layers $LAYERS --hidden-size 4096 --ffn-hidden-size 14336
	--num-attention-heads 32 --group-query-attention --num-query-groups 8
	--vocab-size 128256 --seq-length 8192}"
model="$SHAPE --swiglu --normalization RMSNorm --position-embedding-type rope
	--rotary-base 500000 --disable-bias-linear --untie-embeddings-and-output-weights
	--attention-dropout 0 --hidden-dropout 0 --bf16 --mock-data --lr 1e-5 --eval-iters 0
	--micro-batch-size $MICRO_BATCH --global-batch-size $BATCH --train-iters $STEPS
	--timing-log-level 1 --log-interval 1 $OPTIONS"

# column NAME: of the first rank
column()
{
	awk -F '\t' -v name="$1" '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		NR == 2 { print $at[name] }' plan
}

# median: of the last 10 numbers of a list
median()
{
	tail -n 10 | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# watched COMMAND...: what the device has in use while it runs goes to `used`, in MiB
watched()
{
	"$@" &
	run=$!
	while kill -0 $run 2>/dev/null; do
		nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 || echo 0
		sleep 0.2
	done >used 2>/dev/null
	wait $run
}

echo 'the host, GB/s:'
"$B/tests/bench/host"
printf '%s\tplanned_bytes\tused_bytes\thost_bytes\tms\twait_ms\tloss\n' "$1"
for value in $VALUES; do
	options=
	[ "$value" = none ] || options="$option $value"
	# shellcheck disable=SC2086
	mtrain -q $model $options --dry-run >plan
	printf '%s\t%s\t' "$value" "$(column total_bytes)"
	# shellcheck disable=SC2086
	watched mtrain -q $model $options --metrics-file m >log 2>err || {
		printf 'failed: %s\n' "$(tail -n 1 err)"
		continue
	}
	ms=$(sed -n 's/.*"seconds": \([0-9.e-]*\),.*/\1/p' m | awk '{ print 1000 * $1 }' | median)
	wait=$(sed -n "s/.*$timer \.*: (\([0-9.]*\),.*/\1/p" log | median)
	loss=$(sed -n 's/.*"lm_loss": \([^,]*\),.*/\1/p' m | tail -n 1)
	used=$(sort -n used | tail -n 1)
	printf '%s\t%s\t%s\t%s\t%s\n' $((${used:-0} * 1048576)) "$(column host_bytes)" "$ms" \
		"${wait:-0}" "$loss"
done
