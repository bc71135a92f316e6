#!/bin/bash
# the same, with every value given
# explain: one tok.model STAMP=20260101 SLURM_JOB_NUM_NODES=2 LAYERS=12 HEADS=8 CLUSTER=west
STAMP=$(date +%Y%m%d)
NODES=$SLURM_JOB_NUM_NODES
if [ "$CLUSTER" = "east" ]; then
    DATA=/east/data
else
    DATA=/west/data
    CACHE=/west/cache
fi
torchrun --nnodes $NODES --nproc_per_node 8 pretrain_gpt.py \
    --num-layers ${LAYERS} --hidden-size $((HEADS * 128)) --num-attention-heads ${HEADS} \
    --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 \
    --global-batch-size 64 --train-iters 100 --lr 1e-3 \
    --data-path $DATA/text --data-cache-path $CACHE --save ckpt-$STAMP --wandb-name $STAMP \
    --tokenizer-model $2
