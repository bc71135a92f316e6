#!/bin/sh
# residual.sh - with --fp32-residual-connection a run in 16 bits follows one in fp32 more closely,
# and every layout still computes what one rank computes
#
# The gradients of the first step, whose distance from those of fp32 grows with the depth of the
# model only where each layer rounds the residual stream. Layouts: without tensor ranks to the last
# bits of the loss; with them as near as their 16-bit sums come, with and without sequence
# parallelism. One layout, with ALL=1 more.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
: "${ALL:=}"
wide=--fp32-residual-connection
text_dataset

# distance DIR: of the gradients from those in fp32, root of the mean of the tensors' squares
distance()
{
	mckpt diff "$1/iter_0000001" fp32/iter_0000001 --only '*.exp_avg' 2>log |
		awk -F '\t' '
			NR > 1 { sum += $7 * $7; n++ }
			END { if (!n) exit 1; printf "%.2e\n", sqrt(sum / n) }'
}

model="$llama --num-layers 32 $text --train-iters 1 --lr 1e-4"
train 1 --save fp32
for type in bf16 ${ALL:+fp16}; do
	scale=
	[ $type = bf16 ] || scale="--initial-loss-scale 1024"
	train 1 --$type $scale --save $type
	train 1 --$type $scale $wide --save $type.wide
	narrow=$(distance $type) wider=$(distance $type.wide)
	echo "$wider $narrow" | awk '{ exit !($1 < $2 / 2) }' ||
		fail "$type: gradients are $wider from fp32 with $wide, $narrow without"
	echo "$type, 32 layers: gradients are $wider from those of fp32, $narrow without $wide"
done

# near MODEL LOSS NORM RANKS OPTION...: three steps against one rank
near()
{
	of=$1 loss=$2 norm=$3 ranks=$4
	shift 4
	rm -f run.jsonl
	train "$ranks" $steps "$@" --metrics-file run.jsonl
	a=$(gap lm_loss run.jsonl "$of.jsonl") b=$(gap grad_norm run.jsonl "$of.jsonl")
	within "$loss" "$a" || fail "$of $ranks $*: loss differs by $a"
	within "$norm" "$b" || fail "$of $ranks $*: gradient norm differs by $b"
	echo "$of $ranks $*: loss $a, gradient norm $b"
}

steps="$text --train-iters 3 --lr 1e-3 --bf16 $wide"
small="--ddp-bucket-size 5000"
rows=--sequence-parallel
# plain: the gradients of its biases are those of the stream, but rounded
for of in gpt2 llama plain; do
	case $of in
	gpt2) model=$gpt2 ;;
	llama) model=$llama ;;
	plain) model="$gpt2 --hidden-dropout 0 --attention-dropout 0" ;;
	esac
	train 1 $steps --metrics-file $of.jsonl
	near $of 5e-5 2e-3 4 $(layout 2 2) $rows
	[ -n "$ALL" ] || break
	near $of 5e-5 2e-3 4 $(layout 2 2)
	near $of 1e-9 1e-7 4 $(layout 1 2) --micro-batch-size 2 $(zero 1)
	near $of 1e-9 1e-7 4 $(layout 1 4)
	near $of 1e-9 1e-7 4 $(zero 3) $small
	near $of 1e-9 1e-7 2 $(layout 1 2) --recompute-granularity full
	near $of 1e-9 1e-7 2 $(layout 1 2) --num-virtual-stages-per-pipeline-rank 2
	near $of 5e-5 2e-3 8 $(layout 4 2) $rows --tp-comm-overlap
	near $of 5e-5 2e-3 8 $(layout 2 2) $(zero 2) $small
	near $of 5e-5 2e-3 4 $(layout 2 1) $(context 2) $rows --micro-batch-size 2
done
