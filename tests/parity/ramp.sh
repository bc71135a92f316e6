#!/bin/sh
# ramp.sh - a batch size that changes gives steps of the right sizes, the same under every layout,
# and the same bits after a stop while it grows; an evaluation has its own
# shellcheck source=tests/parity/common disable=SC2086
. "$TOP/tests/parity/common"
text_dataset
common="$text --lr 1e-3 --lr-warmup-samples 20 --lr-decay-style cosine --log-interval 1"
linear="$common --rampup-batch-size 2 2 30 --train-samples 80"

# sizes FILE: the batch of each log line
sizes()
{
	sed -n 's/.* global batch size: *\([0-9]*\) .*/\1/p' "$1" | tr '\n' ' '
}

# 2 until 10 samples are consumed, 4 until 20, 6 until 30: from 10, 22 and 34 on.
train 1 $linear --save one --metrics-file one.jsonl
[ "$(sizes log)" = "2 2 2 2 2 4 4 4 6 6 8 8 8 8 8 " ] || fail "sizes: $(sizes log)"
results one.jsonl >one_rank

# In the middle of the ramp, under a layout with fewer micro batches than stages at first.
grid="$(layout 1 2) --use-distributed-optimizer"
train 4 $linear $grid --save whole --metrics-file whole.jsonl
ends 3 4 $linear $grid --load two --save two --exit-interval 7 --metrics-file two.jsonl
train 4 $linear $grid --load two --save two --metrics-file two.jsonl
results whole.jsonl >straight
results two.jsonl >resumed
same_steps "stopped while the batch grew" straight resumed
same_tensors "stopped while the batch grew" whole two
loss=$(gap lm_loss straight one_rank)
within 1e-6 "$loss" || fail "PP2 DP2: the loss differs by $loss"
echo "linear: 15 steps, bit by bit after a stop; PP2 DP2 within $loss of one rank"

# A loss scale that overflows at first: skipped samples of several sizes leave the schedule alone.
fp16="--fp16 --initial-loss-scale 1073741824 --loss-scale-window 3 --hysteresis 1"
model=$gpt2
train 1 $linear $fp16 --save half --metrics-file half.jsonl
ends 3 1 $linear $fp16 --load on --save on --exit-interval 7 --metrics-file on.jsonl
train 1 $linear $fp16 --load on --save on --metrics-file on.jsonl
results half.jsonl >straight
results on.jsonl >resumed
grep -q '"skipped": true' straight || fail "fp16: no step overflowed"
same_steps "fp16" straight resumed
same_tensors "fp16" half on

# An evaluation has a batch of its own: the same samples in other batches give the same loss, and
# training does not see it.
model=$llama
evals="$common --split 80,20,0 --lr-warmup-samples 0 --rampup-batch-size 4 4 8 --train-samples 20
	--eval-interval 1"
train 2 $evals --eval-iters 6 --eval-global-batch-size 4 --metrics-file small.jsonl
train 2 $evals --eval-iters 2 --eval-global-batch-size 12 --metrics-file large.jsonl
for f in small large; do
	grep '"split": "valid"' $f.jsonl >$f
	grep -v '"split"' $f.jsonl | results /dev/stdin >$f.steps
done
[ "$(wc -l <small)" = 3 ] || fail "$(wc -l <small) evaluations"
within 1e-6 "$(gap lm_loss small large)" || fail "batches of an evaluation: another loss"
same_steps "batches of an evaluation" small.steps large.steps

# And micro batches of its own: smaller and larger ones, on every kind of rank, in batches that need
# not be those of training.
evals="$evals --micro-batch-size 2 --eval-iters 2 --eval-global-batch-size 12"
train 1 $evals --metrics-file micro.jsonl
grep '"split": "valid"' micro.jsonl >micro
grep -v '"split"' micro.jsonl | results /dev/stdin >micro.steps
while read -r name ranks options; do
	train $ranks $evals $options --metrics-file own.jsonl </dev/null
	grep '"split": "valid"' own.jsonl >own
	within 1e-6 "$(gap lm_loss own micro)" || fail "$name: another loss of an evaluation"
	[ "$ranks" = 1 ] || continue
	grep -v '"split"' own.jsonl | results /dev/stdin >own.steps
	same_steps "$name: micro batches of an evaluation" micro.steps own.steps
done <<END
small 1 --eval-micro-batch-size 1
large 1 --eval-micro-batch-size 12 --async-save --save s --save-interval 1
stages 2 --eval-micro-batch-size 6 $(layout 1 2) --recompute-granularity full
chunks 2 --eval-micro-batch-size 6 $(layout 1 2) --num-layers-per-virtual-pipeline-stage 1
fewer 2 --eval-micro-batch-size 1 $(layout 1 2) --num-layers-per-virtual-pipeline-stage 1
tensor 2 --eval-micro-batch-size 4 $(layout 2 1) --sequence-parallel
context 2 --eval-micro-batch-size 4 --context-parallel-size 2
replicas 2 --eval-micro-batch-size 3 $(zero 3) --ddp-bucket-size 5000
END

for size in 1 6; do
	train 1 $evals --reset-attention-mask --eval-micro-batch-size $size \
		--metrics-file d$size.jsonl
	grep '"split": "valid"' d$size.jsonl >d$size
done
within 1e-6 "$(gap lm_loss d1 d6)" || fail "documents: another loss of an evaluation"

# By a table of tokens, 16 a sample, falling at the end; samples that fill no step are left out.
model=$(echo "$llama" | sed 's/--global-batch-size 8//')
train 2 $common --step-batch-size-schedule "0:2 0.128K:8,512:4" --train-samples 47
[ "$(sizes log)" = "2 2 2 2 8 8 8 4 4 4 " ] || fail "sizes by table: $(sizes log)"
echo "table: 10 steps"

# Resumed with micro batches that do not divide the earlier batch size: the samples count.
table="$common --train-samples 47 --save down --load down"
ends 3 1 $table --step-batch-size-schedule "0:2 128:8 512:4" --exit-interval 4
train 2 $table --step-batch-size-schedule "0:4 128:8 512:4" --micro-batch-size 2
[ "$(sizes log)" = "8 8 8 4 4 4 " ] || fail "sizes after a change: $(sizes log)"
