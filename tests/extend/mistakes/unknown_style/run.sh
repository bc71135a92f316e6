#!/bin/sh
# A checkpoint of a build with one style more, resumed by one without it.
run="--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --vocab-size 32
	--mock-data --train-iters 1 --lr 1e-3 --global-batch-size 1 --micro-batch-size 1"
dir=$(mktemp -d) || exit 0
trap 'rm -rf "$dir"' EXIT
# shellcheck disable=SC2086
"$BUILD/mtrain" $run --lr-decay-style 1-sqrt --save "$dir/saved" || exit 0
# shellcheck disable=SC2086
"$BEFORE/mtrain" $run --load "$dir/saved" --save "$dir/other"
