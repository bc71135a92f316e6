#!/bin/sh
# operations.sh - the list of a step's operations, which mplan prices, has the GEMMs that a step
# calls, each as often, and as many FLOPs of attention
#
# A profile of rank 0 beside --dry-run --operations, for a few layouts. Experts on several ranks are
# left out: their calls tell of the room of a round, not of its rows. And --calibrate measures what
# ranks reach in these operations.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 2 --lr 1e-3"

# sums FILE of lines "kind gflop calls": calls of each kind and size
sums()
{
	awk '{ sum[$1 " " $2] += $3 } END { for (i in sum) print i, sum[i] }' "$1" | sort
}

# of_profile: the GEMMs and attention of profile.tsv
of_profile()
{
	awk -F '\t' '
		$1 ~ /^(gemm|grouped) / { print $1 == "gemm forward" || $1 == "grouped forward" ? \
			"forward" : $1 ~ / weight / ? "weight" : "input", $5, $2 }
		$1 == "attention_fwd" { fwd += $5 * $2 }
		$1 == "attention_bwd" { bwd += $5 * $2 }
		END { printf "attention %.7g 1\nbackward %.7g 1\n", fwd, bwd }' profile.tsv
}

# of_list: the same of the rows of stage 0 in list.tsv; forward passes that are repeated count too
of_list()
{
	awk -F '\t' '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		$at["stage"] != 0 { next }
		$at["class"] == "product" {
			each = $at["accumulate"] == "yes" ? "weight" : \
				$at["operation"] ~ /^gradient of the input/ ? "input" : "forward"
			kernels = $at["kernels"]
			gflop = $at["flops"] / kernels / 1e9
			printf "%s %.9g %d\n", each, gflop, $at["times"] * kernels
		}
		$at["class"] == "attention" {
			sum[$at["pass"]] += $at["flops"] * $at["times"] / 1e9
		}
		END {
			fwd = sum["forward"] + sum["again"]
			printf "attention %.7g 1\nbackward %.7g 1\n", fwd, sum["backward"]
		}' list.tsv
}

# same RANKS OPTION...: a run does what the list says
same()
{
	ranks=$1
	shift
	mtrain $model $steps "$@" --dry-run --world-size "$ranks" --operations list.tsv >log 2>&1 ||
		fail "--operations: $*"
	train "$ranks" $steps "$@" --profile --profile-step-start 1 --profile-step-end 2
	of_profile >had
	of_list >says
	sums had >a
	sums says >b
	[ "$(wc -l <a)" -ge 8 ] || fail "few GEMMs: $*"
	cmp -s a b || { diff a b || fail "other operations: $*"; }
	echo "$ranks $*: $(awk '{ n += $3 } END { print n }' a) operations"
}

same 1
same 2 $(layout 2 1) --sequence-parallel --micro-batch-size 2
same 2 $(layout 1 2) --recompute-granularity full --recompute-num-layers 1
same 2 $(context 2) --recompute-granularity selective --recompute-modules mlp
model="$gpt2 --hidden-dropout 0 --attention-dropout 0"
same 2 $(zero 3) --num-virtual-stages-per-pipeline-rank 1
model=$llama
# What ranks reach in their own operations, as options that mplan reads.
train 2 $(layout 2 1) --calibrate reached.conf --calibrate-seconds 0.3
for option in tflops memory-bandwidth host-bandwidth link-bandwidth attention-efficiency \
	kernel-us; do
	awk -v o=$option '$1 == o && $2 > 0 && / # measured: / { n++ } END { exit n != 1 }' \
		reached.conf || fail "--calibrate: no $option"
done
mplan time --num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 100 \
	--seq-length 32 --world-size 2 $(layout 2 1) --config reached.conf >log 2>&1 ||
	fail "mplan does not read what --calibrate wrote"
awk '$1 == "step_seconds" && $2 > 0 { n++ } END { exit !n }' log || fail "no time of a step"
model="$llama --num-experts 4 --moe-ffn-hidden-size 24 --moe-router-topk 2"
same 1
[ "$(mtrain $model $steps --dry-run --operations no/where 2>&1 >/dev/null | tail -n 1)" = \
	"mtrain: --operations: cannot create 'no/where': No such file or directory" ] ||
	fail "no line of a file that was not written"
