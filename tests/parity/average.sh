#!/bin/sh
# average.sh - the moving average of the weights follows its formula and is the same under every
# layout, after a stop, saved in the background, resharded and exported
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 6 --lr 1e-2"
average="--ema-decay 0.75"

# Computed here: a norm's weights start as 1.
train 1 $steps --fp64 $average --train-iters 3 --save each --save-interval 1
norm=decoder.final_layernorm.weight
for i in 1 2 3; do
	mckpt cat each/iter_000000$i $norm >step$i
done
mckpt cat each $norm.ema | paste - step1 step2 step3 | awk '
	{ want = ((0.75 + $2 / 4) * 0.75 + $3 / 4) * 0.75 + $4 / 4; d = $1 - want }
	d > 1e-7 || d < -1e-7 || $1 == $4 { exit 1 }
	END { exit NR != 32 }' || fail "the average is not what its formula gives"

train 1 $steps --fp64 $average --save one
train 4 $steps --fp64 $average $(layout 2 1) $(zero 1) --save zero1
train 4 $steps --fp64 $average $(layout 1 2) $(zero 3) --save zero3
same_tensors "TP 2 x DP 2 with ZeRO-1" zero1 one --only "*.ema" --tolerance 1e-9
same_tensors "PP 2 x DP 2 with ZeRO-3" zero3 one --only "*.ema" --tolerance 1e-9
echo "the average by its formula, and the same under other layouts"

# Where the masters have the same bits, so does their average; saves in the background hold it.
train 2 $steps --bf16 $average $(zero 1) --save sharded --async-save --save-interval 2
train 2 $steps --bf16 $average --save whole
same_tensors "ZeRO-1" sharded whole
ends 3 2 $steps --bf16 $average $(zero 1) --save half --exit-interval 4
mckpt reshard half there $(layout 2 2) >log 2>&1 || fail "mckpt reshard"
mckpt reshard there back --data-parallel-size 2 >log 2>&1 || fail "mckpt reshard"
same_tensors "resharded" half back
train 2 $steps --bf16 $average $(zero 1) --load back --save on
same_tensors "4 + 2 steps, resharded in between" on whole
mckpt verify on >log 2>&1 || fail "mckpt verify"
train 2 $steps --bf16 $average --use-precision-aware-optimizer $(zero 1) --save parts
same_tensors "masters as weights and remainders" parts whole --only "*.ema" --tolerance 1e-5
echo "equal bit by bit: sharded, saved beside the steps, stopped and resharded"

# A run without the average continues without it; one that begins it later says so.
train 1 $steps --bf16 --load half --save without
mckpt info --tensors without | grep -q "ema" && fail "an average without --ema-decay"
grep -q "its average of the weights ends here, without --ema-decay" log ||
	fail "the log does not say that the average ends"
train 1 $steps --bf16 $average --train-iters 8 --load without --save begun \
	--override-opt_param-scheduler
grep -q "holds no average of the weights: it begins here" log ||
	fail "the log does not say that the average begins"

mexport -q on last >log 2>&1 || fail "mexport"
mexport -q --weights ema on average >log 2>&1 || fail "mexport --weights ema"
cmp -s last/model.safetensors average/model.safetensors && fail "both exports are the same"
mckpt reshard --no-optim on weights >log 2>&1 || fail "mckpt reshard --no-optim"
mexport -q --weights ema weights again >log 2>&1 || fail "mexport of weights and average"
cmp -s average/model.safetensors again/model.safetensors || fail "--no-optim changes the average"
! mexport -q --weights ema without none >log 2>&1 ||
	fail "a checkpoint without an average was exported"
grep -q "holds no average of the weights: a run keeps one with --ema-decay" log ||
	fail "the reason is not named"
echo "exported"
