#!/bin/bash
#PBS -q rt_HF
#PBS -l select=2:ngpus=8:mpiprocs=8
#PBS -l walltime=1:00:00
# PBS with mpirun
# explain:
cd $PBS_O_WORKDIR
source /etc/profile.d/modules.sh
module load cuda/12.1
NUM_NODES=2
NUM_GPUS=$((NUM_NODES * 8))
mpirun -np $NUM_GPUS --npernode 8 -hostfile $PBS_NODEFILE -x MASTER_ADDR \
  python pretrain_gpt.py \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
  --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
  --sequence-parallel --use-distributed-optimizer \
  --micro-batch-size 1 --global-batch-size 1024 --train-iters 25000 \
  --tokenizer-type Llama2Tokenizer --tokenizer-model tokenizer.model \
  --data-path 1 data/a_text_document 2 data/b_text_document \
  --lr 1.0E-4 --min-lr 1.0E-6 --lr-decay-style cosine --bf16 \
  --use-mcore-models --transformer-impl "transformer_engine" --use-flash-attn
