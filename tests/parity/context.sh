#!/bin/sh
# context.sh - forward passes over a sequence that ranks share give what one rank gives: evaluation,
# logits, text; and what cannot be shared
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
: "${ALL:=}"
text_dataset
model="$llama --eval-iters 2"
data="--data-path text_text_document --tokenizer-type NullTokenizer --split 8,1,1 --fp64"

# losses: of the evaluations in the log
losses()
{
	sed -n 's/.*\(validation loss at iteration [0-9]*[a-z ]*\)|/\1/p' log
}

# numbers FILE: the logits of a file of 8 positions, one line each
numbers()
{
	tail -c $((8 * 499 * 8)) "$1" | od -An -v -w8 -t f8
}

train 1 $data --train-iters 2 --lr 1e-2 --eval-interval 1 --save one
losses >one.losses
[ -s one.losses ] || fail "no evaluation"
train 4 $data --train-iters 2 --lr 1e-2 --eval-interval 1 --save run $(layout 1 2) $(context 2)
losses | cmp - one.losses || fail "evaluations differ"
same_tensors "trained by context ranks" run one --tolerance 1e-9

# Eight tokens, int32.
printf '\223NUMPY\001\000\166\000%-117s\n' \
	"{'descr': '<i4', 'fortran_order': False, 'shape': (8,), }" >tokens.npy
printf '\001\000\000\000\002\000\000\000\003\000\000\000\004\000\000\000' >>tokens.npy
printf '\005\000\000\000\006\000\000\000\007\000\000\000\011\000\000\000' >>tokens.npy
echo 1 2 3 >prompt
words="--tokenizer-type NullTokenizer --generate 6 --temperature 0 --prompt-file prompt"
train 1 --load run --fp64 --tokens-file tokens.npy --logits-file one.npy
numbers one.npy >one.numbers
[ "$(wc -l <one.numbers)" = $((8 * 499)) ] || fail "not 8 rows of logits"
mtrain -q $model --load run --fp64 $words >one.text 2>log || fail "text of one rank"
set -- "4 $(layout 2 1) $(context 2)"
[ -z "$ALL" ] || set -- "$@" "2 $(context 2 a2a)" "4 $(context 4)"
for grid; do
	train $grid --load run --fp64 --tokens-file tokens.npy --logits-file many.npy
	numbers many.npy | paste -d ' ' - one.numbers | awk '
		{ d = $1 - $2; if (!(d * d < 1e-24)) bad = 1 } END { exit bad || NR == 0 }' ||
		fail "$grid: other logits"
	mpirun -np ${grid%% *} mtrain -q $model ${grid#* } --load run --fp64 $words \
		--no-kv-cache >many.text 2>log || fail "$grid: text"
	cmp one.text many.text || fail "$grid: other text"
done
echo "evaluations, logits and text of context ranks are those of one rank"

ends 2 8 $(context 8) --load run --fp64 --tokens-file tokens.npy --logits-file many.npy
grep -q -- '--context-parallel-size 8: must divide half of the tokens of --tokens-file, 8 (try 4)' \
	log || fail "8 tokens on 8 ranks"
