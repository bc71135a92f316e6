#!/bin/sh
# preflight.sh - what would make the first save fail is said before the first step: hosts that have
# --save on disks of their own, a limit of the size of files, a file system that is full
#
# The hosts are mount namespaces of this machine. One that lets nobody make them skips that part.
set -u

if [ -z "${MOUNTS_INSIDE:-}" ] && unshare -Urm true >/dev/null 2>&1; then
	export MOUNTS_INSIDE=1
	exec unshare -Urm sh "$0"
fi

# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
options="--config tiny.conf --train-iters 4 --save S --load S"

# nothing_done: no step was taken, and nothing is left in S
nothing_done()
{
	! grep -q 'iteration .* consumed samples' out || fail "steps were taken"
	[ -z "$(ls -A S)" ] || fail "left in S: $(ls -A S)"
}

# What is right passes, with nothing left but the checkpoint.
# shellcheck disable=SC2086
expect 0 mpirun -np 2 mtrain $options
[ "$(find S -mindepth 1 -maxdepth 1 | wc -l)" = 2 ] || fail "left in S: $(ls -A S)"
! grep -q 'file system has room' out || fail "warned without need"

rm -rf S
expect 1 sh -c "ulimit -f 8; exec mtrain $options"
said "mtrain: --save S: the file of rank 0 in a checkpoint has at least 350208 bytes, \
and the limit of the size of files (ulimit -f) is 4096"
nothing_done

if [ -z "${MOUNTS_INSIDE:-}" ]; then
	echo "skipped: mount namespaces cannot be made here (unshare -Urm)"
	exit 0
fi

# Each rank in a namespace of its own, with its own disk at S.
mkdir host0 host1
cat >host.sh <<END
mount --bind "host\$OMPI_COMM_WORLD_RANK" S && exec mtrain $options
mount --bind "host\$OMPI_COMM_WORLD_RANK" S && exec mtrain $options
END
expect 1 mpirun -np 2 unshare -m sh host.sh
said "mtrain[0]: --save S: rank 1 (host $(hostname)) does not see the directory that rank 0 has \
made there: it must be the same directory for all ranks"
nothing_done
[ -z "$(find host0 host1 -type f)" ] || fail "left: $(find host0 host1)"

# Too full: a warning, since there may be room by then. Here there is none.
mount -t tmpfs -o size=100k none S
# shellcheck disable=SC2086
expect 1 mtrain $options
said "mtrain: --save S: a checkpoint has 350208 bytes, and its file system has room for "
said "No space left on device"
umount S
mount -t tmpfs -o nr_inodes=5 none S
# shellcheck disable=SC2086
expect 1 mtrain $options
said "mtrain: --save S: a checkpoint has 7 files, and its file system has room for "
umount S
