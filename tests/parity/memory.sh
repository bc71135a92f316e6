#!/bin/sh
# memory.sh - a run takes exactly the arenas that --dry-run prints, and its process does not grow
# beyond them
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 4 --lr 1e-4"

# arenas DRY RANK: parameters, saved and scratch bytes of a rank
arenas()
{
	awk -F '\t' -v rank="$2" '$1 == rank { print $6, $7, $8 }' "$1"
}

# taken LOG RANK: the same three as the rank says them
taken()
{
	sed -n 's/.*memory of rank '"$2"': parameters \([0-9]*\), saved \([0-9]*\), '\
'scratch \([0-9]*\) bytes.*/\1 \2 \3/p' "$1"
}

# exact NAME RANKS OPTION...: the plan and the run agree
exact()
{
	name=$1 ranks=$2
	shift 2
	mtrain $model $steps "$@" --dry-run --world-size "$ranks" >plan.tsv 2>log ||
		fail "$name: --dry-run"
	train "$ranks" $steps "$@" -v --log-memory-to-tensorboard --metrics-file metrics
	planned=$(sed -n 's/.*"planned_bytes": \([0-9.e+]*\),.*/\1/p' metrics | tail -n 1)
	[ "$(awk -F '\t' '$1 == 0 { print $10 }' plan.tsv)" = "$(printf %.0f "$planned")" ] ||
		fail "$name: planned_bytes of the metrics, $planned, are not the total of --dry-run"
	for rank in $(seq 0 $((ranks - 1))); do
		planned=$(arenas plan.tsv "$rank")
		if [ -z "$planned" ] || [ "$planned" != "$(taken log "$rank")" ]; then
			fail "$name: rank $rank: planned $planned, taken $(taken log "$rank")"
		fi
	done
	echo "$name: $planned bytes of parameters, saved activations and scratch on the last rank, \
all as planned"
}

exact llama-1 1
exact llama-tp2 2 $(layout 2 1)
exact llama-tp2-rows 2 $(layout 2 1) --sequence-parallel --tp-comm-overlap
exact llama-pp2-bf16 2 $(layout 1 2) --bf16
exact llama-cp2-bf16 2 $(context 2) --bf16
exact llama-dp2-zero 2 --use-distributed-optimizer
exact llama-dp2-zero-bf16-narrow 2 --use-distributed-optimizer --bf16 \
	--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16
exact llama-dp2-zero2-bf16-narrow 2 $(zero 2) --bf16 --use-precision-aware-optimizer \
	--main-grads-dtype bf16
exact llama-dp2-zero2 2 $(zero 2) --cpu-offloading-num-layers 3
exact llama-tp2-dp2-zero1-muon 4 $(layout 2 1) $(zero 1) --bf16 --optimizer muon --qk-clip
exact llama-dp3-zero3-muon 3 $(zero 3) --ddp-bucket-size 5000 --global-batch-size 6 --optimizer muon
exact llama-dp2-narrow 2 $(zero 2) --grad-reduce-in-bf16
exact llama-dp2-zero3 2 $(zero 3) --ddp-bucket-size 5000
exact llama-dp2-zero3-bf16 2 $(zero 3) --ddp-bucket-size 5000 --bf16
model="$llama --hidden-size 128 --seq-length 32 --num-experts 4 --moe-ffn-hidden-size 64 --bf16
	--moe-layer-freq 2 --moe-shared-expert-intermediate-size 32 --fp8-format hybrid"
exact experts-ep2-fp8 2 --expert-model-parallel-size 2 --fp8-recipe blockwise
model=$gpt2
exact gpt2-tp2-fp16 2 $(layout 2 1) --fp16 --micro-batch-size 2
exact gpt2-pp2-dp2-zero2-bf16 4 $(layout 1 2) $(zero 2) --ddp-bucket-size 5000 --bf16
exact gpt2-tp2-pp2-rows 4 $(layout 2 2) --sequence-parallel --recompute-activations --fp16
exact gpt2-tp2-wide 2 $(layout 2 1) --sequence-parallel --bf16 --fp32-residual-connection
exact gpt2-tp2-cp2-zero3 4 $(layout 2 1) $(context 2 a2a) $(zero 3) --ddp-bucket-size 5000

case $B in *address*)
	echo "resident memory is not compared: the sanitizer keeps its own beside every allocation"
	exit 0 ;;
esac

# watched OPTION...: two ranks under TP 2; prints the largest peak of resident memory, in bytes
cat >watch <<'END'
"$@" >"out.$OMPI_COMM_WORLD_RANK" 2>&1 &
while kill -0 $! 2>/dev/null; do
	sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$!/status >>peaks 2>/dev/null
	sleep 0.05
done
wait $!
END
watched()
{
	rm -f peaks
	mpirun -np 2 sh ./watch mtrain "$@" >log 2>&1 || fail "watched run"
	sort -n peaks | awk 'END { printf "%.0f\n", $1 * 1024 }'
}

large="--num-layers 2 --hidden-size 256 --num-attention-heads 4 --vocab-size 16000 --seq-length 256
	--micro-batch-size 2 --global-batch-size 2 --eval-iters 0 --num-threads 1 --mock-data
	--train-iters 12 --lr 1e-4 $(layout 2 1)"
small=$(watched $model $steps $(layout 2 1))
peak=$(watched $large)
mtrain $large --dry-run --world-size 2 >plan.tsv 2>log
planned=$(awk -F '\t' '$1 == 0 { print $10 }' plan.tsv)
echo "$peak $small $planned" | awk '{ exit !($1 - $2 < $3 * 1.05 + 8e6 && $1 > $2) }' ||
	fail "the process grew by $((peak - small)) bytes, planned were $planned"
echo "a run planned at $planned bytes: its resident memory peaks $((peak - small)) bytes \
above a tiny run's"
