#!/bin/sh
# crowded.sh - ranks on four GPUs that share experts lose no row when four fifths of the tokens
# choose the same ones: losses as on one CPU rank, and the log names the load
#
# A Llama of two layers with experts, in fp32, 10 steps on a text of which four tokens in five are
# the same: all of those go to the same two of eight experts. A line for each number of rows that a
# rank takes at once, as --moe-expert-rank-capacity-factor: how far its losses are apart, at most
# 1e-5, relative, and by the log the rounds of a layer's rows, their mean, and the load of the rank
# with most. RANKS: how many (4). B is the build directory. DEVICE=cpu runs the same on the CPU.
# With too few GPUs it says so and succeeds.
set -eu
: "${B:=build}" "${DEVICE:=cuda}" "${RANKS:=4}"
gpus=$RANKS
[ "$DEVICE" != cuda ] || gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=0
if [ "$gpus" -lt "$RANKS" ]; then
	echo "skipped: $RANKS ranks need $RANKS GPUs"
	exit 0
fi
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
B=$(cd "$B" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export XDG_CACHE_HOME="$dir/cache"
awk 'BEGIN {
	for (i = 1; i <= 500; i++) {
		printf "{\"text\": \"%d", i % 498
		for (k = 1; k < 128; k++)
			printf " %d", k % 5 ? 7 : (i * 13 + k * 31) % 498
		print "\"}"
	}
}' >text.jsonl
"$B/mtok" encode --tokenizer-type NullTokenizer --vocab-size 499 --append-eod -q -o text \
	text.jsonl
model="--vocab-size 499 --tokenizer-type NullTokenizer --data-path text_text_document --split
	100,0,0 --num-layers 2 --hidden-size 64 --num-attention-heads 8 --group-query-attention
	--num-query-groups 4 --seq-length 128 --micro-batch-size 1 --global-batch-size 16
	--train-iters 10 --lr 1e-3 --eval-iters 0 --log-interval 10 --swiglu --normalization
	RMSNorm --position-embedding-type rope --disable-bias-linear
	--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0
	--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 48 --moe-aux-loss-coeff 0.02
	--deterministic-mode"

# train RANKS METRICS OPTION...
train()
{
	count=$1 metrics=$2
	shift 2
	# shellcheck disable=SC2086
	mpirun -np "$count" "$B/mtrain" $model "$@" --metrics-file "$metrics" >log 2>&1 ||
		{ cat log; exit 1; }
}

# of KEY METRICS: the figures of all steps
of()
{
	sed -n "s/.*\"$1\": *\([^,]*\),.*/\1/p" "$2"
}

train 1 one --backend cpu
of lm_loss one >losses
failed=0
for factor in 1.5 1.05; do
	train "$RANKS" all --backend "$DEVICE" --use-distributed-optimizer \
		--expert-model-parallel-size "$RANKS" --moe-expert-rank-capacity-factor $factor
	load=$(of max_rank_load all | sort -g | tail -n 1)
	rounds=$(of expert_rounds all | sort -g | tail -n 1)
	grep -q "expert rounds: .* max rank load: " log || { echo "no word of the load"; failed=1; }
	of lm_loss all | paste -d ' ' - losses | awk -v factor=$factor -v load="$load" \
		-v rounds="$rounds" '
		{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d <= worst)) worst = d }
		END {
			printf "room for %s times the mean: %d steps, ", factor, NR
			printf "losses differ by at most %.2g, ", worst
			printf "%.2f rounds, a load of %.2f\n", rounds, load
			exit !(NR == 10 && worst <= 1e-5 && load > 2 && rounds > 1)
		}' || failed=1
	rm all
done
exit $failed
