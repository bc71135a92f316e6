#!/bin/sh
# sharded.sh - forward passes and failures under ZeRO-3 are those of one rank: evaluation,
# logits, text, and the names of what is not finite; and forward where tensor ranks share rows
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
model="$gpt2 --eval-iters 2"
small="$(zero 3) --ddp-bucket-size 5000"
data="--data-path text_text_document --tokenizer-type NullTokenizer --split 8,1,1"
steps="$data --train-iters 4 --lr 1e-2 --eval-interval 2 --bf16"

# losses: of the evaluations in the log
losses()
{
	sed -n 's/.*\(validation loss at iteration [0-9]*[a-z ]*\)|/\1/p' log
}

# evaluated WHAT: the log evaluates as the one before in `evaluations`
evaluated()
{
	losses >again
	[ -s again ] || fail "$1: no evaluation"
	cmp -s again evaluations || fail "$1: evaluations differ: $(diff again evaluations)"
}

train 2 $steps $(zero 1) --micro-batch-size 4 --save plain
losses >evaluations
train 2 $steps $small --micro-batch-size 4 --save run
evaluated "during training"
same_tensors "ZeRO-1 and 3" plain run
tail -n 2 evaluations >last
mv last evaluations
echo "$(wc -l <again) evaluations of a run: equal"

forward="--load run --skip-train --bf16 $data"
train 2 $forward --micro-batch-size 4
losses >evaluations
train 2 $forward $small --micro-batch-size 4
evaluated "of a checkpoint"
train 4 $forward $small $(layout 1 2) --micro-batch-size 4
evaluated "of a checkpoint, two stages"
train 2 $forward $(layout 2 1) --micro-batch-size 4
losses >evaluations
train 2 $forward $(layout 2 1) --micro-batch-size 4 --sequence-parallel
evaluated "of a checkpoint, rows shared by tensor ranks"
echo "$(wc -l <again) evaluations of a checkpoint: equal"

printf '\223NUMPY\001\000\166\000%-117s\n' \
	"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }" >tokens.npy
printf '\001\000\000\000\002\000\000\000\003\000\000\000' >>tokens.npy
echo 1 2 3 >prompt
words="--tokenizer-type NullTokenizer --generate 6 --prompt-file prompt"
train 1 --load run --bf16 --tokens-file tokens.npy --logits-file one.npy
mtrain -q $model --load run --bf16 $words >one.text 2>log || fail "text of one rank"
for ranks in 2 4; do
	train $ranks $small --load run --bf16 --tokens-file tokens.npy --logits-file many.npy
	cmp one.npy many.npy || fail "$ranks ranks: other logits"
	mpirun -np $ranks mtrain -q $model $small --load run --bf16 $words >many.text 2>log ||
		fail "text of $ranks ranks"
	cmp one.text many.text || fail "$ranks ranks: other text"
done
# Three tokens cannot be shared by two ranks.
train 2 $(layout 2 1) --load run --bf16 --tokens-file tokens.npy --logits-file one.npy
train 2 $(layout 2 1) --load run --bf16 --tokens-file tokens.npy --logits-file many.npy \
	--sequence-parallel
cmp one.npy many.npy || fail "tensor ranks that share rows: other logits"
echo "logits and text of 2 and 4 ranks: equal bit by bit"

# named WHAT OPTION...: one rank and two name the same cause of a run that ends with status 5
named()
{
	what=$1
	shift
	for ranks in 1 2; do
		ends 5 $ranks --mock-data --train-iters 60 $small "$@"
		sed -n 's/.*: iteration \([0-9]*: .* is not finite\).*/\1/p' log >blamed.$ranks
	done
	grep -q "$what" blamed.1 || fail "one rank blames $(cat blamed.1), not $what"
	cmp blamed.1 blamed.2 || fail "one rank blames $(cat blamed.1), two $(cat blamed.2)"
	echo "two ranks name the same cause as one: $(cat blamed.2)"
}

train 2 --mock-data --train-iters 3 --lr 1e-3 $small --profile --profile-step-start 1 \
	--profile-step-end 2

model=$gpt2
named "the loss" --lr 1e30
named "the parameter 'embedding.word_embeddings.weight'" --fp16 --lr 1e30
named "the gradient of 'decoder" --lr 1e-3 --fp16 --loss-scale 16777216
