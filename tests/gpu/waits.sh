#!/bin/sh
# waits.sh [CASE...] - what two GPUs as two hosts send each other goes beside computation, through
# NCCL's sockets on the loopback
#
# exposed: a Llama whose gradients take half of the time of the backward pass between the hosts, by
# the rate that mtrain measures at its start and the time of the pass for one sequence, from a first
# run. At most a fifth of what gradients and weights take is waited for.
# syncs: a Qwen3 whose experts are on both hosts. The host process waits for its GPU once a step, by
# what ten steps more wait.
# rows: tokens a second of four layers of a Qwen3 whose experts are on both hosts, alternating with
# those of a program of a commit before b8a31929, which waits for the counts of each exchange. OLD
# is its build directory; without OLD this is left out.
#
# MOST: sequences of a micro batch, at most (48), as the memory has room for. LIMIT is the seconds
# that a run may take. B is the build directory. With too few GPUs it says so and succeeds;
# DEVICE=cpu tries the script with tiny models, and judges nothing, since MPI waits for each
# message.
set -u
: "${B:=build}" "${DEVICE:=cuda}" "${LIMIT:=120}" "${MOST:=48}" "${OLD:=}"
gpus=2
[ "$DEVICE" != cuda ] || gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
if [ "$gpus" -lt 2 ] || ! command -v mpirun >/dev/null; then
	echo "skipped: two hosts need two GPUs and mpirun"
	exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 \
	OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1 \
	OMPI_MCA_btl_vader_single_copy_mechanism=none
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 OMP_NUM_THREADS=1
B=$(cd "$B" && pwd) || exit 1
[ -z "$OLD" ] || OLD=$(cd "$OLD" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export XDG_CACHE_HOME="$dir/cache"

llama="--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
	--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0
	--group-query-attention --bf16 --data-parallel-sharding-strategy optim"
large="--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 32
	--num-query-groups 8 --seq-length 4096 --vocab-size 8192 --recompute-granularity full
	--recompute-method uniform --recompute-num-layers 1"
small="--num-layers 2 --hidden-size 256 --ffn-hidden-size 704 --num-attention-heads 8
	--num-query-groups 4 --seq-length 256 --vocab-size 2048"
experts="--qk-layernorm --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 192
	--moe-aux-loss-coeff 0.001 --expert-model-parallel-size 2"
qwen="--num-layers 4 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 16
	--num-query-groups 4 --seq-length 2048 --vocab-size 8192 --qk-layernorm --num-experts 32
	--moe-router-topk 8 --moe-ffn-hidden-size 768 --moe-aux-loss-coeff 0.001
	--expert-model-parallel-size 2 --micro-batch-size 4 --global-batch-size 32"
[ "$DEVICE" = cuda ] || large=$small qwen="$small $experts --global-batch-size 4"

preload='' program=$B/mtrain pretend='--pretend-hosts 2'
# train OPTION...: two hosts; false, with what they said, where it fails
train()
{
	rm -f metrics
	# shellcheck disable=SC2086
	timeout "$LIMIT" mpirun -np 2 $preload $program $llama --mock-data --lr 1e-4 \
		--eval-iters 0 --log-interval 1 --timing-log-level 2 --backend "$DEVICE" \
		$pretend --metrics-file metrics "$@" >log 2>&1 </dev/null || {
		echo "exit status $?: $*"
		tail -n 20 log
		return 1
	}
}

# backward: milliseconds of the pass in the last step, of the slower rank
backward()
{
	sed -n 's/^    backward-compute \.*: (.*, \(.*\))$/\1/p' log | tail -n 1
}

# sent KIND: gigabytes that a rank sends in a step to the other host, by the plan
sent()
{
	# shellcheck disable=SC2086
	"$B/mplan" check $llama $large --micro-batch-size 1 --global-batch-size 2 --world-size 2 \
		--gpus-per-node 1 --json |
		sed -n 's/.*"bytes_between": \([0-9]*\).*/\1/p' |
		awk '{ sum += $1 } END { print sum / 1e9 }'
}

exposed()
{
	# shellcheck disable=SC2086
	train $large --train-iters 4 --micro-batch-size 1 --global-batch-size 2 || return
	rate=$(sed -n 's/.*rails:.* measured \([0-9.e+]*\) GB.*/\1/p' log)
	# Of 6 bytes 4 are of gradients, and 2 of weights.
	count=$(echo "$(sent) $rate $(backward) $MOST" | awk '{
		n = int(2 * $1 / $2 * 4 / 6 / ($3 / 1e3) + 0.5)
		print (n < 1 ? 1 : n > $4 ? $4 : n) }')
	# shellcheck disable=SC2086
	train $large --train-iters 6 --micro-batch-size "$count" \
		--global-batch-size $((2 * count)) || return
	rate=$(sed -n 's/.*rails:.* measured \([0-9.e+]*\) GB.*/\1/p' log)
	waited=$(sed -n 's/.*"exposed_data_comm_ms": \([0-9.e+-]*\).*/\1/p' metrics | tail -n 3 |
		sort -g | sed -n 2p)
	echo "$(sent) $rate $(backward) $waited $count" | awk -v device="$DEVICE" '{
		grads = 1e3 * $1 / $2 * 4 / 6
		all = grads * 6 / 4
		printf "exposed: %d sequences, backward pass %.0f ms; at %.3g GB/s gradients " \
			"take %.0f ms, %.2f of it, and all %.0f ms; waited for %.0f ms, %.1f %%\n",
			$5, $3, $2, grads, grads / $3, all, $4, 100 * $4 / all
		if (grads / $3 > 0.6)
			print "not shown: half of the pass, which needs a higher MOST"
		else
			exit device == "cuda" && $4 > 0.2 * all
	}'
}

