#!/bin/sh
# generate.sh - texts of any layout are those of one rank, with keys that are kept and without; what
# chose each token too
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
: "${ALL:=}"
cat >prompts <<-'END'
	{"input_ids": [5, 7, 11, 3]}
	{"input_ids": [8], "max_tokens": 2}
	{"input_ids": [498]}
	{"input_ids": [100, 101, 102, 103, 104, 105, 106, 107, 108], "id": "last"}
END
head -n 1 prompts >prompt
words="--tokenizer-type NullTokenizer --generate 4 --fp64"
experts="--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 24 --moe-aux-loss-coeff 0"

# texts RANKS OPTION...: `many`, of all prompts
texts()
{
	ranks=$1
	shift
	mpirun -np "$ranks" mtrain -q $model --load run $words --prompts - "$@" <prompts >many \
		2>log || fail "$ranks ranks $*"
}

# numbers FILE: its logits, one a line
numbers()
{
	tail -c +129 "$1" | od -An -v -w8 -t f8
}

# same KIND LAYOUT...: each is the ranks and the options
same()
{
	kind=$1
	shift
	rm -rf run
	train 1 --mock-data --train-iters 2 --lr 1e-2 --fp64 --save run
	texts 1
	mv many one
	[ "$(wc -l <one)" = 4 ] || fail "$kind: not 4 texts: $(cat one)"
	train 1 --load run $words --prompts prompt --logits-file one.npy
	numbers one.npy >one.numbers
	[ "$(wc -l <one.numbers)" = $((4 * 499)) ] || fail "$kind: not 4 rows of logits"
	for grid; do
		texts $grid
		cmp one many || fail "$kind, $grid: other texts"
		train $grid --load run $words --prompts prompt --logits-file many.npy
		numbers many.npy | paste -d ' ' - one.numbers | awk '
			{ d = $1 - $2; if (!(d * d < 1e-24)) bad = 1 }
			END { exit bad || NR == 0 }' ||
			fail "$kind, $grid: other logits"
	done
	echo "$kind: texts and logits of $# layouts are those of one rank"
}

set -- "4 $(layout 2 2)" "2 --generate-batch-size 1" \
	"2 $(layout 1 2) --num-layers-per-virtual-pipeline-stage 1" "2 $(zero 3)"
[ -z "$ALL" ] || set -- "$@" "2 $(layout 2 1) --sequence-parallel" "8 $(layout 2 2)" \
	"3 --global-batch-size 6" "2 --no-kv-cache" "2 $(context 2) --no-kv-cache" \
	"2 $(context 2 a2a) --no-kv-cache"
same Llama "$@"
model="$llama $experts"
set -- "2 --expert-model-parallel-size 2" \
	"4 $(layout 2 1) --sequence-parallel --expert-model-parallel-size 2"
[ -z "$ALL" ] || set -- "$@" "4 $(layout 1 2) --expert-model-parallel-size 2"
same experts "$@"

ends 2 2 $(context 2) --load run $words --prompts prompt
grep -q -- '--context-parallel-size 2: context ranks keep no keys: must be 1 with --generate' \
	log || fail "context ranks"
