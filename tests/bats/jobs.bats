#!/usr/bin/env bats
# jobs.bats - the job scripts of recipes/job with a fake PBS, Grid Engine and Slurm
#
# submit puts a script into a queue; drain runs what is in it, a job after another, in the
# environment that the site gives. Options of directives and submissions are checked against the
# lists in jobs/, which are those of the manual pages: qsub(1B) of PBS Pro, sge_submit(1) of Grid
# Engine 8.1.9 and -g, which TSUBAME adds, and sbatch(1) of Slurm 22.05.

bats_require_minimum_version 1.5.0

sites="pbs gridengine slurm"

setup()
{
	cd "$BATS_TEST_TMPDIR"
	export QUEUE="$BATS_TEST_TMPDIR/queue" FATES="$BATS_TEST_TMPDIR/fates" SITE
	PATH=$TOP/tests/bats/jobs:$PATH
	: >nodes
	echo "a1 4 all.q@a1 <NULL>" >hosts
	echo a1 >nodes
	cp "$TOP/tests/tiny.conf" run.conf
	printf '%s\n' mock-data 'train-iters 10' 'save-interval 100' >>run.conf
}

# begin SITE: an empty queue with one job of the site's script
begin()
{
	SITE=$1
	rm -rf "$QUEUE"* "$FATES".* save
	cp "$TOP/recipes/job/$SITE.sh" .
	case $SITE in
	slurm) sbatch slurm.sh ;;
	*) qsub "$SITE.sh" ;;
	esac
}

# job N: runs the script as the Nth job of the site
job()
{
	local id=$((100 + $1))
	case $SITE in
	pbs) (cd / && PBS_JOBID=$id.pbs PBS_O_WORKDIR=$BATS_TEST_TMPDIR PBS_NODEFILE=$BATS_TEST_TMPDIR/nodes \
		exec bash "$BATS_TEST_TMPDIR/pbs.sh") ;;
	gridengine) JOB_ID=$id PE_HOSTFILE=hosts bash gridengine.sh ;;
	slurm) SLURM_JOB_ID=$id SLURM_NTASKS=1 bash slurm.sh ;;
	esac 2>>stderr </dev/null
}

# drain: runs jobs until the queue is empty; one that was killed runs again. Fails above 60.
drain()
{
	local n=0
	while [ "$n" -lt "$(wc -l <"$QUEUE")" ]; do
		n=$((n + 1))
		job "$n" || [ $? != 137 ] || echo again >>"$QUEUE"
		[ "$n" -lt 60 ] || return 1
	done
}

losses()
{
	sed -n 's/.*iteration *\([0-9]*\)\/.*lm loss: \([^ ]*\) .*/\1 \2/p' "$@"
}

@test "three scripts, one body" {
	for site in $sites; do
		sed -n '/^# --- the same/,$p' "$TOP/recipes/job/$site.sh" >"body.$site"
		[ -s "body.$site" ]
		cmp body.pbs "body.$site"
		[ "$(wc -l <"$TOP/recipes/job/$site.sh")" -le 60 ]
	done
}

