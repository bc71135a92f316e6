#!/bin/sh
# peers.sh - on several hosts a rank sends to those of its host and of its rail, not to all
#
# Of 8 ranks as 4 hosts of 2, with data ranks alone, in a run whose experts have long sums for the
# log: to at most L + H others. On one host to all.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

# most HOSTS: the largest number of ranks that one sends to
most()
{
	rm -f peers.*
	mpirun -np 8 -x LD_PRELOAD="$B/tests/parity/peers.so" -x PEERS="$PWD/peers" \
		mtrain $llama --mock-data --train-iters 2 --lr 1e-3 --log-interval 1 \
		--num-experts 128 --moe-ffn-hidden-size 8 --moe-router-topk 2 \
		--metrics-file run.jsonl --save run --pretend-hosts "$1" >log 2>&1 ||
		fail "$1 hosts"
	rm -rf run run.jsonl
	[ "$(find . -name 'peers.*' | wc -l)" = 8 ] || fail "not the counts of 8 ranks"
	cat peers.* | sort -n | tail -n 1
}

two=$(most 4) || fail "$two"
one=$(most 1) || fail "$one"
[ "$two" -le 6 ] || fail "a rank of 4 hosts of 2 sends to $two others"
[ "$one" = 7 ] || fail "a rank of one host sends to $one others"
echo "a rank of 8 sends to $one others on one host, to $two on 4 hosts of 2"
