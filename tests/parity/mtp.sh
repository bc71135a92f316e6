#!/bin/sh
# mtp.sh - layers that predict later tokens: resumes under another layout, micro batches of another
# size, recomputation; and their losses reach the whole model
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
model="$llama --mtp-num-layers 2 --reset-attention-mask --eod-mask-loss"
common="$text --train-iters 6 --lr 1e-3 --fp64"

# near A B: the losses of all heads, and the norm
near()
{
	for key in lm_loss mtp_1_loss mtp_2_loss grad_norm; do
		difference=$(gap $key "$1" "$2") || fail "$1, $2: no $key"
		within 1e-11 "$difference" || fail "$1, $2: $key differs by $difference"
	done
}

train 1 $common --save one --save-interval 3 --metrics-file one.jsonl
grep -q 'lm loss: .* mtp_1 loss: .* mtp_2 loss: .* loss scale' log || fail "no losses in the log"
ends 3 4 $common $(layout 2 2) --sequence-parallel --save other --exit-interval 3 \
	--metrics-file other.jsonl
train 2 $common $(context 2) $(zero 3) --load other --save other --metrics-file other.jsonl
near one.jsonl other.jsonl
same_tensors "3 + 3 steps under other layouts" one other --tolerance 1e-9
train 2 $common --micro-batch-size 4 --metrics-file large.jsonl
near one.jsonl large.jsonl
echo "resumed under other layouts, and with larger micro batches, losses are within 1e-11"

for how in selective full; do
	rm -f again.jsonl
	train 1 $common --recompute-granularity $how --metrics-file again.jsonl
	results one.jsonl >straight
	results again.jsonl >again
	same_steps "recomputation: $how" straight again
done

# Without weight their gradients leave nothing, and the model trains as one without such layers.
train 1 $common --mtp-loss-scaling-factor 0 --metrics-file zero.jsonl --eval-iters 1
model="$llama --reset-attention-mask --eod-mask-loss"
train 1 $common --metrics-file none.jsonl --eval-iters 1
difference=$(gap lm_loss zero.jsonl none.jsonl)
within 1e-14 "$difference" || fail "losses without weight move the model by $difference"
difference=$(gap lm_loss one.jsonl none.jsonl) || true
! within 1e-14 "$difference" || fail "losses of later tokens do not reach the model"
echo "losses of later tokens count by their factor"
