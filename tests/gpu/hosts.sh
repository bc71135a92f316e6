#!/bin/sh
# hosts.sh [CASE...] - GPUs of one machine as several hosts, through NCCL's sockets on the loopback:
# whatever NCCL is told to use, ten steps give the same bits, and the bytes are those of mplan check
#
# A small Llama, and a Qwen3 with experts, in bf16. Each case of the list below, or those named,
# runs on 2 and on 4 hosts with NCCL's settings: metrics and checkpoints must be equal. A line for
# each says how many differ. Then one for what passes the loopback in a step, beside the plan: 3 %
# more at most, for headers. Where four GPUs are there, 4 ranks lie on 1, 2 and 4 hosts, which are
# compared too, but with experts between hosts. Fewer GPUs take one rank for each host, all on the
# first GPU, since NCCL refuses two of one host there; they take turns on it, so 2 hosts have half
# of the settings.
#
# B is the build directory. ALL=1 takes all eight settings in place of four in which every two
# values of two of them meet. LIMIT is the seconds that a run may take. DEVICE=cpu runs it with
# MPI, whose bytes do not pass the loopback. Without a GPU or mpirun it says so and succeeds.
set -u
: "${B:=build}" "${DEVICE:=cuda}" "${LIMIT:=60}" "${ALL:=}"
gpus=4
[ "$DEVICE" != cuda ] || gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
if [ "$gpus" = 0 ] || ! command -v mpirun >/dev/null; then
	echo "skipped: hosts need a GPU and mpirun"
	exit 0
fi

# A network of its own keeps the bytes of other programs out.
if [ -z "${HOSTS_INSIDE:-}" ]; then
	export HOSTS_INSIDE=1
	if unshare -Urn ip link set lo up >/dev/null 2>&1; then
		# shellcheck disable=SC2016
		exec unshare -Urn sh -c 'ip link set lo up && exec sh "$0" "$@"' "$0" "$@"
	fi
	echo "no network of its own (unshare -Urn, ip): bytes of other programs count"
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 \
	OMPI_MCA_btl=^tcp OMPI_MCA_hwloc_base_binding_policy=none \
	OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
