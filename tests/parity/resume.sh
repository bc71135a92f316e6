#!/bin/sh
# resume.sh - stopping and resuming changes nothing: bitwise under the same layout, to 1e-6 of the
# loss under another
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
# Loss scales that overflow at first and grow again: their state must survive too.
fp16="--fp16 --initial-loss-scale 1073741824 --loss-scale-window 3 --hysteresis 2"
common="$text --train-iters 20 --lr 1e-3 --lr-warmup-iters 5 --lr-decay-style cosine"

# halves NAME RANKS OPTION...: 20 steps straight into NAME, the same in two runs, all compared
halves()
{
	name=$1 ranks=$2
	shift 2
	rm -rf two two.jsonl
	train "$ranks" $common "$@" --save "$name" --save-interval 10 --metrics-file "$name.jsonl"
	ends 3 "$ranks" $common "$@" --load two --save two --exit-interval 10 \
		--metrics-file two.jsonl
	train "$ranks" $common "$@" --load two --save two --metrics-file two.jsonl
	results "$name.jsonl" >straight
	results two.jsonl >resumed
	steps=$(grep -c lm_loss resumed)
	[ "$steps" = 20 ] || fail "$name: $steps steps instead of 20"
	same_steps "$name: 10 + 10 steps" straight resumed
	same_tensors "$name: 10 + 10 steps" "$name" two
	echo "$name: 20 steps and 10 + 10 steps are equal bit by bit"
}

# First a model with dropout, tied tables and biases; then one without.
model=$gpt2
halves gpt2-fp32 1
halves gpt2-bf16 1 --bf16
halves gpt2-fp16 1 $fp16
[ "$(grep -c '"skipped": true' gpt2-fp16.jsonl)" -gt 0 ] || fail "fp16: no step overflowed"
[ "$(metric loss_scale gpt2-fp16.jsonl | sort -u | wc -l)" -gt 3 ] ||
	fail "fp16: the loss scale hardly moved"
grid=$(layout 2 2)
halves gpt2-fp32-tp2-pp2 4 $grid
chunks="--num-virtual-stages-per-pipeline-rank 2"
halves gpt2-bf16-tp2-pp2 4 $grid $chunks --bf16 --sequence-parallel
halves gpt2-fp16-tp2-pp2-dp2-zero 8 $grid $fp16 --use-distributed-optimizer
metric loss_scale gpt2-fp16.jsonl >one
metric loss_scale gpt2-fp16-tp2-pp2-dp2-zero.jsonl | cmp - one ||
	fail "fp16: the loss scale depends on the layout"
model=$llama
halves llama-bf16-wide-dp2-zero 2 --bf16 --fp32-residual-connection \
	--use-distributed-optimizer
halves llama-sgd-tp2 2 $(layout 2 1) --optimizer sgd
small="--ddp-bucket-size 5000"
halves llama-fp32-dp2-zero2 2 $(zero 2) $small
halves llama-sgd-pp2-dp2-zero3 4 $(layout 1 2) $(zero 3) $small --optimizer sgd
halves llama-fp32 1
model=$gpt2
halves gpt2-bf16-dp4-zero3 4 $(zero 3) $small --bf16
halves gpt2-fp32-tp2-cp2-zero3 4 $(layout 2 1) $(context 2) $(zero 3) $small \
	--sequence-parallel

# resumes FROM STRAIGHT RANKS OPTION...: trains from iteration 10 of FROM into `on`; steps 11 to 20
# of both to compare
resumes()
{
	rm -rf from on on.jsonl
	mkdir from
	cp -r "$1/iter_0000010" from
	echo 10 >from/latest_checkpointed_iteration.txt
	results "$2.jsonl" 11 >straight
	ranks=$3
	shift 3
	train "$ranks" $common "$@" --load from --save on --metrics-file on.jsonl
	results on.jsonl >resumed
}

