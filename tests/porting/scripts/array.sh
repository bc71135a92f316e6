#!/bin/bash
# arrays of options, as in the examples of Megatron-LM
# explain: ckpt tb tok/vocab.json tok/merges.txt data/text
set -e
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=2
CHECKPOINT_PATH=$1 #<Specify path>
TENSORBOARD_DIR=$2
VOCAB=$3
MERGES=$4
DATA=$5
LAUNCHER_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_port 6000
)
MODEL_ARGS=(
    --num-layers 24
    --hidden-size 1024 # of each layer
    --num-attention-heads 16
    --seq-length 2048
    --max-position-embeddings 2048
    --attention-backend auto # Can use (flash/fused/unfused/local)
)
TRAIN_ARGS=(
    --micro-batch-size 2
    --global-batch-size 512
    --train-iters 1000
    --lr 3.0e-4
    --min-lr 3.0e-5
    --lr-decay-style cosine
    --fp16
)
PARALLEL_ARGS=(
	--tensor-model-parallel-size 2
	--pipeline-model-parallel-size 4
)
torchrun ${LAUNCHER_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${TRAIN_ARGS[@]} \
    ${PARALLEL_ARGS[@]} \
    --data-path $DATA \
    --vocab-file $VOCAB \
    --merge-file $MERGES \
    --split 949,50,1 \
    --save $CHECKPOINT_PATH \
    --load $CHECKPOINT_PATH \
    --eval-iters 10 \
    --tensorboard-dir $TENSORBOARD_DIR
