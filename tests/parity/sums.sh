#!/bin/sh
# sums.sh - a gradient that is not summed is seen: each row of the parameters that says who sums
# what, without its sums
#
# One model has them all: a tied table on two stages, fewer groups than tensor ranks, and rotary
# positions, without which the gradient of a key bias is zero. A row that this model does not
# notice fails the test: the model has to grow with the rows.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
model="$(echo "$llama" | sed 's/--untie[a-z-]*//') --add-qkv-bias
	--qk-layernorm --normalization LayerNorm --mock-data --train-iters 1
	--lr 1e-3 --fp64 --clip-grad 0"
train 1 --save one

# gradients: of 8 ranks; exp_avg after step 1 is 0.1 of them
gradients()
{
	rm -rf run
	train 8 $(layout 4 2) --save run
}

# same WHAT: they are those of one rank
same()
{
	same_tensors "$1" run one --tolerance 1e-9 --only '*.exp_avg'
}

gradients
same "all rows"
copy_tree
PATH=$tmp/tree/$(basename "$B"):$PATH
(cd tree && grep -rn --include='*.c' 'SUM_[A-Z]' lib/model) >rows
[ -s rows ] || fail "no row says who sums what"
while IFS=: read -r file line row; do
	cp "tree/$file" kept
	sed -i "${line}s/SUM_[A-Z_| ]*[A-Z]/0/" "tree/$file"
	build_tree mtrain
	gradients </dev/null
	if (same "$file:$line") >/dev/null; then
		fail "$file:$line: not summed, and nobody sees it:$row"
	fi
	cat kept >"tree/$file"
done <rows
build_tree mtrain
gradients
same "all rows again"
echo "$(wc -l <rows) rows, each seen when it is not summed"
