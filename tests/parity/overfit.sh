#!/bin/sh
# overfit.sh - training learns: the loss of a tiny Llama on four sequences of 64 random tokens falls
# from ln V to almost 0 in 200 steps
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

# One document of 256 tokens: its epochs follow each other, so there are four samples, whatever the
# epoch.
awk 'BEGIN {
	printf "{\"text\": \""
	x = 7
	for (k = 0; k < 256; k++) {
		x = (x * 16807) % 2147483647
		printf "%s%d", k ? " " : "", x % 500
	}
	print "\"}"
}' >text.jsonl
mtok encode --tokenizer-type NullTokenizer --vocab-size 500 -q -o text text.jsonl >log 2>&1 ||
	fail "mtok encode"
model="--num-layers 2 --hidden-size 128 --ffn-hidden-size 256 --num-attention-heads 4
	--vocab-size 500 --seq-length 64 --micro-batch-size 4 --global-batch-size 4 --swiglu
	--normalization RMSNorm --disable-bias-linear --position-embedding-type rope
	--untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0
	--init-method-std 0.01 --data-path text_text_document --split 100,0,0 --eval-iters 0
	--num-threads 1 --train-iters 200 --lr 1e-3 --lr-decay-style constant --weight-decay 0"

# learns NAME RANKS OPTION...
learns()
{
	name=$1 ranks=$2
	shift 2
	rm -f run.jsonl
	train "$ranks" "$@" --metrics-file run.jsonl
	first=$(metric lm_loss run.jsonl | head -n 1)
	last=$(metric lm_loss run.jsonl | tail -n 1)
	away=$(echo "$first" | awk '{ d = $1 - log(500); print d < 0 ? -d : d }')
	within 0.1 "$away" || fail "$name: first loss $first, not ln 500"
	within 0.05 "$last" || fail "$name: last loss $last"
	echo "$name: loss $first at first, ln 500 +- 0.1; $last after 200 steps, below 0.05"
}

learns fp32 1
learns "bf16 under TP 2" 2 --bf16 $(layout 2 1)
