#!/bin/sh
# schedule.sh - corpora whose weights change at given tokens: three stages, of which one corpus
# comes and one goes. No sample is read twice or lost, runs that are stopped at boundaries or killed
# in between continue with the same bits, and what mshard says is what the run reads.
# KILLS=50 ONLY=schedule sh tests/run.sh parity kills fifty runs in place of four; SEED is of the
# steps at which they are killed.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

# The batch grows from 4 to 8; the second stage begins within what would be a step.
corpus a 1 300 3 38
corpus b 2 300 3 38
corpus c 3 200 3 38
a=a_text_document b=b_text_document c=c_text_document
cat >stages <<END
# tokens, then weights and corpora
0     0.7 $a 0.3 $b
1.5K  0.5 $a 0.25 $b 0.25 $c   # c comes
3000  0.6 $b 0.4 $c
END
data="--tokenizer-type NullTokenizer --vocab-size 499 --split 90,10,0 --data-cache-path cache"
batch="--global-batch-size 8 --rampup-batch-size 4 4 64"
steps="--train-samples 304 --lr 1e-3 --log-interval 1 --eod-mask-loss $batch"
schedule="--data-schedule stages $data $steps"
maps="--data-schedule stages --seq-length 16 --num-samples 304,0,0 $data $batch"

# steps FILE [FIRST]: what its lines of steps say that no clock does
steps()
{
	results "$1" | grep '"grad_norm"' | tail -n +"${2:-1}"
}

# corpora FILE: what a metrics file says of corpora
corpora()
{
	results "$1" | grep '"corpus"'
}


# same WHAT: the steps of got.jsonl are those of the straight run
same()
{
	steps got.jsonl >got
	same_steps "$1" want got
}

train 1 $schedule --metrics-file straight.jsonl
steps straight.jsonl >want
total=$(wc -l <want)
grep 'data: stage . of 3: ' log | cut -d : -f 2- >said
cat >expected <<'END'
 data: stage 1 of 3: 96 samples from sample 0 on, 2 corpora
 data: stage 2 of 3: 96 samples from sample 96 on, 3 corpora
 data: stage 3 of 3: 112 samples from sample 192 on, 2 corpora
END
cmp expected said || fail "the stages are not where they should be"
grep -q 'data: stage 3 of 3 begins after sample 192, token 3072' log || fail "no note at a boundary"

mshard blend $maps --dry-run >counts.tsv || fail "mshard blend"
# Every corpus is read in its own order, without a gap and without a sample twice, over the stages.
mshard sample $maps --count 304 >samples
for corpus in $a $b $c; do
	awk -v c=$corpus '$2 == c { print $3 }' samples >places
	asked=$(awk -v c=$corpus '$1 == "all" && $5 == c { print $12 }' counts.tsv)
	mshard sample --data-path $corpus --num-samples "$asked,0,0" --seq-length 16 $data \
		--count "$(wc -l <places)" | awk 'NR > 1 { print $3 }' >order
	cmp places order || fail "$corpus: not its own order"
	[ "$(sort -u places | wc -l)" = "$(wc -l <places)" ] || fail "$corpus: a sample twice"
done
echo "three stages: every corpus in its order, no sample lost or twice"

# What mshard counts is what the metrics say at the end of every stage and at the end of the run.
for end in 96 192 304; do
	mshard blend $maps --dry-run --consumed-samples $end |
		awk '$1 == "all" && $5 != "-" { print $5, $13, $13 * 16 }' | sort >counted
	at=$(grep "\"consumed_samples\": $end,.*\"grad_norm" straight.jsonl | tr -dc '0-9,' |
		cut -d , -f 1)
	[ "$at" ] || fail "no step ends at sample $end"
	corpora straight.jsonl | grep "{\"iteration\": $at," | tr -d '",:' |
		awk '{ print $4, $6, $8 }' | sort >logged
	cmp counted logged || fail "sample $end: mshard blend and the metrics differ"
done
awk -F'"trained_tokens": ' '/"corpus"/ { split($2, n, ","); last[$0 ~ /a_text/ ? "a" : \
	$0 ~ /b_text/ ? "b" : "c"] = n[1] } END { exit !(last["a"] > 0 && last["a"] < 1840) }' \
	straight.jsonl || fail "trained tokens"
grep '"corpus"' straight.jsonl | tail -n 3 | grep -q '"stage": 3' || fail "no stage in the metrics"

# Stopped and resumed at each boundary, under another layout in between.
rm -rf save got.jsonl
boundary1=20 boundary2=32
ends 3 1 $schedule --save save --metrics-file got.jsonl --exit-interval $boundary1
grep -q 'data_stages 0 0 0:0.69999999999999996 1:0.29999999999999999 | 96 1500 ' \
	save/iter_*/state.conf || fail "the stages are not recorded"
