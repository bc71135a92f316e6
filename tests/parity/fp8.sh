#!/bin/sh
# fp8.sh - with 8-bit operands a model learns as it does without, every layout computes what one
# rank computes, and a run continues from its checkpoint as if it had not ended
#
# Copies have the same scales under every layout. Where tensor or context ranks add up parts of 16
# bits, the sums differ, and what a copy rounds; else the bits are the same. Some layouts, and that
# of a run that is resumed, with ALL=1 more.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
: "${ALL:=}"
delayed="--bf16 --fp8-format hybrid --fp8-amax-history-len 4 --fp8-amax-compute-algo max"
blockwise="--bf16 --fp8-format e4m3 --fp8-recipe blockwise"
tensorwise="--bf16 --fp8-format e4m3 --fp8-recipe tensorwise"
sizes="--hidden-size 64 --ffn-hidden-size 128"
text_dataset

# --- learning: eight sequences, half by heart after these steps -------------------------------

awk 'BEGIN {
	printf "{\"text\": \""
	x = 7
	for (k = 0; k < 128; k++) {
		x = (x * 16807) % 2147483647
		printf "%s%d", k ? " " : "", x % 499
	}
	print "\"}"
}' >song.jsonl
mtok encode --tokenizer-type NullTokenizer --vocab-size 499 -q -o song song.jsonl >log 2>&1 ||
	fail "mtok encode"
model="$llama $sizes --num-layers 2 --micro-batch-size 8 --data-path song_text_document
	--split 100,0,0 --train-iters 50 --lr 1e-3 --lr-decay-style constant"
