#!/bin/sh
# family.sh - a new model family is one file and one registry line: built, trained under TP, PP and
# ZeRO 3, saved, resharded, resumed, exported, read back
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

copy_tree
cp "$TOP/tests/parity/toy.c" tree/lib/model/family/toy.c
sed -i 's/^\tDO(llama) \\$/\tDO(toy) \\\n&/' tree/lib/model/family_list.h
[ "$(diff "$TOP/lib/model/family_list.h" tree/lib/model/family_list.h | grep -c '^[<>]')" = 1 ] ||
	fail "the registry takes one line"
build_tree mtrain mckpt mexport
echo "built: $(grep -c '^  C' log) files compiled"
PATH=$tmp/tree/$(basename "$B"):$PATH

# Heads are wider than their share of the hidden size, and fewer groups than tensor ranks.
cat >config.json <<'END'
{ "model_type": "toy", "vocab_size": 499, "num_hidden_layers": 4, "hidden_size": 32,
  "intermediate_size": 48, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 8,
  "max_position_embeddings": 16, "tie_word_embeddings": false }
END
model="--model config.json --hidden-dropout 0 --attention-dropout 0 --global-batch-size 8
	--eval-iters 0 --num-threads 1"
steps="--mock-data --train-iters 6 --lr 1e-3 --fp64"
train 1 $steps --save one --metrics-file one.jsonl

# resumes NAME FROM RANKS OPTION...: the second half of the steps are those of one rank
resumes()
{
	name=$1 from=$2 ranks=$3
	shift 3
	cp half.jsonl "$name.jsonl"
	train "$ranks" $steps "$@" --load "$from" --save "$name" --metrics-file "$name.jsonl"
	[ "$(metric lm_loss "$name.jsonl" | wc -l)" = 6 ] || fail "$name: not 6 steps"
	loss=$(gap lm_loss "$name.jsonl" one.jsonl)
	norm=$(gap grad_norm "$name.jsonl" one.jsonl)
	within 1e-9 "$loss" "$norm" || fail "$name: loss differs by $loss, gradient norm by $norm"
	same_tensors "$name" "$name" one --tolerance 1e-9
	echo "toy, $name: loss $loss, gradient norm $norm from one rank's"
}

ends 3 8 $steps $(layout 2 2) $(zero 3) --save half --exit-interval 3 --metrics-file half.jsonl
resumes same half 8 $(layout 2 2) $(zero 3)
mckpt reshard half reshaped $(layout 4 1) >log 2>&1 || fail "mckpt reshard"
mckpt verify reshaped >log 2>&1 || fail "mckpt verify"
same_tensors "resharded" half reshaped
resumes reshaped-on reshaped 4 $(layout 4 1)

single="--mock-data --train-iters 2 --lr 1e-3"
train 8 $single $(layout 2 2) $(zero 3) --no-save-optim --save single
mexport single hf >log 2>&1 || fail "mexport"
grep -q '"model_type": "toy"' hf/config.json || fail "config.json is not of the family"
mckpt import hf back >log 2>&1 || fail "mckpt import"
mckpt verify back >log 2>&1 || fail "mckpt verify"
same_tensors "exported and imported" single back
[ "$(grep -c '_layernorm.weight.*equal' diff.tsv)" = 17 ] || fail "not every norm was compared"
train 1 --model hf $single --pretrained-checkpoint hf --save other
echo "toy exported and imported: equal bit by bit"
