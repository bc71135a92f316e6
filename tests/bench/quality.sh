#!/bin/sh
# quality.sh TEXT.jsonl TOKENIZER-OPTION... - compares what training in narrow types learns on a GPU
#
# A model of GPT-2's small shape takes STEPS (1000) steps of 16 samples of 1024 tokens of the text
# (at least 17 million tokens, in documents that do not repeat), once in each of MODES with each of
# SEEDS (1 2 3), which choose the weights and the order. Each mode is compared with another: the
# mean loss of the last 100 steps must be near; that of all steps is printed too. The options are
# mtok's for a tokenizer of at most 50304 tokens. GPUS=N trains on N GPUs, a run on each. B is the
# build directory; the metrics stay in $OUT where it is set, also when the script is ended, and runs
# whose metrics are there are not repeated.
#
# The learning rate is GPT-2's 6e-4 at half a million tokens a step, by the root of the batch. The
# mode "control" is fp32 once more, from weights that differ by a ten-thousandth: where the learning
# rate is too high, runs that round alike drift apart as far as those that do not, and comparing
# them says nothing of rounding.
set -eu
: "${B:=build}" "${GPUS:=1}" "${OUT:=}" "${STEPS:=1000}" "${SEEDS:=1 2 3}"
: "${MODES:=bf16 fp8 states}"
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
[ "$tokens" -gt $((STEPS * 16384)) ] ||
	{ echo "too little text: $((STEPS * 16384)) tokens are needed, $tokens are there"; exit 1; }

fp8="--bf16 --fp8-format hybrid --fp8-recipe delayed --fp8-amax-history-len 1024
	--fp8-amax-compute-algo max"
states="--bf16 --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"

# row MODE REFERENCE LIMIT OPTION...: a mode, the one it is compared with, by how much the two may
# differ in per cent
row()
{
	printf '%s\t%s\t%s\t' "$1" "$2" "$3"
	shift 3
	echo "$*"
}

# shellcheck disable=SC2086
{
	row bf16 fp32 0.5 --bf16
	row residual fp32 0.5 --bf16 --fp32-residual-connection
	row control fp32 0.5 --init-method-std 0.020002
	row fp8 bf16 1 $fp8
	row states bf16 0.2 $states
} >modes

# train GPU MODE-SEED
train()
{
	mode=${2%-*} seed=${2#*-}
	[ ! -s "$metrics/$2.jsonl" ] || return 0
	# shellcheck disable=SC2046
	CUDA_VISIBLE_DEVICES=$1 mtrain --num-layers 12 --hidden-size 768 \
		--num-attention-heads 12 --seq-length 1024 --vocab-size 50257 \
		--make-vocab-size-divisible-by 8 --attention-dropout 0 --hidden-dropout 0 \
		--data-path text_text_document --split 1,0,0 --micro-batch-size 16 \
		--global-batch-size 16 --train-iters "$STEPS" --lr 1.1e-4 --min-lr 1.1e-5 \
		--lr-decay-style cosine --lr-warmup-iters $((STEPS / 10)) --weight-decay 0.1 \
		--clip-grad 1 --adam-beta2 0.95 --eval-iters 0 --log-interval 1000 \
		--seed "$seed" --metrics-file "$metrics/$2.jsonl" \
		$(awk -F '\t' -v m="$mode" '$1 == m { print $4 }' modes) >"$2.log" 2>&1 || {
		echo "$2: $(tail -n 1 "$2.log")"
		return 1
	}
}

# worker GPU: every GPUS-th run
worker()
{
	i=0
	for mode in $MODES; do
		for seed in $SEEDS; do
			[ $((i % GPUS)) != "$1" ] || train "$1" "$mode-$seed" || exit 1
			i=$((i + 1))
		done
	done
}

# mean MODE STEPS: the mean loss of the last of them, over all seeds
mean()
{
	for seed in $SEEDS; do
		sed -n 's/.*"lm_loss": \([0-9.e+-]*\).*/\1/p' "$metrics/$1-$seed.jsonl" |
			tail -n "$2"
	done | awk '{ s += $1 } END { printf "%.5f\n", s / NR }'
}

# compare MODE REFERENCE LIMIT: succeeds when it is near
compare()
{
	echo "$(mean "$1" 100) $(mean "$2" 100) $(mean "$1" "$STEPS") $(mean "$2" "$STEPS")" |
		awk -v a="$1" -v b="$2" -v limit="$3" '{
			d = 100 * ($1 / $2 - 1)
			printf "%s %.4f, %s %.4f: %+.3f %% (limit %s %%); of all steps %+.3f %%\n",
				a, $1, b, $2, d, limit, 100 * ($3 / $4 - 1)
			exit !(d < limit && -d < limit) }'
}

gpu=0
while [ "$gpu" -lt "$GPUS" ]; do
	worker "$gpu" &
	workers="${workers:-} $!"
	gpu=$((gpu + 1))
done
for pid in $workers; do
	wait "$pid"
done
status=0
while IFS='	' read -r mode reference limit _; do
	case " $MODES " in
	*" $mode "*"$reference "* | *" $reference "*"$mode "*)
		compare "$mode" "$reference" "$limit" || status=1
	esac
done <modes
exit $status
