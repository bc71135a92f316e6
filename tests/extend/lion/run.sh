#!/bin/sh
# An update rule with a state of a name that no other has, sharded by ZeRO-3.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086
. "$TOP/tests/extend/toy"
grid="$(layout 2 1) $(zero 3)" other=$(layout 1 2)
lion="--optimizer lion --lr 1e-4"
helps adam.*lion
proves $lion
grep -q "^lion" profile.tsv || fail "--profile has no lion: $(cut -f 1 profile.tsv)"
grep -q '^optimizer lion$' same/iter_0000004/state.conf || fail "state.conf does not name the rule"
[ "$(mckpt diff same one --tolerance 1e-9 --only '*.lion_avg' | grep -c lion_avg)" -gt 9 ] ||
	fail "no states were saved"
ends 1 1 $steps --lr 1e-4 --optimizer sgd --load half --save other
grep -q -e '--optimizer is sgd and was lion' log || fail "another rule resumes"
mexport same hf >log 2>&1 || fail "mexport"
sizes="--num-layers 4 --hidden-size 32 --num-attention-heads 8 --vocab-size 499 --seq-length 16"
mplan mem --world-size 1 $sizes --optimizer lion --buffers >buffers || fail "mplan mem"
[ "$(grep -c -e lion_avg -e exp_avg buffers)" = 1 ] || fail "the memory plan has other states"
