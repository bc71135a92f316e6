#!/bin/sh
# watch.sh - the cost of the watchdog, the timers and --verify-interval
#
# GPT-2 of 124 million parameters on two ranks. Three tables:
#   the watchdog and the timers at level 0, in each way to share the work: the time of a step with
#   them and without (tests/unwatched), alternating, five pairs; the median of the ratios
#   --verify-interval 100 against 0, likewise over all steps, of which each hundredth is verified;
#   both with --deterministic-mode, which GPUs need for it
#   exposed communication of a step by the run's own timers, and of the same steps by --profile
# B: the build directory. DEVICE=cpu and SHAPE (options of a smaller model) try it on the CPU.
# STEPS: of a run, of which the first ten do not count. PAIRS: five. ONLY, of watched, verified and
# exposed: one of the tables; WAYS, of data, tensor and pipeline: some of the ways.
set -eu
: "${ONLY:=}" "${WAYS:=data tensor pipeline}"
: "${B:=build}" "${DEVICE:=cuda}" "${STEPS:=60}" "${PAIRS:=5}" "${VERIFIED:=410}"
: "${SHAPE:=--num-layers 12 --hidden-size 768 --num-attention-heads 12 --vocab-size 50257
	--seq-length 1024 --micro-batch-size 8 --global-batch-size 32 --bf16}"
B=$(cd "$B" && pwd)
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none
if [ "$DEVICE" = cuda ] && [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -lt 2 ]; then
	echo "skipped: two ranks need two GPUs"
	exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

# shares WAY: the option of a way to share the work
shares()
{
	case $1 in
	data) echo --use-distributed-optimizer ;;
	*) echo "--$1-model-parallel-size=2" ;;
	esac
}

# train PROGRAM STEPS OPTION...: a run of two ranks, whose metrics are left in `m`
train()
{
	program=$1 steps=$2
	shift 2
	# shellcheck disable=SC2086
	mpirun -np 2 "$B/$program" -q --backend "$DEVICE" $SHAPE --train-iters "$steps" --lr 1e-4 \
		--eval-iters 0 --mock-data --log-interval 1000 --metrics-file m "$@" >log 2>&1 ||
		{ tail -n 5 log >&2; exit 1; }
}

# of KEY: a metric of the steps after the tenth, one a line
of()
{
	tail -n +11 m | sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p"
}

# median: of the numbers that come in, one a line
median()
{
	sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

mean()
{
	awk '{ sum += $1 } END { print sum / NR }'
}

# pairs NAME: on and off, PAIRS times; a row with the medians of both and of their ratios
pairs()
{
	: >on && : >off && : >ratio
	for _ in $(seq "$PAIRS"); do
		with >>on
		without >>off
		echo "$(tail -n 1 on) $(tail -n 1 off)" | awk '{ print $1 / $2 }' >>ratio
	done
	echo "$1 $(median <on) $(median <off) $(median <ratio)" |
		awk '{ printf "%s\t%.3f\t%.3f\t%+.2f\n", $1, 1e3 * $2, 1e3 * $3, 100 * ($4 - 1) }'
}

watched()
{
	printf 'watched\tms_with\tms_without\tcost_percent\n'
	for way in $WAYS; do
		option=$(shares "$way")
		with() { train mtrain "$STEPS" "$option" && of seconds | median; }
		without()
		{
			train tests/unwatched/mtrain "$STEPS" "$option" && of seconds | median
		}
		pairs "$way"
	done
}

verified()
{
	printf '\nverified\tms_with\tms_without\tcost_percent\n'
	option="$(shares data) --deterministic-mode"
	# shellcheck disable=SC2086
	with() { train mtrain "$VERIFIED" $option --verify-interval 100 && of seconds | mean; }
	# shellcheck disable=SC2086
	without() { train mtrain "$VERIFIED" $option && of seconds | mean; }
	pairs data
}

# The profile's rows of a way to share the work, and the metrics of the steps that it covers.
exposed()
{
	printf '\nexposed\tms_by_timers\tms_by_profile\tms_of_a_step\n'
	for way in $WAYS; do
		option=$(shares "$way")
		train mtrain 20 "$option" --profile --profile-step-start 10 --profile-step-end 20 \
			--profile-prefix p
		timers=$(of "exposed_${way}_comm_ms" | mean)
		case $way in
		data) rows='data-parallel-grads-sync|params-all-gather' ;;
		tensor) rows='tensor-parallel-comm|layernorm-grads-all-reduce' ;;
		pipeline) rows='(forward|backward)-.*(send|recv)|embedding-grads-all-reduce' ;;
		esac
		profile=$(awk -F '\t' -v rows="^($rows)\$" \
			'$1 ~ rows { ms += $3 } END { print ms + 0 }' p.tsv)
		echo "$way $timers $profile $(of seconds | mean)" |
			awk '{ printf "%s\t%.3f\t%.3f\t%.3f\n", $1, $2, $3, 1e3 * $4 }'
	done
}

for table in ${ONLY:-watched verified exposed}; do
	$table
done
