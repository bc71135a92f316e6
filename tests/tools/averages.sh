#!/bin/sh
# averages.sh TEXT.jsonl TOKENIZER.model - validation loss of the average of five checkpoints of a
# run beside that of the last of them
#
# With a constant learning rate, in the constant phase of a WSD schedule, and in its decay, which
# averages of the phase before it stand for; by both styles of `mckpt average`. Each twentieth line
# of the text is held out. Prints a table. B is the build directory, STEPS (default 300) those of
# the constant runs; a fourth of them is the decay, and checkpoints are a fifteenth apart. Takes
# minutes.
# shellcheck disable=SC2086
set -eu
[ $# = 2 ] || { echo "usage: averages.sh TEXT.jsonl TOKENIZER.model" >&2; exit 2; }
: "${B:=build}" "${STEPS:=300}"
PATH=$(cd "$B" && pwd):$PATH
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
awk -v held="$dir/held.jsonl" -v most="$dir/text.jsonl" '{ print >(NR % 20 ? most : held) }' "$1"
cp "$2" "$dir/tokenizer.model"
cd "$dir"
export OMP_NUM_THREADS=1
for text in text held; do
	mtok -q --tokenizer-model tokenizer.model --append-eod -o "$text" "$text.jsonl"
done
apart=$((STEPS / 15)) decay=$((STEPS / 4))
common="--tokenizer-model tokenizer.model --train-data-path text_text_document
	--valid-data-path held_text_document --micro-batch-size 4 --global-batch-size 4
	--seq-length 128 --eval-interval 10000 --full-validation --num-threads 1"

# train NAME OPTION...: a run that saves its checkpoints
train()
{
	name=$1
	shift
	mtrain $common --num-layers 2 --hidden-size 64 --num-attention-heads 4 \
		--ffn-hidden-size 176 --swiglu --normalization RMSNorm \
		--position-embedding-type rope --disable-bias-linear \
		--untie-embeddings-and-output-weights --max-position-embeddings 128 --lr 4e-3 \
		--lr-warmup-iters 20 --weight-decay 0.1 --clip-grad 1 --save "$name" \
		--save-interval "$apart" "$@" >"$name.log" 2>&1 || { cat "$name.log"; exit 1; }
}

# loss CHECKPOINT: on the held-out text
loss()
{
	mtrain $common --pretrained-checkpoint "$1" --use-checkpoint-args --skip-train \
		--train-iters 50 --metrics-file loss.jsonl >loss.log 2>&1 ||
		{ cat loss.log; exit 1; }
	awk '/"split": "valid"/ && match($0, /"lm_loss": [0-9.e+-]*/) {
		loss = substr($0, RSTART + 11, RLENGTH - 11)
	} END { printf "%.4f", loss }' loss.jsonl
	rm loss.jsonl
}

# row NAME RUN END: the last of five checkpoints, and their averages
row()
{
	printf '%s\t%s' "$1" "$(loss "$2/iter_$(printf %07d "$3")")"
	for style in linear minus-sqrt; do
		mckpt average -q --merge-style "$style" --merge-inputs "$2" \
			--start-checkpoint $(($3 - 4 * apart)) --end-checkpoint "$3" \
			--merge-output average >average.log
		printf '\t%s' "$(loss average)"
		rm -r average
	done
	echo
}

train constant --lr-decay-style constant --train-iters "$STEPS" &
first=$!
train wsd --lr-decay-style WSD --lr-wsd-decay-style linear --lr-wsd-decay-iters "$decay" \
	--train-iters $((STEPS + decay)) --min-lr 0 &
wait "$first"
wait $!
printf 'last five checkpoints of\tlast\tlinear\tminus-sqrt\n'
row "a constant learning rate" constant "$STEPS"
row "the constant phase of WSD" wsd "$STEPS"
row "its decay, to the end" wsd $((STEPS + decay))