export OMP_NUM_THREADS=1
[ "$gpus" -ge 4 ] || export CUDA_VISIBLE_DEVICES=0
B=$(cd "$B" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export XDG_CACHE_HOME="$dir/cache"

llama="--num-layers 2 --hidden-size 256 --ffn-hidden-size 704 --num-attention-heads 8
	--group-query-attention --num-query-groups 4 --seq-length 256 --vocab-size 2048
	--micro-batch-size 1 --global-batch-size 4 --swiglu --normalization RMSNorm
	--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights
	--attention-dropout 0 --hidden-dropout 0 --bf16"
qwen="$llama --qk-layernorm --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 192
	--moe-aux-loss-coeff 0.001"
run="--mock-data --lr 1e-3 --eval-iters 0 --log-interval 100 --deterministic-mode"

# WHAT NAME OPTION...: bits or bytes, or both
cases()
{
	shards=--data-parallel-sharding-strategy
	cat <<END_OF_CASES
both zero1 $shards optim
both zero3 $shards optim_grads_params
bytes instances $shards optim_grads_params --num-distributed-optimizer-instances 2
bits tensor --tensor-model-parallel-size 2 --sequence-parallel
both pipeline --pipeline-model-parallel-size 2
bits context --context-parallel-size 2
both experts --expert-model-parallel-size 2 $shards optim
END_OF_CASES
}

# settings HOSTS: ALGORITHM PROTOCOL CHANNELS. Gathers have no tree.
settings()
{
	cat <<'END_OF_SETTINGS'
Ring Simple 1
Ring;AllReduce:Tree LL 1
END_OF_SETTINGS
	[ "$1" != 2 ] || [ "$gpus" -ge 4 ] || return 0
	cat <<'END_OF_SETTINGS'
Ring LL 8
Ring;AllReduce:Tree Simple 8
END_OF_SETTINGS
	[ -z "$ALL" ] || cat <<'END_OF_SETTINGS'
Ring Simple 8
Ring LL 1
Ring;AllReduce:Tree Simple 1
Ring;AllReduce:Tree LL 8
END_OF_SETTINGS
}

# choose ALGORITHM PROTOCOL CHANNELS: what NCCL reads
choose()
{
	export NCCL_ALGO="$1" NCCL_PROTO="$2" NCCL_MIN_NCHANNELS="$3" NCCL_MAX_NCHANNELS="$3" \
		NCCL_MIN_P2P_NCHANNELS="$3" NCCL_MAX_P2P_NCHANNELS="$3"
}

# ranks HOSTS: of a run on so many
ranks()
{
	if [ "$gpus" -ge 4 ]; then echo 4; else echo "$1"; fi
}

# train HOSTS STEPS OPTION...: false, with what it said, where it fails
train()
{
	hosts=$1 steps=$2
	shift 2
	rm -rf save metrics
	# shellcheck disable=SC2086
	timeout "$LIMIT" mpirun -np "$(ranks "$hosts")" "$B/mtrain" $model $run \
		--backend "$DEVICE" --pretend-hosts "$hosts" --train-iters "$steps" \
		--metrics-file metrics "$@" >log 2>&1 </dev/null || {
		echo "exit status $? on $hosts hosts: $*"
		tail -n 20 log
		return 1
	}
}

# bits HOSTS OPTION...: the hash of ten steps and of what they save, in the file bits
bits()
{
	n=$1
	shift
	train "$n" 10 "$@" --save save --save-interval 10 || return 1
	{
		sed -e 's/, "tokens_per_second".*//' metrics
		find save -name '*.safetensors' | sort | xargs cat
	} | sha256sum >bits
}

# compare NAME OPTION...: every setting on every number of hosts against the first run
compare()
{
	name=$1 first='' runs=0 differ=0 since=$(date +%s)
	shift
	for n in $([ "$gpus" -lt 4 ] || echo 1) 2 4; do
		# Experts between hosts, and another number of ranks, are other sums.
		[ "$gpus" -ge 4 ] && [ "$name" != experts ] || first=''
		settings "$n" >chosen
		while read -r setting; do
			# shellcheck disable=SC2086
			choose $setting
			bits "$n" "$@" || { failed=1; return; }
			runs=$((runs + 1))
			: "${first:=$(cat bits)}"
			[ "$first" = "$(cat bits)" ] || {
				differ=$((differ + 1))
				echo "$name: $n hosts, $setting: other bits"
			}
		done <chosen
	done
	[ "$differ" = 0 ] || failed=1
	echo "$name: $runs runs, $differ differ ($(($(date +%s) - since)) s)"
}

# sent: bytes on the loopback until now
sent()
{
	cat /sys/class/net/lo/statistics/tx_bytes
}

# measure NAME OPTION...: a step of all ranks on 2 hosts, as what 20 steps more send, beside the
# plan
measure()
{
	name=$1 ranks=$(ranks 2)
	shift
	choose Ring Simple 1
	begin=$(sent)
	train 2 2 "$@" || { failed=1; return; }
	middle=$(sent)
	train 2 22 "$@" || { failed=1; return; }
	# shellcheck disable=SC2086
	"$B/mplan" check $model "$@" --world-size "$ranks" --gpus-per-node $((ranks / 2)) --json |
		sed -n 's/.*"bytes_between": \([0-9]*\).*/\1/p' |
		awk -v name="$name" -v ranks="$ranks" -v sent=$(($(sent) - 2 * middle + begin)) '
		{ plan += ranks * $1 }
		END {
			sent /= 20
			over = plan ? 100 * (sent / plan - 1) : 100
			printf "%s: %.0f bytes a step between 2 hosts, planned %.0f: %+.2f %%\n",
				name, sent, plan, over
			exit !(over >= 0 && over <= 3)
		}' || failed=1
}

failed=0
cases >list
while read -r what name options; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	model=$llama
	[ "$name" != experts ] || model=$qwen
	# shellcheck disable=SC2086
	[ "$what" = bytes ] || compare "$name" $options
	# shellcheck disable=SC2086
	[ "$what" = bits ] || [ "$DEVICE" != cuda ] || measure "$name" $options
done <list
exit $failed
