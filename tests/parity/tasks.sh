#!/bin/sh
# tasks.sh - tasks have the answers of lm-evaluation-harness (tests/golden/tasks), under any layout
# those of one rank; a run that evaluates them trains as one that does not, and ends with what its
# checkpoint gives
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
: "${ALL:=}"
golden=$TOP/tests/golden/tasks llama=$TOP/tests/golden/ckpt/llama
model="--model $llama --tokenizer-type HuggingFaceTokenizer --tokenizer-model $golden
	--seq-length 64 --num-threads 1 --fp64 --micro-batch-size 2"
tasks="--eval-tasks $golden/lines --eval-tasks-output answers --eval-max-length 48"
weights="--pretrained-checkpoint $llama --skip-train"

# lls FILE: the log-likelihoods, one a line
lls()
{
	sed 's/.*"lls": \[\([^]]*\)\].*/\1/; s/, /\n/g' "$1"
}

# rest FILE: all else that lm_eval gives
rest()
{
	sed 's/"lls": \[[^]]*\]//; s/, "chosen": [0-9]*//' "$1"
}

# near NAME FILE TOLERANCE: the answers are those of the file
near()
{
	rest answers >mine
	rest "$2" | cmp - mine || fail "$1: others are the likeliest"
	lls answers >mine
	lls "$2" | paste -d ' ' - mine | awk -v most="$3" '
		{ d = $1 - $2; if (!(NF == 2 && d * d < most * most)) bad = 1 }
		END { exit bad || NR < 50 }' || fail "$1: other log-likelihoods"
}

train 1 $tasks $weights --metrics-file metrics
near "one rank" "$golden/answers" 2e-5
tab=$(printf '\t')
sed -n 's/.*"task": "\(.*\)", "metric": "\(.*\)", "value": \([^,]*\),.*/\1 \2 \3/p' metrics |
	tr ' ' "$tab" | paste "$golden/figures.tsv" - | awk '
		{ d = ($3 - $6) / ($3 + 1e-9); if ($1 != $4 || $2 != $5 || d * d > 1e-12) bad = 1 }
		END { exit bad || NR != 11 }' || fail "other figures: $(cat metrics)"
mv answers one
set -- "2 $(layout 2 1) --sequence-parallel" "2 $(layout 1 2)" "2 $(context 2)" "2"
[ -z "$ALL" ] || set -- "$@" "4 $(layout 2 2) --num-layers-per-virtual-pipeline-stage 1" \
	"2 $(context 2 a2a)" "2 $(zero 3)" "8 $(layout 2 2)" "4 $(context 2) $(layout 2 1)" \
	"1 --eval-global-batch-size 26 --seq-length 96" "1 --eval-micro-batch-size 1"
for grid; do
	train $grid $tasks $weights
	near "$grid" one 1e-9
done
echo "tasks: 26 items, answers of $# layouts are those of one rank"

# The steps are those of a run without tasks; evaluations have another micro batch.
steps="--pretrained-checkpoint $llama --mock-data --train-iters 3 --lr 1e-2 --log-interval 1
	--global-batch-size 4 --eval-iters 1 --eval-interval 1 --eval-micro-batch-size 1
	$(layout 1 2)"
train 2 $steps $tasks --eval-tasks-interval 2 --save run --metrics-file with
mv answers last
[ "$(grep -c '"task": "few", "metric": "acc"' with)" = 2 ] || fail "not after steps 2 and 3"
train 2 $steps --metrics-file without
grep -v '"task"' with | sed 's/, "tokens_per_second.*//' >mine
sed 's/, "tokens_per_second.*//' without | cmp - mine || fail "tasks change the run"
train 2 $tasks --load run --skip-train $(layout 1 2) --eval-micro-batch-size 1
cmp answers last || fail "the checkpoint gives other answers than the end of its run"
echo "tasks: a run that evaluates them trains as one that does not"
