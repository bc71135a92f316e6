#!/bin/sh
# recipes.sh - where the layout of each recipe stands in mplan's search, and why a better one exists
#
# A search in which sizes of the layout, micro batch, sharding and recomputation are free, and one
# in which those of the recipe hold. A row for each recipe: its plan and the seconds of its step;
# its place, by sizes, among the sizes of plans; the first plan and its seconds; by how much the
# recipe's step is longer in percent, and which part of a step most of it is. Compares with
# recipes.tsv beside this script, of which places after those of the first 40 plans may be any;
# some seconds. UPDATE=1 writes it, a minute.
set -eu
top=40
[ -z "${UPDATE:-}" ] || top=4000
here=$(realpath "$(dirname "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$here/../../recipes"

free='^(tensor-model|pipeline-model|context|expert-model|expert-tensor)-parallel-size '
free="$free|^(sequence-parallel|use-distributed-optimizer|micro-batch-size|recompute-granularity)"

# searched FILE OPTION...: plans of the recipe of `name` with the options of FILE
searched()
{
	file=$1
	shift
	of() { sed -n "s/^$1 = //p" "$name/Makefile"; }
	grep -q '^vocab-size' "$name/model.conf" || set -- --vocab-size 100000 "$@"
	mplan search -q --config "$file" --world-size "$(of RANKS)" --gpu "$(of GPU)" "$@"
}

printf 'recipe\tplan\tseconds\tplace\tfirst\tfirst_seconds\tlonger\tmost_by\n' >"$tmp/table"
for name in */Makefile; do
	name=${name%/*}
	grep -vE "$free" "$name/model.conf" >"$tmp/free.conf"
	searched "$name/model.conf" --top 1 >"$tmp/own"
	searched "$tmp/free.conf" --top $top >"$tmp/all"
	awk -F '\t' -v OFS='\t' -v name="$name" '
		function sizes() { return $at["tp"] " " $at["cp"] " " $at["pp"] " " $at["ep"] }
		function add(what, from) { return $at[what] == from ? "" : " " what " " $at[what] }
		function plan() {
			return "tp " $at["tp"] add("cp", 1) " pp " $at["pp"] add("chunks", 1) \
				add("ep", 1) " micro batch " $at["micro_batch_size"] \
				add("sharding", "none") add("recompute", "none")
		}
		BEGIN {
			parts = split("compute tp_share bubble dp_share memory_bound other " \
				"cp_share ep_share", part, " ")
			word["compute"] = "computation"
			word["tp_share"] = "tensor-parallel traffic"
			word["bubble"] = "pipeline bubble"
			word["dp_share"] = "data-parallel traffic"
			word["memory_bound"] = "memory-bound kernels"
			word["other"] = "stage exchanges and host work"
			word["cp_share"] = "context-parallel traffic"
			word["ep_share"] = "expert-parallel traffic"
		}
		FNR == 1 {
			for (i = 1; i <= NF; i++)
				at[$i] = i
			next
		}
		NR == FNR {
			own = sizes()
			is = plan()
			seconds = $at["seconds"]
			for (i = 1; i <= parts; i++)
				more[i] = $at[part[i]] * seconds
			next
		}
		!first {
			first = plan()
			least = $at["seconds"]
			for (i = 1; i <= parts; i++)
				more[i] -= $at[part[i]] * least
		}
		!(sizes() in seen) { seen[sizes()] = ++places }
		END {
			most = 1
			for (i = 2; i <= parts; i++)
				most = more[i] > more[most] ? i : most
			longer = 100 * (seconds / least - 1)
			printf "%s\t%s\t%.3g\t%s\t%s\t%.3g\t%.0f\t%s\n", name, is, seconds,
				own in seen ? seen[own] : "after " places, first, least, longer,
				longer < 1 ? "-" : word[part[most]]
		}' "$tmp/own" "$tmp/all" >>"$tmp/table"
done
if [ "${UPDATE:-}" ]; then
	cp "$tmp/table" "$here/recipes.tsv"
	cat "$tmp/table"
else
	awk -F '\t' -v OFS='\t' '
		NR == FNR { place[$1] = $4; next }
		split($4, after, " ") == 2 && place[$1] + 0 > after[2] { $4 = place[$1] }
		{ print }' "$here/recipes.tsv" "$tmp/table" | diff "$here/recipes.tsv" -
fi
