#!/bin/sh
# hosts.sh [CASE...] - GPUs of one machine as several hosts, through NCCL's sockets on the loopback:
# whatever NCCL is told to use, ten steps give the same bits, and the bytes are those of mplan check
#
# A small Llama, and a Qwen3 with experts, in bf16. Each case of the list below, or those named,
# runs on several hosts with NCCL's settings and with the GPUs in either order: metrics and
# checkpoints must be equal. A line for each says how many differ. Then one for what passes the
# loopback in a step on 2 hosts, beside the plan: 3 % more at most, for headers; with every layer
# recomputed and 8 micro batches 2 instances send a ninth of what 1 sends, at most. Of a larger
# Llama the memory in use on a GPU is within 1 % of the plans of the ranks that it has.
#
# Four GPUs are 1, 2 and 4 hosts of 4 ranks. Two are 1 and 2 hosts of 2 ranks, each with a GPU of
# its own, and 2 and 4 hosts of 4 ranks, which take turns on them: NCCL refuses two ranks of one
# host on a GPU, and not of two. One is 2 hosts of a rank, and 4. Hosts of equally many ranks are
# compared, but with experts between hosts, which are other sums.
#
# PLACES: other places than those of the list below, as "2x1:few 2x2:all". Settings of all are five
# in which every two values of two of them meet, eight with ALL=1; few are two. GPUS: as many are
# taken, by default all there are, of 4 at most. B is the build directory. LIMIT is the seconds that
# a run may take. LARGE=1 takes two layers of Llama 8B for those of the small one, and compares
# metrics and weights alone.
# APART=LIBRARY, which is tests/parity/apart.so, makes the hosts of a program that does not know
# --pretend-hosts, as before 00774129, and compares alone: give its build directory as B.
# DEVICE=cpu runs it with MPI: messages pass the loopback by TCP, 2 ranks with GPUS=2.
# PEER=PYTHON, with PyTorch, runs hosts_peer.py too: 4 ranks as hosts of their own under all
# settings, which is shown and not judged.
set -u
: "${B:=build}" "${DEVICE:=cuda}" "${LIMIT:=60}" "${ALL:=}" "${PEER:=}" "${LARGE:=}" "${APART:=}"
gpus=${GPUS:-4}
if [ "$DEVICE" = cuda ]; then
	there=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
	[ "$gpus" -le "$there" ] || gpus=$there
fi
if [ "$gpus" = 0 ] || ! command -v mpirun >/dev/null; then
	echo "skipped: hosts need a GPU and mpirun"
	exit 0
fi

# A network of its own keeps the bytes of other programs out.
if [ -z "${HOSTS_INSIDE:-}" ]; then
	export HOSTS_INSIDE=1
	for apart in -Urn -n; do
		unshare $apart ip link set lo up >/dev/null 2>&1 || continue
		# shellcheck disable=SC2016
		exec unshare $apart sh -c 'ip link set lo up && exec sh "$0" "$@"' "$0" "$@"
	done
	echo "no network of its own (unshare, ip): bytes of other programs count"
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 \
	OMPI_MCA_hwloc_base_binding_policy=none \
	OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 OMP_NUM_THREADS=1
if [ "$DEVICE" = cuda ]; then
	export OMPI_MCA_btl=^tcp
else
	export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
fi
B=$(cd "$B" && pwd) || exit 1
[ -z "$APART" ] || APART=$(realpath -e "$APART") || exit 1
here=$(cd "$(dirname "$0")" && pwd) || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export XDG_CACHE_HOME="$dir/cache"

llama="--num-layers 2 --hidden-size 256 --ffn-hidden-size 704 --num-attention-heads 8
	--group-query-attention --num-query-groups 4 --seq-length 256 --vocab-size 2048
	--micro-batch-size 1 --global-batch-size 4 --swiglu --normalization RMSNorm
	--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights
	--attention-dropout 0 --hidden-dropout 0 --bf16"
eight="--hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --num-query-groups 8
	--seq-length 4096"
[ -z "$LARGE" ] || llama="$llama $eight --no-save-optim"
qwen="$llama --qk-layernorm --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 192
	--moe-aux-loss-coeff 0.001"
run="--mock-data --lr 1e-3 --eval-iters 0 --log-interval 100 --deterministic-mode"

# places: RANKSxHOSTS:SETTINGS; measured: of 2 hosts, whose bytes are counted
case $gpus in
1) own=1 measured=2 places="2x2:few 4x4:all" ;;
2 | 3) own=2 measured=2 places="2x1:few 2x2:few 4x2:all 4x4:few" ;;
*) own=4 measured=4 places="4x1:few 4x2:all 4x4:all" ;;
esac
: "${PLACES:=$places}"
[ $own -gt 1 ] || echo "not shown without two GPUs: one host, GPUs in reverse order"
[ $own = 4 ] || echo "not shown without four GPUs: four ranks with a GPU each"

