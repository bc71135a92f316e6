#!/bin/sh
# published.sh FILE - how far mplan's times are from published steps of other programs
#
# FILE is a table of measured steps as mplan fit reads it. For each program: the mean error in
# percent of the constants of its device, of fitted ones, of those fitted without the row's model,
# and of those fitted without its source. Then the groups of five or more layouts of one model on as
# many GPUs: how many rows, where the measured best comes in the order of times that were fitted
# without the model, or with it where there is no other, and the rank correlation. Compares with
# published.tsv beside this script; UPDATE=1 writes it. KEEP=DIR keeps the constants of each
# program, from which lib/model/stacks.c is.
set -eu
expected=$(realpath "$(dirname "$0")")/published.tsv
table=$1 tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
older="--attention-passes 7 --stage-slices 1 --whole-recompute 1 --dp-overlap 0.5"

# program NAME OPTION...: its errors in `out`, its rows in `rows`
program()
{
	name=$1
	shift
	mplan fit "$table" --each --output "${KEEP:-.}/$name.conf" --force "$@" >fitted
	awk -F '\t' -v OFS='\t' -v name="$name" '
		$1 == "error" { print name, $2, $3, $4, $5, $6, $7 }' fitted >>out
	grep '^row' fitted >>rows
}

# groups: of rows that differ in their layout alone
groups()
{
	awk -F '\t' -v OFS='\t' '
		function rank_of(list, n, i,   k, r) {
			r = 1
			for (k = 1; k <= n; k++)
				r += list[k] < list[i]
			return r
		}
		FNR == NR && FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		FNR == NR {
			key[$1] = $at["model"] OFS $at["gpus"] OFS $at["gbs"] OFS $at["seq"] OFS \
				$at["precision"] OFS $at["gpu"]
			next
		}
		{
			split($2, id, "-")
			k = id[1] " " key[$2]
			i = ++n[k]
			had[k, i] = $3
			says[k, i] = $3 * (1 + ($6 == "-" ? $5 : $6) / 100)
		}
		END {
			for (k in n) {
				if (n[k] < 5)
					continue
				for (i = 1; i <= n[k]; i++) {
					a[i] = had[k, i]
					b[i] = says[k, i]
				}
				sum = 0
				for (i = 1; i <= n[k]; i++) {
					r = rank_of(a, n[k], i)
					s = rank_of(b, n[k], i)
					sum += (r - s) ^ 2
					if (r == 1)
						best = s
				}
				rho = 1 - 6 * sum / (n[k] * (n[k] ^ 2 - 1))
				printf "%s\t%d\t%d\t%.2f\n", k, n[k], best, rho
			}
		}' "$table" rows | LC_ALL=C sort
}

printf 'program\tsource\trows\tbefore\tafter\twithout_model\twithout_source\n' >out
# shellcheck disable=SC2086
{
	program megatron-lm $older --rows sc21 kor
	program megatron-deepspeed $older --rows vt
	program bigscience $older --rows bs --gpu a100-80
	program bigscience-v100 $older --rows bs --gpu v100-32
}
program megatron-core --stage-slices 1 --rows dgxc nemo mlm mbr --gpu h100
program fsdp-a100-40 --dp-overlap 0.5 --rows mpt --gpu a100-40
program fsdp --dp-overlap 0.5 --rows mpt fms --gpu a100-80
program fsdp-h100 --dp-overlap 0.5 --rows mpt --gpu h100
program megatron-b200 --stage-slices 1 --rows smx
printf 'model\tgpus\tbatch\tseq\tprecision\tgpu\tlayouts\tplace_of_best\tcorrelation\n' >>out
groups >>out
if [ "${UPDATE:-}" ]; then
	cp out "$expected"
	cat out
else
	diff "$expected" out
fi
