#!/bin/sh
# claiming.sh - two runs on one --save: only one of them trains; the lock of a dead run does not
# stop the next one
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh
common="--config tiny.conf --save C --load C --log-interval 1000 --override-opt_param-scheduler"

# refused: true when one of the two has been refused
refused()
{
	cat first second >out
	grep -q 'which is running; give another directory, or --break-lock' out
}

# Of two runs that start together one trains until it is asked to stop, and the other is refused.
# shellcheck disable=SC2086
{
	mtrain $common --train-iters 200000 >first 2>&1 &
	one=$!
	mtrain $common --train-iters 200000 >second 2>&1 &
	two=$!
}
until_true refused
touch C/stop
wait $one
got=$?
wait $two
got=$got$?
[ "$got" = 31 ] || [ "$got" = 13 ] || fail "exit statuses $got"
[ ! -e C/lock ] || fail "the lock is still there"
expect 0 mckpt verify C

# A run whose lock is broken stops at its next save and writes nothing more.
# shellcheck disable=SC2086
{
	: >overruled
	mtrain $common --save-interval 1 --train-iters 200000 >overruled 2>&1 &
	run=$!
	until_true grep -q 'saved iteration' overruled
	expect 1 mtrain -q $common --save-interval 1 --train-iters 200000
	one_line "mtrain: --save C: 'C/lock' is held by process $run of host "
	expect 3 mtrain $common --break-lock --save-interval 1 --train-iters 200000 \
		--exit-interval 1
	said "'C/lock' is broken: it was held by process $run of host "
}
finish 1
cp overruled out
said "'C/lock' no longer belongs to this run"
expect 0 mckpt verify C
grep -q break-lock C/iter_*/options.conf && fail "--break-lock was recorded"

# After a kill during a save the same command continues, and nothing half-written is left.
# shellcheck disable=SC2086
{
	: >killed
	mtrain $common --save-interval 1 --train-iters 200000 >killed 2>&1 &
	run=$!
	until_true grep -q 'saved iteration' killed
	kill -9 $run
	wait $run 2>/dev/null
	[ -e C/lock ] || fail "no lock was left"
	mkdir -p C/.iter_9999999.elsewhere.1.0123456789abcdef.tmp
	: >C/.latest.elsewhere.1.0123456789abcdef.tmp
	expect 3 mtrain $common --save-interval 1 --train-iters 200000 --exit-interval 1
	said "'C/lock' is broken: it was held by process $run of host "
	run=
}
left=$(find C -mindepth 1 -maxdepth 1 -name '.*' -o -name lock)
[ -z "$left" ] || fail "left in C: $left"
