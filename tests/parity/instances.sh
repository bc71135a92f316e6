#!/bin/sh
# instances.sh - what is sharded inside instances, which are replicas of each other, trains as what
# is sharded over all data ranks
#
# With ZeRO-1 any number of instances gives the same bits, also of experts and of matrices that are
# updated whole; with sharded gradients instances are added last, so losses agree to 1e-6. A run
# that was saved with 4 instances is resumed with 1. Gradients are not clipped: a norm is added in
# the order of shards. Instances that share the optimizer's state have the bits of those that do
# not, also of matrices.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
steps="--train-iters 4 --lr 1e-3 --clip-grad 0 --ddp-bucket-size 5000 --log-interval 1 $text"
moe="--num-experts 8 --moe-ffn-hidden-size 24 --moe-router-topk 2 --expert-model-parallel-size 2"

# instances NUMBER NAME RANKS OPTION...: the steps go to NAME.NUMBER, without norms
instances()
{
	number=$1 name=$2 ranks=$3
	shift 3
	train "$ranks" $steps "$@" --num-distributed-optimizer-instances "$number" \
		--metrics-file run.jsonl
	results run.jsonl | sed 's/"grad_norm": [^,]*, //' >"$name.$number"
	mv run.jsonl "$name.$number.jsonl"
}

# norms NAME: those of 1 and 2 instances agree but for rounding
norms()
{
	norm=$(gap grad_norm "$1.1.jsonl" "$1.2.jsonl")
	within 1e-6 "$norm" || fail "$1: norms differ by $norm"
}

# same NAME RANKS OPTION...: 1 and 2 instances give the same bits
same()
{
	instances 1 "$@"
	instances 2 "$@"
	cmp "$1.1" "$1.2" >log || fail "$1: 2 instances train otherwise than 1"
	norms "$1"
	echo "$1: the same bits"
}

optim=--use-distributed-optimizer
same zero1 4 $optim --pretend-hosts 2
instances 4 zero1 4 $optim --save four --save-interval 2
cmp zero1.1 zero1.4 >log || fail "zero1: 4 instances train otherwise than 1"
instances 1 resumed 4 $optim --load four --ckpt-step 2
tail -n 2 zero1.1 | cmp - resumed.1 >log || fail "1 instance continues otherwise than 4"
same experts 4 $moe $optim --optimizer muon

# agree NAME RANKS OPTION...: 1 and 2 instances give the same losses but for rounding
agree()
{
	instances 1 "$@"
	instances 2 "$@"
	loss=$(gap lm_loss "$1.1" "$1.2")
	within 1e-6 "$loss" || fail "$1: losses differ by $loss"
	norms "$1"
	! cmp -s "$1.1" "$1.2" || fail "$1: instances are not added last"
	echo "$1: losses within $loss"
}
agree sharded 4 $moe $(zero 3) --micro-batch-size 1

# shared NAME OPTION...: 2 instances of 4 ranks that share the optimizer's state give the bits of
# those that each have all of it, in every step and in the checkpoint
shared()
{
	instances 2 "$1" 4 --save all --save-interval 2 $options
	mv "$1.2" "$1.all"
	instances 2 "$1" 4 --save part --save-interval 2 $options $outer
	cmp "$1.all" "$1.2" >log || fail "$1: 2 instances that share train otherwise"
	same_tensors "$1" all part
}

# resumes NAME NUMBER [OPTION]: so many instances continue the part that `shared` saved
resumes()
{
	instances "$2" "$1.on" 4 --load part --ckpt-step 2 $options ${3:-}
	sed -n '/"iteration": 3/,$p' "$1.all" | cmp - "$1.on.$2" >log ||
		fail "$1: $2 instances continue otherwise"
}

# With one micro batch a step the order of all sums is one, for any instances.
outer="--outer-dp-sharding-strategy optim"
options="$moe $(zero 3) --optimizer muon --bf16 --micro-batch-size 2"
shared whole
resumes whole 1
resumes whole 2 "$outer"
rm -r all part
options="$(zero 2) --ema-decay 0.9 --micro-batch-size 2 --pretend-hosts 2"
shared averaged
resumes averaged 4 "$outer"
echo "shared: the same bits"

ends 2 1 $steps --dry-run --world-size 4 $optim --num-distributed-optimizer-instances 3
grep -q 'instances 3: must divide the 4 data ranks (try 2)' log || fail "3 instances of 4 ranks"
ends 2 1 $steps --dry-run --world-size 4 --num-distributed-optimizer-instances 2
grep -q 'instances 2: needs what they share' log || fail "instances of nothing"
