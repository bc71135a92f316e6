#!/bin/bash
# patterns, replacements and substrings in names
# explain: configs/llama-1.3b-v2.json
CONFIG=$1
NAME=$(basename "$CONFIG" .json)
SIZE=${NAME#*-}
SIZE=${SIZE%%-*}
VERSION="${NAME##*-}"
case ${SIZE^^} in
  1.3B|1B) LAYERS=24 HIDDEN=2048 ;;
  7B) LAYERS=32 HIDDEN=4096 ;;
  *) exit 1 ;;
esac
HEADS=$((HIDDEN / 128))
[ "${VERSION:0:1}" = v ] && EXTRA+=(--swiglu)
[[ $VERSION == v1 ]] || EXTRA+=(--normalization rmsnorm --position-embedding-type rotary)
for w in 0.5:ja 0.5:en; do
  DATA+=(${w%:*} data/${w#*:}_text_document)
done
torchrun --nproc_per_node=8 Megatron-LM/pretrain_gpt.py \
  --num-layers $LAYERS --hidden-size $HIDDEN --num-attention-heads $HEADS \
  --seq-length 2048 --max-position-embeddings 2048 "${EXTRA[@]}" \
  --micro-batch-size 1 --global-batch-size 256 --train-iters 1000 --lr 3e-4 --bf16 \
  --save "ckpt/${NAME//./_}" --data-path "${DATA[@]}"
