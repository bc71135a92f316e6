#!/bin/sh
# faults.sh - a rank that is killed, a disk that is full: mpirun ends, the last checkpoint is whole, the same command goes on
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

big="--config tiny.conf --hidden-size 256 --num-layers 4 --save C --load C --save-interval 1 --train-iters 10000"

saving()
{
	for f in C/.iter_*.tmp/*; do
		[ -e "$f" ] && return 0
	done
	return 1
}

# moved: has the run saved since it was started?
moved()
{
	[ "$(tracker C)" -gt "$before" ]
}

# intact: the latest checkpoint is whole, and the same command goes on from it
intact()
{
	at=$(tracker C)
	expect 0 mckpt verify C
	# shellcheck disable=SC2086
	expect 3 mpirun -np 2 mtrain $big $layout --exit-interval 1
	said "resuming C at iteration $at"
	[ "$(tracker C)" = $((at + 1)) ] || fail "saved iteration $(tracker C) behind $at"
}

# killed RANK WHEN: SIGKILL to a rank between two saves ("step") or while a checkpoint is written ("save")
killed()
{
	before=$(tracker C)
	# shellcheck disable=SC2086
	start mpirun -np 2 mtrain $big $layout
	until_true moved
	[ "$2" = step ] || until_true saving
	kill -9 "$(rank "$1")" || fail "no rank $1"
	finish failure
	intact
}

layout="--tensor-model-parallel-size 2"
killed 0 save
killed 1 step
layout="--use-distributed-optimizer"
killed 1 save
layout="--pipeline-model-parallel-size 2"
killed 0 step

# A file that cannot grow as far as the checkpoint's (shared memory files may not be limited: tcp instead).
cat >limited <<-'END'
	#!/bin/sh
	trap '' XFSZ
	ulimit -f 100
	exec mtrain "$@"
END
chmod +x limited
at=$(tracker C)
# shellcheck disable=SC2086
OMPI_MCA_btl=self,tcp expect 1 mpirun -np 2 "$dir/limited" $big $layout
said "File too large"
[ "$(tracker C)" = "$at" ] || fail "the tracker moved"
saving && fail "a half-written checkpoint was left"
intact

# A disk with room for one checkpoint, where we may mount one.
mkdir small
if mount -t tmpfs -o size=400k none small 2>/dev/null; then
	mounted=$dir/small
	expect 1 mpirun -np 2 mtrain --config tiny.conf --save small/C --load small/C --save-interval 1 --train-iters 10
	said "No space left on device"
	[ "$(tracker small/C)" = 1 ] || fail "the tracker is at $(tracker small/C)"
	expect 0 mckpt verify small/C
	expect 0 mpirun -np 2 mtrain --config tiny.conf --save D --load small/C --train-iters 2 --override-opt_param-scheduler
	said "resuming small/C at iteration 1"
fi