@test "a directive and an option that the manual does not have are refused" {
	for site in $sites; do
		begin "$site"
		[ "$(wc -l <"$QUEUE")" = 1 ]
		case $site in
		pbs) mark='#PBS -Y x' ;;
		gridengine) mark='#$ -Y x' ;;
		slurm) mark='#SBATCH --nodez=4' ;;
		esac
		echo "$mark" >>"$site.sh"
		run -2 "$(case $site in slurm) echo sbatch ;; *) echo qsub ;; esac)" "$site.sh"
		[[ ${#lines[@]} = 1 && $output == *": invalid option "* ]]
	done
}

@test "a run over three jobs ends with done, and has the losses of one job" {
	mtrain -q --config run.conf >one 2>one.err
	echo 'exit-interval 4' >>run.conf
	for site in $sites; do
		begin "$site"
		drain
		[ "$(wc -l <"$QUEUE")" = 3 ]
		[ -e save/done ] && [ ! -e save/hold ]
		losses save/log | diff <(losses one) -
		[ "$(losses one | wc -l)" = 10 ]
		grep -q "job 103.*, iteration 10: done" save/log
		# A job that the system starts once more does nothing.
		job 4
		[ "$(wc -l <"$QUEUE")" = 3 ]
	done
}

@test "USR1 to the batch shell saves, and another job follows; TERM saves, and none does" {
	printf '%s\n' 'train-iters 100000' >>run.conf
	for signal in USR1 TERM; do
		begin slurm
		SLURM_JOB_ID=101 SLURM_NTASKS=1 bash slurm.sh 2>>stderr </dev/null &
		shell=$!
		for ((i = 0; i < 300; i++)); do
			! grep -q 'iteration *3/' save/log 2>/dev/null || break
			sleep 0.1
		done
		start=$SECONDS
		kill -$signal "$shell"
		wait "$shell"
		[ $((SECONDS - start)) -lt 60 ]
		[ "$(cat save/latest_checkpointed_iteration.txt)" -ge 3 ]
		[ ! -e save/hold ] && [ ! -e save/done ]
	done
	grep -q 'saved and cancelled' save/log
	[ "$(wc -l <"$QUEUE")" = 1 ]
}

fated()
{
	PATH=$TOP/tests/bats/jobs/fates:$PATH
}

@test "statuses 1, 2 and 5 stop, and say so in the last line" {
	fated
	for site in $sites; do
		for status in 1 2 5; do
			begin "$site"
			yes "$status 1 -" | head -5 >"$FATES"
			drain
			[ "$(wc -l <"$QUEUE")" = 1 ]
			[[ $(tail -1 save/log) == *"job 101"*", iteration 1: stopped: mtrain ended with status $status, "*"rm save/hold, and submit $site.sh again" ]]
			# Until the file is removed, no job runs.
			job 2
			[ "$(wc -l <"$FATES.attempts")" = 1 ]
			rm save/hold
			job 3 || true
			[ "$(wc -l <"$FATES.attempts")" = 2 ]
		done
	done
}

@test "three jobs without progress are the last, whatever ended them" {
	fated
	for site in $sites; do
		for fate in "3 0 usr1" "4 0 -" "137 0 -" "205 0 -" "143 0 loss"; do
			begin "$site"
			yes "$fate" | head -9 >"$FATES"
			drain
			[ "$(wc -l <"$FATES.attempts")" = 3 ]
			[ -e save/hold ]
			grep -q "stopped: 3 jobs in a row made no progress" save/log
		done
	done
}

@test "a cancelled job saves, and none follows" {
	fated
	for site in $sites; do
		for event in term usr2; do
			begin "$site"
			yes "3 1 $event" | head -3 >"$FATES"
			drain
			[ "$(wc -l <"$QUEUE")" = 1 ]
			[[ $(tail -1 save/log) == *", iteration 1: saved and cancelled" ]]
			[ ! -e save/hold ]
		done
	done
}

@test "a lost host is left out where the scheduler can, and a refused job is told" {
	fated
	for site in $sites; do
		begin "$site"
		printf '%s\n' "4 1 hang" "0 1 -" >"$FATES"
		drain
		[ -e save/done ]
		grep -q "status 4: another job follows, without host b2" save/log
		begin "$site"
		printf '%s\n' "3 1 usr1" "0 1 -" >"$FATES"
		printf 'x\nx\n' >"$QUEUE.refused"
		drain
		[ "$(wc -l <"$QUEUE")" = 1 ]
		[[ $(tail -1 save/log) == *"stopped: the next job was refused; to continue: rm save/hold"* ]]
	done
	begin gridengine
	printf '%s\n' "4 1 hang" "0 1 -" >"$FATES"
	drain
	[ "$(sed -n 2p "$QUEUE")" = "-g GROUP -l h=!b2 gridengine.sh" ]
	begin slurm
	drain
	[ "$(cat "$QUEUE.updates")" = "ExcNodeList=b2" ]
	# Where requeuing is off, the host is left out of a new job.
	begin slurm
	echo x >"$QUEUE.refused"
	drain
	[ "$(sed -n 2p "$QUEUE")" = "--exclude=b2 slurm.sh" ]
}

# draw SEED: fates of 70 jobs; every third seed has none that ends the chain by itself
draw()
{
	awk -v seed="$1" 'BEGIN {
		srand(seed)
		n = split(seed % 3 ? "0 1 2 3 3 3 3 4 4 5 137 143 205" : "3 4 137 143 205", status, " ")
		split("usr1 usr2 term loss hang - - -", event, " ")
		for (i = 0; i < 70; i++)
			print status[1 + int(n * rand())], int(2 * rand()), event[1 + int(8 * rand())]
	}'
}

@test "no chain is endless: 100 drawn fates of statuses, signals, refusals and lost nodes" {
	fated
	for seed in $(seq 100); do
		# shellcheck disable=SC2086
		set -- $sites
		shift $((seed % 3))
		begin "$1"
		draw "$seed" >"$FATES"
		[ $((seed % 7)) != 0 ] || yes x | head -2 >"$QUEUE.refused"
		drain || { echo "seed $seed: 60 jobs"; false; }
		# At one iteration there are three attempts at most, and none after a status that ends.
		at=$(cat save/latest_checkpointed_iteration.txt 2>/dev/null || echo 0)
		[ "$(wc -l <"$FATES.attempts")" -le $((3 * (at + 1))) ] || { echo "seed $seed"; false; }
		[ "$(cat "$FATES.seen" 2>/dev/null | grep -c ' [0125]$')" -le 1 ] || { echo "seed $seed"; false; }
		if grep -q 'saved and cancelled$' <(tail -1 save/log); then continue; fi
		[ -e save/done ] || [ -e save/hold ] || { echo "seed $seed: no end"; false; }
	done
}
