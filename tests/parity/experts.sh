#!/bin/sh
# experts.sh - a checkpoint of ranks that share experts is that of any other layout
#
# In bf16, with biases of experts and ZeRO 1: an interrupted run continues with the same bits; so
# does one that another number of ranks loads, or from resharded files. In fp64, of a corpus that
# sends most rows to few experts: rows that a rank takes in several rounds give what they give in
# one, and what experts drop of a rank's rows does not depend on who has the experts. In fp32,
# whichever experts rows take, what comes of them does not depend on it either.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
model="$llama --num-experts 8 --moe-ffn-hidden-size 24 --moe-router-topk 3
	--moe-router-score-function sigmoid --moe-router-enable-expert-bias --bf16 --mock-data
	--moe-shared-expert-intermediate-size 16 --lr 1e-3"
shared="--expert-model-parallel-size"
slices="--expert-tensor-parallel-size"

run="8 $(zero 1) $shared 2 $slices 2 --train-iters 4"
train $run --save whole --save-interval 2
ends 3 $run --save half --exit-interval 2
train $run --save half --load half
same_tensors "interrupted" half whole
echo "8 ranks, experts over 2 pairs of them: a run that was interrupted has the same bits"
ends 3 $run --save early --exit-interval 2
mckpt reshard -q early there $(layout 2 1) --data-parallel-size 2 $shared 4 $slices 1
mckpt reshard -q there back --data-parallel-size 8 $shared 2 $slices 2
train $run --save back --load back
same_tensors "there and back" back whole
echo "resharded there and back in between: the same bits"

train $run --use-precision-aware-optimizer --save parts
same_tensors "masters in two parts" parts whole --tolerance 1e-5 --only '*.expert_bias'
echo "biases of experts with masters in two parts: those of fp32 masters"

# Weights, masters, moments and biases of the fourth step, as other layouts read and write them: a
# run of no further step saves what it has loaded.
again()
{
	name=$1 ranks=$2
	shift 2
	cp -r whole "$name"
	ends 3 "$ranks" "$@" --train-iters 5 --lr 0 --min-lr 0 --override-opt_param-scheduler \
		--weight-decay 0 --moe-router-bias-update-rate 0 --load "$name" --save "$name" \
		--exit-interval 1
	same_tensors "$name" "$name" whole --ignore '*.exp_avg*'
	echo "$name: weights and biases have the same bits"
}
again one 1
again all-experts-apart 8 $(zero 1) $shared 8
again tensor-ranks 4 $(layout 2 2) --sequence-parallel --micro-batch-size 2
mckpt reshard whole resharded $(layout 2 2) --data-parallel-size 2 >log 2>&1 || fail "mckpt reshard"
mckpt verify resharded >log 2>&1 || fail "mckpt verify"
same_tensors "resharded" resharded whole
echo "resharded: all tensors have the same bits"

# Four of five tokens are equal, and so are the experts that their rows choose: some rank gets
# several times as many rows as the others.
awk 'BEGIN {
	for (i = 0; i < 40; i++) {
		printf "{\"text\": \"7"
		for (k = 1; k < 40; k++)
			printf " %d", k % 5 ? 7 : (i * 13 + k * 31) % 498
		print "\"}"
	}
}' >one.jsonl
mtok encode --tokenizer-type NullTokenizer --vocab-size 499 --append-eod -q -o one one.jsonl \
	>log 2>&1 || fail "mtok encode"
model="$llama --num-experts 8 --moe-ffn-hidden-size 24 --moe-router-topk 2 --moe-z-loss-coeff 0.01
	--moe-aux-loss-coeff 0.05 --expert-tensor-parallel-size 1 --fp64 --train-iters 3 --lr 1e-3
	--clip-grad 0 --global-batch-size 8 --micro-batch-size 2 --split 100,0,0
	--data-path one_text_document --tokenizer-type NullTokenizer"
train 1 --save lopsided --metrics-file lopsided.jsonl

