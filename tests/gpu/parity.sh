#!/bin/sh
# parity.sh [one] [two] - training on the GPU follows the CPU, repeats itself bit by bit, resumes,
# and does the same on two GPUs
#
# Made-up data, and for what documents and corpora are asked for two small datasets. `one` is what a
# rank shows alone; `two` are two ranks, which communicate by NCCL, beside one; both by default. On
# a single GPU the two are ranks of two pretended hosts, which take turns on it and exchange by
# sockets of the loopback.
#
# B is the build directory; nothing else of the tree is needed. DEVICE=cpu runs the same comparisons
# on the CPU, with 16-bit types against themselves. Without a GPU it says so and succeeds.
set -eu
: "${B:=build}"
device=${DEVICE:-cuda}
parts=${*:-one two}
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# One rank repeats itself by the choices of GEMMs that its first run has written; two may choose
# differently, so they are told not to measure.
export XDG_CACHE_HOME="$dir/cache"
data=--mock-data
common="--vocab-size 500 --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 96
	--micro-batch-size 2 --global-batch-size 8 --train-iters 20 --lr 1e-3 --eval-iters 0
	--log-interval 100"
llama="--group-query-attention --num-query-groups 2 --swiglu --normalization RMSNorm
	--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights
	--attention-dropout 0 --hidden-dropout 0"
gpt2="--attention-dropout 0.1 --hidden-dropout 0.1"
mixtral="$llama --num-experts 4 --moe-router-topk 2 --moe-aux-loss-coeff 0.02
	--moe-ffn-hidden-size 96"
qwen3_moe="$llama --num-experts 10 --moe-router-topk 4 --moe-ffn-hidden-size 40
	--moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.001 --qk-layernorm
	--moe-z-loss-coeff 0.001 --moe-shared-expert-intermediate-size 48 --moe-layer-freq [0,1]"
qwen3_next="$llama --linear-attention-freq 2 --linear-num-key-heads 2 --linear-num-value-heads 4
	--linear-key-head-dim 32 --linear-value-head-dim 24 --attention-output-gate --qk-layernorm
	--rotary-percent 0.5 --apply-layernorm-1p"

# part NAME: whether it is asked for
part()
{
	case " $parts " in *" $1 "*) ;; *) return 1 ;; esac
}

# train NAME OPTIONS...: one run; its metrics go to $dir/NAME, its words to $dir/NAME.log
train()
{
	name=$1
	shift
	# shellcheck disable=SC2086
	${launch:-} "$B/mtrain" $common $data ${launch:+${apart:-}} \
		--metrics-file "$dir/$name" "$@" >"$dir/$name.log" 2>&1 || {
		rc=$?
		[ "$rc" = "${want:-0}" ] ||
			{ echo "$name: exit status $rc"; cat "$dir/$name.log"; exit 1; }
	}
}

# losses NAME: iteration, loss and gradient norm of each step, as they were written
losses()
{
	sed -n 's/.*"iteration": *\([0-9]*\).*"lm_loss": *\([^,]*\),'\
'.*"grad_norm": *\([^,]*\),.*/\1 \2 \3/p' "$dir/$1"
}

# near A B LIMIT: 20 losses each that differ by at most LIMIT, relative
near()
{
	losses "$1" >"$dir/a"
	losses "$2" >"$dir/b"
	paste -d ' ' "$dir/a" "$dir/b" | awk -v limit="$3" -v names="$1, $2" '
		{ d = ($2 - $5) / $5; if (d < 0) d = -d; if (!(d <= worst)) worst = d }
		END {
			printf "%s: %d steps, losses differ by at most %.2g (limit %g)\n",
				names, NR, worst, limit
			exit !(NR == 20 && worst <= limit)
		}'
}

