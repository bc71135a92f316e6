#!/bin/sh
# placed.sh [SEEDS] - runs whose buffers share other bytes, over scratch that is NaN before each
# step, give the same bits
#
# Buffers that are never alive together share bytes, so a phase that is stated wrongly, or a pass
# that reads what it has not written, shows as other losses. SEEDS: orders of placing, 2 by default;
# with more there are more runs too.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
seeds=${1:-${SEEDS:-2}}
steps="--mock-data --train-iters 3 --lr 1e-3"

rows="--sequence-parallel --tp-comm-overlap"
experts="--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 24 --moe-aux-loss-coeff 0.05
	--moe-shared-expert-intermediate-size 16 --moe-layer-freq 2"
fp8="--bf16 --fp8-format hybrid --hidden-size 64 --ffn-hidden-size 128 --fp8-recipe"
placed "llama, FP8" 1 $fp8 delayed
placed "llama, tensor ranks" 2 $(layout 2 1) $rows
placed "experts in every second layer" 1 $experts --recompute-granularity selective
placed "experts, FP8" 1 $fp8 tensorwise $experts --moe-ffn-hidden-size 32
placed "context ranks that exchange heads" 2 $(context 2 a2a) --qk-layernorm
model=$gpt2
placed "gpt2" 1 --recompute-granularity selective --recompute-modules layernorm mlp
[ "$seeds" -gt 2 ] || exit 0
placed "gpt2, parallel residual" 2 $(layout 2 1) $rows --use-parallel-residual \
	--position-embedding-type rope --bf16 --fp32-residual-connection
model=$llama
placed "experts in every second layer, expert ranks" 2 $experts $(zero 1) \
	--expert-model-parallel-size 2 --moe-expert-rank-capacity-factor 0.5
placed "llama, stages" 2 $(layout 1 2) --num-virtual-stages-per-pipeline-rank 2 --optimizer muon
placed "context ranks that gather keys" 2 $(context 2) --norm-placement both
placed "llama, FP8 by blocks" 2 $fp8 blockwise $(layout 2 1) $rows --micro-batch-size 2
placed "experts, FP8, expert ranks" 2 $fp8 tensorwise $experts --moe-ffn-hidden-size 32 $(zero 2) \
	--expert-model-parallel-size 2
placed "llama, all layers recomputed" 4 $(layout 2 2) $(zero 1) \
	--recompute-granularity full --recompute-num-layers 2
placed "experts, layers that leave" 1 $experts --cpu-offloading-num-layers 2
placed "llama, ZeRO 3" 4 $(layout 2 1) $(zero 3) --ddp-bucket-size 4000
