#!/bin/sh
# peers.sh - on several hosts a rank sends to those of its host and of its rail, not to all
#
# Of 8 ranks as 4 hosts of 2, with data ranks alone, in a run whose experts have long sums for the
# log: to at most L + H others. On one host to all. With ALL=1 also of 64 ranks as 8 hosts of 8.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

# most RANKS HOSTS OPTION...: the largest number of ranks that one sends to
most()
{
	ranks=$1 hosts=$2
	shift 2
	rm -f peers.*
	mpirun -np "$ranks" -x LD_PRELOAD="$B/tests/parity/peers.so" -x PEERS="$PWD/peers" \
		mtrain $llama --global-batch-size "$ranks" --mock-data --train-iters 2 --lr 1e-3 \
		--log-interval 1 --num-experts 128 --moe-ffn-hidden-size 8 --moe-router-topk 2 \
		--metrics-file run.jsonl --save run --pretend-hosts "$hosts" "$@" >log 2>&1 ||
		fail "$hosts hosts"
	rm -rf run run.jsonl
	[ "$(find . -name 'peers.*' | wc -l)" = "$ranks" ] || fail "not the counts of $ranks ranks"
	wc -l peers.* | awk '$2 != "total" { print $1 }' | sort -n | tail -n 1
}

two=$(most 8 4) || fail "$two"
one=$(most 8 1) || fail "$one"
[ "$two" -le 6 ] || fail "a rank of 4 hosts of 2 sends to $two others"
[ "$one" = 7 ] || fail "a rank of one host sends to $one others"
echo "a rank of 8 sends to $one others on one host, to $two on 4 hosts of 2"
if [ -n "${ALL:-}" ]; then
	many=$(most 64 8 $(zero 1)) || fail "$many"
	[ "$many" -le 16 ] || fail "a rank of 8 hosts of 8 sends to $many others"
	echo "a rank of 64 sends to $many others on 8 hosts of 8"
fi