# corpora NAME: iteration, corpus, samples, tokens and loss of each line of a corpus
corpora()
{
	sed -n 's/.*"iteration": *\([0-9]*\), "corpus": *\("[^"]*"\), '\
'"consumed_samples": *\([0-9]*\),'\
'.*"lm_loss": *\([^,]*\), "tokens": *\([0-9]*\)}/\1 \2 \3 \5 \4/p' "$dir/$1"
}

# near_corpora A B LIMIT: four lines for each of two corpora, of the same samples and tokens; losses
# as in near
near_corpora()
{
	corpora "$1" >"$dir/a"
	corpora "$2" >"$dir/b"
	paste -d ' ' "$dir/a" "$dir/b" | awk -v limit="$3" -v names="$1, $2" '
		{ d = ($5 - $10) / $10; if (d < 0) d = -d; if (!(d <= worst)) worst = d }
		$1 != $6 || $2 != $7 || $3 != $8 || $4 != $9 || !$4 { other++ }
		END {
			printf "%s: %d lines of corpora, ", names, NR
			printf "losses differ by at most %.2g (limit %g)\n", worst, limit
			exit !(NR == 8 && !other && worst <= limit)
		}'
}

# same A B: the same figures, bit by bit
same()
{
	losses "$1" >"$dir/a"
	losses "$2" >"$dir/b"
	[ "$(wc -l <"$dir/a")" = 20 ] || { echo "$1: not 20 steps"; exit 1; }
	cmp "$dir/a" "$dir/b" || { diff "$dir/a" "$dir/b" | head -4; exit 1; }
	echo "$1, $2: the same bits"
}

# family NAME OPTIONS...: one GPU against the CPU, and where it is asked to repeat itself against
# itself
family()
{
	family=$1
	shift
	train "$family-cpu" "$@" --backend cpu
	train "$family" "$@" --backend "$device"
	near "$family" "$family-cpu" 1e-5
	part one || return 0
	train "$family-fast" "$@" --backend "$device" --bf16
	near "$family-fast" "$family-cpu" 1e-2
	train "$family-bf16" "$@" --backend "$device" --bf16 --deterministic-mode
	near "$family-bf16" "$family-cpu" 1e-2
	train "$family-fp16" "$@" --backend "$device" --fp16 --loss-scale 786432
	near "$family-fp16" "$family-cpu" 1e-2
	for type in "--bf16" "--fp16 --loss-scale 786432"; do
		# shellcheck disable=SC2086
		train "$family-wide" "$@" --backend "$device" $type --fp32-residual-connection
		near "$family-wide" "$family-cpu" 1e-2
		rm "$dir/$family-wide"
	done
	train "$family-again" "$@" --backend "$device" --bf16 --deterministic-mode
	same "$family-bf16" "$family-again"
	for how in "--no-cuda-graphs" "--recompute-granularity selective" \
		"--recompute-granularity full --recompute-num-layers 2"; do
		# shellcheck disable=SC2086
		train "$family-how" "$@" --backend "$device" --bf16 --deterministic-mode $how
		echo "$how:"
		case $family$how in
		# The activation that rides on a GEMM sees its value before it is rounded; made
		# again, it cannot.
		gpt2*recompute*) near "$family-bf16" "$family-how" 1e-4 ;;
		*) same "$family-bf16" "$family-how" ;;
		esac
		rm "$dir/$family-how"
	done
	want=3
	set -- "$@" --backend "$device" --bf16 --deterministic-mode --save "$dir/$family.ckpt" \
		--load "$dir/$family.ckpt"
	train "$family-resumed" "$@" --exit-interval 10
	want=0
	train "$family-resumed" "$@"
	same "$family-bf16" "$family-resumed"
}

