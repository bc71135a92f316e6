#!/bin/sh
# repeat.sh [CASE...] - on a GPU for which attention is ours, runs repeat themselves bit by bit
# without --deterministic-mode
#
# Each case of the list below, or those named, runs twice, and a third time in two halves, with one
# file of measured GEMMs: the weights of all must have one hash. STEPS: of a run, 200 by default.
# They need up to 40 GB of TMPDIR. B is the build directory. Without a GPU of compute capability 9.0
# it says so and succeeds; DEVICE=cpu tries the script on a CPU, on a tiny model.
# shellcheck disable=SC2086
set -eu
: "${B:=build}" "${DEVICE:=cuda}" "${STEPS:=200}"
if [ "$DEVICE" = cuda ] &&
	! nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
	grep -q '^9\.0'; then
	echo "skipped: there is no GPU of compute capability 9.0"
	exit 0
fi
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_hwloc_base_binding_policy=none
B=$(cd "$B" && pwd)
# shellcheck source=tests/bench/workloads
. tests/bench/workloads
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export XDG_CACHE_HOME="$dir/cache"
run="--backend $DEVICE --bf16 --lr 1e-4 --eval-iters 0 --log-interval 1000 --train-iters $STEPS
	--save-interval $STEPS --attention-dropout 0 --hidden-dropout 0"
vocab=50257
gpt2="--num-layers 12 --hidden-size 768 --num-attention-heads 12 --vocab-size $vocab
	--make-vocab-size-divisible-by 8 --seq-length 1024 --micro-batch-size 8
	--global-batch-size 16"
llama="--num-layers 8 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
	--group-query-attention --num-query-groups 8 --vocab-size 32000 --seq-length 4096
	--micro-batch-size 1 --global-batch-size 1 --swiglu --normalization RMSNorm
	--position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights"
if [ "$DEVICE" = cpu ]; then
	vocab=500
	gpt2="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size $vocab
		--seq-length 64 --micro-batch-size 2 --global-batch-size 4"
	llama="$gpt2 --swiglu --normalization RMSNorm --position-embedding-type rope"
fi
cases()
{
	echo gpt2-124m $gpt2 --mock-data
	echo gpt2-124m-documents $gpt2 --data-path text_text_document --split 100,0,0 \
		--tokenizer-type NullTokenizer --reset-attention-mask
	echo llama-8b-8L $llama --mock-data
}

# train STATUS OPTION...: a run, which ends so; what it said where it fails
train()
{
	want=$1 rc=0
	shift
	"$B/mtrain" $run "$@" >log 2>&1 || rc=$?
	[ $rc = "$want" ] || { tail -n 20 log; exit 1; }
}

# hash DIRECTORY: of the weights that a run has saved last
hash()
{
	find "$1/iter_$(printf %07d "$STEPS")" -name '*.safetensors' ! -name '*optim*' | sort |
		xargs cat | sha256sum | cut -c 1-16
}

documents $vocab
failed=0
cases >list
while read -r name options; do
	case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
	since=$(date +%s)
	for i in 1 2; do
		train 0 $options --save whole --no-save-optim
		hash whole >"whole.$i"
		rm -r whole
	done
	train 3 $options --save half --exit-interval $((STEPS / 2))
	train 0 $options --load half --save rest --no-save-optim
	hash rest >rest.1
	echo "$name: $(cat whole.1), again $(cat whole.2), resumed $(cat rest.1)" \
		"($(($(date +%s) - since)) s)"
	cmp -s whole.1 whole.2 && cmp -s whole.1 rest.1 || failed=1
	rm -r half rest
done <list
exit $failed