# rounds LEAST FACTOR OPTION...: the run of 4 ranks agrees with that of one, and the busiest rank
# took its rows in so many rounds, or more
rounds()
{
	least=$1 factor=$2
	shift 2
	rm -rf run run.jsonl
	train 4 $shared 4 --moe-expert-rank-capacity-factor "$factor" "$@" --save run \
		--metrics-file run.jsonl
	within 1e-9 $(gap lm_loss run.jsonl lopsided.jsonl) \
		$(gap grad_norm run.jsonl lopsided.jsonl) || fail "factor $factor: another loss"
	same_tensors "factor $factor" run lopsided --tolerance 1e-9
	grep -q "expert rounds: .* max rank load: " log || fail "no word of rounds"
	load=$(metric max_rank_load run.jsonl | sort -n | tail -n 1)
	echo "$load $factor $least" | awk '{ exit !($1 / $2 > $3 - 1) }' ||
		fail "factor $factor: a load of $load needs no $least rounds"
	echo "room for $factor times the mean, a load of $load${1:+, $*}: fp64 within 1e-9"
}
rounds 2 1.5
rounds 2 1.05 $shared 2 $slices 2
awk -v load="$load" 'BEGIN { exit load > 2 }' || fail "a load of $load, of pairs that get all rows"
rounds 8 0.25 --recompute-granularity full

# drops POLICY RUN RUN: ranks that share experts drop what those drop that have all. Which of the
# rows of one token has the lowest weight depends on rounding, so this corpus is another.
model=$(echo "$model" | sed 's/--data-path.*/--mock-data/')
drops()
{
	rm -rf run run.jsonl dropping dropping.jsonl
	capacity="--moe-expert-capacity-factor 0.7 --moe-token-drop-policy $1"
	train $2 $capacity --save dropping --metrics-file dropping.jsonl
	train $3 $capacity --save run --metrics-file run.jsonl
	grep -q "dropped rows: 0[.]" log || fail "no word of dropped rows"
	share=$(metric dropped_rows run.jsonl | sort -n | head -n 1)
	echo "$share" | awk '{ exit !($1 > 0.1 && $1 < 0.9) }' || fail "$share of the rows dropped"
	for key in lm_loss grad_norm dropped_rows; do
		within 1e-9 $(gap $key run.jsonl dropping.jsonl) ||
			fail "dropped by $1: another $key"
	done
	same_tensors "dropped by $1" run dropping --tolerance 1e-9
	echo "rows dropped by $1, $share of them: fp64 within 1e-9"
}
drops probs 1 "4 $shared 4 --moe-expert-rank-capacity-factor 0.5"
tensor="--sequence-parallel $slices"
drops position "2 $(layout 2 1) $tensor 1" \
	"4 $(layout 2 2) $tensor 2 --recompute-granularity full"

# Random logits: the most rows that an expert gets are near the mean, in any layout the same.
balance="--moe-router-force-load-balancing"
rm -rf run run.jsonl
train 1 $balance --save balanced --metrics-file balanced.jsonl
train 4 $shared 2 $(layout 2 2) --sequence-parallel $slices 1 $balance \
	--recompute-granularity full --save run --metrics-file run.jsonl
within 1e-9 "$(gap lm_loss run.jsonl balanced.jsonl)" || fail "random logits: another loss"
same_tensors "random logits" run balanced --tolerance 1e-9
echo "random logits, $balance: fp64 within 1e-9"

# A near tie makes rows of another layout take other experts, so these come from a file: for each
# row the experts after those that it took in one rank's run, so that no rank follows its own
# router.
model="$llama --num-experts 8 --moe-ffn-hidden-size 24 --moe-router-topk 3 --mock-data
	--moe-aux-loss-coeff 0.05 --moe-z-loss-coeff 0.01 --train-iters 3 --lr 1e-3"
routed write own 1 --metrics-file own.jsonl
awk '{
	if ($NF == 7)
		printf "%4d", 0
	for (i = 1; i <= NF; i++)
		if ($i < 7)
			printf "%4d", $i + 1
	print ""
}' own >next
routed read next 1 --metrics-file next.jsonl

# follows RANKS OPTION...: against one rank
follows()
{
	routed read next "$@" --metrics-file run.jsonl
	loss=$(gap lm_loss run.jsonl next.jsonl)
	norm=$(gap grad_norm run.jsonl next.jsonl)
	within 1e-6 "$loss" "$norm" ||
		fail "given experts, $*: loss differs by $loss, gradient norm by $norm"
	grep -q '^\([1-9][0-9]*\) rows of \1 choose otherwise' log || fail "rows choose themselves"
	echo "rows with given experts, $*: fp32 loss $loss, gradient norm $norm"
}
follows 4 $(layout 2 2) $(zero 1) $tensor 1 $shared 2 --recompute-granularity full
follows 8 $(layout 4 1) $tensor 4 $shared 2 $(context 2)
within 1e-6 "$(gap lm_loss own.jsonl next.jsonl)" && fail "other experts give the same loss"
echo "other experts give another loss"
