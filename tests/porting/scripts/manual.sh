#!/bin/bash
# the script whose table is in the manual
# explain:
MODEL="--num-layers 12 --hidden-size 512 --num-attention-heads 8 --batch-size 4"
DATA="--data-path corpus --split 99,1,0 --num-workers 2"
torchrun --nproc_per_node 8 pretrain_gpt.py $MODEL $DATA \
  --seq-length 1024 --max-position-embeddings 1024 --position-embedding-type rope \
  --global-batch-size 64 --train-iters 1000 --lr 3e-4 --use-mcore-models \
  --fp4-format e2m1 --fp4-param-gather --save ckpt/$NAME
