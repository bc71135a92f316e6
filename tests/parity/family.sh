#!/bin/sh
# family.sh - a new model family is one file and one registry line: built, trained under TP 2 and PP
# 2, exported, read back
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

copy_tree
cp "$TOP/tests/parity/toy.c" tree/lib/model/family/toy.c
sed -i 's/^\tDO(llama) \\$/\tDO(toy) \\\n&/' tree/lib/model/family.c
[ "$(diff "$TOP/lib/model/family.c" tree/lib/model/family.c | grep -c '^[<>]')" = 1 ] ||
	fail "the registry takes one line"
build_tree mtrain mckpt mexport
echo "built: $(grep -c '^  C' log) files compiled"
PATH=$tmp/tree/$(basename "$B"):$PATH

cat >config.json <<'END'
{ "model_type": "toy", "n_tokens": 499, "n_blocks": 4, "width": 32, "mlp_width": 64,
  "heads": 8, "groups": 2, "context": 16 }
END
model="--model config.json --hidden-dropout 0 --attention-dropout 0 --global-batch-size 8
	--eval-iters 0 --num-threads 1"
steps="--mock-data --train-iters 5 --lr 1e-4 --no-save-optim"
train 1 $steps --save one --metrics-file one.jsonl

# same_losses RANKS TP PP
same_losses()
{
	rm -f run.jsonl
	train "$1" $steps $(layout "$2" "$3") --save "run-$2-$3" --metrics-file run.jsonl
	loss=$(gap lm_loss run.jsonl one.jsonl)
	norm=$(gap grad_norm run.jsonl one.jsonl)
	within 1e-6 "$loss" "$norm" ||
		fail "$1 ranks: loss differs by $loss, gradient norm by $norm"
	echo "toy under TP $2 PP $3: loss $loss, gradient norm $norm from one rank's"
}

same_losses 2 2 1
same_losses 2 1 2
same_losses 8 4 2
mexport run-4-2 hf >log 2>&1 || fail "mexport"
grep -q '"model_type": "toy"' hf/config.json || fail "config.json is not of the family"
mckpt import hf back >log 2>&1 || fail "mckpt import"
mckpt verify back >log 2>&1 || fail "mckpt verify"
same_tensors "exported and imported" run-4-2 back
train 1 --model hf $steps --pretrained-checkpoint hf --train-iters 1 --metrics-file hf.jsonl
echo "toy exported and imported: equal bit by bit"
