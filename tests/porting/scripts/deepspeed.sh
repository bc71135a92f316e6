#!/bin/bash
# DeepSpeed: its launcher, a configuration that the script writes, old names
# explain:
ZERO_STAGE=1
config_json="ds_config_gpt.json"
GLOBAL_BATCH=256
MICRO_BATCH=4
cat <<EOT > $config_json
{
  "train_batch_size": $GLOBAL_BATCH,
  "train_micro_batch_size_per_gpu": $MICRO_BATCH,
  "zero_optimization": { "stage": $ZERO_STAGE },
  "fp16": { "enabled": true }
}
EOT
ds_args=""
ds_args=" --deepspeed ${ds_args}"
ds_args=" --no-pipeline-parallel ${ds_args}"
ds_args=" --deepspeed_config=$config_json ${ds_args}"
ds_args=" --zero-stage=$ZERO_STAGE ${ds_args}"
ds_args=" --deepspeed-activation-checkpointing ${ds_args}"
for (( node = 0; node <= 1; node++ )); do
    echo "host $node"
done
deepspeed --num_nodes 2 --num_gpus 4 pretrain_gpt.py \
    --tensor-model-parallel-size 1 \
    --num-layers 24 \
    --hidden-size 1024 \
    --num-attention-heads 16 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --micro-batch-size $MICRO_BATCH \
    --global-batch-size $GLOBAL_BATCH \
    --train-tokens $((300 * 1000 * 1000 * 1000)) \
    --lr 3.0e-4 \
    --data-path data/text \
    --vocab-file gpt2-vocab.json \
    --merge-file gpt2-merges.txt \
    --fp16 \
    --checkpoint-activations \
    $ds_args
