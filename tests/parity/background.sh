#!/bin/sh
# background.sh - checkpoints written during the next steps equal those of a run that waits for them
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 12 --lr 1e-2 --save-interval 3"

# same NAME RANKS OPTION...: every checkpoint of both runs, and every step
same()
{
	name=$1 ranks=$2
	shift 2
	rm -rf waits async waits.jsonl async.jsonl
	train "$ranks" $steps "$@" --save waits --metrics-file waits.jsonl
	train "$ranks" $steps "$@" --save async --metrics-file async.jsonl --async-save
	results waits.jsonl >waits.steps
	results async.jsonl >async.steps
	same_steps "$name" waits.steps async.steps
	for i in 03 06 09 12; do
		# The options differ in how they are saved, and so does the checksum of them.
		for run in waits async; do
			grep -v '^# ' "$run/iter_00000$i/manifest.tsv" >"$run.tsv"
		done
		cmp waits.tsv async.tsv || fail "$name: iteration $i"
		mckpt verify -q "async/iter_00000$i" || fail "$name: iteration $i"
	done
	[ "$(cat async/latest_checkpointed_iteration.txt)" = 12 ] || fail "$name: the tracker"
	[ "$(grep -c 'saved iteration' log)" = 4 ] ||
		fail "$name: $(grep -c 'saved iteration' log) saves said instead of 4"
	echo "$name: four checkpoints are the same bytes"
}

same llama 1
same llama-bf16-dp2-zero 2 --bf16 --use-distributed-optimizer
model=$gpt2
same gpt2-tp2-pp2 4 $(layout 2 2)

# A run whose directory is removed: the save fails, the run ends with 1, and the checkpoint before
# it stays.
cat >vanish <<'END'
while ! [ -e C/iter_0000003 ]; do sleep 0.01; done
mv C D
# A save may have made the directory again.
until true >C; do rm -rf C; done 2>vanish.log
END
sh vanish &
ends 1 2 $steps --train-iters 100000 --save C --async-save --use-distributed-optimizer
wait
grep -q "mtrain.*: .*C" log || fail "no reason: $(cat log)"
mckpt verify -q D/iter_0000003 || fail "the checkpoint before"
echo "a save that fails during the training ends the run: $(grep -m 1 "cannot\|No such" log)"
