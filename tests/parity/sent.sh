#!/bin/sh
# sent.sh - the bytes that a rank sends to other hosts in a step are those that mplan counts, to the
# last one
#
# Four data ranks on two hosts, whose sharded weights stay in slots from one pass to the next:
# layers, micro batches, and layers that are computed again one by one or several together. What one
# more step sends is what it sends. With ALL=1 more of each, and the other ways to share.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
planned="$(echo "$llama" | sed 's/--eval-iters 0 --num-threads 1//') --ddp-bucket-size 2000"
model="$planned --eval-iters 0 --num-threads 1 --mock-data"
again="--recompute-granularity full --recompute-method uniform --recompute-num-layers"

# to_others STEPS OPTION...: the bytes that rank 0 sends to the ranks of the other host
to_others()
{
	n=$1
	shift
	rm -f peers.*
	mpirun -np 4 -x LD_PRELOAD="$B/tests/parity/peers.so" -x PEERS="$PWD/peers" \
		mtrain $model "$@" --lr 1e-3 --pretend-hosts 2 --train-iters "$n" >log 2>&1 ||
		fail "$*"
	awk '$1 > 1 { sum += $2 } END { printf "%.0f\n", sum }' peers.0
}

# same OPTION...
same()
{
	one=$(to_others 1 "$@") || fail "$one"
	two=$(to_others 2 "$@") || fail "$two"
	mplan check $planned "$@" --world-size 4 --gpus-per-node 2 >sent.tsv 2>log || fail "$*"
	says=$(awk -F '\t' '$1 == "data" { print $3 }' sent.tsv)
	[ "$says" = $((two - one)) ] || fail "$*: $((two - one)) bytes, and mplan says $says"
	echo "$says bytes: $*"
}

same $(zero 3) --num-layers 2 --micro-batch-size 2
same $(zero 3) --num-layers 5 --micro-batch-size 1
same $(zero 3) --num-layers 6 --micro-batch-size 1 $again 3
if [ -n "${ALL:-}" ]; then
	for layers in 1 3 4 7; do
		for micro in 1 2; do
			same $(zero 3) --num-layers $layers --micro-batch-size $micro
			for each in 1 2 4; do
				[ $layers -lt $each ] || same $(zero 3) --num-layers $layers \
					--micro-batch-size $micro $again $each
			done
		done
	done
	for zero in 0 1 2; do
		same $(zero $zero) --micro-batch-size 1
	done
fi
