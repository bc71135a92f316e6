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

# logits NAME OPTION...: those of the model with them, as NAME
logits()
{
	name=$1
	shift
	mtrain -q --fp64 --pretrained-checkpoint keyed --num-threads 1 "$@" \
		--logits-file $name.npy --tokens-file "$golden/tokens.npy" >log 2>&1 ||
		fail "logits"
	numbers $name.npy >$name
}

# The width of a head is 8.
golden=$TOP/tests/golden/ckpt/llama
mkdir keyed
cp "$golden/model.safetensors" keyed/
sed -e 's/"model_type": "llama"/"key_multiplier": 3, "model_type": "keyed"/' \
	"$golden/config.json" >keyed/config.json
logits mine --model keyed
logits same --model "$golden" --attention-multiplier 1.0606601717798212 --key-multiplier 0
logits plain --model "$golden" --key-multiplier 0
[ "$(wc -l <mine)" -gt 1000 ] || fail "few logits"
cmp -s mine same || fail "other logits"
! cmp -s mine plain || fail "the multiplier changes nothing"

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
