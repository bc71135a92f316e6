#!/bin/sh
# sums.sh - a gradient that is not summed is seen: the rows of the parameters that say who sums
# what, without their sums
#
# A gradient after one step depends on no other, so all sums are left out at once, and every tensor
# that has one must differ. Two models have them all: a tied table on two stages, fewer groups than
# tensor ranks, rotary positions, without which the gradient of a key bias is zero, and norms and
# biases, of whose gradients tensor ranks have parts where they have rows of their own. Norms of
# outputs stand in one of them alone: biases before these are summed elsewhere. A row that neither
# model notices fails the test: the models have to grow with the rows.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
model="$(echo "$llama" | sed 's/--untie[a-z-]*//; s/--disable-bias-linear//') --qk-layernorm
	--num-query-groups 1 --normalization LayerNorm --mock-data --train-iters 1
	--lr 1e-3 --fp64 --clip-grad 0"
for place in pre both; do
	train 1 --norm-placement $place --save "$place"
done

# gradients PLACE OPTION...: of 4 ranks; exp_avg after step 1 is 0.1 of them
gradients()
{
	rm -rf run
	train 4 $(layout 2 2) --norm-placement "$@" --save run
}

# summed COLUMN: names of the tensors with sums, without sequence parallelism (1) or with it (2)
summed()
{
	cat tree/lib/model/block/*.c.kept | tr -d '\n' | sed 's/{ "/\n&/g' |
		sed -n 's/^{ "\([a-z0-9_.%]*\)", ROLE_.*{ \(.*\), \(.*\) } },.*/\1 \2 \3/p' |
		awk -v column=$(($1 + 1)) \
			'$column != "0" { sub("%d", "0", $1); print $1 ".exp_avg" }'
}

# seen COLUMN OPTION...: each of those differs when nothing is summed
seen()
{
	column=$1
	shift
	summed "$column" >names
	[ -s names ] || fail "no row says who sums what"
	for place in pre both; do
		gradients $place "$@"
		mckpt diff run $place --tolerance 1e-9 --only '*.exp_avg' 2>log || :
	done | grep -v -w -e equal -e close | cut -f 1 >different
	while read -r name; do
		grep -qx "$name" different || fail "$name: not summed, and nobody sees it"
	done <names
	echo "$(wc -l <names) tensors${1:+ with }$*: each is seen when it is not summed"
}

for rows in "" --sequence-parallel; do
	for place in pre both; do
		gradients $place $rows
		same_tensors "all sums $place $rows" run $place --tolerance 1e-9 --only '*.exp_avg'
	done
done
copy_tree
for file in tree/lib/model/block/*.c; do
	cp "$file" "$file.kept"
	sed -i 's/SUM_[A-Z]*/0/g' "$file"
done
build_tree mtrain
PATH=$tmp/tree/$(basename "$B"):$PATH
seen 1
seen 2 --sequence-parallel