train 1 --bf16 --metrics-file bf16.jsonl
wide=$(metric lm_loss bf16.jsonl | tail -n 1)
within 4 "$wide" || fail "bf16: last loss $wide"
for how in "$delayed" ${ALL:+"$blockwise" "$tensorwise" "$tensorwise --first-last-layers-bf16
	--num-layers-at-end-in-bf16 0"}; do
	rm -f narrow.jsonl
	train 1 $how --metrics-file narrow.jsonl
	narrow=$(metric lm_loss narrow.jsonl | tail -n 1)
	echo "$narrow $wide" | awk '{ d = $1 / $2 - 1; exit !(d < 0.02 && d > -0.02) }' ||
		fail "$how: last loss $narrow, in bf16 $wide"
	echo "$how: last loss $narrow, in bf16 $wide"
done

# --- layouts ----------------------------------------------------------------------------------

# near LOSS NORM RANKS OPTION...: three steps against one rank
near()
{
	loss=$1 norm=$2 ranks=$3
	shift 3
	rm -f run.jsonl
	train "$ranks" $steps "$@" --metrics-file run.jsonl
	a=$(gap lm_loss run.jsonl one.jsonl) b=$(gap grad_norm run.jsonl one.jsonl)
	within "$loss" "$a" || fail "$ranks $*: loss differs by $a"
	within "$norm" "$b" || fail "$ranks $*: gradient norm differs by $b"
	echo "$ranks $*: loss $a, gradient norm $b"
}

# layouts: those of $model with $steps
layouts()
{
	rm -f one.jsonl
	train 1 $steps --metrics-file one.jsonl
	near 1e-3 2e-2 4 $(layout 2 2) --sequence-parallel --tp-comm-overlap
	near 1e-3 2e-2 2 $(layout 2 1)
	near 1e-3 2e-2 4 $(layout 4 1) --tp-comm-overlap
	near 1e-3 2e-2 2 $(context 2)
	near 1e-9 $same 2 $(layout 1 2) --num-virtual-stages-per-pipeline-rank 2
	near 1e-3 2e-2 2 $(zero 1)
	near 1e-3 2e-2 2 $(zero 2) --ddp-bucket-size 5000
	near 1e-9 $same 2 $(layout 1 2) --recompute-granularity full
	near 1e-9 $same 1 --recompute-activations --recompute-modules layernorm mlp
}

model="$llama $sizes --num-query-groups 4 --seq-length 64"
# Operands that are scaled by their own largest number, as all are in a first step, have it of all
# ranks: the positions that a context rank lacks count.
for how in "$delayed" "$tensorwise"; do
	steps="$text --train-iters 1 --lr 1e-3 $how"
	rm -f one.jsonl
	train 1 $steps --metrics-file one.jsonl
	near 1e-8 1e-3 2 $(context 2)
	near 2e-5 1e-3 2 $(layout 2 1)
done

steps="$text --train-iters 3 --lr 1e-3 $delayed"
same=1e-7
if [ -n "$ALL" ]; then
	layouts
	for how in "$tensorwise" "$blockwise"; do
		steps="$text --train-iters 3 --lr 1e-3 $how"
		layouts
	done
	# Biases, and the tanh GELU, which is an epilogue in 16 bits. The stages' shares of a tied
	# table are added in another order, and an update may differ by a unit of bf16.
	same=1e-4
	model="$gpt2 $sizes --seq-length 64 --hidden-dropout 0 --attention-dropout 0"
	for how in "$tensorwise" "$delayed"; do
		steps="$text --train-iters 3 --lr 1e-3 $how"
		layouts
	done
fi

# --- experts ----------------------------------------------------------------------------------

# One slot for the rows and one for the weights of all experts of a layer: the numbers of the ranks
# that share them scale the first step's, and with tensorwise scaling all copies. By blocks it is
# the same bits wherever rows and experts are; in several rounds too.
shared="--expert-model-parallel-size"
slices="--expert-tensor-parallel-size"
experts="--hidden-size 128 --num-layers 2 --num-query-groups 4 --seq-length 32 --num-experts 4
	--moe-ffn-hidden-size 64"
rounds="--moe-expert-rank-capacity-factor 0.3"
model="$llama $experts"
for how in "$blockwise" ${ALL:+"$delayed" "$tensorwise"}; do
	steps="--mock-data --train-iters 3 --lr 1e-3 --moe-shared-expert-intermediate-size 32 $how"
	rm -f one.jsonl
	train 1 $steps --metrics-file one.jsonl
	limit=1e-3
	[ "$how" != "$blockwise" ] || limit=1e-9
	near $limit 2e-2 4 $shared 4 $rounds $(zero 1)
	[ -n "$ALL" ] || continue
	near $limit 2e-2 2 $shared 2 --recompute-granularity full $(zero 2)
	near $limit 2e-2 2
	near 1e-9 1e-9 2 $(layout 1 2)
	near 1e-3 2e-2 2 $(layout 2 1) --sequence-parallel $slices 1
	near 1e-3 2e-2 4 $(layout 2 1) --sequence-parallel $slices 1 $shared 4 --tp-comm-overlap
	[ "$how" = "$blockwise" ] ||
		near 1e-3 2e-2 4 $(layout 2 1) --sequence-parallel $slices 2 $shared 2
done

model="$model --mock-data --train-iters 4 --lr 1e-3 $delayed"
train 2 $shared 2 --save sparse
ends 3 2 $shared 2 --save sparse-half --exit-interval 2
cp -R sparse-half sparse-other
train 2 $shared 2 --save sparse-half --load sparse-half
same_tensors "experts, resumed" sparse sparse-half
grep -q "^fp8.amax_history	equal	F32	F32	192	" diff.tsv ||
	fail "not 48 slots: $(cat diff.tsv)"
train 1 --save sparse-other --load sparse-other
echo "experts: resumed with the same bits; a rank that has all of them continues from there too"
mckpt reshard sparse resharded $slices 2 --data-parallel-size 2 >log 2>&1 ||
	fail "reshard: $(cat log)"
same_tensors "experts, resharded" sparse resharded
mckpt cast --dtype bf16 sparse sparse-bf16 >log 2>&1 || fail "cast: $(cat log)"
mexport sparse-bf16 sparse-hf >log 2>&1 || fail "mexport: $(cat log)"
grep -q '"model_type": "mixtral"' sparse-hf/config.json || fail "not exported as Mixtral"

# --- checkpoints ------------------------------------------------------------------------------

model="$llama $sizes --num-query-groups 4 --seq-length 32 $text --split 80,20,0
	--train-iters 4 --lr 1e-3"
rm -f one.jsonl
train 1 $delayed --save whole --metrics-file one.jsonl
ends 3 1 $delayed --save part --exit-interval 2
cp -R part other
cp -R part bf16
# Neither evaluations nor repeated steps change the state.
train 1 $delayed --save part --load part --eval-interval 1 --eval-iters 1 --verify-interval 1
grep -q "validation loss" log || fail "no evaluation: $(cat log)"
same_tensors "resumed" whole part
grep -q "^fp8.amax_history	" diff.tsv || fail "the checkpoint has no history"
train 4 $delayed $(layout 2 2) --sequence-parallel --tp-comm-overlap --save other --load other \
	--metrics-file other.jsonl
results one.jsonl 3 >rest.jsonl
a=$(gap lm_loss other.jsonl rest.jsonl)
within 1e-3 "$a" || fail "resumed by 4 ranks: loss differs by $a"
echo "resumed: equal bit by bit; by 4 ranks: loss $a"
train 1 --bf16 --save bf16 --load bf16
grep -q "bf16/iter_0000002: its scales of 8-bit operands are not read" log ||
	fail "no note: $(cat log)"
train 1 $delayed --save bf16 --load bf16 --train-iters 5 --override-opt_param-scheduler
grep -q "bf16/iter_0000004: holds no scales of 8-bit operands" log || fail "no note: $(cat log)"
mckpt reshard --tensor-model-parallel-size 2 whole two >log 2>&1 || fail "reshard: $(cat log)"
same_tensors "resharded" whole two
mckpt cast --dtype fp32 whole cast >log 2>&1 || fail "cast: $(cat log)"
for dir in whole two cast; do
	mckpt verify $dir >log 2>&1 || fail "verify: $(cat log)"
	mckpt info $dir | grep -q '^parameters	211904$' || fail "$(mckpt info $dir)"
done
mckpt export whole megatron >log 2>&1 || fail "export: $(cat log)"
grep -q "whole/iter_0000004: its scales of 8-bit operands are not written" log ||
	fail "no note: $(cat log)"
mexport whole hf >log 2>&1 || fail "mexport: $(cat log)"
