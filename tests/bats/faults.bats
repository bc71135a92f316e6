#!/usr/bin/env bats
# faults.bats - what mtrain does about ranks that break: they are lost, slow, or compute wrongly
#
# The mtrain of these cases is linked with tests/faulty/fault.c, which says what MIKOSHI_FAULT takes.

bats_require_minimum_version 1.5.0

# breaks STATUS LINE FAULT RANKS OPTIONS...: the run ends with this status and this line, once
breaks()
{
	local want_status=$1 want=$2 fault=$3 ranks=$4
	shift 4
	MIKOSHI_FAULT=$fault run --separate-stderr timeout 60 mpirun -np "$ranks" mtrain \
		--config tiny.conf "$@"
	[ "$status" = "$want_status" ] || { echo "status $status: $stderr" >&2; return 1; }
	[ "$(grep -cxF "$want" <<<"$stderr")" = 1 ] || { echo "$stderr" >&2; return 1; }
}

# lost FAULT RANKS OPTIONS...: a run that saves, in a directory by the fault's name, which leaves how
# each rank ended and how long all took; and the same command without the fault
lost()
{
	local fault=$1 ranks=$2 since=$SECONDS
	shift 2
	mkdir "${fault%%:*}" && cd "${fault%%:*}" || return 1
	set -- -np "$ranks" sh ../rank.sh --config ../tiny.conf --save C --load C --save-interval 2 \
		--train-iters 6 --distributed-timeout-seconds-after-init 2 "$@"
	MIKOSHI_FAULT=$fault timeout -k 1 60 mpirun "$@" >out 2>&1 || true
	echo $((SECONDS - since)) >seconds
	cp C/latest_checkpointed_iteration.txt saved
	mkdir first && mv pid.* status.* first
	timeout -k 1 60 mpirun "$@" >again 2>&1 || true
}

# ended NAME RANK WORDS: so ended the run of lost: all other ranks with status 4 within 10 seconds of
# the time-out, and one line that names RANK and says this of it
ended()
{
	local option=--distributed-timeout-seconds-after-init
	cat "$1/out"
	[ "$(cat "$1/seconds")" -le 14 ]
	grep "^mtrain.*: $option 2: rank .* has waited .*; rank $2 ($(hostname)) has not come: $3" \
		"$1/out"
	for pid in "$1"/first/pid.*; do
		run grep '^State:[[:space:]]*[^ZX]' "/proc/$(cat "$pid")/status"
		[ "$status" != 0 ]
		[ "${pid##*.}" = "$2" ] || [ "$(cat "$1/first/status.${pid##*.}")" = 4 ]
	done
	[ "$(cat "$1/saved")" = 4 ]
	cat "$1/again"
	grep '^mtrain.*: resuming C at iteration 4$' "$1/again"
	[ "$(cat "$1/C/latest_checkpointed_iteration.txt")" = 6 ]
}

# exit_status N: the manual's text for it
exit_status()
{
	awk -v n="$1" '/^\.Sh / { here = $2 == "EXIT" } here && /^\.It/ { of = $2 }
		here && of == n' "$TOP/man/mtrain.1" | tr '\n' ' '
}

setup()
{
	export PATH="$B/tests/faulty:$PATH"
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || exit
	{ cat "$TOP/tests/tiny.conf" && printf '%s\n' 'train-iters 4' mock-data; } >tiny.conf
}

@test "a fault is one of a list, of a rank of the run" {
	for fault in '' skip:0:1 skip:1:1:1 slow:0:1: fast:0:1; do
		run --separate-stderr env MIKOSHI_FAULT=$fault mtrain --config tiny.conf
		[ "$status" = 2 ] || { echo "$fault: status $status: $stderr" >&2; return 1; }
		[[ $stderr == "mtrain: MIKOSHI_FAULT '$fault': must be skip:RANK:STEP:NUMBER, "* ]]
	done
	# The installed program does not know the variable.
	MIKOSHI_FAULT=fast "$B/mtrain" -q --config tiny.conf
}

@test "a rank that leaves out a collective, is stuck, stopped or killed is named; the job continues" {
	# The launcher ends all ranks when one has ended: these shells stay until all have told their
	# status, and that of what was killed until the others have noticed.
	cat >rank.sh <<-'END'
		trap '' TERM
		mtrain "$@" &
		echo $! >pid.$OMPI_COMM_WORLD_RANK
		wait $!
		status=$?
		echo $status >status.$OMPI_COMM_WORLD_RANK
		case $status in 0) ;; 137) sleep 4 ;; *) sleep 1 ;; esac
		exit $status
	END
	lost skip:1:5:8 4 --tensor-model-parallel-size 4 --micro-batch-size 4 &
	lost stuck:1:5 2 --tensor-model-parallel-size 2 &
	lost stop:0:5 2 --use-distributed-optimizer &
	lost kill:1:5 2 --pipeline-model-parallel-size 2 --micro-batch-size 1 &
	wait
	ended skip 1 "it waits too, in all-gather .* of tensor ranks ("
	ended stuck 1 "it has called nothing since "
	ended stop 0 "not a word from it for "
	ended kill 1 "not a word from it for "
	[[ $(exit_status 4) == *lost,*distributed-timeout-seconds-after-init* ]]
}

