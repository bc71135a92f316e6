#!/bin/bash
# mathematics that mtrain does not have, a misspelt name, a bad value
# explain:
deepspeed pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 \
  --seq-length 512 --max-position-embeddings 512 --micro-batch-size 1 --global-batch-size 8 \
  --train-iter 100 --lr fast --mock-data \
  --multi-latent-attention --kv-lora-rank 512 \
  --ckpt-convert-format torch --grpo-prompts-per-step 4