# narrow NAME OPTIONS...: 8-bit operands of the GPU against the CPU's, and against themselves; what
# a tensor's own largest number scales, too
narrow()
{
	family=$1-fp8
	shift
	set -- "$@" --bf16 --fp8-format hybrid
	train "$family-cpu" "$@" --backend cpu --fp8-amax-history-len 4
	train "$family-own-cpu" "$@" --backend cpu --fp8-recipe tensorwise
	set -- "$@" --backend "$device" --deterministic-mode
	train "$family-own" "$@" --fp8-recipe tensorwise
	near "$family-own" "$family-own-cpu" 1e-2
	set -- "$@" --fp8-amax-history-len 4
	train "$family" "$@"
	near "$family" "$family-cpu" 1e-2
	part one || return 0
	for how in "" --no-cuda-graphs; do
		# shellcheck disable=SC2086
		train "$family-again" "$@" $how
		same "$family" "$family-again"
		rm "$dir/$family-again"
	done
	want=3
	set -- "$@" --save "$dir/$family.ckpt" --load "$dir/$family.ckpt"
	train "$family-resumed" "$@" --exit-interval 10
	want=0
	train "$family-resumed" "$@"
	same "$family" "$family-resumed"
}

# datasets: `few` and `many`, of documents of 3 to 40 tokens, each closed by token 499
datasets()
{
	for name in few many; do
		awk -v x=${#name} 'BEGIN {
			for (i = 0; i < 150; i++) {
				x = (x * 16807) % 2147483647
				n = 2 + x % 38
				printf "{\"text\": \""
				for (k = 0; k < n; k++) {
					x = (x * 16807) % 2147483647
					printf "%s%d", k ? " " : "", x % 499
				}
				print "\"}"
			}
		}' | "$B/mtok" encode --tokenizer-type NullTokenizer --vocab-size 500 --append-eod \
			-q -o "$dir/$name"
	done
}

# documents NAME OPTIONS...: documents that do not see each other, and the loss of each corpus
documents()
{
	family=$1
	shift
	train "$family-documents-cpu" "$@" --backend cpu
	train "$family-documents" "$@" --backend "$device"
	near "$family-documents" "$family-documents-cpu" 1e-5
	near_corpora "$family-documents" "$family-documents-cpu" 1e-5
	part one || return 0
	train "$family-documents-bf16" "$@" --backend "$device" --bf16
	near "$family-documents-bf16" "$family-documents-cpu" 1e-2
	near_corpora "$family-documents-bf16" "$family-documents-cpu" 1e-2
}

# needs RESULT FUNCTION NAME OPTIONS...: calls it where one rank has not made the result yet
needs()
{
	result=$1
	shift
	[ -e "$dir/$result" ] || "$@"
}

# two NAME OPTIONS...: two ranks against one, and against themselves
two()
{
	needs "$1" family "$@"
	family=$1
	shift
	launch="mpirun -np 2"
	set -- "$@" --deterministic-mode
	for layout in tensor rows beside all_gather a2a pipeline wide data; do
		case $layout in
		data) extra="--use-distributed-optimizer" ;;
		a*) extra="--context-parallel-size 2 --cp-comm-type $layout" ;;
		rows) extra="--tensor-model-parallel-size 2 --sequence-parallel" ;;
		beside) extra="$extra --tp-comm-overlap" ;;
		wide) extra="$extra --fp32-residual-connection" ;;
		*) extra="--$layout-model-parallel-size 2" ;;
		esac
		# shellcheck disable=SC2086
		train "$family-$layout" "$@" --backend "$device" $extra
		near "$family-$layout" "$family" 1e-5
		# shellcheck disable=SC2086
		train "$family-$layout-again" "$@" --backend "$device" $extra
		same "$family-$layout" "$family-$layout-again"
		# shellcheck disable=SC2086
		train "$family-$layout-bf16" "$@" --backend "$device" --bf16 $extra
		near "$family-$layout-bf16" "$family" 1e-2
	done
	# So many tokens that GEMMs are of the rows of one tensor rank each.
	for rows in "" --sequence-parallel; do
		long="--tensor-model-parallel-size 2 --seq-length 1024 $rows"
		# shellcheck disable=SC2086
		train "$family-long" "$@" --backend "$device" $long
		# shellcheck disable=SC2086
		train "$family-long-beside" "$@" --backend "$device" $long --tp-comm-overlap
		near "$family-long-beside" "$family-long" 1e-5
		# shellcheck disable=SC2086
		train "$family-long-again" "$@" --backend "$device" $long --tp-comm-overlap
		same "$family-long-beside" "$family-long-again"
		rm "$dir/$family-long"*
	done
	for strategy in no_shard optim optim_grads optim_grads_params; do
		set -- "$@" --data-parallel-sharding-strategy $strategy
		# Buckets of a layer or two, so that there are several.
		train "$family-$strategy" "$@" --backend "$device" --ddp-bucket-size 40000
		near "$family-$strategy" "$family" 1e-5
		train "$family-$strategy-off" "$@" --backend "$device" --ddp-bucket-size 40000 \
			--no-overlap-grad-reduce --no-overlap-param-gather
		same "$family-$strategy" "$family-$strategy-off"
		train "$family-$strategy-bf16" "$@" --backend "$device" --bf16
		near "$family-$strategy-bf16" "$family" 1e-2
	done
	launch=
}

