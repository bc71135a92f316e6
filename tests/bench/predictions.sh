#!/bin/sh
# predictions.sh [NAME...] - runs on one GPU and on several beside what mplan time said before they
# ran
#
# predictions.tsv has the runs: a name, the device, how many of it, what mplan time predicted in the
# commit that added the row, tokens a second and the milliseconds of a step in which a rank waits
# for others, and the options. A line for each, or for those named: predicted, measured (the median
# after two steps, in at least 12 s) and the error of the prediction in percent, then the same
# milliseconds, predicted and measured, in the mean of all ranks, since of two that are not equally
# fast one waits, and their difference in percent of a step. What waits for the rank whose experts
# get the most rows is computation, so that for those there are none. Then the mean, the largest,
# and how many pairs that differ by more than 2 % are in the predicted order, tokens a GPU. --now
# takes this build's predictions, and needs no GPU: it prints rows for the file. ROWS is another
# file of such runs. B is the build directory. Runs for which there are too few GPUs are left out;
# without one it says so and succeeds.
set -eu
: "${B:=build}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
rows=$(pwd)/${ROWS:-tests/bench/predictions.tsv}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
ln -s "$(pwd)/tests" "$tmp" # of the rows, --model is a file of the tree
cd "$tmp"
tab=$(printf '\t')

# predicted DEVICE GPUS OPTION...: tokens a second, a tab, milliseconds in which ranks wait
predicted()
{
	device=$1 ranks=$2
	shift 2
	mplan time "$@" --bf16 --gpu "$device" --world-size "$ranks" >figures
	mplan simulate "$@" --bf16 --gpu "$device" --world-size "$ranks" >stages 2>/dev/null
	case " $* " in *" --expert-model-parallel-size "*) experts=1 ;; *) experts=0 ;; esac
	awk -v experts=$experts '
		FNR == 1 { file++; next }
		file == 1 { value[$1] = $2 }
		file == 2 { exposed += $3 + $4; stages++ }
		END {
			exposed /= stages
			exposed += value["data_exchanges_seconds"]
			exposed += value["tensor_exchanges_seconds"]
			exposed += value["context_exchanges_seconds"]
			printf "%.0f\t%s", value["tokens_per_second"],
				experts ? "-" : sprintf("%.1f", 1000 * exposed)
		}' figures stages
}

# number OPTION OPTIONS...: the option's value
number()
{
	option=$1
	shift
	while [ "$1" != "$option" ]; do shift; done
	echo "$2"
}

# middle: the median of the numbers that are read, without the first two
middle()
{
	tail -n +3 | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0 }'
}

# metric KEY: its median
metric()
{
	sed -n "s/.*\"lm_loss\".*\"$1\": \([0-9.e+-]*\).*/\1/p" metrics | middle
}

# waited RANKS: milliseconds of each step in which a rank waited, in the mean of all
waited()
{
	awk -v ranks="$1" '
		/^ *times across ranks/ { if (steps++) print sum / ranks; sum = 0 }
		/^  [a-z-]*:$/ {
			waits = /-(recv|send|comm|sync|all-gather|all-reduce):$/
			if (/all-grads|totals/)
				waits = 0
		}
		/^     rank/ && waits { sum += $NF }
		END { print steps ? sum / ranks : 0 }' log
}

# measured TOKENS GPUS OPTION...: tokens a second of a run of about 12 s at so many, milliseconds
# in which ranks wait, seconds of a step
measured()
{
	all=$2
	steps=$(awk -v rate="$1" -v batch="$(number --global-batch-size "$@")" \
		-v tokens="$(number --seq-length "$@")" \
		'BEGIN { n = int(12 * rate / batch / tokens); print 2 + (n < 5 ? 5 : n) }')
	launch=
	[ "$2" = 1 ] || launch="mpirun -np $2"
	shift 2
	$launch mtrain "$@" --bf16 --backend cuda --mock-data --lr 1e-4 --clip-grad 1 \
		--eval-iters 0 --train-iters "$steps" --log-interval 1 --timing-log-level 2 \
		--timing-log-option all --metrics-file metrics </dev/null >log 2>&1 ||
		{ tail -n 3 log >&2; return 1; }
	echo "$(metric tokens_per_second) $(waited "$all" | middle) $(metric seconds)"
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
			if (ms == "-")
				printf "-\t-\t-\t%d\n", n
			else
				printf "%s\t%.1f\t%+.1f\t%d\n", ms, $2, (ms - $2) / $3 / 10, n
		}'
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
