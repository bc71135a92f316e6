#!/bin/sh
# goingback.sh - --ckpt-step resumes from an earlier checkpoint and moves later ones aside,
# --save-retain-interval removes some, --exit-on-missing-checkpoint requires one
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh
common="--config tiny.conf --train-iters 8 --save-interval 2"

# iterations DIR: their names without iter_ and zeros, on a line
iterations()
{
	(cd "$1" && for d in iter_*; do echo "${d#iter_000000}"; done) | tr '\n' ' '
}

# shellcheck disable=SC2086
go()
{
	status=$1
	shift
	expect "$status" mtrain $common --save A --load A "$@"
}

go 0
cp -r A straight
[ "$(iterations A)" = "2 4 6 8 " ] || fail "saved $(iterations A)"

# The run repeats the steps from there; later checkpoints are whole, and not part of the run.
go 3 --ckpt-step 4 --exit-interval 6
said "resuming A/iter_0000004 at iteration 4"
said "--save A: 2 checkpoints later than iteration 4, from which the run continues, \
are moved aside: A/iter_0000006.aside-1 and so on"
said "by --exit-interval; the same command without --ckpt-step continues the run"
[ "$(iterations A)" = "2 4 6 6.aside-1 8.aside-1 " ] || fail "there are $(iterations A)"
[ "$(tracker A)" = 6 ] || fail "the tracker says $(tracker A)"
grep -q "ckpt-step [0-9]" A/iter_0000006/options.conf && fail "--ckpt-step was recorded"
expect 0 mckpt verify A/iter_0000008.aside-1
go 0
said "resuming A at iteration 6"
expect 0 mckpt diff A/iter_0000008 straight/iter_0000008
# The same after damage, by the tracker; a run that takes no step moves nothing.
go 0 --ckpt-step 8
grep -q aside out && fail "moved aside without a step"
echo 6 >A/latest_checkpointed_iteration.txt
go 0
said "--save A: 1 checkpoint later than iteration 6, from which the run continues, \
is moved aside: A/iter_0000008.aside-2"
expect 0 mckpt diff A/iter_0000008 A/iter_0000008.aside-2

# Into another directory, whose later checkpoints belong to another run.
cp -r straight B
rm -r B/iter_0000002 B/iter_0000004
expect 3 mtrain --config tiny.conf --train-iters 8 --load A --ckpt-step 4 --save B \
	--exit-interval 5
[ "$(iterations B)" = "5 6.aside-1 8.aside-1 " ] || fail "there are $(iterations B)"

# A checkpoint that does not exist.
go 2 --ckpt-step 5
one_line "mtrain: --ckpt-step 5: there is no 'A/iter_0000005'"
expect 2 mtrain --config tiny.conf --train-iters 8 --ckpt-step 5
one_line "mtrain: --ckpt-step 5: needs --load"
expect 1 mtrain --config tiny.conf --train-iters 8 --save C --load C --exit-on-missing-checkpoint
one_line "mtrain: --exit-on-missing-checkpoint: --load C holds no checkpoint"
[ ! -e C ] || fail "C was made"

# Retained: multiples of 6, the newest, and what was there before the last multiple.
keep="--save D --load D --save-retain-interval 6"
# shellcheck disable=SC2086
{
	expect 0 mtrain $common $keep --train-iters 14
	[ "$(iterations D)" = "6 iter_0000012 iter_0000014 " ] || fail "there are $(iterations D)"
	mkdir D/iter_0000003
	expect 0 mtrain $common $keep --train-iters 20 --async-save --override-opt_param-scheduler
	[ "$(iterations D)" = "3 6 iter_0000012 iter_0000018 iter_0000020 " ] ||
		fail "there are $(iterations D)"
}
expect 2 mtrain --config tiny.conf --train-iters 8 --save-retain-interval 6
one_line "mtrain: --save-retain-interval 6: needs --save-interval"
go 2 --save-retain-interval 7
one_line "mtrain: --save-retain-interval 7: must be a multiple of --save-interval 2 (try 8)"
