#!/bin/sh
# A family of fields that models have: config.json is read, trained on, exported, and read back.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086,SC2119
. "$TOP/tests/extend/toy"

# Heads are wider than their share of the hidden size, and fewer groups than tensor ranks.
cat >config.json <<'END'
{ "model_type": "toy", "vocab_size": 499, "num_hidden_layers": 4, "hidden_size": 32,
  "intermediate_size": 48, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8,
  "max_position_embeddings": 16, "tie_word_embeddings": false }
END
model="--model config.json --hidden-dropout 0 --attention-dropout 0 --global-batch-size 8
	--eval-iters 0 --num-threads 1"
other=$(layout 1 2)
proves

single="--mock-data --train-iters 2 --lr 1e-3"
train 4 $single $(layout 2 1) $(zero 3) --no-save-optim --save single
mexport single hf >log 2>&1 || fail "mexport"
grep -q '"model_type": "toy"' hf/config.json || fail "config.json is not of the family"
mckpt import hf back >log 2>&1 || fail "mckpt import"
mckpt verify back >log 2>&1 || fail "mckpt verify"
same_tensors "exported and imported" single back
[ "$(grep -c '_layernorm.weight.*equal' diff.tsv)" = 17 ] || fail "not every norm was compared"
train 1 --model hf $single --pretrained-checkpoint hf --save other
