#!/bin/sh
# rewind.sh - --rewind-on-spike: a run that goes back before a spike is, bit by bit, the one that
# was told to skip the same steps, and the one that was stopped on the way and resumed
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

# Token 7 everywhere except in one document, so that it is soon learnt.
awk 'BEGIN {
	for (i = 0; i < 400; i++) {
		printf "{\"text\": \""
		for (k = 0; k < 32; k++)
			printf "%s%d", k ? " " : "", i == 150 ? 40 + 11 * k : 7
		print "\"}"
	}
}' >text.jsonl
mtok encode --tokenizer-type NullTokenizer --vocab-size 499 --append-eod -q -o text text.jsonl \
	>log 2>&1 || fail "mtok encode"
common="$text --lr 1e-2 --lr-decay-style cosine --train-iters 50"
saves="--save-interval 5"
rule="--rewind-on-spike 2.5:6"

# steps FILE: the lines of steps, without the fields that tell the time
steps()
{
	results "$1" | grep '"grad_norm"'
}

# The steps with that document: 24 and 38 on every machine.
train 1 $common --metrics-file plain.jsonl
metric lm_loss plain.jsonl | awk 'NR > 15 && $1 > 0.5 { print NR }' | tr '\n' ' ' >spikes
[ "$(cat spikes)" = "24 38 " ] || fail "the data have other spikes: $(cat spikes)"

# The run goes back before both, says so, and reaches its end.
train 1 $common $saves $rule --save one --metrics-file one.jsonl -v
while read -r spike to first; do
	grep -q "^mtrain: iteration $spike: a loss of .*, and a median of .* before it: back to \
iteration $to; iterations $first to $spike are passed over$" log || fail "nothing of $to"
done <<END
24 15 18
38 30 32
END
# How the time was spent: all parts, and 16 of the 66 steps are lost.
sed -n 's/^mtrain: of .* s \(.*\) % were steps that count, \(.*\) % saves, \(.*\) % evaluation, '\
'\(.*\) % the start, \(.*\) % steps that a rewind lost$/\1 \2 \3 \4 \5/p' log >parts
awk '{ if (($1 + $2 + $3 + $4 + $5 - 100) ^ 2 < 0.1 && $2 > 0 && $4 > 0) ok = $5 > $1 / 5 }
	END { exit !ok }' parts || fail "the parts of the time: $(cat parts)"
[ "$(grep -c '"rewind_to"' one.jsonl)" = 2 ] || fail "not two rewinds in the metrics"
grep -q '^{"iteration": 24, "rewind_to": 15, "passed_first": 18, "passed_last": 24, "lm_loss": ' \
	one.jsonl || fail "the metrics do not show the rewinds"
grep -q "^rewound 18-24 32-38$" one/iter_0000050/state.conf || fail "not in the checkpoint"
grep -q "^skipped_iterations 14$" one/iter_0000050/state.conf || fail "not counted as skipped"
[ "$(echo one/*.aside-*)" = "one/iter_0000020.aside-1 one/iter_0000035.aside-1" ] ||
	fail "moved aside: $(echo one/*.aside-*)"

# The same steps skipped by option, from the first of the checkpoints. Of each step after it the
# last line counts.
mkdir hand
cp -r one/iter_0000015 hand
echo 15 >hand/latest_checkpointed_iteration.txt
train 1 $common --load hand --save hand --metrics-file hand.jsonl \
	--iterations-to-skip $(seq 18 24) $(seq 32 38)
steps one.jsonl | tac | awk -F'[:,]' '!seen[$2]++' | tac | tail -n +16 >one.steps
steps hand.jsonl >hand.steps
same_steps "told by hand" one.steps hand.steps
same_tensors "told by hand" one hand

# Stopped every 11 steps, at 22 and 33 before the spike and once more among the steps that are
# passed over: what is remembered of losses and rewinds comes from the checkpoint.
often="$common $saves $rule --load often --save often --metrics-file often.jsonl"
for stop in 11 22 22 33 33 44; do
	ends 3 1 $often --exit-interval 11
	grep -q "stopped after iteration $stop by" log || fail "no stop after iteration $stop"
done
train 1 $often
[ "$(grep -c '"rewind_to"' often.jsonl)" = 2 ] || fail "not two rewinds of a run that is stopped"
steps often.jsonl | tac | awk -F'[:,]' '!seen[$2]++' | tac | tail -n +16 >often.steps
same_steps "stopped on the way" one.steps often.steps
same_tensors "stopped on the way" one often

# Other layouts, and saves beside the steps: the same rewinds.
for layout in "$(layout 2 1) --async-save" "$(zero 3) --ddp-bucket-size 5000"; do
	rm -rf other other.jsonl
	train 2 $common $saves $rule $layout --save other --metrics-file other.jsonl
	[ "$(grep -c '"rewind_to"' other.jsonl)" = 2 ] || fail "$layout: not two rewinds"
	grep -v null one.jsonl >taken
	grep -v null other.jsonl >others
	within 1e-5 "$(gap lm_loss taken others)" || fail "$layout: another loss"
done

# Without an earlier checkpoint, and after the last rewind allowed, the run continues.
train 1 $common --save-interval 40 $rule --save none --metrics-file none.jsonl
grep -q "^mtrain: iteration 24: .*: no checkpoint of this run is from before iteration 18; the \
run continues$" log || fail "it does not say that no checkpoint is early enough"
steps plain.jsonl >plain.steps
steps none.jsonl >none.steps
same_steps "without an earlier checkpoint" plain.steps none.steps
train 1 $common $saves $rule:1 --save once --metrics-file once.jsonl
[ "$(grep -c '"rewind_to"' once.jsonl)" = 1 ] || fail "not one rewind of one"
grep -q "^mtrain: iteration 38: .*: all 1 rewinds have been taken; the run continues$" log ||
	fail "it does not say that all rewinds have been taken"
