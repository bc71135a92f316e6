#!/bin/sh
# skipping.sh - steps of --iterations-to-skip consume their samples and leave all else as it was
# shellcheck source=tests/parity/common disable=SC2086
. "$TOP/tests/parity/common"
text_dataset
common="$text --lr 1e-3 --lr-decay-style constant --train-iters 8 --log-interval 4"

# loss FILE ITERATION: its loss
loss()
{
	sed -n "s/.*\"iteration\": $2,.*\"lm_loss\": \([^,]*\).*/\1/p" "$1"
}

# A step with a rate of 0 changes no weights: with it every loss is that of the data alone.
still="$text --lr 0 --train-iters 8"
train 1 $still --metrics-file all.jsonl
train 1 $still --metrics-file some.jsonl --iterations-to-skip 3 6 99
for i in 1 2 4 5 7 8; do
	[ "$(loss all.jsonl $i)" = "$(loss some.jsonl $i)" ] || fail "step $i read other samples"
done
[ "$(loss some.jsonl 3) $(loss some.jsonl 6)" = "null null" ] || fail "a skipped step has a loss"
[ "$(grep -c '"skipped": true' some.jsonl)" = 2 ] || fail "not two skipped steps"

# The state is that of a run that took fewer steps: the rate, the moments and their count.
train 1 $common --iterations-to-skip 1 5 --save one --save-interval 5 --metrics-file one.jsonl
[ "$(grep -c 'number of skipped iterations:   1 ' log)" = 2 ] || fail "not counted in the log"
grep -q "^optimizer_steps 6$" one/iter_0000008/state.conf || fail "steps of the optimizer"
grep -q "^skipped_samples 16$" one/iter_0000008/state.conf || fail "skipped samples"
grep -q "^passed_samples 16$" one/iter_0000008/state.conf || fail "samples that were passed over"
[ "$(sed -n 's/.* skipped samples: *\([0-9]*\) |.*/\1/p' log | tr '\n' ' ')" = "8 16 " ] ||
	fail "the log does not count skipped samples: $(cat log)"
results one.jsonl >straight

# The same when stopped before, at and after a skipped step, on two ranks too.
ends 3 1 $common --load two --save two --iterations-to-skip 1 5 --exit-interval 5 \
	--metrics-file two.jsonl
train 1 $common --load two --save two --iterations-to-skip 1 5 --metrics-file two.jsonl
results two.jsonl >resumed
same_steps "stopped at a skipped step" straight resumed
same_tensors "stopped at a skipped step" one two
train 2 $common --iterations-to-skip 1 5 --metrics-file ranks.jsonl
grep -v null one.jsonl >taken
grep -v null ranks.jsonl >ranks
within 1e-6 "$(gap lm_loss taken ranks)" || fail "2 ranks: another loss"
