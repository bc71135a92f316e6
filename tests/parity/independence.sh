#!/bin/sh
# independence.sh - initial weights are the same bits under every layout (the order of the data:
# tests/prop/data.c)
# shellcheck source=tests/parity/common disable=SC2086
. "$TOP/tests/parity/common"
step="--mock-data --train-iters 1 --lr 0 --no-save-optim"

# weights NAME RANKS TP PP OPTION...: the weights after a step of no length are those of one rank
weights()
{
	name=$1 ranks=$2 options=$(layout "$3" "$4")
	shift 4
	rm -rf run
	train "$ranks" $step $options "$@" --save run
	same_tensors "$name under $ranks ranks, $options" run "$name"
	echo "$name: initial weights are equal bit by bit under $ranks ranks, $options $*"
}

train 1 $step --save llama
weights llama 4 4 1
weights llama 2 1 2 --use-distributed-optimizer
weights llama 8 2 2
model=$gpt2
train 1 $step --save gpt2
weights gpt2 2 2 1
weights gpt2 4 1 4
weights gpt2 8 4 1 --use-distributed-optimizer
train 1 $step --bf16 --save gpt2-bf16
weights gpt2-bf16 4 2 2 --bf16
train 1 $step --seed 4321 --save other
if (same_tensors mutation other gpt2) >found; then
	fail "another seed gives the same weights"
fi
grep -q linear_q.weight found || fail "another seed leaves linear_q.weight alone"
echo "another seed gives other weights"
