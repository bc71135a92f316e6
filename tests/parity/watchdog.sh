#!/bin/sh
# watchdog.sh - one of four ranks stops, in each group, at the start, in saves: the others end with
# status 4 of their own and one line that names the place and the rank; a rank that is slow, and a
# job that is suspended, continue
#
# A library before MPI stops the rank in the call that STOP_AT names, so that it is the same call in
# every run. The cases run side by side: they wait for most of their time.
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

cat >stop.c <<'E'
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static MPI_Comm group[16];
static int groups;

/* Stops this process when it is STOP_RANK's, in the call number STOP_NTH of its kind. */
static void
reach(const char *what)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *at = getenv("STOP_AT");
	static int reached;

	if (rank && at && !strcmp(rank, getenv("STOP_RANK")) && !strcmp(what, at) &&
	    ++reached == atoi(getenv("STOP_NTH")))
		raise(SIGSTOP);
}

/* In the order in which the engine splits the world. */
static void
reach_group(MPI_Comm comm)
{
	static const char *const name[] = { "host", "tensor", "context", "data",
		"pipeline" };

	for (int i = 0; i < groups && i < 5; i++)
		if (group[i] == comm)
			reach(name[i]);
}

int
MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out)
{
	int rc;

	reach("split");
	rc = PMPI_Comm_split(comm, color, key, out);
	group[groups++ % 16] = *out;
	return rc;
}

int
MPI_Allgather(const void *in, int n, MPI_Datatype t, void *out, int m, MPI_Datatype u, MPI_Comm c)
{
	reach_group(c);
	return PMPI_Allgather(in, n, t, out, m, u, c);
}

int
MPI_Isend(const void *data, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
{
	reach_group(c);
	return PMPI_Isend(data, n, t, to, tag, c, r);
}

int
fsync(int fd)
{
	reach("fsync");
	return (int)syscall(SYS_fsync, fd);
}
E
mpicc -shared -fPIC -D_GNU_SOURCE -o stop.so stop.c || fail "mpicc"

# What mpirun starts: mtrain, whose number and status are left in files. mpirun ends all when the
# first has ended; this shell stays to see the status, and to give the others the time for theirs.
cat >rank.sh <<'E'
trap '' TERM
LD_PRELOAD=$STOP_LIBRARY mtrain "$@" &
echo $! >pid.$OMPI_COMM_WORLD_RANK
wait $!
status=$?
echo $status >status.$OMPI_COMM_WORLD_RANK
[ $status = 0 ] || sleep 2
exit $status
E
export STOP_LIBRARY="$dir/stop.so"

# four AT NTH RANK OPTIONS...: a run on four ranks in a directory of that name, of which RANK stops
# in the NTH call AT
four()
{
	export STOP_AT="$1" STOP_NTH="$2" STOP_RANK="$3"
	shift 3
	timeout -k 1 60 mpirun -np 4 sh ../rank.sh --config ../tiny.conf --train-iters 20 \
		--distributed-timeout-seconds-after-init 5 "$@" >out 2>&1
}

# lost NAME AT NTH RANK OPTIONS...: the same, and what time it took
lost()
{
	mkdir "$1" && cd "$1" || exit 1
	shift
	since=$(date +%s)
	four "$@"
	echo $(($(date +%s) - since)) >seconds
	exit 0
}

(lost tensor tensor 400 2 --tensor-model-parallel-size 4) &
(lost data data 40 2) &
(lost pipeline pipeline 100 2 --pipeline-model-parallel-size 4 --num-layers 4 \
	--micro-batch-size 1 --global-batch-size 16) &
(lost first tensor 400 0 --tensor-model-parallel-size 4) &
# A rank has synced two files before the first step, when it looked at --save.
(lost start split 2 2 --distributed-timeout-minutes 0.1) &
(lost save fsync 3 2 --save C --save-interval 2 --use-distributed-optimizer) &
(lost async fsync 3 2 --save C --save-interval 2 --use-distributed-optimizer --async-save) &
wait

# A rank that stops for 2 seconds, and a job whose ranks all stop for longer than the time-out.
mkdir slow
(cd slow && four none 1 0 --tensor-model-parallel-size 4 --train-iters 1000
	echo $? >status) &
until_true test -e slow/out
until_true grep -q 'iteration .* consumed samples' slow/out
kill -STOP "$(cat slow/pid.2)"
sleep 2
kill -CONT "$(cat slow/pid.2)"
# shellcheck disable=SC2046
kill -STOP $(cat slow/pid.*) || fail "the run has ended too early"
sleep 7
# shellcheck disable=SC2046
kill -CONT $(cat slow/pid.*)
wait
cp slow/out out
[ "$(cat slow/status)" = 0 ] || fail "slow ranks: status $(cat slow/status)"

# told NAME SPEAKER MISSING WORDS...: SPEAKER said one line with these words, that MISSING is the
# rank; the others of the four ended with 4 in time
told()
{
	name=$1 speaker=$2 missing=$3
	shift 3
	cp "$name/out" out
	for rank in 0 1 2 3; do
		[ "$rank" = "$missing" ] || [ "$(cat "$name/status.$rank")" = 4 ] ||
			fail "$name: rank $rank ended with $(cat "$name/status.$rank")"
	done
	[ "$(cat "$name/seconds")" -le 20 ] || fail "$name: it took $(cat "$name/seconds") s"
	said "mtrain[$speaker]: --distributed-timeout-"
	[ "$(grep -c 'has not come' out)" = 1 ] || fail "$name: more than one line"
	said "; rank $missing ($(hostname)) has not come: not a word from it for "
	for words; do
		said "$words"
	done
	grep 'has not come' out
}
after=--distributed-timeout-seconds-after-init\ 5
told tensor 0 2 "$after: rank" " of tensor ranks (" ", train/layers/"
told data 0 2 "$after: rank" " of data ranks (" ", train/engine/dp_comm.c:"
told pipeline 0 2 "$after: rank" "in exchange " " of pipeline stages (" ", train/engine/p2p.c:"
told first 1 0 "$after: rank" " of tensor ranks ("
told start 0 2 "--distributed-timeout-minutes 0.1: rank" "in split " " of all ranks (" \
	", train/engine/groups.c:"
told save 0 2 "$after: rank" " of all ranks (" ", train/state/saver.c:"
told async 0 2 "$after: rank"
