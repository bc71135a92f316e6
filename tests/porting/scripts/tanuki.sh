#!/bin/bash
# the option block of a public script of an 8B model
# explain: T=tok.model D=in S=out P=data N=name E=team
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py \
  --tensor-model-parallel-size 1 --pipeline-model-parallel-size 2 --context-parallel-size 1 \
  --sequence-parallel --use-distributed-optimizer \
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
  --group-query-attention --num-query-groups 8 \
  --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 \
  --global-batch-size 1536 --train-iters 12500 \
  --tokenizer-type SentencePieceTokenizer --tokenizer-model $T --load $D --finetune \
  --save $S --data-path $P --split 998,1,1 \
  --distributed-backend nccl --init-method-std 0.008 --lr 1.0E-4 --min-lr 1.0E-6 \
  --lr-decay-style cosine --lr-decay-iters 12500 \
  --weight-decay 0.1 --clip-grad 0.8 --lr-warmup-iters 1000 --optimizer adam \
  --adam-beta1 0.9 --adam-beta2 0.95 --adam-eps 1e-05 \
  --log-interval 1 --save-interval 500 --eval-interval 10000 --eval-iters 10 --bf16 \
  --use-checkpoint-args \
  --untie-embeddings-and-output-weights --no-position-embedding \
  --position-embedding-type rope --rope-theta 500000.0 --disable-bias-linear \
  --use-mcore-models --normalization RMSNorm --norm-epsilon 1e-5 --no-masked-softmax-fusion \
  --attention-dropout 0.0 --hidden-dropout 0.0 \
  --swiglu --use-flash-attn --attention-softmax-in-fp32 --recompute-activations \
  --recompute-granularity "selective" \
  --transformer-impl "transformer_engine" --fp8-format 'hybrid' --fp8-amax-compute-algo max \
  --fp8-amax-history-len 1024 --use-z-loss \
  --log-throughput --wandb-name $N --wandb-project $P --wandb-entity $E
