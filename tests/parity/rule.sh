#!/bin/sh
# rule.sh - a new update rule is one file and one registry line: built, trained under TP 2 PP 2 ZeRO
# 3, saved, resharded, resumed, exported
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

copy_tree
cp "$TOP/tests/parity/toy_rule.c" tree/train/optim/lion.c
list=lib/model/optim_list.h
sed -i 's/^\tDO(adam,.*$/&\n\tDO(lion, 0, 0, "lion_avg") \\/' tree/$list
[ "$(diff "$TOP/$list" tree/$list | grep -c '^[<>]')" = 1 ] || fail "the registry takes one line"
build_tree mtrain mckpt mexport mplan
echo "built: $(grep -c '^  C' log) files compiled"
PATH=$tmp/tree/$(basename "$B"):$PATH

# In fp64 no sign depends on the order of a sum.
steps="--mock-data --train-iters 6 --optimizer lion --lr 1e-4 --fp64"
train 1 $steps --save one --metrics-file one.jsonl
mckpt verify one >log 2>&1 || fail "mckpt verify"
grep -q '^optimizer lion$' one/iter_0000006/state.conf || fail "state.conf does not name the rule"

grid="$(layout 2 2) $(zero 3)"
ends 3 8 $steps $grid --save half --exit-interval 3 --metrics-file half.jsonl
mckpt verify half >log 2>&1 || fail "mckpt verify"
mckpt reshard half reshaped $(layout 4 1) >log 2>&1 || fail "mckpt reshard"
same_tensors "resharded" half reshaped

# resumes NAME RANKS OPTION...: the second half of the steps are those of one rank
resumes()
{
	name=$1 ranks=$2
	shift 2
	cp half.jsonl "$name.jsonl"
	train "$ranks" $steps "$@" --save "$name" --metrics-file "$name.jsonl"
	[ "$(metric lm_loss "$name.jsonl" | wc -l)" = 6 ] || fail "$name: not 6 steps"
	loss=$(gap lm_loss "$name.jsonl" one.jsonl)
	norm=$(gap grad_norm "$name.jsonl" one.jsonl)
	within 1e-9 "$loss" "$norm" || fail "$name: loss differs by $loss, gradient norm by $norm"
	same_tensors "$name" "$name" one --tolerance 1e-9
	echo "$name: loss $loss, gradient norm $norm from one rank's"
}

resumes same 8 --load half $grid
resumes other 4 --load reshaped $(layout 4 1)
[ "$(mckpt diff same one --tolerance 1e-9 --only '*.lion_avg' | grep -c lion_avg)" -gt 9 ] ||
	fail "no states were saved"
ends 1 1 $steps --optimizer sgd --load half --save other
grep -q -e '--optimizer is sgd and was lion' log || fail "another rule resumes"
mexport other hf >log 2>&1 || fail "mexport"
sizes="--num-layers 4 --hidden-size 32 --num-attention-heads 8 --vocab-size 499 --seq-length 16"
mplan mem --world-size 1 $sizes --optimizer lion --buffers >buffers || fail "mplan mem"
[ "$(grep -c -e lion_avg -e exp_avg buffers)" = 1 ] ||
	fail "the memory plan has other states"
echo "lion: resharded, resumed, refused to another rule, exported"
