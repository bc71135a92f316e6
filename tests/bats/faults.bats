#!/usr/bin/env bats
# faults.bats - what mtrain does about ranks that break: they are lost, slow, or compute wrongly
#
# The mtrain of these cases is linked with tests/faulty/fault.c, which says what MIKOSHI_FAULT takes.

bats_require_minimum_version 1.5.0

setup()
{
	export PATH="$B/tests/faulty:$PATH"
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || exit
	cat >tiny.conf <<-END
		num-layers 2
		hidden-size 32
		num-attention-heads 4
		vocab-size 100
		seq-length 16
		global-batch-size 4
		train-iters 4
		lr 1e-3
		eval-iters 0
		log-interval 1
		num-threads 1
		mock-data
	END
}

@test "a fault is one of a list, of a rank of the run" {
	export OMPI_MCA_ess_singleton_isolated=1
	for fault in '' skip:0:1 skip:1:1:1 slow:0:1: fast:0:1; do
		run --separate-stderr env MIKOSHI_FAULT=$fault mtrain --config tiny.conf
		[ "$status" = 2 ]
		[[ $stderr == "mtrain: MIKOSHI_FAULT '$fault': must be skip:RANK:STEP:NUMBER, "* ]]
	done
	# What is installed does not know the variable.
	MIKOSHI_FAULT=fast "$B/mtrain" -q --config tiny.conf
}
