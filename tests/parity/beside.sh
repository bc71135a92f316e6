#!/bin/sh
# beside.sh - communication of tensor ranks beside GEMMs changes only rounding where each GEMM takes
# a part of the rows, and no bit where rows do not divide and GEMMs stay whole
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 3 --lr 1e-3"

# both RANKS OPTION...: a run without and one with
both()
{
	ranks=$1
	shift
	rm -rf off on off.jsonl on.jsonl
	train "$ranks" $steps "$@" --metrics-file off.jsonl --save off
	train "$ranks" $steps "$@" --metrics-file on.jsonl --save on --tp-comm-overlap
}

both 2 $(layout 2 1) --recompute-activations --seq-length 15
results off.jsonl >off.steps
results on.jsonl >on.steps
same_steps "rows that do not divide" off.steps on.steps
same_tensors "rows that do not divide" off on
echo "rows that do not divide: equal bit by bit"

for rows in "" --sequence-parallel; do
	name=${rows:-whole rows}
	both 4 $(layout 4 1) $rows --recompute-activations --fp64
	loss=$(gap lm_loss on.jsonl off.jsonl)
	norm=$(gap grad_norm on.jsonl off.jsonl)
	within 1e-12 "$loss" "$norm" ||
		fail "$name: loss differs by $loss, gradient norm by $norm"
	same_tensors "$name" off on --tolerance 1e-11
	echo "$name: loss differs by $loss, gradient norm by $norm; all tensors within 1e-11"
done
