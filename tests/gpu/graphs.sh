#!/bin/sh
# graphs.sh [CASE...] - passes that are recorded give the bits of passes that are queued, on one GPU
# and on two, and what launches cost
#
# GPT-2 124M in small micro batches, where launches are a large part of a step. Each case of the
# list below, or those named, runs as it is and with --no-cuda-graphs: losses and gradient norms of
# all steps must be the same figures, and nothing may be refused. A line for each case: milliseconds
# of a step (the median of the second half), recorded and queued; what part of the latter recording
# saves; milliseconds of it that a rank waits for others, recorded and queued. Then the totals.
#
# B is the build directory, MODEL and STEPS replace the model and the number of steps, LIMIT is the
# seconds that a run may take, PLAIN an option that the second run has instead. Cases of two ranks
# are skipped without two GPUs and mpirun; DEVICE=cpu takes cores for GPUs, and records nothing.
set -u
: "${B:=build}" "${DEVICE:=cuda}" "${STEPS:=24}" "${LIMIT:=120}" "${PLAIN:=--no-cuda-graphs}"
: "${MODEL:=--num-layers 12 --hidden-size 768 --num-attention-heads 12 --vocab-size 50257
	--make-vocab-size-divisible-by 8 --seq-length 1024 --micro-batch-size 2}"
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_hwloc_base_binding_policy=none
gpus=2
[ "$DEVICE" != cuda ] || gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
[ "$gpus" -gt 0 ] || { echo "skipped: no GPU"; exit 0; }
command -v mpirun >/dev/null || gpus=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
common="--attention-dropout 0 --hidden-dropout 0 --bf16 --deterministic-mode --mock-data --lr 1e-4
	--global-batch-size 8 --eval-iters 0 --log-interval 100"

# Buckets of a few layers, so that replicas communicate within passes; one micro batch a step is the
# last one of its step and the first.
cases()
{
	cat <<'END'
one 1
pipeline 2 --pipeline-model-parallel-size 2
chunks 2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
data 2 --use-distributed-optimizer --ddp-bucket-size 20000000
single 2 --use-distributed-optimizer --ddp-bucket-size 20000000 --global-batch-size 4
weights 2 --data-parallel-sharding-strategy optim_grads_params --ddp-bucket-size 20000000
END
}

# train NAME RANKS OPTION...: one run; its metrics go to $dir/NAME
train()
{
	out=$1 ranks=$2
	shift 2
	rm -f "$dir/$out"
	# shellcheck disable=SC2086
	set -- "$B/mtrain" $MODEL $common --train-iters "$STEPS" --backend "$DEVICE" "$@" \
		--metrics-file "$dir/$out"
	[ "$ranks" = 1 ] || set -- mpirun -np "$ranks" "$@"
	timeout "$LIMIT" "$@" >"$dir/$out.log" 2>&1 </dev/null
}

# results NAME: the figures of each step that do not depend on time
results()
{
	sed 's/, "tokens_per_second".*//' "$dir/$1"
}

# median NAME KEY...: over the second half of the steps, of the sum of the keys
median()
{
	file=$1
	shift
	tail -n $((STEPS / 2)) "$dir/$file" | tr -d '{}",:' | awk -v keys="$*" '{
		n = split(keys, key, " ")
		sum = 0
		for (i = 1; i < NF; i++)
			for (k = 1; k <= n; k++)
				if ($i == key[k])
					sum += $(i + 1)
		print sum
	}' | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# wrong WORD...: says what is not as it should be; the case continues
wrong()
{
	echo "    $*"
	bad=1
}

# compare: the two runs of a case
compare()
{
	[ "$(results recorded | wc -l)" = "$STEPS" ] || wrong "not $STEPS steps"
	results recorded >"$dir/a"
	results queued >"$dir/b"
	cmp -s "$dir/a" "$dir/b" || {
		wrong "steps differ"
		diff "$dir/a" "$dir/b" | head -n 4
	}
	! grep 'cannot be recorded' "$dir/recorded.log" || bad=1
}

waits="exposed_data_comm_ms exposed_tensor_comm_ms exposed_context_comm_ms exposed_pipeline_comm_ms"
passed=0 failed=0

# check NAME RANKS OPTION...: one case, and its line
check()
{
	name=$1 bad=0
	shift
	train recorded "$@" || wrong "recorded: exit status $?"
	# shellcheck disable=SC2086
	train queued "$@" $PLAIN || wrong "queued: exit status $?"
	[ "$bad" = 1 ] || compare
	word=ok
	if [ "$bad" = 1 ]; then
		failed=$((failed + 1)) word=FAIL
		tail -n 5 "$dir/recorded.log" "$dir/queued.log"
	else
		passed=$((passed + 1))
	fi
	# shellcheck disable=SC2086
	echo $word "$name" "$(median recorded seconds)" "$(median queued seconds)" \
		"$(median recorded $waits)" "$(median queued $waits)" | awk '{
		saved = $4 > 0 ? 100 * (1 - $3 / $4) : 0
		printf "%-4s  %-8s  %8.2f ms, queued %8.2f: %4.1f %% less; ", $1, $2, $3 * 1e3,
			$4 * 1e3, saved
		printf "waits %.2f ms, queued %.2f\n", $5, $6
	}'
}

cases >"$dir/cases"
while read -r name ranks options; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	if [ "$ranks" -gt "$gpus" ]; then
		echo "skipped: $name needs $ranks GPUs and mpirun"
		continue
	fi
	# shellcheck disable=SC2086
	check "$name" "$ranks" $options
done <"$dir/cases"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