# WHAT NAME OPTION...: bits or bytes, or both; or a ninth of the bytes; or memory
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
ninth recomputed $shards optim_grads_params --ddp-bucket-size 400000
memory large-zero1 $shards optim
memory large-zero3 $shards optim_grads_params
memory large-tensor --tensor-model-parallel-size 2 --sequence-parallel
END_OF_CASES
}

# settings few | all: ALGORITHM PROTOCOL CHANNELS ORDER, the latter of the GPUs. Gathers have no
# tree.
settings()
{
	cat <<'END_OF_SETTINGS'
Ring Simple 1 forward
Ring;AllReduce:Tree LL 1 reverse
END_OF_SETTINGS
	[ "$1" = all ] || return 0
	cat <<'END_OF_SETTINGS'
Ring LL 8 reverse
Ring;AllReduce:Tree Simple 8 reverse
Ring;AllReduce:Tree LL 8 forward
END_OF_SETTINGS
	[ -z "$ALL" ] || cat <<'END_OF_SETTINGS'
Ring Simple 8 forward
Ring LL 1 forward
Ring;AllReduce:Tree Simple 1 forward
END_OF_SETTINGS
}

# choose ALGORITHM PROTOCOL CHANNELS ORDER: what NCCL and CUDA read
choose()
{
	export NCCL_ALGO="$1" NCCL_PROTO="$2" NCCL_MIN_NCHANNELS="$3" NCCL_MAX_NCHANNELS="$3" \
		NCCL_MIN_P2P_NCHANNELS="$3" NCCL_MAX_P2P_NCHANNELS="$3"
	case $4 in
	forward) CUDA_VISIBLE_DEVICES=$(seq -s , 0 $((own - 1))) ;;
	reverse) CUDA_VISIBLE_DEVICES=$(seq -s , $((own - 1)) -1 0) ;;
	esac
	export CUDA_VISIBLE_DEVICES
}

# A rank sees one of the GPUs, in turn.
cat >one <<'END_OF_ONE'
export CUDA_VISIBLE_DEVICES="$(echo "$CUDA_VISIBLE_DEVICES" |
	cut -d , -f $((OMPI_COMM_WORLD_RANK % $1 + 1)))"
shift
exec "$@"
END_OF_ONE

# train RANKSxHOSTS STEPS OPTION...: false, with what it said, where it fails
train()
{
	ranks=${1%x*} hosts=${1#*x} steps=$2 each='' pretend="--pretend-hosts ${1#*x}"
	preload=''
	shift 2
	rm -rf save metrics
	[ "$ranks" -le $own ] || each="sh one $own"
	[ -z "$APART" ] || pretend='' preload="-x PER=$((ranks / hosts)) -x LD_PRELOAD=$APART"
	# shellcheck disable=SC2086
	timeout "$LIMIT" mpirun -np "$ranks" $preload $each "$B/mtrain" $model $run \
		--backend "$DEVICE" $pretend --train-iters "$steps" \
		--metrics-file metrics "$@" >log 2>&1 </dev/null || {
		echo "exit status $? of $ranks ranks on $hosts hosts: $*"
		tail -n 20 log
		return 1
	}
}

# bits RANKSxHOSTS OPTION...: the hash of ten steps and of what they save, in the file bits
bits()
{
	place=$1
	shift
	train "$place" 10 "$@" --save save --save-interval 10 || return 1
	{
		sed -e 's/, "tokens_per_second".*//' metrics
		find save -name '*.safetensors' | sort | xargs cat
	} | sha256sum >bits
}

# compare NAME OPTION...: every setting of every place against the first run of as many ranks
compare()
{
	name=$1 first='' last='' runs=0 differ=0 since=$(date +%s)
	shift
	for p in $PLACES; do
		at=${p%:*}
		[ "${at%x*}" = "$last" ] && [ "$name" != experts ] || first=''
		last=${at%x*}
		settings "${p#*:}" >chosen
		while read -r setting; do
			# shellcheck disable=SC2086
			choose $setting
			bits "$at" "$@" || { failed=1; return; }
			runs=$((runs + 1))
			: "${first:=$(cat bits)}"
			[ "$first" = "$(cat bits)" ] || {
				differ=$((differ + 1))
				echo "$name: $at, $setting: other bits"
			}
		done <chosen
	done
	[ "$differ" = 0 ] || failed=1
	echo "$name: $runs runs on $PLACES, $differ differ ($(($(date +%s) - since)) s)"
}

# passed: bytes on the loopback of this network until now, which /sys may not tell
passed()
{
	awk '{ sub(":", " ") } $1 == "lo" { print $10 }' /proc/net/dev
}

# measure NAME OPTION...: a step of all ranks on 2 hosts, as what so many steps more send, beside
# the plan; leaves it in the file sent
more=40
measure()
{
	name=$1
	shift
	choose Ring Simple 1 forward
	begin=$(passed)
	train "${measured}x2" 2 "$@" || { failed=1; return 1; }
	middle=$(passed)
	train "${measured}x2" $((2 + more)) "$@" || { failed=1; return 1; }
	echo $((($(passed) - 2 * middle + begin) / more)) >sent
	# shellcheck disable=SC2086
	"$B/mplan" check $model "$@" --world-size $measured \
		--gpus-per-node $((measured / 2)) --json |
		sed -n 's/.*"bytes_between": \([0-9]*\).*/\1/p' |
		awk -v name="$name" -v ranks=$measured -v sent="$(cat sent)" '
		{ plan += ranks * $1 }
		END {
			over = plan ? 100 * (sent / plan - 1) : 100
			printf "%s: %.0f bytes a step between 2 hosts, planned %.0f: %+.2f %%\n",
				name, sent, plan, over
			exit !(over >= 0 && over <= 3)
		}' || failed=1
}

# ninth OPTION...: 2 instances against 1, of 8 micro batches whose layers are computed again 16
# together, so that each gathers weights three times
ninth()
{
	more=10
	set -- "$@" --num-layers 32 --seq-length 32 --global-batch-size $((8 * measured)) \
		--recompute-granularity full --recompute-method uniform --recompute-num-layers 16
	measure "recomputed" "$@" || return
	one=$(cat sent)
	measure "recomputed, 2 instances" "$@" --num-distributed-optimizer-instances 2 || return
	awk -v one="$one" -v two="$(cat sent)" 'BEGIN {
		printf "2 instances send 1/%.2f of what one sends\n", one / two
		exit !(9 * two <= one)
	}' || failed=1
}

