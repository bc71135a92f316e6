#!/bin/sh
# masks.sh - the weight of router losses does not depend on the mask, under any layout; with
# --calculate-per-token-loss it grows as fewer tokens count; a batch without any moves nothing
#
# Token 0, where it is named as padding, masks a share of the same tokens that SEED draws. The loss
# of the balance, or that of the router's logits, is weighted so much that nothing else shows in the
# norm of the gradients.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
: "${SEED:=1}"
echo "seed $SEED"

# tokens PERCENT: documents of which so much is token 0
tokens()
{
	awk -v seed="$SEED" -v percent="$1" 'BEGIN {
		srand(seed)
		for (i = 0; i < 20; i++) {
			printf "{\"text\": \""
			for (k = 0; k < 50; k++) {
				t = rand() * 100 < percent ? 0 : 1 + int(rand() * 18)
				printf "%s%d", k ? " " : "", t
			}
			print "\"}"
		}
	}' >"$1.jsonl"
	mtok encode --tokenizer-type NullTokenizer --vocab-size 20 -q -o "$1" "$1.jsonl" \
		>log 2>&1 || fail "mtok encode"
}

model="--num-layers 2 --hidden-size 16 --num-attention-heads 4 --vocab-size 20 --seq-length 16
	--micro-batch-size 2 --global-batch-size 16 --ffn-hidden-size 24 --num-experts 4
	--moe-router-topk 2 --disable-bias-linear --normalization RMSNorm --swiglu
	--init-method-std 0.2 --attention-dropout 0 --hidden-dropout 0 --fp64 --num-threads 1
	--eval-iters 0 --split 1,0,0
	--tokenizer-type NullTokenizer --lr 1e-3 --clip-grad 0 --train-iters 2 --log-interval 1"

# norm RANKS PERCENT OPTION...: that of the first step's gradients
norm()
{
	ranks=$1 percent=$2
	shift 2
	rm -f m.jsonl
	train "$ranks" --data-path "${percent}_text_document" --metrics-file m.jsonl "$@"
	metric grad_norm m.jsonl | head -n 1
}

# near A B LIMIT: their relative difference
near()
{
	echo "$1 $2 $3" | awk '{ d = $1 - $2; exit !($2 > 0 && (d < 0 ? -d : d) <= $3 * $2) }'
}

mask="--pad-token-id 0"
for percent in 30 90 100; do
	tokens $percent
done
shares="30 90"
for loss in "--moe-aux-loss-coeff 1e9" "--moe-z-loss-coeff 1e9" \
	"--moe-aux-loss-coeff 1e9 --moe-router-load-balancing-type seq_aux_loss \
--moe-router-score-function sigmoid"; do
	for percent in $shares; do
		whole=$(norm 1 $percent $loss)
		masked=$(norm 1 $percent $loss $mask)
		near "$masked" "$whole" 1e-7 ||
			fail "$loss: a mask of $percent % moves the norm from $whole to $masked"
		# The quotient is a whole number of the batch's 256 tokens.
		token=$(norm 1 $percent $loss $mask --calculate-per-token-loss)
		echo "$percent $token $whole" | awk '{
			counted = 256 * $3 / $2
			left = counted - int(counted + 0.5)
			off = counted / 256 - (1 - $1 / 100)
			exit !(left * left < 1e-8 && off * off < 0.02 && counted < 256)
		}' || fail "$loss, by token: a mask of $percent % makes $token of $whole"
	done
	for option in "" --calculate-per-token-loss; do
		none=$(norm 1 100 $loss $mask $option)
		[ "$none" = 0 ] || [ "$none" = 0.0 ] ||
			fail "$loss $option: norm $none of a batch without a token that counts"
	done
	shares=90
done
for layout in "" "--pipeline-model-parallel-size 2" "--context-parallel-size 2" \
	"--tensor-model-parallel-size 2 --sequence-parallel"; do
	laid=$(norm 2 90 $loss $mask $layout)
	near "$laid" "$masked" 1e-9 || fail "$loss: norm $laid, not $masked, on 2 ranks $layout"
done
