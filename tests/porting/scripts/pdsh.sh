#!/bin/bash
# pdsh starts DeepSpeed on hosts, with the options in a variable
# explain:
MODEL_SIZE=0.125
if [[ $MODEL_SIZE == 0.125 ]]; then
  NLAYERS=12
  HIDDEN=768
  HEADS=12
elif [[ $MODEL_SIZE == 1.3 ]]; then
  NLAYERS=24
  HIDDEN=2048
  HEADS=16
else
  echo "unknown size: $MODEL_SIZE"
  exit 1
fi
args="--num-layers ${NLAYERS} --hidden-size ${HIDDEN} --num-attention-heads ${HEADS}"
args="${args} --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4"
args="${args} --global-batch-size 128 --train-iters 100 --lr 6.0e-4 --mock-data --fp16"
pdsh -S -w host[1-4] "cd /work; deepspeed --num_nodes 4 --num_gpus 8 pretrain_gpt.py ${args}"
