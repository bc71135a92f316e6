#!/bin/sh
# placed.sh - runs on a GPU whose buffers share other bytes, over scratch that is NaN before each
# step, give the same bits
#
# As tests/parity/placed.sh on the CPU. SEEDS: orders of placing, 8 by default. Ranks of cases with
# several have a GPU each where there are enough, and otherwise are hosts of their own that share
# one. B is the build directory. Without a GPU it says so and succeeds; DEVICE=cpu runs on the CPU.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
set -eu
: "${B:=build}" "${DEVICE:=cuda}" "${SEEDS:=8}" "${TOP:=$PWD}"
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=0
[ "$gpus" -gt 0 ] || [ "$DEVICE" = cpu ] || { echo "skipped: no GPU"; exit 0; }
B=$(cd "$B" && pwd)
PATH=$B:$PATH
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1
. "$TOP/tests/parity/common"
export XDG_CACHE_HOME="$tmp/cache"
gpt2="--num-layers 4 --hidden-size 256 --num-attention-heads 4 --vocab-size 512 --seq-length 256
	--global-batch-size 8 --eval-iters 0 --ffn-hidden-size 512 --bf16"
llama="$gpt2 --group-query-attention --num-query-groups 2 --swiglu --normalization RMSNorm
	--disable-bias-linear --position-embedding-type rope --hidden-dropout 0
	--untie-embeddings-and-output-weights --attention-dropout 0"
seeds=$SEEDS steps="--backend $DEVICE --deterministic-mode --mock-data --train-iters 3 --lr 1e-3"

# hosts RANKS: options that give each rank a GPU
hosts()
{
	[ "$DEVICE" = cpu ] || [ "$1" -le "$gpus" ] || echo "--pretend-hosts $1"
}

# same NAME RANKS OPTION...
same()
{
	name=$1 ranks=$2
	shift 2
	# shellcheck disable=SC2046
	placed "$name" "$ranks" $(hosts "$ranks") "$@"
}

rows="--sequence-parallel --tp-comm-overlap"
experts="--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 128 --moe-aux-loss-coeff 0.05
	--moe-shared-expert-intermediate-size 128 --moe-layer-freq 2"
model=$llama
same "llama" 1 --recompute-granularity selective
same "llama, FP8" 1 --fp8-format hybrid --fp8-recipe delayed
same "llama, FP8 by blocks" 1 --fp8-format e4m3 --fp8-recipe blockwise
same "experts in every second layer" 1 $experts --recompute-granularity selective
model=$gpt2
same "gpt2" 1 --recompute-granularity selective --recompute-modules layernorm mlp
model=$llama
same "llama, tensor ranks" 2 $(layout 2 1) $rows
same "context ranks" 2 $(context 2) --qk-layernorm
same "data ranks that share weights" 2 $(zero 3)
same "experts, expert ranks" 2 $experts $(zero 1) --expert-model-parallel-size 2
