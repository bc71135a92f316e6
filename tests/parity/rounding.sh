#!/bin/sh
# rounding.sh - 16 bits round values, and do not make more of small steps than they are: GPT-2's
# shape with biases, steps of a millionth far below the last bit of what they are added to, on text
# of which a few tokens are most, so that all steps go one way; bf16 stays as near to fp32 as it
# begins
# shellcheck source=tests/parity/common disable=SC2046
. "$TOP/tests/parity/common"

awk 'BEGIN {
	x = 5
	for (d = 0; d < 40; d++) {
		printf "{\"text\": \""
		for (i = 0; i < 600; i++) {
			x = (x * 16807) % 2147483647
			u = x / 2147483647
			printf "%s%d", i ? " " : "", 500 * u * u * u * u * u * u
		}
		print "\"}"
	}
}' >text.jsonl
mtok encode --tokenizer-type NullTokenizer --vocab-size 500 -q -o text text.jsonl >log 2>&1 ||
	fail "mtok encode"
model="--num-layers 2 --hidden-size 128 --num-attention-heads 4 --vocab-size 500 --seq-length 64
	--micro-batch-size 8 --global-batch-size 8 --hidden-dropout 0 --attention-dropout 0
	--data-path text_text_document --split 100,0,0 --eval-iters 0 --num-threads 1
	--train-iters 8 --lr 1e-6 --lr-decay-style constant"

train 1 --metrics-file fp32.jsonl
train 1 --bf16 --metrics-file bf16.jsonl
train 2 --bf16 $(layout 2 1) --metrics-file bf16.tp2.jsonl
for run in bf16 bf16.tp2; do
	d=$(gap lm_loss $run.jsonl fp32.jsonl)
	within 1e-4 "$d" || fail "$run: losses differ from fp32 by $d"
	echo "$run: losses differ from fp32 by at most $d (limit 1e-4)"
done
