#!/bin/sh
# turns.sh - experts of several hosts train as those of one
#
# Four ranks that share experts, on 1, 2 and 4 hosts that take turns, with the choices of one host:
# losses and norms within 1e-6 in fp32, also where rows are dropped, come in several rounds, are
# computed again, and where two ranks share an expert; in 8 bits within 1e-2. A run is saved on
# several hosts and resumed on one. Ranks of an expert on two hosts exchange rows as before.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
model="$llama --num-experts 8 --moe-ffn-hidden-size 24 --moe-router-topk 3 --moe-aux-loss-coeff 0.05
	--micro-batch-size 1"
steps="--train-iters 4 --lr 1e-3 --clip-grad 0.5 --log-interval 1 $text"
shared=--expert-model-parallel-size

# on HOSTS HOW OPTION...: leaves the metrics in HOSTS.jsonl
on()
{
	hosts=$1 how=$2
	shift 2
	rm -f "$hosts.jsonl"
	routed "$how" choices 4 $steps "$@" --pretend-hosts "$hosts" --metrics-file "$hosts.jsonl"
}

# same LIMIT HOSTS NAME OPTION...: the same on so many hosts, in quotes, as on one
same()
{
	limit=$1 counts=$2 name=$3
	shift 3
	rm -f choices
	on 1 write "$@"
	for n in $counts; do
		on "$n" read "$@"
		grep -q "^mtrain.0.: experts of a layer are on $n hosts: a row goes to" log ||
			fail "$name: no turns on $n hosts"
		loss=$(gap lm_loss 1.jsonl "$n.jsonl") norm=$(gap grad_norm 1.jsonl "$n.jsonl")
		within "$limit" "$loss" "$norm" || fail "$name on $n hosts: $loss and $norm apart"
		results 1.jsonl >one
		! results "$n.jsonl" | cmp -s - one ||
			fail "$name: the same order of sums on $n hosts"
		echo "$name on $n hosts: losses within $loss, norms within $norm"
	done
}

drops="--moe-expert-capacity-factor 0.8"
rounds="--moe-expert-rank-capacity-factor 0.3"
all="--moe-shared-expert-intermediate-size 16 --moe-shared-expert-gate"
again="--recompute-granularity full --recompute-num-layers 1 --recompute-method uniform"
pairs="$(layout 2 1) --sequence-parallel"
same 1e-6 "2 4" plain $shared 4 $(zero 1)
same 1e-6 "2 4" "all at once" $shared 4 $(zero 3) $drops $rounds $all $again
same 1e-6 2 "two ranks an expert" $pairs $shared 2 $rounds $all
same 1e-2 2 "8 bits" $shared 4 --bf16 --fp8-format hybrid \
	--fp8-recipe tensorwise --moe-ffn-hidden-size 32

on 1 write $shared 4 $(zero 1)
on 4 read $shared 4 $(zero 1) --save run --save-interval 2
rm -rf run/iter_0000004
echo 2 >run/latest_checkpointed_iteration.txt
metric lm_loss 4.jsonl | tail -n 2 >want
train 4 $steps $shared 4 $(zero 1) --load run --metrics-file resumed.jsonl
metric lm_loss resumed.jsonl | paste want - | awk '
	{ d = $1 - $2; d = (d < 0 ? -d : d) / $1; if (d > 1e-6) exit 1 }
	END { exit NR != 2 }' || fail "resumed on one host: $(cat resumed.jsonl)"
echo "saved on 4 hosts, resumed on 1: losses within 1e-6"

train 4 $steps $pairs $shared 2 --pretend-hosts 4
! grep -q 'experts of a layer are on' log || fail "turns of ranks that share an expert"
grep -q '^mtrain.0.: experts of a layer exchange rows between hosts as messages' log ||
	fail "no warning of ranks of an expert on several hosts"