# memory NAME OPTION...: in use on rank 0's GPU after three steps, beside the plan; one GPU has two
# ranks
memory()
{
	name=$1 ranks=$own counts="1 2 4" each_has=1
	shift
	[ "$own" -gt 1 ] || ranks=2 counts=2 each_has=2
	choose Ring Simple 1 forward
	unset NCCL_ALGO NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_P2P_NCHANNELS \
		NCCL_MAX_P2P_NCHANNELS
	for n in $counts; do
		[ "$n" -le "$ranks" ] || continue
		# shellcheck disable=SC2086
		train "${ranks}x$n" 3 --num-layers 4 $eight --vocab-size 32000 "$@" \
			--log-memory-to-tensorboard || { failed=1; return; }
		sed -n 's/.*"planned_bytes": \([0-9.e+]*\), "used_bytes": \([0-9.e+]*\).*/\1 \2/p' \
			metrics | awk -v name="$name" -v hosts="$n" -v ranks=$each_has '
			END {
				plan = ranks * $1
				apart = NR ? 100 * ($2 / plan - 1) : 100
				printf "%s: %d hosts, %.3f GiB in use, planned %.3f: %+.2f %%\n",
					name, hosts, $2 / 2 ^ 30, plan / 2 ^ 30, apart
				exit !(apart >= -1 && apart <= 1)
			}' || failed=1
	done
}

# peer KIND: how many hashes of PyTorch's weights are not that of the first setting
peer()
{
	first='' runs=0 differ=0
	settings all >chosen
	while read -r setting; do
		# shellcheck disable=SC2086
		choose $setting
		timeout "$LIMIT" mpirun -np 4 sh one $own "$PEER" "$here/hosts_peer.py" "$1" \
			>bits 2>log </dev/null || { tail -n 5 log; return; }
		runs=$((runs + 1))
		: "${first:=$(cat bits)}"
		[ "$first" = "$(cat bits)" ] || differ=$((differ + 1))
	done <chosen
	echo "PyTorch, $1: $runs runs on 4x4, $differ differ"
}

failed=0
cases >list
while read -r what name options; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	model=$llama
	[ "$name" != experts ] || model=$qwen
	# shellcheck disable=SC2086
	case $what in bits | both) compare "$name" $options ;; esac
	[ -z "$APART$LARGE" ] || continue
	# By TCP ranks of one host would send too.
	[ "$DEVICE" = cuda ] || [ $measured = 2 ] || continue
	# shellcheck disable=SC2086
	case $what in
	bytes | both) measure "$name" $options ;;
	ninth) ninth $options ;;
	memory) [ "$DEVICE" != cuda ] || memory "$name" $options ;;
	esac
done <list
[ -z "$PEER" ] || { peer ddp; peer fsdp; }
exit $failed
