#!/bin/sh
# Keyed: a family with a field of its own. Its logits are those of the same scores said otherwise;
# config.json is read, trained on, exported, and read back.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086
. "$TOP/tests/extend/toy"
helps --key-multiplier

# numbers FILE.npy: its elements, F64
numbers()
{
	od -A n -v -t f8 -w8 -j 128 "$1"
}

# logits NAME DIR: those of the model in DIR, as NAME
logits()
{
	mtrain -q --fp64 --model "$2" --pretrained-checkpoint "$2" --num-threads 1 \
		--tokens-file "$golden/tokens.npy" --logits-file "$1.npy" >log 2>&1 || fail "logits"
	numbers "$1.npy" >"$1"
}

# as DIR TYPE MEMBER: the weights of the golden model under a config.json of another family
as()
{
	mkdir "$1"
	cp "$golden/model.safetensors" "$1"
	sed -e "s/\"model_type\": \"llama\"/$3, \"model_type\": \"$2\"/" \
		"$golden/config.json" >"$1/config.json"
}

# The width of a head is 8: the multiplier of its scores is 3 / sqrt(8).
golden=$TOP/tests/golden/ckpt/llama
as keyed keyed '"key_multiplier": 3'
as granite granite '"attention_multiplier": 1.0606601717798212'
logits by_key keyed
logits by_score granite
logits plain "$golden"
[ "$(wc -l <by_key)" -gt 1000 ] || fail "few logits"
cmp -s by_key by_score || fail "other logits"
! cmp -s by_key plain || fail "the multiplier changes nothing"

model="--model keyed --hidden-dropout 0 --attention-dropout 0 --seq-length 16
	--global-batch-size 8 --eval-iters 0 --num-threads 1"
proves
single="--mock-data --train-iters 2 --lr 1e-3"
train 4 $single $(layout 2 1) $(zero 3) --no-save-optim --save single
mexport single hf >log 2>&1 || fail "mexport"
for member in '"model_type": "keyed"' '"key_multiplier": 3'; do
	grep -q "$member" hf/config.json || fail "config.json has no $member"
done
mckpt import hf back >log 2>&1 || fail "mckpt import"
same_tensors "exported and imported" single back
