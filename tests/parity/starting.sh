#!/bin/sh
# starting.sh - where a run starts from: each rule of --load, --save, --finetune and
# --pretrained-checkpoint, under mpirun
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

# on2 STATUS OPTIONS...: a tiny run on two tensor ranks
on2()
{
	status=$1
	shift
	expect "$status" mpirun -np 2 mtrain --config tiny.conf --tensor-model-parallel-size 2 \
		--train-iters 2 "$@"
}

# refused LINE OPTIONS...: exit status 2, this line and no other, and nothing was written
refused()
{
	line=$1
	shift
	find . ! -name out | sort >before
	on2 2 "$@"
	one_line "mtrain: $line"
	find . ! -name out | sort | cmp -s - before || fail "something was written"
}

touch before
# A directory that is missing or empty starts from the beginning when it is --save.
on2 0 --save A --load A
said "mtrain: --load A: holds no checkpoint yet; starting from the beginning"
[ "$(tracker A)" = 2 ] || fail "saved iteration $(tracker A)"
mkdir empty
on2 0 --save empty --load ./empty
said "mtrain: --load ./empty: holds no checkpoint yet; starting from the beginning"

# A tracker: resume.
on2 0 --save A --load A --train-iters 3 --override-opt_param-scheduler
said "resuming A at iteration 2"
[ "$(tracker A)" = 3 ] || fail "saved iteration $(tracker A)"

# Missing or empty, and not --save.
refused "--load missing: holds no checkpoint, and a fresh start needs --load to equal --save" \
	--load missing --save B
mkdir bare
refused "--load bare: holds no checkpoint, and a fresh start needs --load to equal --save" \
	--load bare

# Iterations without a tracker.
mkdir -p torn/iter_0000007
refused "--load torn: holds iter_* but no latest_checkpointed_iteration.txt; \
write the iteration to continue from into that file" \
	--load torn --save torn

refused "--save torn: holds iter_* already; add --load torn to continue from there, \
or give another directory" --save torn

# A damaged tracker is not wrong usage.
mkdir damaged
echo 4x >damaged/latest_checkpointed_iteration.txt
on2 1 --load damaged --save damaged
one_line "mtrain: damaged/latest_checkpointed_iteration.txt: not the number of an iteration: '4x'"

# A tracker that cannot be looked at is not a missing one.
mkdir looped
ln -s latest_checkpointed_iteration.txt looped/latest_checkpointed_iteration.txt
on2 1 --load looped --save looped
one_line "mtrain: cannot look at 'looped/latest_checkpointed_iteration.txt': \
Too many levels of symbolic links"

# The very first save was cut off before its tracker: the checkpoint is whole, and the run continues
# from it.
on2 3 --save first --load first --exit-interval 2
rm first/latest_checkpointed_iteration.txt
on2 0 --save first --load first --train-iters 3 --override-opt_param-scheduler
said "mtrain: --load first: holds no latest_checkpointed_iteration.txt yet; \
continuing from first/iter_0000002"
said "resuming first/iter_0000002 at iteration 2"
[ "$(tracker first)" = 3 ] || fail "saved iteration $(tracker first)"

# The same where nothing is left to train, and nothing is saved again: the tracker is written.
rm first/latest_checkpointed_iteration.txt
on2 0 --save first --load first --train-iters 3 --override-opt_param-scheduler
said "iteration 3 is already the last: nothing to train"
[ "$(tracker first)" = 3 ] || fail "the tracker names '$(tracker first)'"

# What a full disk has left of a line of metrics gets a line of its own.
printf '{"iteration": 9, "cons' >cut.jsonl
on2 0 --save first --load first --train-iters 4 --override-opt_param-scheduler \
	--metrics-file cut.jsonl
[ "$(cut -c 1-17 cut.jsonl | tr '\n' ' ')" = \
	'{"iteration": 9,  {"iteration": 3,  {"iteration": 4,  ' ] ||
	fail "metrics after a line that was cut off: $(cat cut.jsonl)"
expect 1 mtrain --config tiny.conf --train-iters 2 --metrics-file /dev/full
said "mtrain: '/dev/full' lacks a line: No space left on device; the run continues"
said "mtrain: cannot write '/dev/full': No space left on device"

# A checkpoint in --save that no option asks to resume from.
refused "--save A: holds the checkpoint of iteration 3 already; add --load A to continue from it, \
or give another directory" --save A

# --finetune takes the weights alone, and not from where it saves.
refused "--finetune: --load and --save are both 'A', which holds a checkpoint already; \
give --save another directory, or leave out --finetune to resume" --load A --save A --finetune
on2 3 --load A --save F --finetune --exit-interval 1
said "weights from A at iteration 0"
said "stopped after iteration 1 by --exit-interval; \
a command that loads this --save continues the run"
[ "$(tracker F)" = 1 ] || fail "saved iteration $(tracker F)"

# --pretrained-checkpoint is read while --load holds nothing: one command starts and resumes.
refused "--pretrained-checkpoint nowhere: no such directory" --load P --save P \
	--pretrained-checkpoint nowhere
on2 3 --load P --save P --pretrained-checkpoint A --exit-interval 1
said "weights from A at iteration 0"
on2 0 --load P --save P --pretrained-checkpoint A
said "resuming P at iteration 1"

# Processes that were started together but are not connected.
for variable in SLURM_NTASKS PMI_SIZE OMPI_COMM_WORLD_SIZE PBS_NP; do
	expect 2 env "$variable=4" mtrain --config tiny.conf --train-iters 2
	one_line "mtrain: $variable says 4 processes, but MPI reports one: start with mpirun, \
or srun --mpi=pmix"
	expect 0 env "$variable=1" mtrain --config tiny.conf --train-iters 2
done
