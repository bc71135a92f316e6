#!/bin/sh
# Granite: a family with four fields of its own. Logits are those of transformers in fp64
# (tests/extend/data/granite.py); config.json is read, trained on, exported, and read back.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086
. "$TOP/tests/extend/toy"
golden=$TOP/tests/extend/data/granite
helps --embedding-multiplier --attention-multiplier --residual-multiplier --logits-scaling

# numbers FILE.npy: its elements, F64
numbers()
{
	od -A n -v -t f8 -w8 -j 128 "$1"
}

mtrain -q --fp64 --model "$golden" --pretrained-checkpoint "$golden" --num-threads 1 \
	--tokens-file "$golden/tokens.npy" --logits-file logits.npy >log 2>&1 || fail "logits"
numbers "$golden/logits.npy" >theirs
numbers logits.npy >ours
[ "$(wc -l <ours)" = 384 ] || fail "not 12 rows of 32 logits"
gap=$(paste ours theirs | awk '
	{ d = $1 - $2; d = d < 0 ? -d : d; m = $2 < 0 ? -$2 : $2 }
	d > most { most = d }
	m > size { size = m }
	END { print most / size }')
within 1e-12 "$gap" || fail "logits differ by $gap from those of transformers"
echo "logits: $gap from those of transformers"

model="--model $golden --hidden-dropout 0 --attention-dropout 0 --seq-length 16
	--global-batch-size 8 --eval-iters 0 --num-threads 1"
proves
single="--mock-data --train-iters 2 --lr 1e-3"
train 4 $single $(layout 2 1) $(zero 3) --no-save-optim --save single
mexport single hf >log 2>&1 || fail "mexport"
for member in '"model_type": "granite"' '"embedding_multiplier": 12' '"logits_scaling": 8' \
	'"attention_multiplier": 0.3' '"residual_multiplier": 0.22'; do
	grep -q "$member" hf/config.json || fail "config.json has no $member"
done
mckpt import hf back >log 2>&1 || fail "mckpt import"
same_tensors "exported and imported" single back
