#!/bin/sh
# muon.sh - Muon computes the same under every layout, saves what each tensor keeps, and resumes
# under another layout
#
# Layouts against one rank: fp64 weights and states to 1e-9 of their tensors' norms, and of one fp32
# loss and gradient norm to 1e-6. Matrices of layers belong to one replica each, and tensor ranks
# take turns with them. layouts.sh draws others.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
muon="--mock-data --optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2 --lr 3e-3"
fp32="$muon --train-iters 3"
fp64="$muon --train-iters 3 --fp64"
small="--ddp-bucket-size 5000"
train 1 $fp32 --metrics-file one.jsonl
train 1 $fp64 --save one

# check NAME RANKS OPTION...
check()
{
	name=$1 ranks=$2
	shift 2
	rm -rf run
	train "$ranks" $fp64 "$@" --save run
	same_tensors "$name" run one --tolerance 1e-9
	echo "$name: fp64 weights and states within 1e-9"
}

train 4 $fp32 $(layout 2 1) $(zero 1) --metrics-file run.jsonl
loss=$(gap lm_loss run.jsonl one.jsonl)
norm=$(gap grad_norm run.jsonl one.jsonl)
within 1e-6 "$loss" "$norm" || fail "fp32 loss differs by $loss, gradient norm by $norm"
echo "TP 2 x DP 2, ZeRO-1: fp32 loss $loss, gradient norm $norm from one rank's"

check "TP 2 x DP 2, ZeRO-1" 4 $(layout 2 1) $(zero 1)
check "TP 4, groups on two ranks each, rows of their own" 4 $(layout 4 1) --sequence-parallel
check "PP 2 x DP 2, ZeRO-2, small buckets" 4 $(layout 1 2) $(zero 2) $small --micro-batch-size 1
check "TP 2 x DP 4, ZeRO-3" 8 $(layout 2 1) $(zero 3) $small --micro-batch-size 1

# Matrices of experts that ranks share belong to replicas of their own, and the ranks with slices
# of one take turns. There and back through other files is a copy.
dense=$model
model="$model --num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 24"
slices=--expert-tensor-parallel-size sharing=--expert-model-parallel-size
train 1 $fp64 --save one.experts
experts()
{
	rm -rf run.experts
	name=$1 ranks=$2
	shift 2
	train "$ranks" $fp64 "$@" --save run.experts
	same_tensors "$name" run.experts one.experts --tolerance 1e-9
	echo "$name: fp64 weights and states within 1e-9"
}
experts "experts, TP 2 x DP 2, ZeRO-1" 4 $(layout 2 1) $(zero 1) --sequence-parallel $slices 1
experts "experts on pairs of 2 x 2 ranks, ZeRO-3" 8 $(layout 2 1) $(zero 3) --sequence-parallel \
	$slices 2 $sharing 2 $small --micro-batch-size 1
grid="4 $fp32 --train-iters 4 $(layout 2 1) $(zero 1) --sequence-parallel $slices 1 $sharing 2"
train $grid --save whole.experts
ends 3 $grid --save half.experts --exit-interval 2
mckpt reshard -q half.experts there $(layout 1 2) --data-parallel-size 4 $slices 2 $sharing 2
mckpt reshard -q there back.experts $(layout 2 1) --data-parallel-size 2 $slices 1 $sharing 2
rm -r there
train $grid --load back.experts --save back.experts
same_tensors "experts, resharded" whole.experts back.experts
echo "experts of two pairs of ranks, stopped, resharded there and back: the same bits"
model=$dense

ends 0 1 $fp64 --dry-run --world-size 2
grep -q -e "--optimizer muon: each of 2 data ranks updates all its matrices" log || fail "no note"

# A matrix of a layer has its momentum, all else what AdamW keeps.
mckpt info --tensors one | cut -f 1 | sed '1d; s/.*[.]weight//; s/.*[.]bias//' | sort | uniq -c |
	awk '{ n[$2] = $1 } END { exit !(n[".momentum"] == 28 && n[".exp_avg"] == 11 &&
		n[".exp_avg_sq"] == 11 && n[""] == 39) }' || fail "other states are saved"

# Stopped, resharded, resumed under another layout.
steps="$muon --train-iters 6 --fp64"
train 1 $steps --save straight --metrics-file straight.jsonl
ends 3 4 $steps $(layout 2 1) $(zero 1) --save half --exit-interval 3
mckpt verify half >log 2>&1 || fail "mckpt verify"
mckpt reshard half there $(layout 1 2) --data-parallel-size 2 >log 2>&1 || fail "mckpt reshard"
mckpt reshard there back $(layout 2 1) --data-parallel-size 3 >log 2>&1 || fail "mckpt reshard"
same_tensors "resharded" half back
train 4 $steps $(layout 1 2) $(zero 2) --load there --save on --metrics-file on.jsonl
same_tensors "3 + 3 steps, resharded in between" straight on --tolerance 1e-9
echo "3 + 3 steps, resharded in between: fp64 weights and states within 1e-9"
ends 1 1 $steps --optimizer adam --load half --save other
grep -q -e "--optimizer is adam and was muon" log || fail "another rule resumes"
ends 1 1 $steps --muon-momentum 0.8 --load half --save other
grep -q -e "--muon-momentum is 0.8 and was 0.9" log || fail "another momentum resumes"

# GEMMs in bfloat16: the same bits twice, and near the others.
for run in a b; do
	train 4 $muon --train-iters 3 --bf16 $(layout 2 1) $(zero 1) --save $run.bf16 \
		--metrics-file $run.jsonl
done
same_tensors "bfloat16, repeated" a.bf16 b.bf16
loss=$(gap lm_loss a.jsonl one.jsonl)
within 1e-2 "$loss" || fail "bfloat16: the loss differs by $loss"
echo "bfloat16: the same bits again, loss $loss from that in fp32"

ends 2 1 $fp64 --muon-num-ns-steps 6
grep -q -e "--muon-num-ns-steps 6: must be a multiple of 5" log || fail "six iterations are taken"
ends 2 1 $fp64 --muon-tp-mode blockwise
