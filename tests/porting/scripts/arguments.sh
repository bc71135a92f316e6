#!/bin/sh
# options of the script itself, with case and shift
# explain: --tp 2 --layers 8 --name small
TP=1
LAYERS=12
while [ $# -gt 0 ]; do
  case "$1" in
    --tp) TP=$2; shift 2 ;;
    --layers) LAYERS="$2"; shift 2 ;;
    -h|--help) echo "usage"; exit 0 ;;
    *) NAME=$2; shift 2 ;;
  esac
done
if [ "$TP" -gt 1 ]; then
  EXTRA="--sequence-parallel"
fi
if [ -z "$NAME" ]; then
  echo "a name is needed"
  exit 1
fi
torchrun --nproc-per-node=${TP} pretrain_gpt.py --num-layers $LAYERS --hidden-size 512 \
  --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 \
  --micro-batch-size 4 --global-batch-size 32 --train-iters 100 --lr 1e-3 --mock-data \
  --tensor-model-parallel-size $TP $EXTRA --save checkpoints/$NAME --bf16
