TP=2
model_params() {
    ALL_PARAMS+=(--num-layers 16 --hidden-size 2048 --ffn-hidden-size 7168)
    ALL_PARAMS+=(--num-attention-heads 16 --num-query-groups 8 --group-query-attention)
    ALL_PARAMS+=(--seq-length 4096 --max-position-embeddings 4096)
    ALL_PARAMS+=(--position-embedding-type rope --swiglu --normalization RMSNorm)
    ALL_PARAMS+=(--tensor-model-parallel-size ${TP} --sequence-parallel)
}
train_params() {
    local iters=$1
    ALL_PARAMS+=(
        --micro-batch-size 1 --global-batch-size 1024
        --train-iters $iters --lr-warmup-iters $((iters / 10))
        --lr 3e-4 --bf16
        --data-path 0.7 data/ja_text_document 0.3 data/en_text_document
    )
}
