#!/bin/sh
# A kind of block with a parameter and a saved buffer, at the end of each layer of models that have
# it by a field of theirs.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086
. "$TOP/tests/extend/toy"
helps '--layer-gain '
proves --layer-gain
# four layers, of which each has the tensor
[ "$(grep -c 'layer_gain.weight.*equal' diff.tsv)" = 4 ] || fail "not every gain was compared"
train 1 $steps --save without --metrics-file without.jsonl
first=$(gap lm_loss without.jsonl one.jsonl)
within 1e-9 "$first" && fail "gains change nothing"
everywhere 1 --layer-gain --recompute-granularity full --recompute-method uniform \
	--recompute-num-layers 2
everywhere 2 --layer-gain $(layout 2 1) --sequence-parallel
sizes="--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 499"
mplan mem $sizes --layer-gain --world-size 1 --buffers >buffers.tsv 2>log || fail "mplan mem"
grep -q 'saved	gain input' buffers.tsv || fail "the plan has no such buffer"
