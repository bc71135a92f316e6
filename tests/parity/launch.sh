#!/bin/sh
# launch.sh - what stops a run keeps its steps: every signal and Ctrl-C, to a bare mpirun and
# through --ranks, in steps of milliseconds and of more than a second; and what --ranks and --launch
# refuse
#
# ALL=N runs each cell of the table N times; otherwise each runs once, and of those with long steps
# INT through --ranks alone.
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

# --- words ----------------------------------------------------------------------------------------

echo 'train-iters 2' >>tiny.conf

expect 2 mtrain --config tiny.conf --ranks 0
one_line "mtrain: --ranks 0: must be from 1 to 1048576"
expect 2 mpirun -np 1 mtrain --config tiny.conf --ranks 2
said "mtrain: --ranks: the ranks are started already: leave it out"
expect 2 mtrain --config tiny.conf --launch 'none-such -np 2'
one_line "mtrain: cannot start 'none-such': No such file or directory"
expect 2 mtrain --config tiny.conf --launch ' '
one_line "mtrain: --launch: needs the words that start ranks, as 'mpirun -np 8'"
echo 'ranks 2' >file.conf
expect 2 mtrain --config tiny.conf --config file.conf
one_line "mtrain: --ranks: belongs on the command line: the ranks read the file, too"
expect 0 mtrain --config tiny.conf --ranks=2 --tensor-model-parallel-size 2 --dry-run
[ "$(grep -c '^[01]	' out)" = 2 ] || fail "not two ranks are planned"
# The status is the launcher's.
expect 2 mtrain --config tiny.conf --ranks 2 --tensor-model-parallel-size 4
expect 7 mtrain --launch "sh -c :;exit\${IFS}7" --config tiny.conf

# The last words are a command that continues, from any directory.
expect 3 mtrain --ranks 2 --config tiny.conf --train-iters 3 --save 'L 1' --load 'L 1' \
	--exit-interval 2
said "saved as '$(pwd -P)/L 1/iter_0000002' in "
sed -n 's/^mtrain: to continue: //p' out >pasted
(cd / && expect 0 sh "$OLDPWD/pasted" && [ "$(grep -c 'resuming L 1 at iteration 2' out)" = 1 ]) ||
	fail "the command does not continue: $(cat pasted)"
[ "$(tracker 'L 1')" = 3 ] || fail "the command did not end the run"

# Under mpirun itself a note says when its patience is too short, here next to nothing.
expect 0 mpirun -np 1 env OMPI_MCA_odls_base_sigkill_timeout=1e-6 mtrain --config tiny.conf --save N
said "Ctrl-C or TERM on mpirun leaves 0 s, and a step takes 1: steps that are not saved would be \
lost"

# What a killed run had not saved is said by the next one.
for every in 1000000 10; do
	rm -rf K log
	killed="--config tiny.conf --lr-decay-style constant --save K --load K --metrics-file log"
	# shellcheck disable=SC2086
	start mtrain $killed --train-iters 1000000 --save-interval $every --log-interval 1000000
	until_true grep -qs '"iteration": 12,' log
	kill -KILL "$run"
	finish 137
	kept=$(tracker K)
	taken=$(sed -n '$s/{"iteration": \([0-9]*\),.*/\1/p' log)
	# shellcheck disable=SC2086
	expect 0 mtrain $killed --train-iters $((kept + 1)) --override-opt_param-scheduler
	[ "$taken" = "$kept" ] && continue
	case $kept in 0) how="starting again" ;; *) how="continuing" ;; esac
	said "the last run ended at iteration $taken without saving; $how from $kept"
done

# --- the table ------------------------------------------------------------------------------------

common="--config tiny.conf --tensor-model-parallel-size 2 --micro-batch-size 1 \
--log-interval 1000000 --lr-decay-style constant"

# batch STEPS SECONDS: the samples of a step that takes as long, by the rate of as many steps of 64
batch()
{
	rm -f rate
	# shellcheck disable=SC2086
	expect 0 mtrain --ranks 2 $common --global-batch-size 64 --train-iters "$1" \
		--metrics-file rate
	sed -n '$s/.*"tokens_per_second": \([0-9]*\).*/\1/p' rate |
		awk -v s="$2" '{ n = int($1 / 16 * s); print n < 1 ? 1 : n }'
}