# Resharded and back, with the same bits.
# there_and_back FROM RANKS RESHARD OPTION...: FROM to one rank and back by the options RESHARD
there_and_back()
{
	from=$1 ranks=$2 to=$3
	shift 3
	rm -rf there back
	mckpt reshard "$from/iter_0000010" there >log 2>&1 || fail "reshard to one rank"
	mckpt reshard $to there back >log 2>&1 || fail "reshard back"
	resumes back "$from" "$ranks" "$@"
	same_steps "$from, resharded there and back" straight resumed
	same_tensors "$from, resharded there and back" "$from" on
	echo "$from, resharded to one rank and back: equal bit by bit"
}

model=$gpt2
there_and_back gpt2-bf16-tp2-pp2 4 "$grid $chunks --data-parallel-size 1" $grid $chunks --bf16 \
	--sequence-parallel
there_and_back gpt2-bf16-dp4-zero3 4 "--data-parallel-size 4" $(zero 3) $small --bf16
model=$llama
there_and_back llama-sgd-pp2-dp2-zero3 4 "$(layout 1 2) --data-parallel-size 2" $(layout 1 2) \
	$(zero 3) $small --optimizer sgd

# other NAME FROM RANKS OPTION...: another layout continues the same loss
other()
{
	name=$1
	from=$2
	shift 2
	resumes "$from" "$from" "$@"
	loss=$(gap lm_loss resumed straight)
	norm=$(gap grad_norm resumed straight)
	within 1e-6 "$loss" || fail "$name: the loss differs by $loss"
	within 1e-5 "$norm" || fail "$name: the gradient norm differs by $norm"
	echo "$name: fp32 loss of steps 11 to 20 within $loss, gradient norm $norm"
}

model=$gpt2
other "gpt2 TP2 PP2 to DP4 with a distributed optimizer" gpt2-fp32-tp2-pp2 4 \
	--use-distributed-optimizer
other "gpt2 TP2 PP2 to PP2 CP2 with ZeRO-3" gpt2-fp32-tp2-pp2 4 $(layout 1 2) $(context 2) \
	$(zero 3) $small
other "gpt2 TP2 CP2 with ZeRO-3 to DP2 with ZeRO-2" gpt2-fp32-tp2-cp2-zero3 2 $(zero 2)
other "gpt2 TP2 CP2 with ZeRO-3 to one rank" gpt2-fp32-tp2-cp2-zero3 1
# A checkpoint does not depend on the order of ranks: only sums over all of them change their order.
other "gpt2 TP2 PP2 to PP2 DP2 with stages nearer than data ranks" gpt2-fp32-tp2-pp2 4 \
	$(layout 1 2) --use-tp-pp-dp-mapping
model=$llama
other "llama DP2 with ZeRO-2 to TP2 DP2 with ZeRO-3" llama-fp32-dp2-zero2 4 $(layout 2 1) \
	$(zero 3) --sequence-parallel
other "llama with SGD, PP2 DP2 with ZeRO-3 to DP2 with ZeRO-1" llama-sgd-pp2-dp2-zero3 2 \
	$(zero 1) --optimizer sgd
other "llama 1 to TP2" llama-fp32 2 $(layout 2 1)
other "llama 1 to TP4 PP2" llama-fp32 8 $(layout 4 2)
other "llama 1 to PP2 DP2 in chunks with a distributed optimizer" llama-fp32 4 $(layout 1 2) \
	$chunks --use-distributed-optimizer
# States of experts go to ranks that hold others of them.
model="$llama --num-experts 4 --moe-ffn-hidden-size 24 --moe-router-topk 2"
shared=--expert-model-parallel-size
halves experts-ep2-zero 2 $shared 2 --use-distributed-optimizer
other "experts on 2 ranks to experts on 4 with TP2" experts-ep2-zero 4 $(layout 2 1) \
	--sequence-parallel $shared 2 --use-distributed-optimizer
other "experts on 2 ranks to one" experts-ep2-zero 1
other "experts on 2 ranks to PP2 with whole experts" experts-ep2-zero 2 $(layout 1 2)
