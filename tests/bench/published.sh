#!/bin/sh
# published.sh FILE - how far mplan's times are from published steps of other programs
#
# FILE is a table of measured steps as mplan fit reads it. For each program: the mean error in
# percent of the constants of its device, of fitted ones, of those fitted without the row's model,
# and of those fitted without its source. Then the groups of five or more layouts of one model on as
# many GPUs: how many rows, where the measured best comes in the order of times that were fitted
# without the model, or with it where there is no other, and the rank correlation. Last what is
# wanted of these errors, what is reached, and whether that does: of rows whose source is left out,
# or where no other is there, of the constants before the fit. Compares with published.tsv beside
# this script; UPDATE=1 writes it. KEEP=DIR keeps the constants of each program, from which
# lib/model/stacks.c is.
set -eu
expected=$(realpath "$(dirname "$0")")/published.tsv
table=$1 tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
older="--attention-passes 7 --stage-slices 1 --whole-recompute 1"
core="--stage-slices 1 --loss-fusion 1"
# Attention of these programs is none for Hopper: on an H100 FlashAttention 2 in PyTorch reaches 288
# to 304 of 989 TFLOP/s (pytorch/benchmark, 2296).
fsdp="--dp-overlap 0.5" older_attention="--attention-efficiency 0.3"
# DeepSpeed's pipelines reduce gradients after the last micro batch. BigScience's programs start
# kernels as vTrain's do, on another cluster, one after the other: they ran with
# CUDA_LAUNCH_BLOCKING=1, without which 320 GPUs hung (chronicles-prequel.md).
after="--dp-overlap 0"
starts="--kernel-us 38.65 --host-us 80.42 --step-ms 6.604 --launch-blocking 1"

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

# groups: of layouts of models of one name; rows of one layout count as one, with their mean
groups()
{
	awk -F '\t' -v OFS='\t' '
		# of x[i] among x[1..n]: equal ones share the mean of their ranks
		function rank_of(x, n, i,   k, less, same) {
			for (k = 1; k <= n; k++) {
				less += x[k] < x[i]
				same += x[k] == x[i]
			}
			return less + (same + 1) / 2
		}
		# of ranks, by the products of their deviations
		function correlation(x, y, n,   i, a, b, xy, xx, yy) {
			for (i = 1; i <= n; i++) {
				a = rank_of(x, n, i) - (n + 1) / 2
				b = rank_of(y, n, i) - (n + 1) / 2
				xy += a * b
				xx += a * a
				yy += b * b
			}
			return xx * yy > 0 ? xy / sqrt(xx * yy) : 0
		}
		BEGIN {
			of = split("layers hidden heads tp pp vpp cp ep sp sharding mbs recompute",
				part, " ")
		}
		FNR == NR && FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		FNR == NR {
			key[$1] = $at["model"] OFS $at["gpus"] OFS $at["gbs"] OFS $at["seq"] OFS \
				$at["precision"] OFS $at["gpu"]
			for (i = 1; i <= of; i++)
				layout[$1] = layout[$1] OFS $at[part[i]]
			next
		}
		{
			split($2, id, "-")
			k = id[1] " " key[$2]
			if (!((k, layout[$2]) in place))
				place[k, layout[$2]] = ++n[k]
			i = place[k, layout[$2]]
			rows[k, i]++
			had[k, i] += $3
			says[k, i] += $3 * (1 + ($6 == "-" ? $5 : $6) / 100)
		}
		END {
			for (k in n) {
				if (n[k] < 5)
					continue
				for (i = 1; i <= n[k]; i++) {
					a[i] = had[k, i] / rows[k, i]
					b[i] = says[k, i] / rows[k, i]
				}
				first = 1
				for (i = 2; i <= n[k]; i++)
					first = a[i] < a[first] ? i : first
				best = 1
				for (i = 1; i <= n[k]; i++)
					best += b[i] < b[first]
				printf "%s\t%d\t%d\t%.2f\n", k, n[k], best, correlation(a, b, n[k])
			}
		}' "$table" rows | LC_ALL=C sort
}

# goals: what is wanted of the errors and of the groups in `out`
goals()
{
	awk -F '\t' -v OFS='\t' '
		function below(what, reached, most) {
			print what, reached, "at most " most, (reached <= most + 0 ? "yes" : "no")
		}
		function above(what, reached, least) {
			print what, sprintf("%.2f", reached), "at least " least,
				(reached >= least + 0 ? "yes" : "no")
		}
		BEGIN {
			split("sc21 4 kor 4 mpt 5 dgxc 6 vt 9 bs 9", pair, " ")
			for (i = 1; i in pair; i += 2)
				model[pair[i]] = pair[i + 1]
			split("sc21 6 kor 6 mpt 12 dgxc 9 bs 12", pair, " ")
			for (i = 1; i in pair; i += 2)
				source[pair[i]] = pair[i + 1]
		}
		$2 in model && $6 != "-" { below($1 " " $2 " without the model", $6, model[$2]) }
		$2 in source {
			below($1 " " $2 " without the source", $7 == "-" ? $4 : $7, source[$2])
		}
		NF == 9 && $8 + 0 {
			groups++
			first += $8 <= 3
			sum += $9
		}
		END {
			above("groups whose best is among the first three", first / groups, "0.80")
			above("mean correlation of groups", sum / groups, "0.60")
		}' out
}

printf 'program\tsource\trows\tbefore\tafter\twithout_model\twithout_source\n' >out
# shellcheck disable=SC2086
{
	program megatron-lm $older --dp-overlap 0.5 --rows sc21 kor
	program megatron-deepspeed $older $after --rows vt
	program bigscience $older $after $starts --rows bs --gpu a100-80
	program bigscience-v100 $older $after --rows bs --gpu v100-32
	program megatron-core $core --rows dgxc nemo mlm mbr --gpu h100
	program fsdp-a100-40 $fsdp --rows mpt --gpu a100-40
	program fsdp $fsdp --rows mpt fms --gpu a100-80
	program fsdp-h100 $fsdp $older_attention --rows mpt fms --gpu h100
	program megatron-b200 $core --rows smx
}
printf 'model\tgpus\tbatch\tseq\tprecision\tgpu\tlayouts\tplace_of_best\tcorrelation\n' >>out
groups >>out
goals >wanted
{
	printf 'goal\treached\twanted\tmet\n'
	cat wanted
} >>out
if [ "${UPDATE:-}" ]; then
	cp out "$expected"
	cat out
else
	diff "$expected" out
fi
