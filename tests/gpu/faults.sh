#!/bin/sh
# faults.sh - a rank that is killed or stopped, whose device spins, or that leaves out a collective:
# the others end with status 4 within the time-out and ten seconds, one line names the rank, and the
# same command continues from the last checkpoint
#
# RANKS (2) on as many GPUs; with fewer of them it says so and succeeds. B is the build directory,
# of which mtrain and tests/faulty/mtrain are used. DEVICE=cpu runs the same on the CPU. TIMEOUT:
# the seconds that a rank may wait. FAULTY: the ranks with a fault, one after the other; WAYS and
# KINDS: the ways to share the work, and the faults. A line for each case, and how many passed at
# the end.
set -u
: "${B:=build}" "${DEVICE:=cuda}" "${TIMEOUT:=5}" "${RANKS:=2}" "${FAULTY:=0 1}"
: "${WAYS:=data tensor pipeline}" "${KINDS:=kill stop spin skip:1 skip:8}"
B=$(cd "$B" && pwd) || exit 1
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_hwloc_base_binding_policy=none
if [ "$DEVICE" = cuda ] && [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -lt "$RANKS" ]; then
	echo "skipped: $RANKS ranks need $RANKS GPUs"
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# What mpirun starts. It ends all ranks when one has ended: these shells stay until all have left
# their status, and that of a rank that was killed until the others have noticed.
cat >rank.sh <<'END'
trap '' TERM
"$MTRAIN" "$@" &
echo $! >pid.$OMPI_COMM_WORLD_RANK
wait $!
status=$?
echo $status >status.$OMPI_COMM_WORLD_RANK
case $status in 0) ;; 137) sleep $((TIMEOUT + 5)) ;; *) sleep 2 ;; esac
exit $status
END
export MTRAIN="$B/tests/faulty/mtrain" TIMEOUT

# start OPTION...: 6 steps, with a save after every second one
start()
{
	mpirun -np "$RANKS" sh rank.sh --backend "$DEVICE" --num-layers 2 --hidden-size 64 \
		--num-attention-heads 4 --vocab-size 500 --seq-length 64 --micro-batch-size 1 \
		--global-batch-size $((2 * RANKS)) --train-iters 6 --save-interval 2 --save C \
		--load C --lr 1e-3 --eval-iters 0 --log-interval 1 --mock-data --num-threads 1 \
		--distributed-timeout-seconds-after-init "$TIMEOUT" "$@" >out 2>&1
}

# wrong WORD...: says what is not as it should be; the case continues
wrong()
{
	echo "    $*"
	bad=1
}

# watch RANK OPTION...: runs with the fault; leaves in `took` the seconds from the first save to the
# end of all ranks, in `saved` the iteration of the last: one that was under way is lost
watch()
{
	start "$@" &
	run=$!
	until grep -qs . C/latest_checkpointed_iteration.txt || ! kill -0 $run 2>/dev/null; do
		sleep 0.1
	done
	since=$(date +%s)
	wait $run
	took=$(($(date +%s) - since))
	saved=$(cat C/latest_checkpointed_iteration.txt)
}

# ended RANK: how the run with a fault of RANK ended
ended()
{
	for other in $(seq 0 $((RANKS - 1))); do
		[ "$other" = "$1" ] || [ "$(cat "status.$other")" = 4 ] ||
			wrong "rank $other ended with $(cat "status.$other")"
	done
	[ "$took" -le $((TIMEOUT + 10)) ] || wrong "all ranks had ended after $took s"
	for pid in pid.*; do
		! kill -0 "$(cat "$pid")" 2>/dev/null || {
			wrong "rank ${pid#pid.} is left"
			kill -9 "$(cat "$pid")"
		}
	done
	[ "$(grep -c 'has not come' out)" = 1 ] || wrong "not one line that names a rank"
	grep -q "; rank $1 ([^)]*) has not come: " out || wrong "rank $1 is not named"
	[ "$bad" = 0 ] || sed 's/^/        /' out
}

# resumes OPTION...: the same command without the fault
resumes()
{
	start "$@" || wrong "the job does not continue: status $?"
	grep -q "resuming C at iteration $saved\$" out ||
		wrong "it does not continue from iteration $saved"
	[ "$(cat C/latest_checkpointed_iteration.txt)" = 6 ] ||
		wrong "it has not reached its last step"
}

# case_of KIND[:NUMBER] RANK OPTION...: that fault of RANK in step 5; its line
passed=0 failed=0
case_of()
{
	fault=$1 rank=$2 bad=0
	name="$1 of rank $2, ${3#--}"
	shift 2
	rm -rf C pid.* status.*
	export MIKOSHI_FAULT="${fault%%:*}:$rank:5${fault#"${fault%%:*}"}"
	watch "$@"
	ended "$rank"
	said=$(sed -n 's/.*has not come: \([a-z ]*[a-z]\).*/\1/p' out | head -n 1)
	unset MIKOSHI_FAULT
	resumes "$@"
	if [ "$bad" = 0 ]; then
		passed=$((passed + 1)) word=ok
	else
		failed=$((failed + 1)) word=FAIL
	fi
	echo "$word  $name: ended after $took s ($said)"
}

for rank in $FAULTY; do
	for kind in $KINDS; do
		for way in $WAYS; do
			case $kind:$way in
			skip:*:pipeline | skip:8:data) continue ;;
			*:data) share=--use-distributed-optimizer ;;
			*) share=--$way-model-parallel-size=2 ;;
			esac
			case_of "$kind" "$rank" "$share"
		done
	done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
