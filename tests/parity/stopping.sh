#!/bin/sh
# stopping.sh - every way to ask a run to stop: the step is finished, saved, exit status 3, and the
# same command continues; a run that is stopped many times computes what an undisturbed one does
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

iters=600
common="--config tiny.conf --pipeline-model-parallel-size 2 --train-iters $iters"
async="--async-save --save-interval 1"
how=

# shellcheck disable=SC2086
go()
{
	"$@" mpirun -np 2 mtrain $common --save C --load C --metrics-file log $how
}

# The first step of this start has been logged.
trains()
{
	grep -q 'iteration .* consumed samples' out
}

# stopped WHY COMMAND...: the run is up, the command asks it to stop
stopped()
{
	why=$1
	before=$(tracker C)
	shift
	go start
	until_true trains
	"$@"
	finish 3
	said "by $why; the same command continues the run"
	[ "$(tracker C)" -gt "$before" ] || fail "nothing was saved"
}

to_mpirun()
{
	kill -"$1" "$run"
}

to_rank()
{
	kill -"$1" "$(rank "$2")"
}

stopped SIGUSR1 to_mpirun USR1
stopped SIGUSR2 to_mpirun USR2
stopped SIGTERM to_rank TERM 0
how="--exit-signal SIGHUP"
stopped SIGHUP to_rank HUP 0
# The same while a save is under way.
how=$async
stopped "a request of another rank" to_rank TERM 1
stopped SIGINT to_rank INT 0
stopped "the file 'stop'" touch C/stop
[ ! -e C/stop ] || fail "the file 'stop' is still there"
how=
go expect 0
[ "$(tracker C)" = $iters ] || fail "ended at iteration $(tracker C)"

# catches_term PID: the program itself has begun and catches TERM, signal 15
catches_term()
{
	grep -q '^Name:.*mtrain' "/proc/$1/status" &&
		grep -q '^SigCgt:.*[4-7c-f]...$' "/proc/$1/status"
} 2>/dev/null

# rank_begun N: a rank of $run catches it
rank_begun()
{
	catches_term "$(rank "$1")"
}

# stops_start FILE OPTIONS...: TERM to one rank while it still waits for its options ends both
# before the first step
mkfifo slow
stops_start()
{
	: >slow.conf
	start mpirun -np 1 mtrain --config slow --config "$@" : -np 1 mtrain --config "$@"
	until_true rank_begun 0
	to_rank TERM 0
	cat slow.conf >slow
	finish 3
	said "mtrain[0]: stopped before the first step by SIGTERM: nothing was trained, \
so nothing is saved; the same command starts again"
}
stops_start tiny.conf --train-iters 2 --save F
[ -z "$(ls F)" ] || fail "a run that stopped in its start has left something"
# While a checkpoint is read.
stops_start tiny.conf --train-iters 700 --save C --load C --override-opt_param-scheduler \
	--pipeline-model-parallel-size 2
[ "$(tracker C)" = $iters ] || fail "a run that stopped in its start has saved"
# While the data are opened: no index map is built.
seq -s ' ' 1 90 | sed 's/.*/{"text": "&"}/' |
	mtok -q -o d --tokenizer-type NullTokenizer --vocab-size 100
sed /mock/d tiny.conf >data.conf
stops_start data.conf --train-iters 2 --data-path d_text_document --data-cache-path maps
[ ! -e maps ] || fail "a run that stopped after its corpora has built index maps"
# Evaluation has nothing to save: it ends by the signal.
start mtrain --config slow --config tiny.conf --skip-train --eval-iters 100000
until_true catches_term "$run"
kill -TERM "$run"
cat slow.conf >slow
finish 143

# Run again, it has nothing left to do.
go expect 0
said "nothing to train"

# Every step was taken once, with the result of an uninterrupted run.
# shellcheck disable=SC2086
expect 0 mpirun -np 2 mtrain $common --metrics-file straight
for log in log straight; do
	sed -n 's/, "tokens_per_second.*//p' "$log" >$log.steps
done
cmp log.steps straight.steps || fail "the stopped run differs from the undisturbed one"
[ "$(wc -l <log.steps)" = $iters ] || fail "$(wc -l <log.steps) steps were logged"

# TERM to mpirun itself may cost steps, never a checkpoint.
# shellcheck disable=SC2086
start mpirun -np 2 mtrain $common --save D --load D --save-interval 20
until_true test -e D/latest_checkpointed_iteration.txt
kill -TERM "$run"
finish failure
expect 0 mckpt verify D

# The options that stop a run; a save under way is ended before the run is.
for how in "" "$async"; do
	rm -rf E
	tiny="--config tiny.conf --train-iters 6 --save E --load E $how"
	# shellcheck disable=SC2086
	{
		expect 3 mpirun -np 2 mtrain $tiny --exit-interval 4
		said "stopped after iteration 4 by --exit-interval; \
the same command continues the run"
		[ "$(tracker E)" = 4 ] || fail "saved iteration $(tracker E)"
		expect 3 mpirun -np 2 mtrain $tiny --exit-duration-in-mins 1e-6
		said "stopped after iteration 5 by --exit-duration-in-mins; \
the same command continues the run"
		[ "$(tracker E)" = 5 ] || fail "saved iteration $(tracker E)"
		expect 0 mpirun -np 2 mtrain $tiny --exit-interval 4
		[ "$(tracker E)" = 6 ] || fail "saved iteration $(tracker E)"
	}
done
