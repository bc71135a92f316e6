#!/bin/sh
# pretended.sh - ranks of one machine taken for several hosts compute what they compute on one
#
# Three steps of layouts of tests/parity/rows under --pretend-hosts 2, 4 and 8, where they divide
# the ranks: the same losses, norms and bytes of checkpoints; with experts on several hosts, and the
# choices of one, losses and norms within 1e-6. Two layouts that SEED draws, on 2 and 4 hosts; with
# ALL=1 all of the fixed ones, a sample of the rest, and 20 steps of 16 ranks on 1, 2, 4 and 16
# hosts, and on two in network namespaces, in five layouts, each with ZeRO-1, 2 and 3, and ZeRO-1 in
# 1, 2 and 4 instances, of which 1 resumes what 4 saved; ALL=16 these alone. Then what is said of
# hosts, and a number that divides no ranks.
# shellcheck source=tests/two_hosts.sh disable=SC2046,SC2086
. "$TOP/tests/two_hosts.sh"
[ -z "${ALL:-}" ] || two_hosts_enter "$0" || :
# shellcheck source=tests/parity/common
. "$TOP/tests/parity/common"
# shellcheck source=tests/parity/rows
. "$TOP/tests/parity/rows"
few=2 counts="2 4${ALL:+ 8}" all=${ALL:-}

# take N: so many steps
take()
{
	steps="--train-iters $1 --lr 1e-3 --clip-grad 0.5 --save run --save-interval $1
		--log-interval 1"
}
take 3

# run_on HOSTS RANKS OPTION...: leaves the results in hosts.N and run.N
run_on()
{
	hosts=$1 ranks=$2
	shift 2
	rm -rf run run.jsonl "run.$hosts" "$hosts.jsonl"
	if [ "$hosts" = apart ]; then
		export OMPI_MCA_orte_default_hostfile="$PWD/hostfile"
		$how "$ranks" $steps "$@" --metrics-file run.jsonl
		unset OMPI_MCA_orte_default_hostfile
		grep -q '^mtrain\[0\]: 2 hosts of 8 ranks' log || fail "not on two hosts"
	else
		$how "$ranks" $steps "$@" --pretend-hosts "$hosts" --metrics-file run.jsonl
	fi
	results run.jsonl >"hosts.$hosts"
	mv run.jsonl "$hosts.jsonl"
	mv run "run.$hosts"
	rm -f "run.$hosts"/iter_*/options.conf
	sed -i '/options.conf/d; $d' "run.$hosts"/iter_*/manifest.tsv
}

# compare HOSTS: its results with those of one host
compare()
{
	if grep -q '^mtrain.*: experts of a layer are on [0-9]* hosts' log; then
		within 1e-6 $(gap lm_loss 1.jsonl "$1.jsonl") $(gap grad_norm 1.jsonl "$1.jsonl") ||
			fail "$name: losses or norms apart on $1 hosts"
		same="losses and norms"
		return
	fi
	cmp hosts.1 "hosts.$1" >log || fail "$name: other steps on $1 hosts"
	diff -r run.1 "run.$1" >log || fail "$name: another checkpoint on $1 hosts"
}

# check MODEL RANKS TP PP MICRO ZERO OPTION...
check()
{
	name="$*" ranks=$2 same="the same bits" how=train then=train
	case $* in *"$sharing"*) how="routed write choices" then="routed read choices" ;; esac
	options="$(layout "$3" "$4") --micro-batch-size $5 $(zero "$6")"
	shift 6
	rm -f choices
	run_on 1 "$ranks" $options "$@"
	how=$then
	for n in $counts; do
		[ "$n" = apart ] || [ $((ranks % n)) = 0 ] || continue
		run_on "$n" "$ranks" $options "$@"
		compare "$n"
	done
	echo "$name: $same on 1 host and on $counts"
}

