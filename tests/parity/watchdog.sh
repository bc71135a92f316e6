#!/bin/sh
# watchdog.sh - one of four ranks stops, in each group, at the start, in saves, and in the middle of
# a piece that goes to another host, or is killed there, or all ranks of the host stop: the others
# end with status 4 of their own and one line that names the place and the rank, of several hosts
# with its rail, and the last checkpoint loads; a rank that is slow, and a job that is suspended,
# continue
#
# A library before MPI stops ranks in the call that STOP_AT names, so that it is the same call in
# every run. The cases run side by side: they wait for most of their time.
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

cat >stop.c <<'E'
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static MPI_Comm group[16];
static int groups;

/* Stops this process when its rank is a digit of STOP_RANK, in the call number STOP_NTH of its
 * kind, or sends it STOP_SIGNAL. The file `stopped` tells when. */
static void
reach(const char *what)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *at = getenv("STOP_AT"),
		   *signal = getenv("STOP_SIGNAL");
	static int reached;

	if (rank && at && strstr(getenv("STOP_RANK"), rank) && !strcmp(what, at) &&
	    ++reached == atoi(getenv("STOP_NTH"))) {
		close(creat("stopped", 0666));
		raise(signal ? atoi(signal) : SIGSTOP);
	}
}

/* A message to the other one of two hosts of two ranks. */
static void
reach_rail(int to, MPI_Comm c)
{
	int own;
	MPI_Group group, world;

	MPI_Comm_group(c, &group);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_rank(world, &own);
	MPI_Group_translate_ranks(group, 1, &to, world, &to);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	if (to / 2 != own / 2)
		reach("rail");
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
	reach_rail(to, c);
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
[ $status = 0 ] || sleep $((status > 128 ? 20 : 2))
exit $status
E
export STOP_LIBRARY="$dir/stop.so"

# four AT NTH RANKS OPTIONS...: a run on four ranks in a directory of that name, of which RANKS stop
# in the NTH call AT
four()
{
	export STOP_AT="$1" STOP_NTH="$2" STOP_RANK="$3"
	shift 3
	timeout -k 1 60 mpirun -np 4 sh ../rank.sh --config ../tiny.conf --train-iters 20 \
		--distributed-timeout-seconds-after-init 5 "$@" >out 2>&1
}

# lost NAME AT NTH RANKS OPTIONS...: the same, and how long it took to end after that
lost()
{
	mkdir "$1" && cd "$1" || exit 1
	shift
	four "$@"
	echo $(($(date +%s) - $(date -r stopped +%s))) >seconds
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
hosts="--pretend-hosts 2 --use-distributed-optimizer --save C --save-interval 2"
# shellcheck disable=SC2086
(lost rail rail 50 2 $hosts) &
# shellcheck disable=SC2086
(lost host rail 50 23 $hosts) &
# shellcheck disable=SC2086
(export STOP_SIGNAL=9 && lost killed rail 50 2 $hosts) &
wait

# A rank that stops for 2 seconds, and a job whose ranks all stop for longer than the time-out: the
# run continues until it is asked to end, however slow the machine is.
steps()
{
	grep -c 'iteration .* consumed samples' slow/out
}
mkdir slow
(cd slow && four none 1 0 --tensor-model-parallel-size 4 --train-iters 1000000
	echo $? >status) &
until_true test -e slow/out
until_true grep -q 'iteration .* consumed samples' slow/out
kill -STOP "$(cat slow/pid.2)"
sleep 2
kill -CONT "$(cat slow/pid.2)"
# shellcheck disable=SC2046
kill -STOP $(cat slow/pid.*) || fail "the run has ended too early"
before=$(steps)
sleep 7
# shellcheck disable=SC2046
kill -CONT $(cat slow/pid.*)
continued()
{
	[ "$(steps)" -gt $((before + 2)) ]
}
until_true continued
kill -TERM "$(cat slow/pid.0)"
wait
grep -v 'consumed samples' slow/out >out
[ "$(cat slow/status)" = 3 ] || fail "slow ranks: status $(cat slow/status)"

# told NAME SPEAKER MISSING WORDS...: SPEAKER said one line with these words, that a rank of MISSING
# is the one, $where; the others of the four ended with 4 within the time-out and 10 seconds, and
# their shells 2 later
where="$(hostname))"
told()
{
	name=$1 speaker=$2 missing=$3
	shift 3
	cp "$name/out" out
	for rank in 0 1 2 3; do
		case $missing in *$rank*) continue ;; esac
		[ "$(cat "$name/status.$rank")" = 4 ] ||
			fail "$name: rank $rank ended with $(cat "$name/status.$rank")"
	done
	[ "$(cat "$name/seconds")" -le 18 ] || fail "$name: it took $(cat "$name/seconds") s"
	said "mtrain[$speaker]: --distributed-timeout-"
	[ "$(grep -c 'has not come' out)" = 1 ] || fail "$name: more than one line"
	grep -q "; rank [$missing] ($where\(, as 1 more,\)* has not come: not a word from it for " \
		out || fail "$name: rank $missing is not named"
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

# loads NAME: its last checkpoint does, and the run continues
loads()
{
	expect 0 mtrain --config tiny.conf --train-iters 20 --load "$1/C"
	grep -q "iteration  *$(($(tracker "$1/C") + 1))/ " out || fail "$1: is not continued"
	! grep -q 'iteration  *1/ ' out || fail "$1: the run begins anew"
}
where="$(hostname)#1, rail 0)"
told rail 0 2 "$after: rank" " of data ranks (" ", train/engine/dp_comm.c:"
told killed 0 2 "$after: rank" " of data ranks (" ", train/engine/dp_comm.c:"
where="$(hostname)#1, rail [01])"
told host 0 23 "$after: rank" " of data ranks (" ", train/engine/dp_comm.c:"
for name in rail killed host; do
	loads $name
done
