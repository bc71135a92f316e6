#!/bin/sh
# One more buffer that the MLP saves: a copy of what the up projection makes.
# shellcheck source=tests/extend/toy disable=SC2031,SC2046,SC2086
. "$TOP/tests/extend/toy"
proves
(PATH=$BEFORE:$PATH && train 1 $steps --save before --metrics-file before.jsonl)
same_tensors "a build without the buffer" one before
sizes="--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 499"
# saved BUILD: bytes of activations by the plan, which is what a run takes
saved()
{
	"$1/mplan" mem $sizes --world-size 1 2>log | awk -F '\t' 'NR == 2 { print $7 }'
}
mplan mem $sizes --world-size 1 --buffers >buffers.tsv 2>log || fail "mplan mem"
copy=$(awk -F '\t' '$3 == "copy of fc1 output" { print $7 }' buffers.tsv)
[ "$(saved "$B")" = $(($(saved "$BEFORE") + copy)) ] || fail "saved bytes grow by another number"
