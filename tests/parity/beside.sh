#!/bin/sh
# beside.sh - what tensor ranks say beside products changes no bit where products stay whole, and
# rounding where they are of a part of the rows each
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

both 2 $(layout 2 1) --recompute-activations
results off.jsonl >off.steps
results on.jsonl >on.steps
same_steps "whole rows" off.steps on.steps
same_tensors "whole rows" off on
echo "whole rows: equal bit by bit"

both 4 $(layout 4 1) --sequence-parallel --recompute-activations --fp64
loss=$(gap lm_loss on.jsonl off.jsonl)
norm=$(gap grad_norm on.jsonl off.jsonl)
within 1e-12 "$loss" "$norm" || fail "shared rows: loss differs by $loss, gradient norm by $norm"
same_tensors "shared rows" off on --tolerance 1e-11
echo "shared rows: loss differs by $loss, gradient norm by $norm; all tensors within 1e-11"
