#!/bin/sh
# muon.sh TEXT.jsonl TOKENIZER-OPTION... - the loss after 500 steps under Muon and under AdamW
# muon.sh - the time of a step of Llama-8B on GPUs=4 GPUs under both
#
# With text (at least 16 million tokens), a Llama of 25 million parameters under each of three
# learning rates, 32 samples of 1024 tokens a step, in the same order from the same weights: the
# mean loss of the last 20 steps, of Muon's best rate below that of AdamW's best. The options are
# mtok's for a tokenizer of VOCAB tokens (default: 32000; a larger one adds parameters).
#
# Without, 131,072 tokens a GPU and step: Muon's step at most 3 % longer. STEPS=N takes other than 8
# steps, LAYERS=N other than 32 layers. B is the build directory; the metrics stay in $OUT where it
# is set.
set -eu
: "${B:=build}" "${OUT:=}" "${VOCAB:=32000}" "${GPUS:=4}" "${STEPS:=8}" "${LAYERS:=32}"
PATH=$(cd "$B" && pwd):$PATH
[ $# != 1 ] || { echo "usage: muon.sh [TEXT.jsonl TOKENIZER-OPTION...]" >&2; exit 2; }
dir=$(mktemp -d)
metrics=${OUT:-$dir}
trap 'rm -rf "$dir"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
llama="--group-query-attention --swiglu --normalization RMSNorm --disable-bias-linear
	--position-embedding-type rope --attention-dropout 0 --hidden-dropout 0 --bf16
	--clip-grad 1 --adam-beta2 0.95 --weight-decay 0.1 --eval-iters 0 --log-interval 1000"
adam="--optimizer adam"
adam_rates="3e-4 1e-3 3e-3" muon_rates="1e-3 3e-3 6e-3"
muon="--optimizer muon --muon-momentum 0.95 --muon-nesterov --muon-extra-scale-factor 0.2"

# train NAME RANKS OPTION...
train()
{
	name=$1 launch=
	[ "$2" = 1 ] || launch="mpirun -np $2"
	shift 2
	# shellcheck disable=SC2086
	$launch mtrain $llama "$@" --metrics-file "$metrics/$name.jsonl" >"$dir/log" 2>&1 || {
		tail -n 5 "$dir/log"
		exit 1
	}
}

# last NAME: the mean loss of the last 20 steps
last()
{
	sed -n 's/.*"lm_loss": \([0-9.e+-]*\).*/\1/p' "$metrics/$1.jsonl" | tail -n 20 |
		awk '{ s += $1 } END { printf "%.4f\n", s / NR }'
}

# best RULE RATE...: its losses on stderr, the lowest on stdout
best()
{
	rule=$1 least=
	shift
	for rate in "$@"; do
		loss=$(last "$rule-$rate")
		echo "$rule, learning rate $rate: loss $loss" >&2
		least=$(printf '%s\n' "$loss" ${least:+"$least"} | sort -n | head -n 1)
	done
	echo "$least"
}

# step NAME: milliseconds between the ends of steps, the median from the third on
step()
{
	sed -n 's/.*"time": \([0-9.]*\).*/\1/p' "$metrics/$1.jsonl" |
		awk 'NR > 3 { print 1000 * ($1 - last) } { last = $1 }' | sort -n |
		awk '{ t[NR] = $1 } END { printf "%.1f\n", t[int((NR + 1) / 2)] }'
}

if [ $# = 0 ]; then
	for rule in adam muon; do
		eval "options=\$$rule"
		# shellcheck disable=SC2086,SC2154
		train "$rule" "$GPUS" --num-layers "$LAYERS" --hidden-size 4096 \
			--ffn-hidden-size 14336 --num-attention-heads 32 --num-query-groups 8 \
			--vocab-size 128256 --untie-embeddings-and-output-weights \
			--seq-length 8192 --mock-data --use-distributed-optimizer --lr 1e-4 \
			--micro-batch-size 1 --global-batch-size $((16 * GPUS)) \
			--train-iters "$STEPS" $options
		echo "$rule: $(step "$rule") ms a step"
	done
	echo "$(step adam) $(step muon)" | awk '{
		printf "a step under Muon takes %+.2f %% (limit 3 %%)\n", 100 * ($2 / $1 - 1)
		exit !($2 <= 1.03 * $1) }'
	exit
fi
text=$(realpath "$1")
shift
mtok encode "$@" --append-eod -q -o "$dir/text" "$text"
for rule in adam muon; do
	eval "options=\$$rule rates=\$${rule}_rates"
	# shellcheck disable=SC2154
	for rate in $rates; do
		# shellcheck disable=SC2086
		train "$rule-$rate" 1 --num-layers 8 --hidden-size 384 --ffn-hidden-size 1024 \
			--num-attention-heads 6 --num-query-groups 2 --vocab-size "$VOCAB" \
			--seq-length 1024 --data-path "$dir/text_text_document" --split 1,0,0 \
			--micro-batch-size 32 --train-iters 500 --lr "$rate" --min-lr 1e-5 \
			--lr-decay-style cosine --lr-warmup-iters 50 $options
	done
done
# shellcheck disable=SC2086
adam=$(best adam $adam_rates)
# shellcheck disable=SC2086
muon=$(best muon $muon_rates)
echo "$adam $muon" | awk '{
	printf "after 500 steps AdamW has %.4f, Muon %.4f\n", $1, $2
	exit !($2 < $1) }'