# narrow_two NAME OPTIONS...: 8-bit operands of two ranks against those of one, and of themselves
narrow_two()
{
	needs "$1-fp8" narrow "$@"
	family=$1-fp8
	shift
	launch="mpirun -np 2"
	set -- "$@" --backend "$device" --bf16 --fp8-format hybrid --fp8-amax-history-len 4 \
		--deterministic-mode
	for layout in tensor rows beside pipeline data; do
		case $layout in
		data) extra="--use-distributed-optimizer" ;;
		rows) extra="--tensor-model-parallel-size 2 --sequence-parallel" ;;
		beside) extra="$extra --tp-comm-overlap" ;;
		*) extra="--$layout-model-parallel-size 2" ;;
		esac
		# shellcheck disable=SC2086
		train "$family-$layout" "$@" $extra
		near "$family-$layout" "$family" 1e-2
		# shellcheck disable=SC2086
		train "$family-$layout-again" "$@" $extra
		same "$family-$layout" "$family-$layout-again"
	done
	launch=
}

# two_expert_matrices NAME OPTIONS...: two ranks that share experts, or have slices of each, update
# their matrices as one does
two_expert_matrices()
{
	family=$1-muon
	shift
	set -- "$@" --optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2 \
		--backend "$device" --deterministic-mode
	launch=
	train "$family" "$@"
	launch="mpirun -np 2"
	for extra in "--expert-model-parallel-size 2 --use-distributed-optimizer" \
		"--tensor-model-parallel-size 2 --sequence-parallel"; do
		# shellcheck disable=SC2086
		train "$family-two" "$@" $extra
		near "$family-two" "$family" 1e-4
	done
	launch=
}

# two_experts NAME OPTIONS...: two ranks that have half of the experts each, or of each expert,
# against one rank, against themselves, and resumed; in rounds, sharded, and as tensor ranks
two_experts()
{
	needs "$1" family "$@"
	family=$1-experts
	one=$1
	shift
	launch="mpirun -np 2"
	halves="--expert-model-parallel-size 2"
	set -- "$@" --backend "$device" --deterministic-mode
	for layout in data rounds zero3 rows slices; do
		case $layout in
		data) extra=$halves ;;
		rounds) extra="$halves --moe-expert-rank-capacity-factor 0.5" ;;
		zero3) extra="$halves --data-parallel-sharding-strategy optim_grads_params" ;;
		rows) extra="$halves --tensor-model-parallel-size 2 --sequence-parallel
			--expert-tensor-parallel-size 1" ;;
		slices) extra="--tensor-model-parallel-size 2 --sequence-parallel" ;;
		esac
		# shellcheck disable=SC2086
		train "$family-$layout" "$@" $extra
		near "$family-$layout" "$one" 1e-5
		# shellcheck disable=SC2086
		train "$family-$layout-again" "$@" $extra
		same "$family-$layout" "$family-$layout-again"
		# shellcheck disable=SC2086
		train "$family-$layout-bf16" "$@" --bf16 $extra
		near "$family-$layout-bf16" "$one" 1e-2
	done
	# shellcheck disable=SC2086
	set -- "$@" $halves
	set -- "$@" --bf16 --save "$dir/$family.ckpt" --load "$dir/$family.ckpt"
	want=3
	train "$family-resumed" "$@" --exit-interval 10
	want=0
	train "$family-resumed" "$@"
	same "$family-data-bf16" "$family-resumed"
	launch=
}

