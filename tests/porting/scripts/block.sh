#! /bin/bash
# blocks of options in strings, and the old launcher
# explain:
WORLD_SIZE=8
DISTRIBUTED_ARGS="--nproc_per_node 8 --nnodes 1 --node_rank 0 --master_addr localhost"
GPT_ARGS="
    --num-layers 12 \
    --hidden-size 768 \
    --num-attention-heads 12 \
    --seq-length 1024 \
    --max-position-embeddings 1024 \
    --micro-batch-size 8 \
    --global-batch-size 64 \
    --lr 0.00015 \
    --train-iters 500 \
    --lr-decay-style cosine \
    --clip-grad 1.0 \
    --fp16
"
DATA_ARGS="
    --data-path data/text \
    --vocab-file vocab.json \
    --merge-file merges.txt \
    --data-impl mmap \
    --split 949,50,1
"
python -m torch.distributed.launch $DISTRIBUTED_ARGS \
    pretrain_gpt.py \
    $GPT_ARGS \
    $DATA_ARGS \
    --distributed-backend nccl \
    --save ckpt \
    --load ckpt
