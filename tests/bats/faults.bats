#!/usr/bin/env bats
# faults.bats - what mtrain does about ranks that break: they are lost, slow, or compute wrongly
#
# The mtrain of these cases is linked with tests/faulty/fault.c, which says what MIKOSHI_FAULT takes.

bats_require_minimum_version 1.5.0

# breaks STATUS LINE FAULT RANKS OPTIONS...: the run ends so, and says this once
breaks()
{
	local want_status=$1 want=$2 fault=$3 ranks=$4
	shift 4
	MIKOSHI_FAULT=$fault run --separate-stderr timeout 60 mpirun -np "$ranks" mtrain \
		--config tiny.conf "$@"
	[ "$status" = "$want_status" ] || { echo "status $status: $stderr" >&2; return 1; }
	[ "$(grep -cxF "$want" <<<"$stderr")" = 1 ] || { echo "$stderr" >&2; return 1; }
}

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
		[ "$status" = 2 ] || { echo "$fault: status $status: $stderr" >&2; return 1; }
		[[ $stderr == "mtrain: MIKOSHI_FAULT '$fault': must be skip:RANK:STEP:NUMBER, "* ]]
	done
	# What is installed does not know the variable.
	MIKOSHI_FAULT=fast "$B/mtrain" -q --config tiny.conf
}

@test "--verify-interval: a bit of a gradient names rank and tensor, in each way to share the work" {
	local said="the first micro batch was run twice, with different results" name=decoder.layers.1
	local stop="stopping; the last checkpoint is intact"
	for layout in "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2" \
		"--data-parallel-sharding-strategy optim_grads_params --bf16"; do
		breaks 5 "mtrain[0]: iteration 4: $said: rank 1 ($(hostname), cpu): the gradient \
of '$name.mlp.linear_down.weight': $stop" flip_grad:1:4 2 --verify-interval 2 --micro-batch-size 1 \
			--use-distributed-optimizer $layout
	done
	# Of a step that is not verified nobody knows.
	MIKOSHI_FAULT=flip_grad:1:3 mpirun -np 2 mtrain -q --config tiny.conf --verify-interval 2
}

@test "--verify-interval: a run that is verified is the same run" {
	for interval in 0 2; do
		mpirun -np 2 mtrain -q --config tiny.conf --verify-interval $interval \
			--micro-batch-size 1 --pipeline-model-parallel-size 2 --hidden-dropout 0.1 \
			--metrics-file $interval.jsonl
		sed 's/, "tokens_per_second".*//' $interval.jsonl >$interval.txt
	done
	[ "$(wc -l <0.txt)" = 4 ]
	cmp 0.txt 2.txt
}

@test "--check-weight-hash-across-dp-replicas-interval: a bit of a weight names ranks and tensor" {
	local option=--check-weight-hash-across-dp-replicas-interval
	local said="data ranks hold different weights" stop="stopping without a save"
	local weight="'decoder.layers.1.input_layernorm.weight'"
	breaks 5 "mtrain[0]: iteration 4: $said: rank 1 ($(hostname), cpu): $weight: $stop" \
		flip_weight:1:4 3 --global-batch-size 6 --use-distributed-optimizer $option 2 \
		--save C --save-interval 4
	[ ! -e C/latest_checkpointed_iteration.txt ]
	# Of two, nobody knows which is right.
	breaks 5 "mtrain[0]: iteration 4: $said: rank 0 ($(hostname), cpu): $weight; \
rank 1 ($(hostname), cpu): $weight: $stop" flip_weight:1:3 2 $option 2
	export OMPI_MCA_ess_singleton_isolated=1
	run --separate-stderr mtrain --config tiny.conf $option 1 \
		--data-parallel-sharding-strategy optim_grads_params
	[ "$status" = 2 ]
	[ "$stderr" = "mtrain: $option 1: data ranks have no weights in common with \
--data-parallel-sharding-strategy optim_grads_params" ]
}