# losses FILE: what each step computed, a line each
losses()
{
	sed -n 's/, "tokens_per_second.*//p' "$1"
}

# typed COMMAND...: in the background on a terminal of its own, at which Ctrl-C is typed once the
# file press is there
typed()
{
	rm -f press
	{
		until [ -e press ]; do sleep 0.02; done
		printf '\003'
	} | script -qefc "$*" /dev/null >out 2>&1 &
	run=$!
}

# ask HOW: the run is asked to stop
ask()
{
	case $1 in
	Ctrl-C) touch press ;;
	*) kill -"$1" "$run" ;;
	esac
}

# cell HOW LAUNCHER SAMPLES: one run, asked to stop after a few steps
cell()
{
	rm -rf C log
	words="$2 mtrain"
	[ "$2" != --ranks ] || words="mtrain --ranks 2"
	set -- "$1" "$2" "$3" "$words $common --save C --load C --global-batch-size $3 \
		--train-iters 100000 --metrics-file log"
	# shellcheck disable=SC2086
	case $1 in
	Ctrl-C) typed "$4" ;;
	*) start $4 ;;
	esac
	until_true grep -qs '"iteration": 2,' log
	ask "$1"
	ended=3
	case $1:$2 in USR1:* | *:--ranks) ;; *) ended=1 ;; esac
	finish $ended
	kept=$(tracker C)
	taken=$(losses log | wc -l)
	# A second step that was short, since the machine is no longer busy, has nothing to say.
	sed -n 's/.*"iteration": 2,.*"seconds": \([0-9.]*\).*/\1/p' log | awk '{ exit $1 < 1.1 }' &&
		[ "$1:$2" = INT:--ranks ] &&
		! grep -q 'SIGUSR1: stopping: the step and the save take about [0-9]* s' out &&
		fail "it was not said how long the stop takes"
	if [ "$ended" = 3 ]; then
		[ "$kept" = "$taken" ] || fail "$1, $2: $taken steps were taken, $kept were saved"
		grep -q "stopped after iteration $kept by " out || fail "$1, $2: no last words"
		grep -q "^{\"iteration\": $kept, \"stopped_by\": \"" log ||
			fail "$1, $2: the metrics file does not say it"
	fi
	[ "$kept" = 0 ] || resumes "$3"
	printf '%s\t%s\t%s samples a step\tstatus %s\t%s of %s steps kept\n' "$1" "$2" "$3" \
		"$ended" "$kept" "$taken"
}

# resumes SAMPLES: the run continues from what it kept, and every step that it took is an
# undisturbed run's, which is made when all cells are done
resumes()
{
	# shellcheck disable=SC2086
	expect 0 mtrain --ranks 2 $common --save C --load C --global-batch-size "$1" \
		--train-iters $((kept + 2)) --metrics-file log --override-opt_param-scheduler
	cells=$((cells + 1))
	losses log >"steps.$1.$cells"
	[ $((kept + 2)) -le "$longest" ] || longest=$((kept + 2))
}

# undisturbed SAMPLES: the steps of all cells of this batch are among those of a run that ends by
# itself
undisturbed()
{
	rm -f straight
	# shellcheck disable=SC2086
	expect 0 mtrain --ranks 2 $common --global-batch-size "$1" --train-iters "$longest" \
		--metrics-file straight
	losses straight >straight.steps
	cat "steps.$1".* | grep -vxF -f straight.steps >out && fail "steps differ"
	longest=0
}

cells=0 longest=0
short=$(batch 20 0.02)
for _ in $(seq "${ALL:-1}"); do
	for how in INT TERM HUP USR1 Ctrl-C; do
		for launcher in "mpirun -np 2" --ranks; do
			cell $how "$launcher" "$short"
		done
	done
done
undisturbed "$short"

long=$(batch 20 1.6)
for _ in $(seq "${ALL:-1}"); do
	for how in INT TERM HUP USR1 Ctrl-C; do
		for launcher in "mpirun -np 2" --ranks; do
			case ${ALL:-}:$how:$launcher in
			:INT:--ranks | [1-9]*) cell $how "$launcher" "$long" ;;
			esac
		done
	done
done
undisturbed "$long"
