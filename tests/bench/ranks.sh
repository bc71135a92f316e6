#!/bin/sh
# ranks.sh [WORKLOAD...] - training speed of ranks that share a model, one per GPU
#
# A workload is MODEL[+WORD...]:MICRO_BATCH:COUNT. COUNT times MICRO_BATCH samples for each GPU are
# a step, so that layouts with the same two numbers compare. Words say who shares what (words()
# below); data ranks with the distributed optimizer are the default.
#
# A row each: tokens/s of a GPU (median of the steps after the first four, or after the first where
# there are fewer than eight) and TFLOP/s; the milliseconds of a step in which rank 0 computed
# nothing for the exchange of data ranks, tensor ranks and stages; seconds from the launch to the
# end of the first step; the most bytes planned for a rank, and the largest difference between the
# bytes in use on a GPU beyond those before and its rank's plan, in percent; the mean clock and
# power of the first GPU while it drew more than half of its limit: a GPU at its limit lowers its
# clock, so that a token takes the longer the less the GPU waits; the last loss.
# RANKS: how many GPUs, all by default. STEPS: of a run. B, OLD: build directories; the same is run
# with OLD after it. OPTIONS: more of mtrain's. PEERS=DIR runs torch_fsdp.py from there at the shape
# of each workload without words. OUT=DIR keeps the metrics and logs.
set -eu
: "${B:=build}" "${OLD:=}" "${PEERS:=}" "${OPTIONS:=}" "${STEPS:=14}" "${OUT:=}"
ranks=${RANKS:-$(nvidia-smi -L | grep -c '^GPU ')}
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
B=$(cd "$B" && pwd)
[ -z "$OLD" ] || OLD=$(cd "$OLD" && pwd)
[ -z "$OUT" ] || OUT=$(mkdir -p "$OUT" && cd "$OUT" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

llama="--swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000
	--disable-bias-linear --attention-dropout 0 --hidden-dropout 0
	--untie-embeddings-and-output-weights --bf16 --mock-data --lr 1e-4 --clip-grad 1
	--eval-iters 0 --log-interval 1 --log-throughput --backend cuda"
llama_8b="--hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
	--group-query-attention --num-query-groups 8"

# shape NAME: the options of a model
shape()
{
	case $1 in
	llama-8b) echo "$llama_8b --num-layers 32 --vocab-size 128256 --seq-length 8192" ;;
	llama-8b-8L) echo "$llama_8b --num-layers 8 --vocab-size 128256 --seq-length 8192" ;;
	llama-70b) echo "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672
		--num-attention-heads 64 --group-query-attention --num-query-groups 8
		--vocab-size 128256 --seq-length 8192" ;;
	llama-22b) echo "--num-layers 48 --hidden-size 6144 --ffn-hidden-size 16384
		--num-attention-heads 48 --vocab-size 32000 --seq-length 4096" ;;
	llama-1b) echo "--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192
		--num-attention-heads 32 --group-query-attention --num-query-groups 8
		--vocab-size 128256 --seq-length 8192" ;;
	qwen2.5-7b) echo "--num-layers 28 --hidden-size 3584 --ffn-hidden-size 18944
		--num-attention-heads 28 --group-query-attention --num-query-groups 4
		--add-qkv-bias --vocab-size 152064 --seq-length 1024" ;;
	qwen3-30b-a3b) echo "--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144
		--moe-ffn-hidden-size 768 --num-experts 128 --moe-router-topk 8
		--moe-aux-loss-coeff 0.001 --num-attention-heads 32 --kv-channels 128
		--group-query-attention --num-query-groups 4 --qk-layernorm --vocab-size 151936
		--seq-length 4096" ;;
	mixtral-16L) echo "$llama_8b --num-layers 16 --num-experts 8 --moe-router-topk 2
		--moe-aux-loss-coeff 0.02 --vocab-size 32000 --seq-length 4096" ;;
	*) echo "ranks.sh: no model '$1'" >&2; exit 2 ;;
	esac
}

# words WORD...: the options that they stand for
words()
{
	data="--use-distributed-optimizer"
	for word; do
		number=${word#"${word%%[0-9]*}"}
		case $word in
		no_shard | optim | optim_grads | optim_grads_params)
			data="--data-parallel-sharding-strategy $word" ;;
		tp[0-9]*) echo "--tensor-model-parallel-size $number --sequence-parallel
			--tp-comm-overlap" ;;
		pp[0-9]*) echo "--pipeline-model-parallel-size $number" ;;
		chunks[0-9]*) echo "--num-virtual-stages-per-pipeline-rank $number" ;;
		cp[0-9]*) echo "--context-parallel-size $number" ;;
		a2a | all_gather) echo "--cp-comm-type $word" ;;
		ep[0-9]*) echo "--expert-model-parallel-size $number" ;;
		seq[0-9]*) echo "--seq-length $number" ;;
		layers[0-9]*) echo "--num-layers $number" ;;
		selective) echo "--recompute-granularity selective" ;;
		full) echo "--recompute-granularity full --recompute-method uniform
			--recompute-num-layers 1" ;;
		delayed | tensorwise) echo "--fp8-format hybrid --fp8-recipe $word" ;;
		blockwise) echo "--fp8-format e4m3 --fp8-recipe blockwise" ;;
		moments16) echo "--use-precision-aware-optimizer --exp-avg-dtype bf16
			--exp-avg-sq-dtype bf16" ;;
		muon) echo "--optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2" ;;
		balanced) echo "--moe-router-force-load-balancing" ;;
		*) echo "ranks.sh: no word '$word'" >&2; exit 2 ;;
		esac
	done
	echo "$data"
}

