#!/usr/bin/env bash
# accelerate, with the program of a fork in a subshell
# explain:
set -euo pipefail
(
  cd Megatron-LM || exit 1
  export OMP_NUM_THREADS=1
  accelerate launch --num_processes 4 --mixed_precision bf16 finetune_gpt.py \
    --num-layers 2 --hidden-size 128 --num-attention-heads 4 --seq-length 64 \
    --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 4 --train-iters 10 \
    --lr 1e-3 --mock-data --num-key-value-heads 2
)
