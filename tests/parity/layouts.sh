#!/bin/sh
# layouts.sh - every layout computes what one rank computes
#
# Five steps. fp32: loss and gradient norm to 1e-6 relative. fp64: every gradient and every updated
# weight to 1e-9 of its tensor's norm. Key biases are exempt: their exact gradient is zero, Adam
# amplifies its rounding; |gradient| < 1e-12 instead.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

# name, model, ranks, tensor, pipeline, micro batch; `zero` in the name: the distributed optimizer.
# plain is gpt2 without dropout: the gradients of its residual biases are taken elsewhere, but at
# the end of a stage.
cat >table <<'END'
tp2            llama 2 2 1 2
pp2            llama 2 1 2 1
dp2            llama 2 1 1 1
dp2-zero       llama 2 1 1 4
tp4            llama 4 4 1 1
tp2-pp2        llama 4 2 2 2
tp2-pp2-dp2-zero llama 8 2 2 1
tp4-dp2-zero   llama 8 4 1 2
tp2            gpt2  2 2 1 1
tp4            gpt2  4 4 1 8
pp4            gpt2  4 1 4 1
tp2-dp2-zero   gpt2  4 2 1 2
pp2-dp2        gpt2  4 1 2 1
tp8            gpt2  8 8 1 4
tp2-pp2-dp2    gpt2  8 2 2 2
tp2-pp4        gpt2  8 2 4 1
pp2-dp4-zero   gpt2  8 1 2 1
pp4            plain 4 1 4 1
tp2-pp2-dp2-zero plain 8 2 2 2
END
llama_data="$text --use-z-loss"
gpt2_data="--mock-data"
fp32="--train-iters 5 --lr 1e-4 --clip-grad 0.5"
fp64="--fp64 --train-iters 5 --lr 1e-3 --clip-grad 0 --save-interval 1"
text_dataset

# reference NAME DATA: one rank in both precisions, and a run that hardly keeps its gradient, so
# that its moments are zero
reference()
{
	train 1 $2 $fp32 --metrics-file "$1.jsonl"
	train 1 $2 $fp64 --save "$1"
	train 1 $2 $fp64 --save "$1.zero" --train-iters 1 --adam-beta1 0.9999999
}

# key_biases A ZERO: prints the largest gradient; fails when there are none
key_biases()
{
	mckpt diff "$1/iter_0000001" "$2/iter_0000001" --only '*linear_k.bias.exp_avg' 2>log |
		awk -F '\t' '
			NR > 1 && $6 + 0 > max { max = $6 + 0 }
			END { if (NR < 2) exit 1; printf "%.1e\n", max * 10 }'
}

# check NAME MODEL RANKS TP PP MICRO; exp_avg after step 1 is 0.1 of the gradient
check()
{
	options="$(layout "$4" "$5") --micro-batch-size $6"
	case $1 in *zero*) options="$options --use-distributed-optimizer" ;; esac
	rm -rf run run.jsonl
	train "$3" $data $options $fp32 --metrics-file run.jsonl
	loss=$(gap lm_loss run.jsonl "$2.jsonl")
	norm=$(gap grad_norm run.jsonl "$2.jsonl")
	within 1e-6 "$loss" "$norm" ||
		fail "$2 $1: fp32 loss differs by $loss, gradient norm by $norm"
	train "$3" $data $options $fp64 --save run
	same_tensors "$2 $1: gradients" run/iter_0000001 "$2/iter_0000001" --tolerance 1e-9 \
		--only '*.exp_avg' --ignore '*linear_k.bias*'
	same_tensors "$2 $1: weights" run "$2" --tolerance 1e-9 --ignore '*linear_k.bias*'
	bias=
	if [ "$2" != llama ]; then
		bias=$(key_biases run "$2.zero")
		within 1e-12 "$bias" || fail "$2 $1: gradient of a key bias is $bias"
	fi
	echo "$2 $1: fp32 loss $loss, gradient norm $norm; \
fp64 gradients and weights within 1e-9${bias:+, key biases $bias}"
}

while read -r row; do
	set -- $row
	case $2 in
	llama) model=$llama data=$llama_data ;;
	plain) model="$gpt2 --hidden-dropout 0 --attention-dropout 0" data=$gpt2_data ;;
	*) model=$gpt2 data=$gpt2_data ;;
	esac
	[ -e "$2" ] || reference "$2" "$data"
	check "$@" </dev/null
done <table

# The comparison itself can fail: other data, and a learning rate that is off by a millionth.
model=$gpt2
rm -rf run run.jsonl
options=$(layout 2 1)
train 2 $gpt2_data $fp32 $options --seed 4321 --metrics-file run.jsonl
! within 1e-6 "$(gap lm_loss run.jsonl gpt2.jsonl)" || fail "another seed gives the same loss"
train 2 $gpt2_data $fp64 $options --lr 1.000001e-3 --save run
if (same_tensors mutation run gpt2 --tolerance 1e-9 --ignore '*linear_k.bias*') >/dev/null; then
	fail "another learning rate gives the same weights"
fi
echo "another seed and another learning rate are told apart"