cat >>table <<END
llama-tied 8 1 1 1 1 $small --bf16 --grad-reduce-in-bf16
llama 8 4 1 2 0 $beside --bf16
END
if [ -n "$ALL" ]; then
	ALL=
	sample
else
	grep ' 8 ' table | awk -v seed="$SEED" -v few="$few" '
		{ row[NR] = $0 }
		END { for (i = 0; i < few && i < NR; i++) print row[(seed * 7 + i * 5) % NR + 1] }
	' >drawn && mv drawn table
fi
[ "$all" != 16 ] || : >table
while read -r row; do
	set -- $row
	use "$1"
	check "$@" </dev/null
done <table

# sixteen TP PP OPTION...: 16 ranks in a layout, with ZeRO-1, 2 and 3
sixteen()
{
	tensor=$1 stages=$2
	shift 2
	for zero in 1 2 3; do
		check llama 16 "$tensor" "$stages" 1 $zero --global-batch-size 32 "$@"
		cat run.1/iter_*/*.safetensors | sha256sum
	done
}
# in_instances: 16 ranks with ZeRO-1 in 1, 2 and 4 instances have the same steps but for norms, and
# tensors, and 1 instance resumes what 4 saved
in_instances()
{
	for n in 1 2 4 resumed; do
		number=$n from="--save in.$n --save-interval 10"
		[ "$n" != resumed ] || number=1 from="--save in.$n --load in.4 --ckpt-step 10"
		train 16 --train-iters 20 --lr 1e-3 --clip-grad 0 --log-interval 1 $(zero 1) \
			--global-batch-size 32 $from --num-distributed-optimizer-instances $number \
			--metrics-file "$n.jsonl"
		results "$n.jsonl" | sed 's/"grad_norm": [^,]*, //' >"in.$n.steps"
		same_tensors "$n instances" in.1 "in.$n"
	done
	same_steps "2 instances" in.1.steps in.2.steps
	same_steps "4 instances" in.1.steps in.4.steps
	tail -n 10 in.1.steps >in.last
	same_steps "1 instance after 4" in.last in.resumed.steps
	echo "16 ranks in 1, 2 and 4 instances, and 1 after 4: the same bits"
}

if [ -n "$all" ]; then
	use llama
	take 20
	counts="2 4 16"
	if [ -n "${HOSTS_INSIDE:-}" ]; then
		two_hosts_make
		trap 'two_hosts_end; rm -rf "$tmp"' EXIT
		printf '%s slots=8\n' $one $two >hostfile
		counts="$counts apart"
	fi
	in_instances
	sixteen 1 1
	sixteen 1 1 --bf16 --grad-reduce-in-bf16
	sixteen 2 1 --sequence-parallel
	sixteen 1 2
	sixteen 1 1 $(context 2)
	take 3
fi

# What rank 0 says, and what it refuses: pairs of tensor ranks on hosts of three.
use llama
train 6 --train-iters 1 --lr 1e-3 --global-batch-size 6 $(layout 2 1) --pretend-hosts 2
grep -q '^mtrain\[0\]: 2 hosts of 3 ranks; inside a host: tensor 2; between hosts: data 3' log ||
	fail "where the ranks are"
grep -q '^mtrain\[0\]: to other hosts a step and rank: data [0-9.e-]* GB$' log ||
	fail "what goes to other hosts"
grep -q '^mtrain\[0\]: data ranks 0 to 4: 2 on [^ ]*#0, 1 on [^ ]*#1, which are not equally' log ||
	fail "no warning of uneven hosts"
tensor='^mtrain\[0\]: tensor ranks 2 to 3 are on several hosts, 1 on [^ ]*#0, 1 on [^ ]*#1: every'
grep -q "$tensor" log ||
	fail "no warning of tensor ranks between hosts"
ends 2 4 --train-iters 1 --lr 1e-3 --pretend-hosts 3
grep -q 'pretend-hosts 3: must divide the 4 ranks of a machine (try 4)' log ||
	fail "a number that does not divide"