syncs()
{
	# The first run measures GEMMs, and the others take what it has chosen.
	for steps in 2 2 12; do
		preload="-x LD_PRELOAD=$B/tests/parity/syncs.so -x SYNCS=$PWD/syncs.$steps"
		# shellcheck disable=SC2086
		train $small $experts --train-iters "$steps" --micro-batch-size 1 \
			--global-batch-size 4 --log-interval 100 --timing-log-level 0 || return
	done
	grep '^mtrain\[0\]: to other hosts' log
	for rank in 0 1; do
		echo "$(cat "syncs.2.$rank") $(cat "syncs.12.$rank")"
	done | awk -v device="$DEVICE" '
		{ each = ($2 - $1) / 10; if (!(each <= most)) most = each }
		END {
			printf "syncs: the host waits for its GPU %g times a step\n", most
			exit !(NR == 2 && most <= 1) || device == "cuda" && most < 1
		}'
}

rows()
{
	[ -n "$OLD" ] || { echo "rows: left out without OLD"; return; }
	for turn in new old old new new old; do
		case $turn in
		new) program=$B/mtrain pretend='--pretend-hosts 2' preload= ;;
		old) program=$OLD/mtrain pretend=
			preload="-x PER=1 -x LD_PRELOAD=$B/tests/parity/apart.so" ;;
		esac
		# shellcheck disable=SC2086
		train $qwen --train-iters 20 --timing-log-level 0 || return
		sed -n 's/.*"tokens_per_second": \([0-9.e+]*\).*/\1/p' metrics | tail -n 14 |
			sort -g | sed -n "7s/^/$turn /p"
	done | awk '
		NF != 2 { print; next }
		{ printf "rows: %s, %.0f tokens/s\n", $1, $2; sum[$1] += $2; n[$1]++ }
		END {
			if (n["new"] != 3 || n["old"] != 3)
				exit 1
			printf "rows: %.3f times the rate of before\n", sum["new"] / sum["old"]
		}'
}

failed=0
[ $# -gt 0 ] || set -- exposed syncs rows
for name; do
	case $name in
	exposed) exposed || failed=1 ;;
	syncs) syncs || failed=1 ;;
	rows) rows || failed=1 ;;
	*) echo "waits.sh: no case '$name'" >&2; exit 2 ;;
	esac
done
exit $failed
