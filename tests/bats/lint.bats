#!/usr/bin/env bats
# lint.bats - what the lints of includes find, in a source of any suffix

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR"
	mkdir -p lib/base lib/ckpt lib/data lib/token train/engine
	echo '#include "lib/base/err.h"' >lib/data/npy.h
	echo '#include <stdio.h>' >lib/base/err.h
}

# lint NAME: runs that lint on the tree here
lint()
{
	run env TOP="$PWD" sh "$TOP/tests/lint/$1.sh"
}

# finds NAME LINE: that lint fails with this line alone
finds()
{
	lint "$1"
	[ "$status" = 1 ] && [ "$output" = "$2" ] && return
	printf 'status %s, got:  %s\nwant: %s\n' "$status" "$output" "$2" >&2
	return 1
}

# content NAME: the lint finds nothing
content()
{
	lint "$1"
	expect 0 ''
}

@test "a directory that includes what it may not is found, whatever the suffix" {
	content includes
	for suffix in c h cc cu cuh; do
		printf '\n  # include "lib/ckpt/ckpt.h"\n' >"lib/data/x.$suffix"
		finds includes "lib/data/x.$suffix:2: lib/data may not include lib/ckpt/ckpt.h"
		rm "lib/data/x.$suffix"
	done
	content includes
}

@test "a system's header away from its home is found, whatever the suffix" {
	for suffix in c h cc cu cuh; do
		echo '#include <mpi.h>' >"train/engine/x.$suffix"
		finds includes "train/engine/x.$suffix:1: <mpi.h> belongs to train/mpi"
		rm "train/engine/x.$suffix"
	done
}

@test "a private header is found in another directory, whether impl.h or X_impl.h" {
	for header in impl.h tokenizer_impl.h; do
		echo "#include \"lib/token/$header\"" >train/engine/x.c
		finds includes "train/engine/x.c:1: lib/token/$header is private to lib/token"
	done
}

@test "two units that include each other are found, whatever the suffix" {
	content cycles
	echo '#include "lib/data/x.h"' >lib/data/y.h
	for suffix in c h cc cu cuh; do
		printf '\n  # include "lib/data/y.h"\n' >"lib/data/x.$suffix"
		finds cycles "lib/data/x.$suffix:2: lib/data/y leads back to lib/data/x
lib/data/y.h:1: lib/data/x leads back to lib/data/y"
		rm "lib/data/x.$suffix"
	done
	content cycles
}

@test "a cycle by way of a third unit is found, and what only leads to it is not" {
	echo '#include "lib/data/x_impl.h"' >lib/data/x.c
	echo '#include "lib/data/y.h"' >lib/data/x_impl.h
	echo '#include "lib/data/z.h"' >lib/data/y.c
	echo '#include "lib/data/x.h"' >lib/data/z.h
	echo '#include "lib/data/x.h"' >lib/data/npy.c
	finds cycles 'lib/data/x_impl.h:1: lib/data/y leads back to lib/data/x
lib/data/y.c:1: lib/data/z leads back to lib/data/y
lib/data/z.h:1: lib/data/x leads back to lib/data/z'
	rm lib/data/z.h
	content cycles
}

@test "a component is its file and its line: neither is without the other" {
	mkdir -p lib/model/{lr,family,block} train/{optim,layers,op,call,cpu,cuda,mpi,nccl} tests/op
	printf '#define BLOCKS(DO) \\\n\tDO(mlp)\n' >lib/model/block/list.h
	echo 'const struct block_kind block_mlp = { 0 };' >lib/model/block/mlp.c
	echo 'const struct layer_kind layer_mlp = { 0 };' >train/layers/mlp.c
	echo '#include "train/op/act.h"' >train/ops_list.h
	echo 'OPERATION_CPU(act, act)' >train/op/act.h
	echo 'cpu_name(act)(struct act *)' >train/cpu/act.c
	echo '#include "train/call/shift.h"' >train/comm_list.h
	echo 'CALL_MPI(shift, shift)' >train/call/shift.h
	echo 'mpi_shift(struct shift *)' >train/mpi/shift.c
	touch tests/op/act.c
	printf '#define LR_STYLES(DO) \\\n\tDO(linear, "linear", 0)\n' >lib/model/lr_list.h
	printf '#define FAMILIES(DO) \\\n\tDO(llama)\n' >lib/model/family_list.h
	printf '#define OPTIM_RULES(DO) \\\n\tDO(adam, 0, 0, "exp_avg")\n' >lib/model/optim_list.h
	echo 'const struct optim_kind optim_adam = { update };' >train/optim/adamw.c
	touch lib/model/lr/linear.c lib/model/family/llama.c lib/model/family/rows.c
	content lists
	touch lib/model/lr/steep.c
	finds lists "lib/model/lr/steep.c: has no line DO(steep...) in lib/model/lr_list.h"
	rm lib/model/lr/*
	touch lib/model/lr/linear.c
	rm lib/model/family/llama.c
	finds lists "lib/model/family_list.h:2: 'llama' has no lib/model/family/llama.c"
	touch lib/model/family/llama.c
	echo 'const struct optim_kind optim_lion = { update };' >train/optim/adamw.c
	finds lists "lib/model/optim_list.h:2: 'adam' has no struct optim_kind optim_adam in train/optim
train/optim/adamw.c: has no line DO(lion...) in lib/model/optim_list.h"
	echo 'const struct optim_kind optim_adam = { update };' >train/optim/adamw.c
	rm tests/op/act.c train/mpi/shift.c
	finds lists "train/call/shift.h:1: 'shift' has no function mpi_shift in train/mpi
train/op/act.h: has no tests/op/act.c"
}