# after KEY COUNT: median of a metric over the steps after the first COUNT
after()
{
	tail -n +$(($2 + 1)) metrics.jsonl | sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" | sort -g |
		awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0 }'
}

# used: bytes in use on each GPU, one a line
used()
{
	nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits |
		head -n "$ranks" | awk '{ printf "%.0f\n", $1 * 1048576 }'
}

# drawn: clock (MHz), power and its limit (W) of the first GPU
drawn()
{
	nvidia-smi --query-gpu=clocks.sm,power.draw,power.limit --format=csv,noheader,nounits -i 0
}

# train PROGRAM OPTION...: a run of all ranks; prints its row
train()
{
	bin=$1
	shift
	"$bin/mtrain" "$@" --train-iters 1 --dry-run --world-size "$ranks" 2>err | awk -F '\t' '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		NR > 1 { printf "%.0f\n", $at["total_bytes"] }' >planned
	[ -s planned ] || { tail -n 3 err; return; }
	used >before
	cp before most
	: >watts
	rm -f metrics.jsonl
	launched=$(date +%s.%N)
	mpirun -np "$ranks" "$bin/mtrain" "$@" --train-iters "$STEPS" \
		--metrics-file metrics.jsonl >log 2>err &
	run=$!
	while kill -0 $run 2>/dev/null; do
		used | paste - most | awk '{ printf "%.0f\n", ($1 > $2) ? $1 : $2 }' >now
		mv now most
		drawn >>watts
		sleep 1
	done
	wait $run || { tail -n 3 err; return; }
	warm=4
	[ "$STEPS" -ge 8 ] || warm=1
	first=$(sed -n '1s/.*"time": \([0-9.]*\).*/\1/p' metrics.jsonl)
	busy=$(awk -F ', ' '$2 > $3 / 2 { n++; clock += $1; watts += $2 }
		END { print n ? clock / n : 0, n ? watts / n : 0 }' watts)
	off=$(paste planned before most | awk '{
		d = 100 * (($3 - $2) / $1 - 1)
		if (NR == 1 || d * d > worst * worst) worst = d
		if ($1 > top) top = $1 } END { print top / 2 ^ 30, worst }')
	rate=$(after tokens_per_second $warm)
	flops=$(sed -n 's/.*throughput per GPU (TFLOP\/s\/GPU): \([0-9.]*\).*/\1/p' log |
		tail -n +$((warm + 1)) | sort -g | awk '{ v[NR] = $1 } END {
			print v[int((NR + 1) / 2)] + 0 }')
	echo "$rate $flops $(after exposed_data_comm_ms $warm)" \
		"$(after exposed_tensor_comm_ms $warm) $(after exposed_pipeline_comm_ms $warm)" \
		"$launched $first $off $busy $(sed -n 's/.*"lm_loss": \([^,]*\),.*/\1/p' \
		metrics.jsonl | tail -n 1)" |
		awk -v n="$ranks" '{
			printf "%.0f\t%.1f\t%.1f\t%.1f\t%.1f", $1 / n, $2, $3, $4, $5
			printf "\t%.1f\t%.2f\t%+.2f", $7 - $6, $8, $9
			printf "\t%.0f\t%.0f\t%s\n", $10, $11, $12
		}'
}

[ $# -gt 0 ] || set -- llama-8b:1:2 llama-8b+optim_grads_params:2:1
printf 'workload\ttokens_per_second_per_gpu\ttflops\tdata_ms\ttensor_ms\tpipeline_ms'
printf '\tfirst_step_s\tplanned_gib\toff_percent\tclock_mhz\twatts\tloss\n'
for workload; do
	IFS=: read -r name micro count <<-END
		$workload
	END
	model=${name%%+*}
	shape=$(shape "$model")
	# shellcheck disable=SC2046
	shared=$(words $(echo "${name#"$model"}" | tr + ' '))
	# shellcheck disable=SC2086
	set -- $llama $shape --micro-batch-size "$micro" \
		--global-batch-size $((micro * count * ranks)) $shared $OPTIONS
	printf '%s\t' "$workload"
	train "$B" "$@"
	if [ -n "$OUT" ]; then
		for file in metrics.jsonl log err; do
			[ ! -e $file ] || cp $file "$OUT/$(echo "$workload" | tr ':+' '..').$file"
		done
	fi
	if [ -n "$OLD" ]; then
		printf '%s, before\t' "$workload"
		train "$OLD" "$@"
	fi
	if [ -n "$PEERS" ] && [ "$name" = "$model" ]; then
		python3 -m torch.distributed.run --nproc-per-node "$ranks" \
			"$PEERS/torch_fsdp.py" "$name" "$micro" \
			"$(echo "$*" | sed 's/.*--seq-length \([0-9]*\).*/\1/')" "$count" \
			--steps 10 2>err | grep PEER || tail -n 3 err
	fi
done
