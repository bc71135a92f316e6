#!/bin/sh
# growth.sh FIRST.jsonl MORE.jsonl OLD.model NEW.model - what a new vocabulary is worth to a model
# that continues on other text, by what its new rows begin with
#
# A small model of the tokenizer OLD is trained on FIRST and MORE, then continues on MORE: as it is,
# and with the vocabulary of NEW whose new rows are means of subwords, the mean of all rows, or 0.
# Bits per byte of held-out text of MORE, each twentieth line, since losses of a token of two
# tokenizers do not compare; steps have equally many tokens. Prints a table. B is the build
# directory; BASE (default 600) and STEPS (default 500) are the steps of the first run and of the
# others, of which 50 are looked at, too. Takes minutes.
# shellcheck disable=SC2086
set -eu
[ $# = 4 ] || { echo "usage: growth.sh FIRST.jsonl MORE.jsonl OLD.model NEW.model" >&2; exit 2; }
: "${B:=build}" "${BASE:=600}" "${STEPS:=500}"
PATH=$(cd "$B" && pwd):$PATH
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$1" "$dir/first.jsonl"
awk -v held="$dir/held.jsonl" -v most="$dir/more.jsonl" '{ print >(NR % 20 ? most : held) }' "$2"
cp "$3" "$dir/old.model"
cp "$4" "$dir/new.model"
cd "$dir"
export OMP_NUM_THREADS=1
for text in old:first old:more old:held new:more new:held; do
	of=${text%:*} name=${text#*:}
	mtok -q --tokenizer-model "$of.model" --append-eod -o "$of-$name" "$name.jsonl"
done
common="--micro-batch-size 2 --global-batch-size 2 --seq-length 64 --num-threads 1
	--eval-interval 100000 --full-validation"

# quietly COMMAND...: its output only when it fails
quietly()
{
	"$@" >log 2>&1 || { cat log >&2; exit 1; }
}

# train NAME TOKENIZER OPTION...: a run on the text of its tokenizer
train()
{
	name=$1 of=$2
	shift 2
	quietly mtrain $common --tokenizer-model "$of.model" \
		--valid-data-path "$of-held_text_document" --lr 2e-3 --lr-decay-style constant \
		--lr-warmup-iters 10 --weight-decay 0.1 --clip-grad 1 --save "$name" "$@"
}

# tokens_per_byte TOKENIZER: of the held-out text, with the end of each document
tokens_per_byte()
{
	mtok count -q --tokenizer-model "$1.model" held.jsonl |
		awk -F '\t' 'NR == 2 { printf "%.4f", ($6 + $3) / $5 }'
}

# bits CHECKPOINT TOKENIZER: bits per byte of the held-out text
bits()
{
	quietly mtrain $common --tokenizer-model "$2.model" --pretrained-checkpoint "$1" \
		--use-checkpoint-args --skip-train --train-iters 50 \
		--train-data-path "$2-more_text_document" \
		--valid-data-path "$2-held_text_document" --metrics-file loss.jsonl
	awk -v rate="$(tokens_per_byte "$2")" '
		/"split": "valid"/ && match($0, /"lm_loss": [0-9.e+-]*/) {
			loss = substr($0, RSTART + 11, RLENGTH - 11)
		} END { printf "%.4f", loss / log(2) * rate }' loss.jsonl
	rm loss.jsonl
}

# row NAME CHECKPOINT TOKENIZER: continues from the checkpoint
row()
{
	before=$(bits "$2" "$3")
	begin=$(date +%s.%N)
	train "run-$1" "$3" --pretrained-checkpoint "$2" --use-checkpoint-args \
		--train-data-path "$3-more_text_document" --train-iters "$STEPS" --save-interval 50
	seconds=$(awk -v a="$begin" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$(tokens_per_byte "$3")" "$before" \
		"$(bits "run-$1/iter_0000050" "$3")" "$(bits "run-$1" "$3")" "$seconds"
	rm -r "run-$1"
}

train base old --num-layers 2 --hidden-size 64 --num-attention-heads 4 --ffn-hidden-size 176 \
	--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
	--untie-embeddings-and-output-weights --max-position-embeddings 64 \
	--train-data-path old-first_text_document old-more_text_document --train-iters "$BASE" \
	--save-interval "$BASE"
printf 'new rows\ttokens per byte\tbits per byte before\tafter 50 steps\tafter %s\tseconds\n' \
	"$STEPS"
row none base old
for init in subword-mean mean zero; do
	quietly mckpt resize-vocab --old-tokenizer-model old.model --tokenizer-model new.model \
		--init "$init" --no-optim base "$init"
	row "$init" "$init" new
done
