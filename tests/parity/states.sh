#!/bin/sh
# states.sh - moments in bfloat16: the same under every layout, after a stop, resharded, and close
# to those in full precision
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 8 --lr 1e-3"
narrow="--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"

# In fp64 the order of sums decides hardly any rounding of a moment.
grid="$(layout 2 1) $(zero 1)"
train 1 $steps --fp64 --metrics-file wide.jsonl
train 1 $steps --fp64 $narrow --save one --metrics-file one.jsonl
train 4 $steps --fp64 $narrow $grid --save grid --metrics-file grid.jsonl
loss=$(gap lm_loss grid.jsonl one.jsonl)
norm=$(gap grad_norm grid.jsonl one.jsonl)
within 1e-9 "$loss" "$norm" || fail "loss differs by $loss, gradient norm by $norm"
same_tensors "TP 2 x DP 2 with ZeRO-1" grid one --tolerance 1e-9
echo "TP 2 x DP 2 with ZeRO-1: loss $loss, gradient norm $norm from one rank's"

loss=$(gap lm_loss one.jsonl wide.jsonl)
within 1e-3 "$loss" || fail "the loss differs by $loss from that with moments in fp64"
! within 1e-9 "$loss" || fail "the moments are not in bfloat16"
mckpt info --tensors one | awk -F '\t' '
	/\.exp_avg(_sq)?\t/ && $2 != "BF16" { bad = 1 }
	!/\.exp_avg(_sq)?\t/ && NR > 1 && $2 != "F64" { bad = 1 }
	END { exit bad || NR < 9 }' || fail "the checkpoint has other types"
echo "moments in bfloat16, on disk too: loss $loss from moments in fp64"

# Main gradients too are rounded once per micro batch, in the same way under every layout that
# shards them.
grads="$narrow --main-grads-dtype bf16 --micro-batch-size 4"
train 2 $steps --fp64 $grads $(zero 2) --save grads2 --metrics-file grads2.jsonl
train 2 $steps --fp64 $grads $(zero 3) --save grads3 --metrics-file grads3.jsonl
train 4 $steps --fp64 $grads $(zero 2) $(layout 2 1) --save grads --metrics-file grads.jsonl
results grads2.jsonl >grads2.steps
results grads3.jsonl >grads3.steps
same_steps "gradients in bfloat16, ZeRO-2 and 3" grads2.steps grads3.steps
same_tensors "gradients in bfloat16, ZeRO-2 and 3" grads2 grads3
loss=$(gap lm_loss grads.jsonl grads2.jsonl)
norm=$(gap grad_norm grads.jsonl grads2.jsonl)
within 1e-9 "$loss" "$norm" || fail "TP 2: loss differs by $loss, gradient norm by $norm"
loss=$(gap lm_loss grads2.jsonl one.jsonl)
within 1e-3 "$loss" || fail "gradients in bfloat16: the loss differs by $loss"
! within 1e-9 "$loss" || fail "the gradients are not in bfloat16"
echo "main gradients in bfloat16: loss $loss from those in fp64, TP 2: gradient norm $norm"

# Master weights as weights and remainders: those of fp32, but for ties.
train 4 $steps --bf16 $grid --save masters --metrics-file masters.jsonl
train 4 $steps --bf16 $grid --use-precision-aware-optimizer --save parts --metrics-file parts.jsonl
same_tensors "weights with remainders" parts masters --tolerance 1e-5
loss=$(gap lm_loss parts.jsonl masters.jsonl)
within 1e-4 "$loss" || fail "weights with remainders: the loss differs by $loss"
mckpt info --tensors parts | awk -F '\t' 'NR > 1 && $2 != "F32" { exit 1 }' ||
	fail "the checkpoint has other types"
echo "weights with remainders: loss $loss from fp32 masters, the same on disk"

# A stop changes no bit, and neither do other layouts on disk.
ends 3 4 $steps --bf16 $narrow $grid --save half --exit-interval 4
train 4 $steps --bf16 $narrow $grid --save straight --metrics-file straight.jsonl
mckpt reshard half there $(layout 1 2) >log 2>&1 || fail "mckpt reshard"
mckpt reshard there back --data-parallel-size 2 $(layout 2 1) >log 2>&1 || fail "mckpt reshard"
same_tensors "resharded" half back
train 4 $steps --bf16 $narrow $grid --load back --save on --metrics-file on.jsonl
results straight.jsonl 5 >straight.steps
results on.jsonl >on.steps
same_steps "4 + 4 steps, resharded in between" straight.steps on.steps
same_tensors "4 + 4 steps, resharded in between" straight on
echo "4 + 4 steps, resharded in between: equal bit by bit"

# An update moves 4 bytes of gradient, and twice 2 of weight, remainder and both moments.
train 1 --mock-data --train-iters 3 --lr 1e-3 --bf16 $narrow --profile --profile-step-start 1 \
	--profile-step-end 2
mckpt info one | grep '^parameters' | cat - profile.tsv | awk -F '\t' '
	$1 == "parameters" { n = $2 }
	$1 == "adamw" { bytes += $2 * $6 * 1e6 / n }
	END { exit !(bytes > 19 && bytes < 21) }' ||
	fail "the bytes of an update are not 20 a parameter"

# The types may change on resume.
train 4 $steps --bf16 $grid --load half --save widened --metrics-file widened.jsonl
loss=$(gap lm_loss widened.jsonl on.jsonl)
within 1e-3 "$loss" || fail "resumed with moments in fp32: the loss differs by $loss"
echo "resumed with moments in fp32: loss $loss"
