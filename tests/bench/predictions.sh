#!/bin/sh
# predictions.sh [NAME...] - runs on one GPU beside what mplan time said before they ran
#
# predictions.tsv has the runs: a name, the device, the tokens a second that mplan time predicted in
# the commit that added the row, and the options. A line for each, or for those named: predicted,
# measured (the median after two steps, in at least 12 s) and the error of the prediction in
# percent; then the mean, the largest, and how many pairs that differ by more than 2 % are in the
# predicted order. --now takes this build's predictions, and needs no GPU: it prints rows for the
# file. B is the build directory. Without a GPU it says so and succeeds.
set -eu
: "${B:=build}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
rows=$(pwd)/tests/bench/predictions.tsv
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
tab=$(printf '\t')

# predicted DEVICE OPTION...: tokens a second
predicted()
{
	device=$1
	shift
	mplan time "$@" --bf16 --gpu "$device" --world-size 1 |
		awk '$1 == "tokens_per_second" { print $2 }'
}

# number OPTION OPTIONS...: the option's value
number()
{
	option=$1
	shift
	while [ "$1" != "$option" ]; do shift; done
	echo "$2"
}

# measured TOKENS OPTION...: tokens a second of a run of about 12 s at so many
measured()
{
	steps=$(awk -v rate="$1" -v batch="$(number --global-batch-size "$@")" \
		-v tokens="$(number --seq-length "$@")" \
		'BEGIN { n = int(12 * rate / batch / tokens); print 2 + (n < 5 ? 5 : n) }')
	shift
	mtrain "$@" --bf16 --backend cuda --mock-data --lr 1e-4 --clip-grad 1 --eval-iters 0 \
		--train-iters "$steps" --log-interval 1000 --metrics-file metrics >log 2>&1 ||
		{ tail -n 3 log >&2; return 1; }
	sed -n '3,$s/.*"tokens_per_second": \([0-9.e+]*\).*/\1/p' metrics | sort -g |
		awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
	rm metrics
}

now=
[ "${1:-}" != --now ] || { now=yes; shift; }
if [ -z "$now" ]; then
	nvidia-smi -L >gpus 2>/dev/null || { echo "skipped: no GPU"; exit 0; }
	head -n 1 gpus | sed 's/ (UUID.*//'
	printf 'run\tpredicted\tmeasured\terror %%\n'
fi
grep -v '^#' "$rows" | while IFS=$tab read -r name device rate options; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	# shellcheck disable=SC2086
	if [ -n "$now" ]; then
		printf '%s\t%s\t%.0f\t%s\n' "$name" "$device" "$(predicted "$device" $options)" \
			"$options"
	else
		got=$(measured "$rate" $options) || { echo "$name: failed" >&2; continue; }
		awk -v name="$name" -v p="$rate" -v m="$got" 'BEGIN {
			printf "%s\t%.0f\t%.0f\t%+.1f\n", name, p, m, 100 * (p / m - 1) }'
	fi
done | tee lines
[ -n "$now" ] || [ ! -s lines ] || awk -F '\t' '
	{ e = $4 < 0 ? -$4 : +$4; sum += e; p[NR] = $2; m[NR] = $3 }
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
