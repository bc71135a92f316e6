#!/bin/sh
# layouts.sh - every layout and ZeRO stage computes what one rank computes
#
# With and without sequence parallelism. Three steps. fp32: loss and gradient norm to 1e-6 relative.
# fp64: every gradient and every updated weight to 1e-9 of its tensor's norm, and every expert as
# many rows in each step. In fp32, where layouts round near ties of experts differently, rows take
# the experts of one rank's run. Key biases are exempt where nothing rotates: their exact gradient
# is zero, Adam amplifies its rounding; |gradient| < 1e-12 instead.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
# shellcheck source=tests/parity/rows
. "$TOP/tests/parity/rows"

# reference NAME: one rank in both precisions, and a run that hardly keeps its gradient, so that its
# moments are zero
reference()
{
	case $1 in
	moe*) routed write "$1.choices" 1 $fp32 --metrics-file "$1.jsonl" ;;
	*) train 1 $fp32 --metrics-file "$1.jsonl" ;;
	esac
	train 1 $fp64 --save "$1" --metrics-file "$1.fp64.jsonl"
	train 1 $fp64 --save "$1.zero" --train-iters 1 --adam-beta1 0.9999999
}

# key_biases A ZERO: prints the largest gradient; fails when there are none
key_biases()
{
	mckpt diff "$1/iter_0000001" "$2/iter_0000001" --only '*linear_k.bias.exp_avg' 2>log |
		awk -F '\t' '
			NR > 1 && $6 + 0 > max { max = $6 + 0 }
			END { if (NR < 2) exit 1; printf "%.1e\n", max * 10 }'
}

# same_loads A B: whether the experts of every layer and step got as many rows in both runs
same_loads()
{
	grep '"expert_load"' "$2.fp64.jsonl" >loads || return 1
	grep '"expert_load"' "$1.fp64.jsonl" | cmp -s - loads
}

# check MODEL RANKS TP PP MICRO ZERO OPTION...; exp_avg after step 1 is 0.1 of the gradient
check()
{
	of=$1 name="$*" ranks=$2
	options="$(layout "$3" "$4") --micro-batch-size $5 $(zero "$6")"
	shift 6
	exempt=none bias=
	case $of in gpt2* | plain | packed) exempt='*linear_k.bias*' ;; esac
	rm -rf run run.jsonl run.fp64.jsonl
	case $of in
	moe*) routed read "$of.choices" "$ranks" $options "$@" $fp32 --metrics-file run.jsonl ;;
	*) train "$ranks" $options "$@" $fp32 --metrics-file run.jsonl ;;
	esac
	loss=$(gap lm_loss run.jsonl "$of.jsonl")
	norm=$(gap grad_norm run.jsonl "$of.jsonl")
	within 1e-6 "$loss" "$norm" ||
		fail "$name: fp32 loss differs by $loss, gradient norm by $norm"
	train "$ranks" $options "$@" $fp64 --save run --metrics-file run.fp64.jsonl
	case $of in moe*) same_loads run "$of" || fail "$name: other loads of experts" ;; esac
	same_tensors "$name: gradients" run/iter_0000001 "$of/iter_0000001" --tolerance 1e-9 \
		--only '*.exp_avg' --ignore "$exempt"
	same_tensors "$name: weights" run "$of" --tolerance 1e-9 --ignore "$exempt"
	if [ "$exempt" != none ]; then
		bias=$(key_biases run "$of.zero")
		within 1e-12 "$bias" || fail "$name: gradient of a key bias is $bias"
	fi
	echo "$name: fp32 loss $loss, gradient norm $norm; \
fp64 gradients and weights within 1e-9${bias:+, key biases $bias}"
}

sample
while read -r row; do
	set -- $row
	use "$1"
	[ -e "$1" ] || reference "$1"
	check "$@" </dev/null
done <table

# The comparison fails with other data, and with a learning rate that is off by a millionth.
use gpt2
[ -e gpt2 ] || reference gpt2
rm -rf run run.jsonl
options=$(layout 2 1)
train 2 $fp32 $options --seed 4321 --metrics-file run.jsonl
! within 1e-6 "$(gap lm_loss run.jsonl gpt2.jsonl)" || fail "another seed gives the same loss"
train 2 $fp64 $options --lr 1.000001e-3 --save run
if (same_tensors mutation run gpt2 --tolerance 1e-9 --ignore '*linear_k.bias*') >/dev/null; then
	fail "another learning rate gives the same weights"
fi
echo "another seed and another learning rate fail the comparison"
