#!/bin/sh
# first.sh [MODEL...] - the first plan of mplan search on the GPUs of this machine beside the first
# plans with other layouts
#
# For each model: the plan that the search puts first, and the first one in which all GPUs are
# tensor ranks, pipeline stages, context ranks or data ranks, and with experts those that share
# them. Each trains for at least 12 s. A line has tokens a second as predicted and as measured (the
# median after two steps), and the plan; then one says by how many percent the first is slower than
# the best that ran. DEVICE is the name of the GPUs in mplan, by default the last word of what the
# driver says, in small letters. B is the build directory. With less than two GPUs it says so and
# succeeds. --now prints the plans alone, for RANKS GPUs of DEVICE.
set -eu
: "${B:=build}" "${DEVICE:=}" "${RANKS:=}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
now=
[ "${1:-}" != --now ] || { now=yes; shift; }
if [ -z "$now" ]; then
	names=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true)
	: "${RANKS:=$(echo "$names" | grep -c .)}"
	: "${DEVICE:=$(echo "$names" | awk 'NR == 1 { print tolower($NF) }')}"
	[ "$RANKS" -ge 2 ] || { echo "skipped: a choice of layouts needs two GPUs"; exit 0; }
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

# shape MODEL
shape()
{
	echo "--bf16 --swiglu --normalization RMSNorm --position-embedding-type rope
		--rotary-base 500000 --disable-bias-linear --attention-dropout 0 --hidden-dropout 0
		--group-query-attention"
	case $1 in
	llama-3b) echo "--num-attention-heads 24 --num-query-groups 8 --num-layers 28
		--hidden-size 3072 --ffn-hidden-size 8192 --vocab-size 128256 --seq-length 4096
		--global-batch-size 32" ;;
	llama-8b-8L) echo "--num-attention-heads 32 --num-query-groups 8 --num-layers 8
		--hidden-size 4096 --ffn-hidden-size 14336 --vocab-size 128256 --seq-length 8192
		--untie-embeddings-and-output-weights --global-batch-size 16" ;;
	qwen3-moe-12L) echo "--num-attention-heads 32 --num-query-groups 4 --num-layers 12
		--hidden-size 2048 --ffn-hidden-size 6144 --vocab-size 151936 --seq-length 4096
		--untie-embeddings-and-output-weights --qk-layernorm --kv-channels 128
		--num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768
		--moe-aux-loss-coeff 0.001 --global-batch-size 32" ;;
	*) echo "first.sh: no model '$1'" >&2; exit 2 ;;
	esac
}

# plan OPTION...: the first, in the file plan, and in three fields what it is, tokens a second of
# all ranks, and tokens of a step
plan()
{
	mplan search "$@" --gpu "$DEVICE" --world-size "$RANKS" --top 1 -o plan --force 2>err |
		awk -F '\t' -v ranks="$RANKS" '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		NR == 2 {
			printf "tp%d,cp%d,dp%d,pp%d,ep%d,", $at["tp"], $at["cp"], $at["dp"],
				$at["pp"], $at["ep"]
			printf "chunks%d,micro%d,%s", $at["chunks"], $at["micro_batch_size"],
				$at["sharding"]
			rate = ranks * $at["tokens_per_second"]
			printf " %.0f %.0f\n", rate, rate * $at["seconds"]
		}'
}

# measured OPTION...: tokens a second of the plan
measured()
{
	mpirun -np "$RANKS" mtrain "$@" --config plan --backend cuda --mock-data --lr 1e-4 \
		--clip-grad 1 --eval-iters 0 --log-interval 1000 --metrics-file metrics \
		</dev/null >log 2>&1 || { tail -n 3 log >&2; return 1; }
	sed -n 's/.*"tokens_per_second": \([0-9.e+]*\).*/\1/p' metrics | tail -n +3 | sort -g |
		awk '{ v[NR] = $1 } END { printf "%.0f\n", v[int((NR + 1) / 2)] }'
	rm metrics
}

[ $# -gt 0 ] || set -- llama-3b llama-8b-8L qwen3-moe-12L
for model; do
	shape=$(shape "$model")
	: >lines
	for pin in '' tensor-model context pipeline-model expert-model; do
		case $pin in
		'') set -- ;;
		expert-model) set -- --expert-model-parallel-size "$RANKS" ;;
		*) set -- --$pin-parallel-size "$RANKS" ;;
		esac
		[ "$pin" != expert-model ] || case $shape in *--num-experts*) ;; *) continue ;; esac
		# shellcheck disable=SC2086
		found=$(plan $shape "$@")
		[ -n "$found" ] || continue
		name=${found%% *} rest=${found#* }
		! grep -q "	$name\$" lines || continue
		rate=${rest% *} tokens=${rest#* } got=-
		steps=$(awk -v rate="$rate" -v tokens="$tokens" \
			'BEGIN { n = int(12 * rate / tokens); print 2 + (n < 5 ? 5 : n) }')
		# shellcheck disable=SC2086
		[ -n "$now" ] || got=$(measured $shape --train-iters "$steps") || got=-
		printf '%s\t%s\t%s\t%s\n' "$model" "$rate" "$got" "$name" | tee -a lines
	done
	[ -n "$now" ] || awk -F '\t' '
		NR == 1 { first = $3 }
		$3 > best { best = $3 }
		END {
			off = best ? 100 * (1 - first / best) : 100
			printf "%s: the first plan is %.1f %% slower than the best of %d\n", $1,
				off, NR
			exit !(off <= 3)
		}' lines || failed=1
done
exit "${failed:-0}"
