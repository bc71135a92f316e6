#!/bin/sh
# recorded.sh - passes that a device records and launches give the bits of passes that are queued,
# with communication between their legs and none in them, on a CPU that records as a GPU does
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 4 --lr 1e-3 --ddp-bucket-size 4000"

# launched NAME LEAST RANKS OPTION...: the same steps, with at least so many launches on each rank
launched()
{
	name=$1 least=$2
	shift 2
	train "$@" $steps --metrics-file queued.jsonl
	(PATH=$B/tests/recorded:$PATH && train "$@" $steps --metrics-file recorded.jsonl)
	results queued.jsonl >queued.steps
	results recorded.jsonl >recorded.steps
	same_steps "$name" queued.steps recorded.steps
	launches=$(sed -n 's/^\([0-9]*\) launches$/\1/p' log | sort -n | head -n 1)
	[ "$launches" -ge "$least" ] || fail "$name: $launches launches"
	echo "$name: equal bit by bit, $launches launches"
	rm -f ./*.jsonl
}

launched "one rank" 32 1 --recompute-granularity full --recompute-num-layers 2
launched "context ranks that exchange heads" 0 2 $(context 2 a2a)
launched "context ranks that gather keys" 0 2 $(context 2)
launched "stages in chunks" 32 2 $(layout 1 2) --num-virtual-stages-per-pipeline-rank 2
launched "replicas of one micro batch" 16 2 $(zero 1) --micro-batch-size 4
launched "replicas that gather weights" 128 2 $(zero 3)

echo '{"input_ids": [5, 7, 11, 3]}
{"input_ids": [8]}' >prompts

# written NAME LEAST RANKS OPTION...: the same texts, with as many launches
written()
{
	name=$1 least=$2 ranks=$3
	shift 3
	set -- $model --init-method-std 0.2 --tokenizer-type NullTokenizer --generate 12 \
		--prompts prompts "$@"
	mpirun -np "$ranks" mtrain "$@" >queued 2>log || fail "$name: $*"
	mpirun -np "$ranks" "$B/tests/recorded/mtrain" "$@" >recorded 2>log ||
		fail "$name, recorded: $*"
	cmp queued recorded || fail "$name: other texts"
	launches=$(sed -n 's/^\([0-9]*\) launches$/\1/p' log | sort -n | head -n 1)
	[ "$launches" -ge "$least" ] || fail "$name: $launches launches"
	echo "$name: equal, $launches launches"
}

linear="--linear-attention-freq 2 --linear-num-key-heads 2 --linear-num-value-heads 4
	--linear-key-head-dim 8 --linear-value-head-dim 8"
written "text" 9 1
written "text of two stages" 9 2 $(layout 1 2)
written "text with linear attention" 9 1 $linear