@test "a rank of two by two that leaves out a tensor collective is named, not one that waits for it" {
	# The last collective of the tensor ranks in a step, after which they wait for each other; and
	# one of the first, before others like it.
	local pids=() rank number
	for rank in 0 1 2 3; do
		number=$((rank % 2 ? 3 : 42))
		MIKOSHI_FAULT=skip:$rank:3:$number timeout 60 mpirun -np 4 mtrain -q \
			--config tiny.conf --tensor-model-parallel-size 2 \
			--distributed-timeout-seconds-after-init 2 >out.$rank 2>&1 &
		pids+=($!)
	done
	for rank in 0 1 2 3; do
		wait "${pids[rank]}" || true
		cat out.$rank
		grep "; rank $rank ($(hostname)) has not come: it waits too, in " out.$rank
		[ "$(grep -c "has not come" out.$rank)" = 1 ]
	done
	grep "2: rank 1 .* of tensor ranks (.*; rank 0 .*, after [0-9]* calls of tensor ranks$" out.0
}

@test "--log-straggler names the rank that is slow" {
	# The ranks of a test share few cores: waiting for one does not count.
	MIKOSHI_FAULT=slow:1:30 mpirun -np 2 mtrain -q --config tiny.conf --hidden-size 256 \
		--train-iters 20 --log-interval 20 --log-straggler >out
	grep 'MnRtt/Rnk: .*/0 | MxRtt/Rnk: .*/1 | MnDRtt' out
}

# all PID...: every one of these children succeeds
all()
{
	local pid
	for pid; do
		wait "$pid"
	done
}

@test "--verify-interval: a bit of a gradient names rank and tensor, in each way to share the work" {
	local said="the first micro batch was run twice, with different results" pids=()
	local what="the gradient of 'decoder.layers.1.mlp.linear_down.weight'"
	for layout in "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2" \
		"--data-parallel-sharding-strategy optim_grads_params --bf16"; do
		breaks 5 "mtrain[0]: iteration 4: $said: rank 1 ($(hostname), cpu): $what: \
stopping; the last checkpoint is intact" flip_grad:1:4 2 --verify-interval 2 --micro-batch-size 1 \
			--use-distributed-optimizer $layout &
		pids+=($!)
	done
	# A step that is not verified shows nothing.
	MIKOSHI_FAULT=flip_grad:1:3 mpirun -np 2 mtrain -q --config tiny.conf --verify-interval 2 &
	all "${pids[@]}" $!
	[[ $(exit_status 5) == *"ranks that compute wrongly"* ]]
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
		--save C --save-interval 4 &
	pid=$!
	# With two ranks there is no telling which is right.
	breaks 5 "mtrain[0]: iteration 4: $said: rank 0 ($(hostname), cpu): $weight; \
rank 1 ($(hostname), cpu): $weight: $stop" flip_weight:1:3 2 $option 2 &
	all $pid $!
	[ ! -e C/latest_checkpointed_iteration.txt ]
	# Ranks 1 and 3 alone hold the same experts; they are named, not ranks 0 and 2.
	weight="'decoder.layers.1.mlp.experts.8.linear_up.weight'"
	breaks 5 "mtrain[0]: iteration 3: $said: rank 1 ($(hostname), cpu): $weight; \
rank 3 ($(hostname), cpu): $weight: $stop" flip_weight:1:3 4 $option 1 --global-batch-size 4 \
		--disable-bias-linear --num-layers 3 --num-experts 16 --expert-model-parallel-size 2
	run --separate-stderr mtrain --config tiny.conf $option 1 \
		--data-parallel-sharding-strategy optim_grads_params
	[ "$status" = 2 ]
	[ "$stderr" = "mtrain: $option 1: data ranks have no weights in common with \
--data-parallel-sharding-strategy optim_grads_params" ]
}
