#!/bin/sh
# hooks.sh - steps of a run while one of its checkpoints is exported, and the others; a table
#
# A run with --save-hf-interval: the median and the longest step in seconds, of those in which an
# export ran (its end is the time of its directory, its length is in the log) and of those in which
# neither it nor a save did. B is the build directory. DEVICE=cuda takes a GPT-2 of 124 million
# parameters on a GPU; cpu, the default, a small model, where the export wants the same cores.
# shellcheck disable=SC2086
set -eu
: "${B:=build}" "${DEVICE:=cpu}"
PATH=$(cd "$B" && pwd):$PATH
case $DEVICE in
cpu) : "${SHAPE:=--num-layers 4 --hidden-size 256 --num-attention-heads 4 --vocab-size 32000
	--seq-length 64 --micro-batch-size 1 --global-batch-size 1 --num-threads 1}" \
	"${STEPS:=120}" ;;
*) : "${SHAPE:=--num-layers 12 --hidden-size 768 --num-attention-heads 12 --vocab-size 50257
	--seq-length 1024 --micro-batch-size 8 --global-batch-size 32 --bf16}" "${STEPS:=240}" ;;
esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mtrain --backend "$DEVICE" $SHAPE --train-iters "$STEPS" --lr 1e-4 --eval-iters 0 --mock-data \
	--save S --save-interval $((STEPS / 4)) --save-hf-interval $((STEPS / 4)) \
	--metrics-file m.jsonl >log 2>&1 || { cat log; exit 1; }
until [ -e "S/hf/iter_$(printf %07d "$STEPS")" ]; do sleep 0.1; done
sed -n 's/.*-interval: iteration \([0-9]*\): done in \([0-9.]*\) s.*/\1 \2/p' log |
	while read -r iteration took; do
		end=$(stat -c %.Y "S/hf/iter_$(printf %07d "$iteration")")
		echo "export $end $took"
	done >spans
awk -v every=$((STEPS / 4)) '
	# the number of a member of a line of metrics
	function number(name) {
		if (!match($0, "\"" name "\": [0-9.e+-]*"))
			return 0
		return substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4) + 0
	}
	NR == FNR { end[++spans] = $2; begin[spans] = $2 - $3; next }
	{
		step = number("iteration")
		took = number("seconds")
		at = number("time")
		if (step <= 10 || step % every == 1)
			next
		inside = 0
		for (i = 1; i <= spans; i++)
			inside = inside || (at - took < end[i] && at > begin[i])
		print inside, took
	}' spans m.jsonl | sort -k 1,1n -k 2,2g | awk '
	{ of[$1, ++count[$1]] = $2 }
	END {
		print "steps\tcount\tmedian\tlongest"
		name[0] = "others"
		name[1] = "while an export runs"
		for (k = 0; k < 2; k++) {
			n = count[k]
			if (n)
				printf "%s\t%d\t%.4f\t%.4f\n", name[k], n,
					of[k, int((n + 1) / 2)], of[k, n]
		}
	}'
