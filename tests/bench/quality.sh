#!/bin/sh
# quality.sh TEXT.jsonl TOKENIZER-OPTION... - compares what 16-bit and 32-bit training learn on the
# GPU
#
# A model of GPT-2's small shape goes once over the text (at least 16 million tokens, in documents
# that do not repeat), in bf16 and in fp32, from the same weights in the same order: the mean loss
# of each 100 steps must agree within 0.5 %. The options are mtok's for a tokenizer of at most 50304
# tokens. RANKS=N trains on N GPUs. B is the build directory; the metrics stay in $OUT where it is
# set, also when the script is ended.
#
# The learning rate is GPT-2's 6e-4 at half a million tokens a step, by the root of the batch.
# CONTROL=yes trains in fp32 once more, from weights that differ by a ten-thousandth, and prints how
# far that drifts from the other: where the learning rate is too high, runs that round alike drift
# apart as far as those that do not, and comparing them says nothing of rounding.
set -eu
: "${B:=build}" "${RANKS:=1}" "${OUT:=}" "${CONTROL:=}"
PATH=$(cd "$B" && pwd):$PATH
[ $# -gt 1 ] || { echo "usage: quality.sh TEXT.jsonl TOKENIZER-OPTION..." >&2; exit 2; }
text=$(realpath "$1")
shift
dir=$(mktemp -d)
metrics=${OUT:-$dir}
trap 'rm -rf "$dir"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mtok encode "$@" --append-eod -q -o "$dir/text" "$text"
cd "$dir"
tokens=$(mshard info --json text_text_document | sed 's/.*"tokens": \([0-9]*\).*/\1/')
steps=$((tokens / 32768 - 1))
echo "$tokens tokens, $steps steps of 32 samples of 1024"
[ "$tokens" -ge 16000000 ] || { echo "too little text: 16 million tokens are needed"; exit 1; }

# train NAME OPTION...: one epoch
train()
{
	name=$1
	shift
	launch=
	[ "$RANKS" = 1 ] || launch="mpirun -np $RANKS"
	# shellcheck disable=SC2086
	$launch mtrain --num-layers 12 --hidden-size 768 --num-attention-heads 12 \
		--seq-length 1024 --vocab-size 50257 --make-vocab-size-divisible-by 8 \
		--attention-dropout 0 --hidden-dropout 0 --data-path text_text_document \
		--split 1,0,0 --micro-batch-size $((32 / RANKS)) --global-batch-size 32 \
		--train-iters "$steps" --lr 1.5e-4 --min-lr 1.5e-5 --lr-decay-style cosine \
		--lr-warmup-iters 200 --weight-decay 0.1 --clip-grad 1 --adam-beta2 0.95 \
		--eval-iters 0 --log-interval 1000 --metrics-file "$metrics/$name.jsonl" "$@" \
		>"$name.log" 2>&1 || {
		tail -n 5 "$name.log"
		exit 1
	}
}

# means NAME: the mean loss of each 100 steps
means()
{
	sed -n 's/.*"lm_loss": \([0-9.e+-]*\).*/\1/p' "$metrics/$1.jsonl" |
		awk '{ s += $1 } NR % 100 == 0 { print s / 100; s = 0 }'
}

# compare NAME: its means and fp32's; succeeds when all are near
compare()
{
	means "$1" >a
	means fp32 >b
	paste a b | awk -v name="$1" '
		{ d = ($1 - $2) / $2; if (d < 0 ? -d > worst : d > worst) worst = d < 0 ? -d : d
		  printf "steps %d-%d: ", 100 * NR - 99, 100 * NR
		  printf "%s %.4f, fp32 %.4f, %+.3f %%\n", name, $1, $2, 100 * d }
		END {
			printf "%d means, the largest difference is %.3f %% (limit 0.5 %%)\n",
				NR, 100 * worst
			exit !(NR > 0 && worst < 0.005)
		}'
}
train bf16 --bf16
train fp32
if [ -n "$CONTROL" ]; then
	train control --init-method-std 0.020002
	compare control || true
fi
compare bf16