ends 3 1 $schedule --save save --load save --metrics-file got.jsonl --exit-interval $boundary2
train 1 $schedule --save save --load save --metrics-file got.jsonl
same "stopped at each boundary"
corpora straight.jsonl | tail -n 3 >want.corpora
corpora got.jsonl | tail -n 3 >got.corpora
cmp want.corpora got.corpora || fail "the counts of corpora differ after resumes"
echo "stopped and resumed at each boundary: the same bits, tokens and epochs"

# The lists of the stages one after the other, each from its boundary on.
rm -rf save got.jsonl
list() {
	echo "--data-path $* $data $steps --save save --metrics-file got.jsonl"
}
ends 3 1 $(list 0.7 $a 0.3 $b) --exit-interval $boundary1
ends 3 1 $(list 0.5 $a 0.25 $b 0.25 $c) --load save --data-change exclude-seen \
	--exit-interval $boundary2
train 1 $(list 0.6 $b 0.4 $c) --load save --data-change exclude-seen
same "three lists in turn"
echo "three lists in turn with --data-change exclude-seen: the same bits"

# Lines to come may change on resume, lines that were used may not.
rm -rf save got.jsonl
ends 3 1 $schedule --save save --metrics-file got.jsonl --exit-interval 26
cp stages before
sed 's/^3000 .*/2900 0.2 '"$a"' 0.8 '"$c"'/' before >stages
ends 1 1 $schedule --save save --load save
grep -q 'stage 3 begins at 2900 tokens and began at 3000' log || fail "the change is not named"
ends 3 1 $schedule --save save --load save --data-change exclude-seen --metrics-file got.jsonl \
	--exit-interval $boundary2
steps got.jsonl >got
[ "$(head -n 31 got)" = "$(head -n 31 want)" ] || fail "the stage under way did not continue"
[ "$(head -n 32 got)" != "$(head -n 32 want)" ] || fail "the new line changes nothing"
train 1 $schedule --save save --load save --metrics-file got.jsonl
steps got.jsonl >got
sed 's/^1.5K *0.5/1.5K 0.6/' stages >now && mv now stages
for change in refuse exclude-seen; do
	ends 1 1 $schedule --save save --load save --train-samples 320 --data-change $change
	grep -q "the weight of $a in stage 2 is 0.6 and was 0.5" log ||
		fail "$change: a used line that changed is not named"
done
train 1 $schedule --save save --load save --train-samples 320 --data-change restart \
	--override-opt_param-scheduler
cp before stages
echo "another line ahead: accepted by option; another line that was used: refused"

# A corpus of a tiny weight gets its share, in a stage as in a list: that of the greedy choice.
cat >tiny <<END
0      0.4 $a 0.6 $b
16M    0.4 $a 0.599998 $b 2e-6 $c
END
mshard blend --data-schedule tiny --seq-length 16 --num-samples 4000000,0,0 --split 1,0,0 \
	--vocab-size 499 --tokenizer-type NullTokenizer --global-batch-size 1000 --dry-run \
	>counts.tsv
given=$(awk -v c=$c '$1 == 2 && $5 == c { print $7 }' counts.tsv)
[ "$given" -ge 5 ] || fail "a corpus of weight 2e-6 gets ${given:-nothing}"
echo "a corpus of weight 2e-6: $given samples of 3,000,000"

# Killed at seeded steps, with a checkpoint every third step, and started again.
x=${SEED:-1} kills=0
while [ $kills -lt "${KILLS:-4}" ]; do
	kills=$((kills + 1)) x=$((x * 16807 % 2147483647))
	at=$((x % total + 1))
	rm -rf save got.jsonl
	MIKOSHI_FAULT=kill:0:$at "$B/tests/faulty/mtrain" $model $schedule --save save \
		--save-interval 3 --metrics-file got.jsonl >log 2>&1 && fail "nobody was killed"
	[ $at -le 3 ] || load="--load save"
	train 1 $schedule --save save ${load:-} --save-interval 3 --metrics-file again.jsonl
	load=
	steps got.jsonl >got
	! grep -qFxvf want got || fail "killed at step $at: the steps before differ"
	steps again.jsonl >got
	tail -n "$(wc -l <got)" want >rest
	same_steps "killed at step $at" rest got
	corpora again.jsonl | tail -n 3 >got.corpora
	cmp want.corpora got.corpora || fail "killed at step $at: the counts of corpora differ"
	rm again.jsonl
done
echo "killed at $kills seeded steps: the same bits, tokens and epochs"
