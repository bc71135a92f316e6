#!/bin/bash
# a command with quotes that is evaluated
# explain:
run_cmd="torchrun --nproc_per_node ${GPUS:=2} pretrain_gpt.py \
 --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 \
 --max-position-embeddings 128 --micro-batch-size 1 --global-batch-size 8 --train-samples 800 \
 --lr 1e-3 --mock-data --wandb-project p --wandb-name 'a name with blanks' \
 --rampup-batch-size '2 2 100'"
echo ${run_cmd}
eval ${run_cmd}
set +x
