#!/bin/sh
# zero.sh - what overlap, ZeRO stages and the size of buckets may change, and what they may not
#
# Twenty steps of two data ranks. Overlap changes no bit. The ZeRO stages give the same bits when a
# step has one micro batch; with more, ZeRO-2 and 3 add over ranks before they add over micro
# batches: 1e-6. The size of buckets changes no bit but in the norm, which is added in another
# order.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
model=$gpt2
steps="$text --train-iters 20 --lr 1e-3"
small="--ddp-bucket-size 5000"
alone="--no-overlap-grad-reduce --no-overlap-param-gather"

# run NAME STAGE OPTION...: into NAME, NAME.jsonl, and NAME.steps to compare
run()
{
	name=$1 stage=$2
	shift 2
	train 2 $steps $(zero "$stage") "$@" --save "$name" --metrics-file "$name.jsonl"
	results "$name.jsonl" | grep '"grad_norm"' >"$name.steps"
	[ "$(wc -l <"$name.steps")" = 20 ] || fail "$name: not 20 steps"
}

# same WHAT A B
same()
{
	same_steps "$1" "$2.steps" "$3.steps"
	same_tensors "$1" "$2" "$3"
}

for stage in 0 1 2 3; do
	run several$stage $stage --micro-batch-size 2 $small
	run alone$stage $stage --micro-batch-size 2 $small $alone
	same "ZeRO-$stage, overlap on and off" several$stage alone$stage
done
echo "overlap on and off: equal bit by bit under ZeRO 0 to 3"

for stage in 1 2 3; do
	run one$stage $stage --micro-batch-size 4 $small
	loss=$(gap lm_loss several$stage.jsonl several0.jsonl)
	within 1e-6 "$loss" || fail "ZeRO-$stage: the loss differs by $loss from ZeRO-0's"
	echo "ZeRO-$stage, two micro batches: loss $loss from ZeRO-0's"
done
same "one micro batch, ZeRO-1 and 2" one1 one2
same "one micro batch, ZeRO-1 and 3" one1 one3
echo "one micro batch: ZeRO 1 to 3 equal bit by bit"

# Layers of experts follow dense ones in a slot, with gaps between other tensors.
plain=$model
model="$llama --num-layers 6 --moe-layer-freq 3 --num-experts 3 --moe-ffn-hidden-size 25"
for stage in 1 2 3; do
	run unlike$stage $stage --micro-batch-size 4 --train-iters 20 $small
done
same "layers of two shapes, ZeRO-1 and 2" unlike1 unlike2
same "layers of two shapes, ZeRO-1 and 3" unlike1 unlike3
model=$plain
echo "layers of two shapes: ZeRO 1 to 3 equal bit by bit"

# The loss alone is compared bit by bit: the norm is beside it in a line of the metrics.
stage=3
for size in 1 5000 134217728; do
	run sized$size $stage --clip-grad 0 --ddp-bucket-size $size
	metric lm_loss sized$size.jsonl >sized$size.loss
	same_steps "ZeRO-$stage, buckets of $size" sized$size.loss sized1.loss
	same_tensors "ZeRO-$stage, buckets of $size" sized$size sized1
	norm=$(gap grad_norm sized$size.jsonl sized1.jsonl)
	within 1e-12 "$norm" || fail "buckets of $size: the norm differs by $norm"
done
rm -rf sized*
echo "ZeRO-$stage: buckets of any size give the same bits, the norm to $norm"

# Gradients reduced in bf16 are close to the others, not equal to them, and have the same bits with
# and without overlap and under every stage that shards.
for stage in 0 1 3; do
	run narrow$stage $stage --micro-batch-size 4 $small --grad-reduce-in-bf16
	run narrow $stage --micro-batch-size 4 $small --grad-reduce-in-bf16 $alone
	same "ZeRO-$stage, narrow gradients, overlap on and off" narrow$stage narrow
	rm -rf narrow narrow.jsonl
	[ $stage = 0 ] || same "narrow gradients, ZeRO-1 and $stage" narrow1 narrow$stage
done
loss=$(gap lm_loss narrow1.jsonl one1.jsonl)
within 1e-4 "$loss" || fail "narrow gradients: the loss differs by $loss"
! within 1e-8 "$loss" || fail "narrow gradients are not narrower"
echo "narrow gradients: equal bit by bit under ZeRO 1 to 3, loss $loss from wide ones"
