#!/bin/sh
# layouts.sh - ranks on four GPUs, or eight, that share a tiny model in every way have the losses of
# one rank on the CPU
#
# A Llama of eight layers, the same with experts, that with Muon, and one with linear attention, in
# fp32, 20 steps. A line for each layout: how far its losses are apart, at most 1e-5, relative.
# RANKS: 4, or 8 where there are as many GPUs.
# ONLY=TEXT: those whose options, of the model or the layout, have it.
# B is the build directory. DEVICE=cpu runs the same on the CPU. With too few GPUs it says so and
# succeeds.
set -eu
: "${B:=build}" "${DEVICE:=cuda}" "${ONLY:=}"
gpus=4
[ "$DEVICE" != cuda ] || gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=0
[ "$gpus" -lt 8 ] || gpus=8
ranks=${RANKS:-$gpus}
if [ "$gpus" -lt 4 ]; then
	echo "skipped: four ranks need four GPUs"
	exit 0
fi
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME="$dir/cache"
llama="--vocab-size 500 --num-layers 8 --hidden-size 64 --num-attention-heads 8 --seq-length 128
	--micro-batch-size 1 --global-batch-size 16 --train-iters 20 --lr 1e-3 --eval-iters 0
	--log-interval 100 --mock-data --group-query-attention --num-query-groups 4 --swiglu
	--normalization RMSNorm --position-embedding-type rope --disable-bias-linear
	--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0
	--deterministic-mode"
experts="--num-experts 8 --moe-router-topk 2 --moe-aux-loss-coeff 0.02 --moe-ffn-hidden-size 48"
linear="--linear-attention-freq 2 --linear-num-key-heads 8 --linear-num-value-heads 16
	--linear-key-head-dim 16 --linear-value-head-dim 8 --attention-output-gate --qk-layernorm
	--rotary-percent 0.5 --apply-layernorm-1p"
tensor=--tensor-model-parallel-size context=--context-parallel-size
stages=--pipeline-model-parallel-size chunks=--num-virtual-stages-per-pipeline-rank
shards=--data-parallel-sharding-strategy share=--expert-model-parallel-size
rows="--sequence-parallel --tp-comm-overlap" half=$((ranks / 2))

# losses: of the steps in the metrics
losses()
{
	sed -n 's/.*"lm_loss": *\([^,]*\),.*/\1/p' "$dir/metrics"
}

# train RANKS OPTION...
train()
{
	count=$1
	shift
	rm -f "$dir/metrics"
	# shellcheck disable=SC2086
	mpirun -np "$count" "$B/mtrain" $llama "$@" --metrics-file "$dir/metrics" \
		>"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
}

failed=0
# follow OPTION...: all ranks against the losses in `one`
follow()
{
	case "$model $*" in *"$ONLY"*) ;; *) return ;; esac
	# shellcheck disable=SC2086
	train "$ranks" $model --backend "$DEVICE" "$@"
	losses | paste -d ' ' - "$dir/one" | awk -v name="$name, ${*:-data ranks}" '
		{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (!(d <= worst)) worst = d }
		END {
			printf "%s: %d steps, losses differ by at most %.2g\n", name, NR, worst
			exit !(NR == 20 && worst <= 1e-5)
		}' || failed=1
}

# of NAME MODEL-OPTION...: its losses on one CPU rank go to `one`
of()
{
	name=$1
	shift
	model="$*"
	train 1 "$@" --backend cpu
	losses >"$dir/one"
}

of dense
follow
for strategy in optim optim_grads optim_grads_params; do
	follow $shards $strategy --ddp-bucket-size 40000
done
# shellcheck disable=SC2086
follow $tensor "$ranks" $rows
follow $tensor "$half"
# shellcheck disable=SC2086
follow $tensor 2 $rows $stages "$half" --use-distributed-optimizer
follow $stages "$ranks"
follow $stages 4 $chunks 2 --use-distributed-optimizer
follow $stages 2 $chunks 4 $shards optim_grads_params
follow $context "$ranks"
follow $context "$half" --cp-comm-type a2a --use-distributed-optimizer
# shellcheck disable=SC2086
follow $context 2 $tensor 2 $rows --use-distributed-optimizer
# shellcheck disable=SC2086
of experts $experts
follow $share "$ranks" --use-distributed-optimizer
# shellcheck disable=SC2086
follow $share 2 $tensor 2 $rows --use-distributed-optimizer
follow $share "$half" $shards optim_grads_params --moe-expert-rank-capacity-factor 0.5
follow $share "$half" $stages 2 $chunks 2
# shellcheck disable=SC2086
of "experts with Muon" $experts --optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2
follow $share "$ranks" --use-distributed-optimizer
# shellcheck disable=SC2086
follow $share 2 $tensor 2 $rows --use-distributed-optimizer
# shellcheck disable=SC2086
of "linear attention" $linear
# shellcheck disable=SC2086
follow $tensor "$ranks" $rows
# shellcheck disable=SC2086
follow $tensor 2 $rows $stages "$half" --use-distributed-optimizer
follow $shards optim_grads_params --ddp-bucket-size 40000
exit $failed
