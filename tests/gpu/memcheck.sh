#!/bin/sh
# memcheck.sh [CASE...] - two ranks train under compute-sanitizer's memcheck, without a finding
#
# A few steps of a tiny model, so that passes are run plainly, recorded and launched whole, and the
# ranks' traffic is of every kind that a layout has. All cases of the list below, or those named. A
# line for each, and the totals; where it failed, the first reports of each rank too. Errors that
# API calls return do not count as findings: the driver is asked for what it may lack.
#
# B is the build directory, LIMIT the seconds that a case may take, EXCLUDE a filter of kernels that
# are not checked, as compute-sanitizer's --kernel-name-exclude takes it (kns=nccl). Without two
# GPUs, mpirun or the sanitizer it says so and succeeds.
set -u
: "${B:=build}" "${LIMIT:=90}" "${EXCLUDE:=}"
PATH=$PATH:/usr/local/cuda/bin
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
for tool in compute-sanitizer mpirun; do
	command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 0; }
done
if [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -lt 2 ]; then
	echo "skipped: two ranks need two GPUs"
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# GEMMs are not measured: under the sanitizer that says nothing, and takes most of the time.
train="--mock-data --vocab-size 500 --num-layers 4 --hidden-size 64 --num-attention-heads 4
	--group-query-attention --num-query-groups 2 --swiglu --normalization RMSNorm
	--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights
	--seq-length 96 --micro-batch-size 1 --global-batch-size 4 --train-iters 3 --lr 1e-3
	--eval-iters 0 --log-interval 1 --bf16 --deterministic-mode --backend cuda"

# Overlap needs so many tokens that GEMMs are of the rows of one tensor rank each; buckets of a
# layer or two make several.
cases()
{
	cat <<'END'
tensor --tensor-model-parallel-size 2
rows   --tensor-model-parallel-size 2 --sequence-parallel
beside --tensor-model-parallel-size 2 --tp-comm-overlap --seq-length 1024
both   --tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap --seq-length 1024
stages --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
zero1  --data-parallel-sharding-strategy optim --ddp-bucket-size 40000
zero3  --data-parallel-sharding-strategy optim_grads_params --ddp-bucket-size 40000
expert --num-experts 4 --moe-router-topk 2 --expert-model-parallel-size 2
END
}

# check NAME OPTION...: one case; its line, and the reports where it failed. Findings are counted in
# the reports: by an exit status for them the first rank to end would take the other down.
passed=0 failed=0
check()
{
	name=$1 rc=0 began=$(date +%s)
	shift
	rm -f "$dir"/rank.*
	# shellcheck disable=SC2086
	timeout "$LIMIT" mpirun -np 2 compute-sanitizer --tool memcheck --report-api-errors no \
		--log-file "$dir/rank.%q{OMPI_COMM_WORLD_RANK}" \
		${EXCLUDE:+--kernel-name-exclude "$EXCLUDE"} \
		"$B/mtrain" $train "$@" >"$dir/out" 2>&1 </dev/null || rc=$?
	steps=$(grep -c ' iteration  *[0-9]*/' "$dir/out")
	said=$(sed -n 's/.*ERROR SUMMARY: //p' "$dir"/rank.* 2>/dev/null | sort | uniq -c |
		awk '{ n = $1; $1 = ""; printf "%s%s on %d", sep, $0, n; sep = "," }')
	word=ok
	[ "$rc $steps$said" = "0 3 0 errors on 2" ] || word=FAIL
	printf '%-4s  %-6s  status %d, %d steps,%s, %d s\n' $word "$name" $rc "$steps" \
		"${said:- no summary}" $(($(date +%s) - began))
	if [ $word = ok ]; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	for report in "$dir"/rank.*; do
		[ ! -e "$report" ] || head -n 30 "$report"
	done
	tail -n 10 "$dir/out"
}

cases >"$dir/cases"
while read -r name options; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	# shellcheck disable=SC2086
	check "$name" $options
done <"$dir/cases"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
