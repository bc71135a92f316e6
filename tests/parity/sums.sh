#!/bin/sh
# sums.sh - a gradient that is not summed makes a difference: each sum that the rows of parameters
# ask for is left out
#
# A gradient after one step depends on no other, so all sums are left out at once, and every tensor
# that has one must differ. The models have them all: a tied table on two stages, fewer groups than
# tensor ranks, rotary positions, without which the gradient of a key bias is zero, and norms and
# biases, of whose gradients tensor ranks have parts where they have rows of their own. Norms of
# outputs stand in one of them alone: biases before these are summed elsewhere. So do experts, which
# want rows of their own, latents, linear attention, and a layer after the head. A row that no model
# notices fails the test: the models have to grow with the rows.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
model="$(echo "$llama" | sed 's/--untie[a-z-]*//; s/--disable-bias-linear//') --qk-layernorm
	--num-query-groups 1 --normalization LayerNorm --mock-data --train-iters 1
	--lr 1e-3 --fp64 --clip-grad 0"

routed="--num-experts 4 --expert-tensor-parallel-size 1 --moe-router-topk 2"

# of NAME: the options of a model
of()
{
	case $1 in
	experts) echo "$routed" --moe-router-score-function sigmoid \
		--moe-router-enable-expert-bias --moe-shared-expert-intermediate-size 16 \
		--moe-shared-expert-gate --moe-aux-loss-coeff 0.05 --disable-bias-linear ;;
	biases) echo "$routed" ;;
	latents) echo --multi-latent-attention --q-lora-rank 20 --kv-lora-rank 36 \
		--qk-head-dim 4 --qk-pos-emb-head-dim 2 --v-head-dim 5 --num-query-groups 8 \
		--normalization RMSNorm --disable-bias-linear ;;
	linear) echo --linear-attention-freq 2 --linear-num-key-heads 2 \
		--linear-num-value-heads 4 --linear-key-head-dim 6 --linear-value-head-dim 5 \
		--normalization RMSNorm --disable-bias-linear ;;
	later) echo --mtp-num-layers 1 --mtp-loss-scaling-factor 0.3 ;;
	*) echo --norm-placement "$1" ;;
	esac
}

# models OPTION...: names of those that run with these options
models()
{
	echo pre both linear ${1:+experts biases latents later}
}

for name in $(models all); do
	train 1 $(of "$name") --save "$name"
done

# gradients NAME OPTION...: of 4 ranks; exp_avg after step 1 is 0.1 of them
gradients()
{
	rm -rf run
	of=$(of "$1")
	shift
	train 4 $(layout 2 2) $of "$@" --save run
}

# differences NAME: the gradients that differ from one rank's; what balance moves has none, but is
# moved by such a sum itself
differences()
{
	for only in '*.exp_avg' '*.expert_bias'; do
		mckpt diff run "$1" --tolerance 1e-9 --only "$only" 2>log || :
	done
}

# rows: of each parameter that the blocks state its name, its sums without sequence parallelism and
# with it, and how it is held
rows()
{
	sums='{ *\([A-Z_0]*\), *\([A-Z_0]*\) *}'
	for file in "$TOP"/lib/model/block/*.c; do
		layer=decoder.layers.0.
		case $file in
		*/embedding.c | */head.c) layer= ;;
		*/mtp.c) layer=mtp.layers.0. ;;
		esac
		cc -E -P -D_GNU_SOURCE -I"$TOP" "$file" | tr -d '\n\t' |
			sed 's/" *"//g; s/%d/0/g; s/{ *"/\n&/g' |
			sed -n "s/^{ *\"\([a-z0-9_.]*\)\",\(.*\)$sums *}.*/$layer\1 \3 \4 \2/p" |
			sed 's/^final_layernorm/mtp.layers.0.&/'
	done
}

# summed COLUMN: names of the tensors with sums, without sequence parallelism (1) or with it (2)
summed()
{
	rows | awk -v column=$(($1 + 1)) '$column != "0" {
		print $1 (/PARAM_BALANCE/ ? "" : ".exp_avg") }' | sort -u
}

# seen COLUMN OPTION...: each of those differs when nothing is summed
seen()
{
	column=$1
	shift
	summed "$column" >names
	[ -s names ] || fail "no row says who sums what"
	for name in $(models "$@"); do
		gradients "$name" "$@"
		differences "$name"
	done | grep -v -w -e equal -e close | cut -f 1 >different
	while read -r name; do
		grep -qx "$name" different || fail "$name: not summed, and nothing differs"
	done <names
	echo "$(wc -l <names) tensors${1:+ with }$*: each is seen when it is not summed"
}

for rows in "" --sequence-parallel; do
	for name in $(models $rows); do
		gradients "$name" $rows
		same_tensors "all sums $name $rows" run "$name" --tolerance 1e-9 --only '*.exp_avg'
	done
done
copy_tree
sed -i 's/SUM_[A-Z]*/0/g' tree/lib/model/block/*.c tree/lib/model/block/rows.h
build_tree mtrain
PATH=$tmp/tree/$(basename "$B"):$PATH
seen 1
seen 2 --sequence-parallel
