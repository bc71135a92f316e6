#!/bin/sh
# stash.sh - what it costs that saved activations of layers lie in host memory between the passes:
# the time of a step with 0 to all but one of them, beside the rate of copies
#
# Llama-8B shapes with LAYERS (8) layers, MICRO_BATCH (1) sample of 8192 tokens, BATCH (2) a step,
# bf16. The median of the last 10 steps of STEPS (20), and of them what a step waited for copies;
# device memory as planned and as used, of the host as planned; the last loss, the same for each
# with OPTIONS=--deterministic-mode. MOVED lists the numbers of layers, OPTIONS adds options, SHAPE
# replaces the shape. B is the build directory.
set -eu
: "${B:=build}" "${LAYERS:=8}" "${MICRO_BATCH:=1}" "${BATCH:=2}" "${STEPS:=20}" "${OPTIONS:=}"
: "${MOVED:=0 $((LAYERS / 2)) $((LAYERS * 3 / 4)) $((LAYERS - 1))}"
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
	--timing-log-level 1 --log-interval 1 $OPTIONS"

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
		nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0
		sleep 0.2
	done >>used 2>/dev/null
	wait $run
}

printf 'layers\tplanned_bytes\tused_bytes\thost_bytes\tms\twait_ms\tloss\n'
for layers in $MOVED; do
	options="--cpu-offloading-num-layers $layers"
	: >used
	# shellcheck disable=SC2086
	bytes=$(mtrain -q $model $options --dry-run | awk 'NR == 2 { print $10, $11 }')
	# shellcheck disable=SC2086
	watched mtrain -q $model $options --metrics-file m >log 2>err || {
		printf '%s\t%s\tfailed: %s\n' "$layers" "$bytes" "$(tail -n 1 err)"
		continue
	}
	ms=$(sed -n 's/.*"seconds": \([0-9.e-]*\),.*/\1/p' m | awk '{ print 1000 * $1 }' | median)
	wait=$(sed -n 's/.*activation-offload \.*: (\([0-9.]*\),.*/\1/p' log | median)
	used=$(sort -n used | tail -n 1)
	loss=$(sed -n 's/.*"lm_loss": \([^,]*\),.*/\1/p' m | tail -n 1)
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$layers" "${bytes% *}" \
		$((${used:-0} * 1048576)) "${bytes#* }" "$ms" "${wait:-0}" "$loss"
done
echo 'the host, GB/s:'
"$B/tests/bench/host"
