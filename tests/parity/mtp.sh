#!/bin/sh
# mtp.sh - layers that predict later tokens: resumes under another layout, micro batches of another
# size, recomputation; and their losses reach the whole model
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
model="$llama --mtp-num-layers 2 --reset-attention-mask --eod-mask-loss"
common="$text --train-iters 6 --lr 1e-3 --fp64"

# near A B: the losses of all heads, and the norm
near()
{
	for key in lm_loss mtp_1_loss mtp_2_loss grad_norm; do
		difference=$(gap $key "$1" "$2") || fail "$1, $2: no $key"
		within 1e-11 "$difference" || fail "$1, $2: $key differs by $difference"
	done
}

train 1 $common --save one --save-interval 3 --metrics-file one.jsonl
grep -q 'lm loss: .* mtp_1 loss: .* mtp_2 loss: .* loss scale' log || fail "no losses in the log"
ends 3 4 $common $(layout 2 2) --sequence-parallel --save other --exit-interval 3 \
	--metrics-file other.jsonl
train 2 $common $(context 2) $(zero 3) --load other --save other --metrics-file other.jsonl
near one.jsonl other.jsonl
same_tensors "3 + 3 steps under other layouts" one other --tolerance 1e-9
train 2 $common --micro-batch-size 4 --metrics-file large.jsonl
near one.jsonl large.jsonl
echo "resumed under other layouts, and with larger micro batches, losses are within 1e-11"

for how in selective full; do
	rm -f again.jsonl
	train 1 $common --recompute-granularity $how --metrics-file again.jsonl
	results one.jsonl >straight
	results again.jsonl >again
	same_steps "recomputation: $how" straight again
done

# Without weight their gradients leave nothing, and the model trains as one without such layers.
train 1 $common --mtp-loss-scaling-factor 0 --metrics-file zero.jsonl --eval-iters 1
model="$llama --reset-attention-mask --eod-mask-loss"
train 1 $common --metrics-file none.jsonl --eval-iters 1
difference=$(gap lm_loss zero.jsonl none.jsonl)
within 1e-14 "$difference" || fail "losses without weight move the model by $difference"
difference=$(gap lm_loss one.jsonl none.jsonl) || true
! within 1e-14 "$difference" || fail "losses of later tokens do not reach the model"
echo "losses of later tokens count by their factor"

# A published directory has the losses that transformers gives it (tests/golden/mtp.py). Weights of
# later losses are F32, as masks are.
golden=$TOP/tests/golden/mtp
mtok -q -o one_sample --tokenizer-type NullTokenizer --vocab-size 41 "$golden/tokens.jsonl"
model="--model $golden --mtp-num-layers 2 --data-path one_sample_text_document --split 1,0,0
	--seq-length 16 --tokenizer-type NullTokenizer --vocab-size 41 --global-batch-size 1
	--train-iters 1 --lr 1e-3 --eval-iters 0 --num-threads 1 --fp64"
mckpt import --mtp-num-layers 2 "$golden" imported >log 2>&1 || fail "mckpt import"
for from in "$golden" imported; do
	rm -f golden.jsonl
	train 1 --pretrained-checkpoint "$from" --metrics-file golden.jsonl
	for key in lm_loss mtp_1_loss mtp_2_loss; do
		difference=$(gap $key golden.jsonl "$golden/losses.json") || fail "no $key"
		case $key in lm_loss) limit=1e-12 ;; *) limit=1e-7 ;; esac
		within $limit "$difference" || fail "$from: $key is $difference off transformers'"
	done
done
mexport imported exported >log 2>&1 || fail "mexport"
mexport --check imported exported >log 2>&1 || fail "mexport --check"
mckpt import --mtp-num-layers 2 exported twice >log 2>&1 || fail "mckpt import of the export"
same_tensors "imported, exported and imported again" imported twice
mckpt import "$golden" without >log 2>&1 || fail "mckpt import without these layers"
grep -q 'not read: [0-9]* tensors .* of layers that predict later tokens (MTP)$' log ||
	fail "layers are left out without a note"
! mckpt import --mtp-num-layers 3 "$golden" more 2>log || fail "a third layer is read"
grep -qx "mckpt: $golden: has 2 layers that predict later tokens, not 3 (--mtp-num-layers)" log ||
	fail "the message"

# A table that such a layer repeats is that of the model.
cp -R "$golden" other_table
file=other_table/model.safetensors
header=$(od -A n -t u8 -N 8 "$file" | tr -d ' ')
table=model.layers.3.shared_head.head.weight
at=$(head -c $((8 + header)) "$file" | tail -c "$header" |
	sed -n "s/.*\"$table\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/p")
printf '\001' | dd of="$file" bs=1 seek=$((8 + header + at)) conv=notrunc 2>log
! mckpt import --mtp-num-layers 2 other_table more 2>log || fail "another table is read"
grep -q "'$table' differs from the table that layers which" log ||
	fail "the message of another table"
mckpt import other_table ignored >log 2>&1 || fail "a layer that is left out is looked at"
echo "the losses are those of transformers, and exports are what was imported"