# interleaved NAME OPTIONS...: chunks of two stages take turns, and exchange beside passes or not,
# against one rank; four layers, so that each chunk has one
interleaved()
{
	family=$1-four
	shift
	set -- "$@" --num-layers 4 --deterministic-mode --backend "$device"
	train "$family" "$@"
	set -- "$@" --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
	launch="mpirun -np 2"
	train "$family-chunks" "$@"
	near "$family-chunks" "$family" 1e-5
	train "$family-turns" "$@" --no-overlap-p2p-communication
	same "$family-chunks" "$family-turns"
	train "$family-chunks-bf16" "$@" --bf16
	near "$family-chunks-bf16" "$family" 1e-2
	launch=
}

# matrices NAME OPTIONS...: Muon with clipped scores against the CPU, and with captured passes and
# without
matrices()
{
	family=$1-muon
	shift
	set -- "$@" --optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2 --qk-clip \
		--qk-clip-threshold 0.01
	train "$family-cpu" "$@" --backend cpu
	train "$family" "$@" --backend "$device"
	near "$family" "$family-cpu" 1e-4
	part one || return 0
	train "$family-bf16" "$@" --backend "$device" --bf16 --deterministic-mode
	near "$family-bf16" "$family-cpu" 1e-2
	train "$family-plain" "$@" --backend "$device" --bf16 --deterministic-mode --no-cuda-graphs
	same "$family-bf16" "$family-plain"
}

# two_matrices NAME OPTIONS...: two ranks that share matrices, or have whole ones, against one
two_matrices()
{
	needs "$1-muon" matrices "$@"
	family=$1-muon
	shift
	launch="mpirun -np 2"
	set -- "$@" --optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2 --qk-clip \
		--qk-clip-threshold 0.01 --backend "$device" --deterministic-mode
	train "$family-tensor" "$@" --tensor-model-parallel-size 2
	near "$family-tensor" "$family" 1e-4
	for strategy in optim optim_grads_params; do
		train "$family-$strategy" "$@" --data-parallel-sharding-strategy $strategy \
			--ddp-bucket-size 40000
		near "$family-$strategy" "$family" 1e-4
	done
	launch=
}

# alone: what one rank shows
alone()
{
	# shellcheck disable=SC2086
	family llama $llama
	# shellcheck disable=SC2086
	family gpt2 $gpt2
	# shellcheck disable=SC2086
	family mixtral $mixtral
	# shellcheck disable=SC2086
	family qwen3-moe $qwen3_moe
	# shellcheck disable=SC2086
	family qwen3-next $qwen3_next
	# Experts that drop a part of the rows of a choice.
	# shellcheck disable=SC2086
	for to in cpu "$device"; do
		train mixtral-full-"$to" $mixtral --moe-expert-capacity-factor 1 --backend "$to"
	done
	near mixtral-full-"$device" mixtral-full-cpu 1e-5
	if [ -n "$fp8" ]; then
		# shellcheck disable=SC2086
		narrow llama $llama
		# shellcheck disable=SC2086
		narrow gpt2 $gpt2
	fi
	if [ -n "$experts" ]; then
		# shellcheck disable=SC2086
		narrow mixtral $mixtral
		# shellcheck disable=SC2086
		for to in cpu "$device"; do
			train mixtral-blocks-"$to" $mixtral --hidden-size 128 \
				--moe-ffn-hidden-size 192 --bf16 --fp8-format e4m3 \
				--moe-shared-expert-intermediate-size 64 \
				--fp8-recipe blockwise --backend "$to"
		done
		near mixtral-blocks-"$device" mixtral-blocks-cpu 1e-2
	fi
	# shellcheck disable=SC2086
	matrices llama $llama
}

