#!/bin/sh
# agree.sh - ranks with different input end before the first step with status 2 and one line: the
# first difference, its ranks and hosts. Paths and output may differ, and of MPI libraries that do
# there is a note.
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

host=$(hostname)
tiny="mtrain --config tiny.conf --train-iters 2"

# two STATUS "OPTIONS" "OPTIONS": a run of two ranks, each with options of its own
two()
{
	# shellcheck disable=SC2086
	expect "$1" mpirun -np 1 $tiny $2 : -np 1 $tiny $3
}

# differ NAME VALUE VALUE "OPTIONS" "OPTIONS"
differ()
{
	two 2 "$4" "$5"
	said "$1: $2 on rank 0 ($host), $3 on rank 1 ($host): must be the same on all ranks"
}

for pair in "lr 0.001 0.005" "global-batch-size 4 8" "train-iters 2 3"; do
	# shellcheck disable=SC2086
	set -- $pair
	differ "--$1" "$2" "$3" "--$1 $2" "--$1 $3"
	one_line "--$1: "
done
differ --bf16 "not given" given "" --bf16
differ --bf16 given "not given" "--bf16 --lr 2" ""
differ --save given "not given" "--save A --save-interval 1" "--init-timeout 9"
differ --help "not given" given "" --help
differ --version given "not given" --version ""
differ --version "not given" given "" --version
[ ! -e A ] || fail "a run that did not start has written"

# What prints and exits is printed once.
for option in --help --version --mdoc "--dry-run --config tiny.conf"; do
	# shellcheck disable=SC2086
	{
		expect 0 mtrain $option
		mv out alone
		expect 0 mpirun -np 2 mtrain $option
	}
	[ "$option" != "${option#--dry}" ] || cmp -s out alone || fail "$option on two ranks"
done
[ "$(grep -c '^rank' out)" = 1 ] || fail "--dry-run on two ranks"

# The one rank that differs is named among several.
# shellcheck disable=SC2086
expect 2 mpirun -np 2 $tiny : -np 1 $tiny --seed 7 : -np 1 $tiny
one_line "mtrain: --seed: 1234 on rank 0 ($host), 7 on rank 2 ($host): \
must be the same on all ranks"

# Of several hosts all that differ are named, the first with what it has.
cat >named.sh <<'END'
hostname "host$OMPI_COMM_WORLD_RANK"
exec mtrain --config tiny.conf --train-iters 2 --seed $((OMPI_COMM_WORLD_RANK % 4))
END
if unshare -Uru true 2>/dev/null; then
	expect 2 mpirun -np 6 unshare -Uru sh named.sh
	one_line "mtrain: --seed: 0 on rank 0 (host0), 1 on rank 1 (host1); \
others differ too, on host2, host3, host5: must be the same on all ranks"
fi

# Libraries of a device, as NCCL, must have one version, which the CPU has none of: the rule alone.
expect 0 mpirun -np 3 "$B/tests/prop/libraries"

# Another MPI library on one host is worth a note.
cat >other.c <<'E'
#include <mpi.h>
#include <string.h>

int
MPI_Get_library_version(char *text, int *len)
{
	*len = (int)strlen(strcpy(text, "Another MPI v9"));
	return MPI_SUCCESS;
}
E
mpicc -shared -fPIC -o other.so other.c || fail "mpicc"
# shellcheck disable=SC2086
expect 0 mpirun -np 1 $tiny : -np 1 -x LD_PRELOAD="$dir/other.so" $tiny
said " on rank 0 ($host), Another MPI v9 on rank 1 ($host): must be the same on all ranks"

# Options that only rank 0 uses, and paths.
two 0 "--save A --metrics-file m --profile -q" "--save ./A --profile-prefix p"

# The start: one rank finds a checkpoint and the other none; two different checkpoints.
mkdir 2
two 2 "--save A --load A" "--save B --load B"
said "start: resumes on rank 0 ($host), from the beginning on rank 1 ($host): \
must be the same on all ranks"
# shellcheck disable=SC2086
mpirun -np 2 $tiny --save B --seed 5 >/dev/null 2>&1
two 2 "--save A --load A" "--save B --load B"
said "checkpoint: iteration 2, 108 tensors, contents"
cp -r A C
two 0 "--save A --load A --train-iters 3 --override-opt_param-scheduler" \
	"--save A --load C --train-iters 3 --override-opt_param-scheduler"
[ "$(tracker A)" = 3 ] || fail "saved iteration $(tracker A)"
# A checkpoint that does not open on one rank is not wrong usage: another start may end otherwise.
echo x >C/latest_checkpointed_iteration.txt
two 1 "--save A --load A" "--save A --load C"
said "C/latest_checkpointed_iteration.txt"

# Data by content.
sed /mock/d tiny.conf >data.conf
tiny="mtrain --config data.conf --train-iters 2 --split 1,0,0"
for name in one two; do
	seq -s ' ' 1 90 | sed 's/.*/{"text": "&"}/' >$name.jsonl
	[ $name = one ] || echo '{"text": "1 2 3"}' >>$name.jsonl
	mtok -q -o $name --tokenizer-type NullTokenizer --vocab-size 100 $name.jsonl
done
cp one_text_document.idx 2/x.idx
cp one_text_document.bin 2/x.bin
two 0 "--data-path one_text_document" "--data-path 2/x"
two 2 "--data-path one_text_document" "--data-path two_text_document"
said "corpus 1 of the train data: contents"
differ "weight of corpus 1 of the train data" 0.3 0.5 \
	"--data-path .3 one_text_document .7 two_text_document" \
	"--data-path .5 one_text_document .5 two_text_document"

# Tokens by content.
for i in 1 2; do
	printf '\223NUMPY\001\000\166\000%-117s\n\00'$i'\000\000\000' \
		"{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }" >$i.npy
done
text="--load A --use-checkpoint-args --logits-file l.npy"
tiny=mtrain
two 2 "$text --tokens-file 1.npy" "$text --tokens-file 2.npy"
said "--tokens-file: 132 bytes, contents"
tiny="mtrain --config tiny.conf"

# A rank that never starts MPI.
# shellcheck disable=SC2086
expect 4 timeout 30 mpirun -np 1 $tiny --init-timeout 1 : -np 1 true
one_line "mtrain: --init-timeout 1: MPI_Init still waits after as many seconds: \
a rank did not start or cannot be reached"
