#!/bin/bash
# parameters in a file of their own, with functions that fill an array
# explain: NUM_NODES=4
script_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "${script_dir}/lib/params.sh"
NUM_GPUS_PER_NODE=8
NUM_GPUS=$((${NUM_NODES} * ${NUM_GPUS_PER_NODE}))
ALL_PARAMS=()
model_params
train_params 5000
ALL_PARAMS+=(
    --use-mpi
    --log-throughput
    --wandb-name "run-$(date +%s)"
)
mpirun --bind-to none -np $NUM_GPUS -x PATH \
    python src/Megatron-LM/pretrain_gpt.py ${ALL_PARAMS[@]}