# with_documents: what one rank shows with documents, in datasets
with_documents()
{
	# shellcheck disable=SC2086
	documents llama $llama
	# shellcheck disable=SC2086
	documents gpt2 $gpt2
	# shellcheck disable=SC2086
	documents qwen3-next $qwen3_next
}

# two_with_documents: two ranks against one
two_with_documents()
{
	# shellcheck disable=SC2086
	needs llama-documents documents llama $llama
	launch="mpirun -np 2"
	# shellcheck disable=SC2086
	train llama-documents-data $llama --backend "$device"
	near llama-documents-data llama-documents 1e-5
	near_corpora llama-documents-data llama-documents 1e-5
	for form in all_gather a2a; do
		# shellcheck disable=SC2086
		train llama-documents-$form $llama --backend "$device" \
			--context-parallel-size 2 --cp-comm-type $form
		near llama-documents-$form llama-documents 1e-5
		near_corpora llama-documents-$form llama-documents 1e-5
		# shellcheck disable=SC2086
		train llama-documents-$form-bf16 $llama --backend "$device" \
			--context-parallel-size 2 --cp-comm-type $form --bf16
		near llama-documents-$form-bf16 llama-documents 1e-2
	done
	launch=
}

# together: what two ranks show
together()
{
	# shellcheck disable=SC2086
	two llama $llama
	# shellcheck disable=SC2086
	two gpt2 $gpt2
	# shellcheck disable=SC2086
	two_experts mixtral $mixtral
	# shellcheck disable=SC2086
	two_experts qwen3-moe $qwen3_moe
	# shellcheck disable=SC2086
	[ -z "$fp8" ] || narrow_two llama $llama
	# shellcheck disable=SC2086
	two_matrices llama $llama
	# shellcheck disable=SC2086
	two_expert_matrices mixtral $mixtral
	# shellcheck disable=SC2086
	interleaved llama $llama
	# shellcheck disable=SC2086
	interleaved gpt2 $gpt2
}

# shellcheck disable=SC2086
if ! "$B/mtrain" $common $data --backend "$device" --train-iters 1 >"$dir/dry" 2>&1; then
	grep 'cannot be used\|not built in' "$dir/dry" || { cat "$dir/dry"; exit 1; }
	echo "skipped: no GPU"
	exit 0
fi
# 8-bit floats are those of GPUs from 8.9 on.
fp8=yes
[ "$device" != cuda ] || nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
	awk '$1 < 8.9 { old = 1 } END { exit old }' || fp8=
# Those of experts are of 9.0.
experts=yes
[ "$device" != cuda ] || nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
	awk '$1 != 9.0 { other = 1 } END { exit other }' || experts=
if [ "$device" != cuda ]; then
	gpus=2
elif [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
	gpus=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | grep -c .)
else
	gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=1
fi
command -v mpirun >/dev/null || { echo "skipped: two ranks need mpirun"; parts=one; }
if [ "$gpus" -lt 2 ]; then
	export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
	apart="--pretend-hosts 2"
fi
mock=$data
datasets
documents="--data-path 0.7 $dir/few_text_document 0.3 $dir/many_text_document --split 1,0,0
	--tokenizer-type NullTokenizer --reset-attention-mask --reset-position-ids --eod-mask-loss
	--log-loss-by-corpus --log-interval 5"
! part one || alone
data=$documents
! part one || with_documents
! part two || two_with_documents
data=$mock
! part two || together
