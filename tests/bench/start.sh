#!/bin/sh
# start.sh - seconds until a run that begins with the weights of a Hugging Face directory trains
#
# LAYERS (default 32: 16 GB) of Llama 3 8B in BF16, written to WHERE (default: the directory it is
# started in); RANKS data ranks on as many GPUs (default: all) read them twice, the second time from
# the file cache, and make fp32 masters. A row each: seconds from the launch to the end of the first
# step, and how much of them that step took. The limit is 30 s for what comes before the step. B is
# the build directory. BACKEND=cpu and LENGTH, of a sample, try it on the CPU.
set -eu
: "${B:=build}" "${WHERE:=.}" "${LAYERS:=32}" "${BACKEND:=cuda}" "${LENGTH:=8192}"
B=$(cd "$B" && pwd)
[ "$BACKEND" != cuda ] || gpus=$(nvidia-smi -L | grep -c '^GPU ')
ranks=${RANKS:-${gpus:-1}}
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_hwloc_base_binding_policy=none
dir=$(mktemp -d -p "$(cd "$WHERE" && pwd)")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
"$B/tests/bench/big_model" hf "$LAYERS"
sync
printf 'start\tseconds_to_step\tseconds_of_step\n'
for start in first second; do
	rm -f metrics
	launched=$(date +%s.%N)
	mpirun -np "$ranks" "$B/mtrain" -q --model hf/config.json --pretrained-checkpoint hf \
		--backend "$BACKEND" --bf16 --use-distributed-optimizer --seq-length "$LENGTH" \
		--micro-batch-size 1 --global-batch-size "$ranks" --train-iters 2 --lr 1e-5 \
		--eval-iters 0 --mock-data --log-interval 1 --metrics-file metrics >log 2>&1 ||
		{ tail -n 3 log; exit 1; }
	sed -n '1s/.*"seconds": \([0-9.]*\).*"time": \([0-9.]*\).*/\1 \2/p' metrics |
		awk -v name=$start -v launched="$launched" '{
			printf "%s\t%.1f\t%.1f\n", name, $2 - launched - $1, $1
			late = $2 - launched - $1 > 30
			exit late
		}'
done
