#!/bin/sh
# ranks.sh [WORKLOAD...] - training speed of data ranks, one per GPU
#
# A workload is MODEL:STRATEGY:MICRO_BATCH:MICRO_BATCHES. A row each: tokens/s of a GPU (median of
# the last 10 steps), the milliseconds of a step in which rank 0 computed nothing for the exchange
# of data ranks, the bytes planned for a rank and those in use on its GPU beyond what was before,
# and the mean clock and power of that GPU while it drew more than half of its limit: a GPU at its
# limit lowers its clock, so that a token takes the longer the less the GPU waits.
# RANKS: how many GPUs, all by default. B, OLD: build directories; the same is run with OLD after
# it, where its mtrain knows the options. OPTIONS: more of mtrain's. PEERS=DIR runs torch_fsdp.py
# from there at the shape of each workload once.
set -eu
: "${B:=build}" "${OLD:=}" "${PEERS:=}" "${OPTIONS:=}"
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU ')}
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
B=$(cd "$B" && pwd)
[ -z "$OLD" ] || OLD=$(cd "$OLD" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

llama="--swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000
	--disable-bias-linear --attention-dropout 0 --hidden-dropout 0
	--untie-embeddings-and-output-weights --bf16 --mock-data --lr 1e-4 --clip-grad 1
	--eval-iters 0 --recompute-granularity selective --log-interval 1 --backend cuda"

# shape NAME: the options of a model, its name and length for torch_fsdp.py
shape()
{
	case $1 in
	llama-8b) echo "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
		--num-attention-heads 32 --group-query-attention --num-query-groups 8
		--vocab-size 128256 --seq-length 8192" ;;
	llama-22b) echo "--num-layers 48 --hidden-size 6144 --ffn-hidden-size 16384
		--num-attention-heads 48 --vocab-size 32000 --seq-length 4096" ;;
	llama-1b) echo "--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192
		--num-attention-heads 32 --group-query-attention --num-query-groups 8
		--vocab-size 128256 --seq-length 8192" ;;
	*) echo "ranks.sh: no model '$1'" >&2; exit 2 ;;
	esac
}

# last KEY COUNT: median of a metric over the last COUNT steps
last()
{
	tail -n "$2" metrics.jsonl | sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" | sort -g |
		awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# used: bytes in use on the first GPU
used()
{
	nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0 |
		awk '{ printf "%.0f\n", $1 * 1048576 }'
}

# drawn: clock (MHz), power and its limit (W) of the first GPU
drawn()
{
	nvidia-smi --query-gpu=clocks.sm,power.draw,power.limit --format=csv,noheader,nounits -i 0
}

# train DIRECTORY STEPS OPTION...: a run of all ranks; prints its row
train()
{
	bin=$1 steps=$2
	shift 2
	planned=$("$bin/mtrain" "$@" --train-iters 1 --dry-run --world-size "$ranks" 2>err |
		awk -F '\t' 'NR == 2 { print $10 }')
	before=$(used)
	rm -f metrics.jsonl
	mpirun -np "$ranks" "$bin/mtrain" "$@" --train-iters "$steps" \
		--metrics-file metrics.jsonl >log 2>err &
	run=$!
	most=0
	: >watts
	while kill -0 $run 2>/dev/null; do
		now=$(used)
		[ "$now" -le "$most" ] || most=$now
		drawn >>watts
		sleep 1
	done
	wait $run || { tail -n 3 err; return; }
	exposed=$(last exposed_data_comm_ms 10)
	busy=$(awk -F ', ' '$2 > $3 / 2 { n++; clock += $1; watts += $2 }
		END { print n ? clock / n : 0, n ? watts / n : 0 }' watts)
	echo "$(last tokens_per_second 10) ${exposed:-0} $planned $((most - before)) $busy" |
		awk -v n="$ranks" '{ printf "%.0f\t%.1f\t%.2f\t%.2f\t%.0f\t%.0f\n",
			$1 / n, $2, $3 / 2 ^ 30, $4 / 2 ^ 30, $5, $6 }'
}

[ $# -gt 0 ] || set -- llama-8b:optim:1:2 llama-8b:optim_grads_params:1:2
printf 'workload\ttokens_per_second_per_gpu\texposed_ms\tplanned_gib\tused_gib'
printf '\tclock_mhz\twatts\n'
for workload; do
	IFS=: read -r name strategy micro count <<-END
		$workload
	END
	steps=14
	# shellcheck disable=SC2046,SC2086
	set -- $(shape "$name") $llama --micro-batch-size "$micro" \
		--global-batch-size $((micro * count * ranks)) $OPTIONS
	printf '%s\t' "$workload"
	train "$B" "$steps" "$@" --data-parallel-sharding-strategy "$strategy"
	if [ -n "$OLD" ] && [ "$strategy" = optim ]; then
		printf '%s, before\t' "$workload"
		train "$OLD" "$steps" "$@" --use-distributed-optimizer
	fi
	if [ -n "$PEERS" ]; then
		python3 -m torch.distributed.run --nproc-per-node "$ranks" \
			"$PEERS/torch_fsdp.py" "$name" "$micro" \
			"$(echo "$*" | sed 's/.*--seq-length \([0-9]*\).*/\1/')" "$count" \
			--steps 10 2>err | grep PEER || tail -n 3 err
	fi
done
