#!/bin/sh
# parked.sh - what a run decides from --save is decided under its lock: it looks, is parked while
# another process holds the lock, SAVE changes, and then it does what SAVE says by that time
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh
options="--config tiny.conf --train-iters 9 --override-opt_param-scheduler"

# A lock as a run of this host writes it, held by a process that does nothing.
park()
{
	mkdir -p "$1"
	sleep 60 &
	holder=$!
	space=$(readlink /proc/self/ns/pid)
	case $space in
	'pid:[4026531836]') space= ;;
	*) space=-$(echo "$space" | tr -cd 0-9) ;;
	esac
	{
		echo "host $(hostname | tr -c 'A-Za-z0-9_\n' -)$space"
		echo "boot $(cat /proc/sys/kernel/random/boot_id)"
		echo "process $holder"
		echo "started $(sed 's/.*) //' /proc/$holder/stat | cut -d ' ' -f 20)"
		printf 'job -\nattempt -\nid 0123456789abcdef\nrenewed 0000000000\n'
	} >"$1/lock"
}

waits()
{
	grep -q 'waiting for its end' out
}

# parked STATUS COMMAND OPTIONS...: mtrain waits for the lock of S, the command runs, the lock's
# holder ends, and mtrain ends with this status
parked()
{
	status=$1
	change=$2
	shift 2
	park S
	# shellcheck disable=SC2086
	start mpirun -np 2 mtrain $options --save S "$@"
	until_true waits
	$change
	kill -9 $holder
	wait $holder 2>/dev/null
	finish "$status"
	[ ! -e S/lock ] || fail "the lock is still there"
}

# A run that has saved iterations 2, 4 and 6, whose parts others take over.
# shellcheck disable=SC2086
expect 3 mtrain $options --save A --load A --save-interval 2 --exit-interval 6

# another ITERATION...: another run has saved these into S, with its tracker
another()
{
	for iteration; do
		cp -r "A/iter_000000$iteration" S
		echo "$iteration" >S/latest_checkpointed_iteration.txt
	done
}
saves_2() { another 2; }
saves_6() { another 6; }
loses_tracker() { another 6 && rm S/latest_checkpointed_iteration.txt; }
moves_4_aside()
{
	mv S/iter_0000004 S/iter_0000004.aside-1 && echo 2 >S/latest_checkpointed_iteration.txt
}
removes_all() { rm -r S/iter_* S/latest*; }

# fresh: S is as if no run had been there; had ITERATION...: as if one had saved these
fresh()
{
	rm -rf S
}
had()
{
	rm -rf S
	mkdir S
	another "$@"
}

# A fresh start finds a checkpoint by then, with --load and without.
fresh
parked 0 saves_2 --load S
said "resuming S at iteration 2"
fresh
parked 2 saves_2
said "mtrain: --save S: holds the checkpoint of iteration 2 already; add --load S to continue"
# A tracker says another number.
had 2
parked 0 saves_6 --load S
said "resuming S at iteration 6"
[ -e S/iter_0000009 ] || fail "nothing was saved"
# No tracker: the highest number counts, as it is by then.
had 2
rm S/latest_checkpointed_iteration.txt
parked 0 loses_tracker --load S
said "resuming S/iter_0000006 at iteration 6"
# The iteration of --ckpt-step is gone.
had 2 4
parked 2 moves_4_aside --load S --ckpt-step 4
said "mtrain: --ckpt-step 4: there is no 'S/iter_0000004'"
# Weights alone, into a directory that holds a checkpoint by now: they are not read once more.
fresh
parked 0 saves_6 --load S --pretrained-checkpoint A
said "resuming S at iteration 6"
fresh
parked 2 saves_6 --load S --pretrained-checkpoint A --finetune
said "mtrain: --finetune: --load and --save are both 'S', which holds a checkpoint already"
# What was there is gone: a fresh start.
had 2
parked 0 removes_all --load S
said "--load S: holds no checkpoint yet; starting from the beginning"
