#!/bin/bash
# the option block of the CodeParrot-small tutorial
# explain: V=vocab.json M=merges.txt C=ckpt P=data T=tb
python -m torch.distributed.run --nproc_per_node 1 pretrain_gpt.py \
  --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 \
  --max-position-embeddings 1024 --micro-batch-size 12 \
  --global-batch-size 192 --lr 0.0005 --train-iters 150000 --lr-decay-iters 150000 \
  --lr-decay-style cosine --lr-warmup-iters 2000 \
  --weight-decay .1 --adam-beta2 .999 --fp16 --log-interval 10 --save-interval 2000 \
  --eval-interval 200 --eval-iters 10 \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --vocab-file $V \
  --merge-file $M --save $C --load $C --data-path $P \
  --tensorboard-dir $T
