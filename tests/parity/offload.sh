#!/bin/sh
# offload.sh - updates by the host have the bits of those by the device, under every kind of layout,
# after a stop with or without them, and saved in the background. ALL=1 tries every case.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 4 --lr 1e-2 --ddp-bucket-size 4000 --log-params-norm
	--ema-decay 0.75 --eval-iters 1 --eval-interval 3"
aware="--use-precision-aware-optimizer"
offload="--optimizer-cpu-offload"

# same WHAT RANKS FRACTION OPTION...: with and without
same()
{
	what=$1 ranks=$2 fraction=$3
	shift 3
	rm -rf device host
	train $ranks $steps $aware "$@" --save device --metrics-file device.jsonl
	train $ranks $steps $offload --optimizer-offload-fraction $fraction "$@" --save host \
		--metrics-file host.jsonl
	results device.jsonl >device.steps
	results host.jsonl >host.steps
	same_steps "$what" device.steps host.steps
	same_tensors "$what" device host
	echo "$what: equal bit by bit"
}

narrow="--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"
same "bf16, a part" 1 0.3 --bf16
same "ZeRO-3 x TP 2, moments and gradients in bf16" 4 0.5 --bf16 $narrow \
	--main-grads-dtype bf16 $(layout 2 1) $(zero 3)
same "ZeRO-2 in instances that share the state" 4 0.5 --bf16 $(zero 2) \
	--num-distributed-optimizer-instances 2 --outer-dp-sharding-strategy optim
if [ "${ALL:-}" = 1 ]; then
	for type in "" --fp16 --fp64 "--bf16 --no-decoupled-weight-decay"; do
		for fraction in 0 0.6 1; do
			same "$fraction of it, type '$type'" 1 $fraction $type
		done
	done
	for stage in 0 1 2 3; do
		same "ZeRO-$stage" 2 0.5 --bf16 $(zero $stage) --micro-batch-size 2
		same "ZeRO-$stage x PP 2" 4 1 --bf16 $(zero $stage) $(layout 1 2)
	done
	same "interleaved stages" 2 0.5 $(layout 1 2) --num-layers-per-virtual-pipeline-stage 1
	same "CP 2" 2 0.5 --bf16 $(context 2) $(zero 1)
	same "experts, EP 2 x DP 2" 4 0.5 --bf16 --num-experts 4 --moe-router-topk 2 \
		--moe-router-score-function sigmoid --moe-router-enable-expert-bias \
		--moe-ffn-hidden-size 32 --expert-model-parallel-size 2 $(zero 1)
	same "fp8" 1 0.5 --bf16 --fp8-format hybrid
	same "weights compared" 2 0.5 --bf16 --check-weight-hash-across-dp-replicas-interval 1
	same "repeated steps" 1 0.5 --bf16 --verify-interval 2
	model=$gpt2
	same "tied, dropout, in two stages" 2 1 --bf16 $(layout 1 2)
	model=$llama
fi

# A save holds the host's copies until it is written; runs continue with and without offloading, and
# under other layouts.
steps="--mock-data --train-iters 6 --lr 1e-2 --ddp-bucket-size 4000 --bf16"
train 1 $steps $aware --save whole
train 1 $steps $offload --async-save --save-interval 1 --save often
same_tensors "saved beside every step" often whole
mckpt verify often/iter_0000003 >log 2>&1 || fail "mckpt verify"
ends 3 1 $steps $offload --save half --exit-interval 3
cp -R half other
train 1 $steps $aware --load half --save half
train 1 $steps $offload --optimizer-offload-fraction 0.4 --load other --save other
same_tensors "continued on the device" half whole
same_tensors "continued with another share" other whole
train 1 $steps --load often --ckpt-step 2 --finetune $offload --train-iters 1 --save tuned
train 1 $steps --load often --ckpt-step 2 --finetune $aware --train-iters 1 --save same
same_tensors "from weights alone" tuned same
echo "saved beside every step, stopped, resumed with another share: equal bit by bit"
