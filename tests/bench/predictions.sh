#!/bin/sh
# predictions.sh [NAME...] - runs on one GPU and on several beside what mplan time said before they
# ran
#
# predictions.tsv has the runs: a name, the device, how many of it, what mplan time predicted in the
# commit that added the row, tokens a second and the milliseconds of a step in which ranks wait for
# each other, but for those of experts, and the options. A line for each, or for those named:
# predicted, measured (the median after two steps, in at least 12 s) and the error of the prediction
# in percent, then the same milliseconds, predicted and measured on rank 0, and their difference in
# percent of a step; then the mean, the largest, and how many pairs that differ by more than 2 % are
# in the predicted order, tokens a GPU. --now takes this build's predictions, and needs no GPU: it
# prints rows for the file. ROWS is another file of such runs. B is the build directory. Runs for
# which there are too few GPUs are left out; without one it says so and succeeds.
set -eu
: "${B:=build}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
rows=$(pwd)/${ROWS:-tests/bench/predictions.tsv}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
tab=$(printf '\t')

# predicted DEVICE GPUS OPTION...: tokens a second, a tab, exposed milliseconds
predicted()
{
	device=$1 ranks=$2
	shift 2
	mplan time "$@" --bf16 --gpu "$device" --world-size "$ranks" | awk '
		{ value[$1] = $2 }
		END {
			exposed = value["data_exchanges_seconds"]
			exposed += value["tensor_exchanges_seconds"]
			exposed += value["context_exchanges_seconds"]
			exposed += value["stage_messages_seconds"] + value["stage_wait_seconds"]
			printf "%.0f\t%.1f", value["tokens_per_second"], 1000 * exposed
		}'
}

# number OPTION OPTIONS...: the option's value
number()
{
	option=$1
	shift
	while [ "$1" != "$option" ]; do shift; done
	echo "$2"
}

# middle KEY: the median of a metric after the first two steps; of the sum of those whose names have
# the pattern
middle()
{
	grep lm_loss metrics | awk -F '[{},]' -v key="\"($1)\":" '
		NR > 2 {
			for (i = sum = 0; ++i <= NF;)
				if ($i ~ key)
					sum += substr($i, index($i, ":") + 1)
			print sum
		}' | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# measured TOKENS GPUS OPTION...: tokens a second of a run of about 12 s at so many, exposed
# milliseconds, seconds of a step
measured()
{
	steps=$(awk -v rate="$1" -v batch="$(number --global-batch-size "$@")" \
		-v tokens="$(number --seq-length "$@")" \
		'BEGIN { n = int(12 * rate / batch / tokens); print 2 + (n < 5 ? 5 : n) }')
	launch=
	[ "$2" = 1 ] || launch="mpirun -np $2"
	shift 2
	$launch mtrain "$@" --bf16 --backend cuda --mock-data --lr 1e-4 --clip-grad 1 \
		--eval-iters 0 --train-iters "$steps" --log-interval 1000 \
		--metrics-file metrics </dev/null >log 2>&1 || { tail -n 3 log >&2; return 1; }
	echo "$(middle tokens_per_second) $(middle 'exposed_[a-z]*_comm_ms') $(middle seconds)"
	rm metrics
}

now=
[ "${1:-}" != --now ] || { now=yes; shift; }
if [ -z "$now" ]; then
	nvidia-smi -L >gpus 2>/dev/null || { echo "skipped: no GPU"; exit 0; }
	head -n 1 gpus | sed 's/ (UUID.*//'
	printf 'run\tpredicted\tmeasured\terror %%\texposed ms\tmeasured ms\tof a step %%\n'
fi
grep -v '^#' "$rows" | while IFS=$tab read -r name device ranks rate exposed options; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	# shellcheck disable=SC2086
	if [ -n "$now" ]; then
		printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$device" "$ranks" \
			"$(predicted "$device" "$ranks" $options)" "$options"
	elif [ "$(grep -c '^GPU ' gpus)" -ge "$ranks" ]; then
		got=$(measured "$rate" "$ranks" $options) ||
			{ echo "$name: failed" >&2; continue; }
		echo "$got" | awk -v name="$name" -v n="$ranks" -v p="$rate" -v ms="$exposed" '{
			printf "%s\t%.0f\t%.0f\t%+.1f\t", name, p, $1, 100 * (p / $1 - 1)
			printf "%s\t%.1f\t%+.1f\t%d\n", ms, $2, (ms - $2) / $3 / 10, n }'
	fi
done >lines
cut -f 1-7 lines
[ -n "$now" ] || [ ! -s lines ] || awk -F '\t' '
	{ e = $4 < 0 ? -$4 : +$4; sum += e; p[NR] = $2 / $8; m[NR] = $3 / $8 }
	e > most { most = e }
	END {
		for (i in m)
			for (j in m)
				if (m[i] > 1.02 * m[j]) {
					pairs++
					right += p[i] > p[j]
				}
		printf "%d runs: mean error %.1f %%, largest %.1f %%; ", NR, sum / NR, most
		printf "%d of %d pairs in order\n", right, pairs
	}' lines
