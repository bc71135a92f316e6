#!/bin/sh
# experts.sh - a checkpoint of ranks that share experts is that of any other layout
#
# In bf16, with biases of experts and ZeRO 1: a run that was interrupted goes on bit by bit; what
# another number of ranks reads has the same bits; resharded files too.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
model="$llama --num-experts 8 --moe-ffn-hidden-size 24 --moe-router-topk 3
	--moe-router-score-function sigmoid --moe-router-enable-expert-bias --bf16 --mock-data
	--moe-shared-expert-intermediate-size 16 --lr 1e-3"
shared="--expert-model-parallel-size"
slices="--expert-tensor-parallel-size"

run="8 $(zero 1) $shared 2 $slices 2 --train-iters 4"
train $run --save whole --save-interval 2
ends 3 $run --save half --exit-interval 2
train $run --save half --load half
same_tensors "interrupted" half whole
echo "8 ranks, experts over 2 pairs of them: a run that was interrupted has the same bits"

# Weights, masters, moments and biases of the fourth step, as other layouts read and write them: a
# run of no further step saves what it has loaded.
again()
{
	name=$1 ranks=$2
	shift 2
	cp -r whole "$name"
	ends 3 "$ranks" "$@" --train-iters 5 --lr 0 --min-lr 0 --override-opt_param-scheduler \
		--weight-decay 0 --moe-router-bias-update-rate 0 --load "$name" --save "$name" \
		--exit-interval 1
	same_tensors "$name" "$name" whole --ignore '*.exp_avg*'
	echo "$name: weights and biases have the same bits"
}
again one 1
again all-experts-apart 8 $(zero 1) $shared 8
again tensor-ranks 4 $(layout 2 2) --sequence-parallel --micro-batch-size 2
mckpt reshard whole resharded $(layout 2 2) --data-parallel-size 2 >log 2>&1 || fail "mckpt reshard"
mckpt verify resharded >log 2>&1 || fail "mckpt verify"
same_tensors "resharded" resharded whole
echo "resharded: all tensors have the same bits"
