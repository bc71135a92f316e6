#!/bin/bash
#$ -l rt_F=4
#$ -l h_rt=10:00:00
#$ -cwd
# Grid Engine; the command is a string that is run
# explain:
GPUS=4
cmd="mpirun -np $((NHOSTS * GPUS)) -N $GPUS python3 pretrain_gpt.py"
cmd+=" --num-layers 24 --hidden-size 1024 --num-attention-heads 16"
cmd+=" --seq-length 1024 --max-position-embeddings 1024"
cmd="$cmd --micro-batch-size 4 --global-batch-size 64 --train-iters 320000 --lr 0.00015 --fp16"
cmd="$cmd --vocab-file v.json --merge-file m.txt --data-path d"
cmd="$cmd --checkpoint-activations --DDP-impl local"
echo $cmd
$cmd
