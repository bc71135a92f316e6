#!/bin/sh
# beside.sh - what tensor ranks say beside products changes no bit
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 3 --lr 1e-3"

# same NAME RANKS OPTION...: with and without
same()
{
	name=$1 ranks=$2
	shift 2
	rm -rf off on off.jsonl on.jsonl
	train "$ranks" $steps "$@" --metrics-file off.jsonl --save off
	train "$ranks" $steps "$@" --metrics-file on.jsonl --save on --tp-comm-overlap
	results off.jsonl >off.steps
	results on.jsonl >on.steps
	same_steps "$name" off.steps on.steps
	same_tensors "$name" off on
	echo "$name: equal bit by bit"
}

same "llama, whole rows" 2 $(layout 2 1) --recompute-activations
same "llama, shared rows" 4 $(layout 4 1) --sequence-parallel --recompute-activations
model=$gpt2
same "gpt2, shared rows" 4 $(layout 2 2) --sequence-parallel --micro-batch-size 2
