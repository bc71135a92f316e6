#!/bin/sh
# bench.sh - speed on this machine's CPU, each figure beside a limit or a peer measured in the same run; appends to results.tsv
#
# Columns: date, commit, machine, workload, figure, the peer's figure (what it is stands in the workload's name). B is the
# build directory. Run it on a quiet machine.
set -eu
: "${B:=build}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
top=$(pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cores=$(nproc)
machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cores cores"
results=$top/tests/bench/results.tsv
cd "$tmp"

# record WORKLOAD FIGURE PEER
record()
{
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$(date +%F)" "$(git -C "$top" rev-parse --short HEAD)" "$machine" "$1" "$2" "$3" |
		tee -a "$results"
}

# median FIELD: of the lines of a metrics file, leaving the first three out
median()
{
	sed -n "4,\$s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# Training: model GFLOP/s of a Llama with one rank on all cores, against the rate of large products on as many threads.
mtrain -q --num-layers 6 --hidden-size 512 --num-attention-heads 8 --num-query-groups 4 --seq-length 256 --vocab-size 8000 \
	--mock-data --train-iters 12 --lr 1e-3 --micro-batch-size 4 --global-batch-size 4 --swiglu --normalization RMSNorm \
	--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout 0 \
	--hidden-dropout 0 --eval-iters 0 --metrics-file metrics.jsonl >/dev/null
record "mtrain Llama 25M fp32 B4 T256, GFLOP/s; peer: sgemm of 1024, GFLOP/s" \
	"$(median tflops_per_rank <metrics.jsonl | awk '{ printf "%.1f", $1 * 1000 }')" "$("$B/tests/bench/gemm" "$cores")"
record "mtrain Llama 25M fp32 B4 T256, tokens/s; peer: none" "$(median tokens_per_second <metrics.jsonl | cut -d. -f1)" -

# milliseconds COMMAND...: how long it takes
milliseconds()
{
	start=$(date +%s%N)
	"$@" >/dev/null
	echo $((($(date +%s%N) - start) / 1000000))
}

# Start: launch to the end of one step of a tiny model, against starting MPI and nothing else.
record "mtrain launch to the end of one tiny step, ms; peer: mtrain --version, ms" \
	"$(milliseconds mtrain -q --num-layers 1 --hidden-size 16 --num-attention-heads 1 --seq-length 8 --vocab-size 16 \
		--mock-data --train-iters 1 --lr 1e-3 --eval-iters 0)" "$(milliseconds mtrain --version)"

# refuse: a run that two ranks refuse for its layout; mpirun itself takes a second or two to end what exits with 2
refuse()
{
	mpirun -np 2 --oversubscribe mtrain --num-layers 3 --hidden-size 64 --num-attention-heads 4 --seq-length 8 \
		--vocab-size 16 --mock-data --train-iters 1 --lr 1 --pipeline-model-parallel-size 2 2>/dev/null || true
}
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fail_alone()
{
	mpirun -np 2 --oversubscribe sh -c 'exit 2' 2>/dev/null || true
}
record "an impossible layout refused by two ranks, ms; peer: mpirun -np 2 sh -c 'exit 2', ms" "$(milliseconds refuse)" \
	"$(milliseconds fail_alone)"

# Planning: every layout of 10,240 ranks priced.
record "mplan search of 10,240 ranks and 120 layers, ms; peer: mplan --version, ms" \
	"$(milliseconds mplan search -q --gpu gb200 --world-size 10240 --global-batch-size 20480 --num-layers 120 \
		--hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 --num-query-groups 8 --seq-length 4096 \
		--vocab-size 128256 --swiglu --bf16)" "$(milliseconds mplan --version)"
