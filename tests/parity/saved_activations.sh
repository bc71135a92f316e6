#!/bin/sh
# saved_activations.sh - saved activations in host memory between passes: runs that keep them there
# have the bits of those that do not, under every layout and recomputation. ALL=1 tries every case.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
larger="--num-layers 8 --global-batch-size 16"
steps="$larger --mock-data --train-iters 3 --lr 1e-2 --eval-iters 1 --eval-interval 2"
leave=--cpu-offloading-num-layers
again=--recompute-granularity

# same WHAT RANKS LAYERS OPTION...: with and without
same()
{
	what=$1 ranks=$2 layers=$3
	shift 3
	rm -rf device host
	train $ranks $steps "$@" --save device --metrics-file device.jsonl
	train $ranks $steps "$@" $leave $layers --save host --metrics-file host.jsonl
	results device.jsonl >device.steps
	results host.jsonl >host.steps
	same_steps "$what" device.steps host.steps
	same_tensors "$what" device host
	echo "$what: equal bit by bit"
}

# column N OPTION...: of rank 0 in --dry-run
column()
{
	n=$1
	shift
	mtrain $model $steps "$@" --dry-run 2>log | awk -F '\t' -v n="$n" 'NR == 2 { print $n }'
}

same "neighbours, evaluations of more samples" 1 7 --bf16 --eval-micro-batch-size 4
same "1F1B, inputs of layers recomputed in pairs" 4 4 $(layout 2 2) $again full \
	--recompute-num-layers 2
same "interleaved, ZeRO-3, selective" 4 2 $(layout 1 2) $(zero 3) --ddp-bucket-size 5000 \
	--num-virtual-stages-per-pipeline-rank 2 $again selective
if [ "${ALL:-}" = 1 ]; then
	for layers in 1 2 3 5 7; do
		same "$layers of 8" 1 $layers
		same "$layers of 8, inputs of all" 1 $layers $again full
		same "$layers of 8, 3 recomputed" 1 $layers $again full \
			--recompute-method block --recompute-num-layers 3
		same "$layers of 8, pairs recomputed" 1 $layers $again full --recompute-num-layers 2
		same "$layers, 1F1B on 4 stages" 4 $layers $(layout 1 4)
		same "$layers, 4 chunks" 2 $layers $(layout 1 2) \
			--num-virtual-stages-per-pipeline-rank 4
	done
	for stage in 0 1 2 3; do
		same "ZeRO-$stage x TP 2" 4 3 --bf16 $(zero $stage) $(layout 2 1) \
			--ddp-bucket-size 5000 --sequence-parallel --tp-comm-overlap
	done
	same "CP 2" 2 3 $(context 2)
	same "CP 2 by heads" 2 3 $(context 2 a2a)
	experts="--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 32"
	same "experts, EP 2 x DP 2" 4 5 --bf16 $experts --expert-model-parallel-size 2 $(zero 1)
	same "experts, recomputed" 1 5 $experts $again full
	same "fp8" 1 5 --bf16 --fp8-format hybrid
	same "fp8 by blocks" 1 5 --bf16 --fp8-format e4m3 --fp8-recipe blockwise
	same "beside updates by the host" 1 5 --bf16 --use-precision-aware-optimizer \
		--optimizer-cpu-offload --ema-decay 0.75
	same "repeated steps" 1 5 --verify-interval 2
	same "stages of unequal length" 2 2 $(layout 1 2) \
		--pipeline-model-parallel-layout 'Et*6|ttL'
	same "parallel residual" 1 3 --use-parallel-residual
	model=$gpt2
	same "dropout" 2 3 $(layout 1 2) --micro-batch-size 2
	model=$llama
fi

# What each layer saves leaves the device, except for two or three places.
layer=$(column 11 $leave 5)
layer=$((layer / 2))
for layers in 1 2 4 7; do
	places=2
	[ $layers != 1 ] || places=1
	[ $layers != 4 ] && [ $layers != 7 ] || places=3
	[ "$(column 11 $leave $layers)" = $(((layers - places) * layer)) ] ||
		fail "host bytes of $layers"
	[ "$(column 7)" = $(($(column 7 $leave $layers) + (layers - places) * layer)) ] ||
		fail "saved bytes of $layers"
done
[ "$(column 11 $again full $leave 7)" -gt 0 ] || fail "no input leaves"
echo "bytes of the device and the host are those of the layers"
