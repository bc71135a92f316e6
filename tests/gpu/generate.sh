#!/bin/sh
# generate.sh - text on a GPU: what the CPU gives, with keys that are kept and without, and tokens/s
#
# Random weights, of which every rank and device makes the same. In fp32 the texts of the CPU and of
# the GPU must be equal, and logits within 1e-3; in bf16 logits with kept keys and without within
# 5 % of the largest, and texts equal whether passes are recorded or queued. Then a Llama of 1 B in
# bf16 with one prompt and with 32: tokens/s of 1,024 tokens, as mtrain says, the mean of two runs
# (RUNS), and the GB/s of weights read (PEAK: of the memory, 4800).
# B is the build directory. DEVICE=cpu tries the script without a GPU, on a smaller model.
set -eu
: "${B:=build}" "${DEVICE:=cuda}" "${PEAK:=4800}" "${RUNS:=2}"
if [ "$DEVICE" = cuda ] && ! nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
	echo "skipped: there is no GPU"
	exit 0
fi
B=$(cd "$B" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
export OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_hwloc_base_binding_policy=none
small="--num-layers 4 --hidden-size 256 --ffn-hidden-size 704 --num-attention-heads 8
	--group-query-attention --num-query-groups 4 --vocab-size 2048 --seq-length 512 --swiglu
	--normalization RMSNorm --position-embedding-type rope --disable-bias-linear
	--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0
	--micro-batch-size 1 --global-batch-size 1 --init-method-std 0.1"
large="--num-layers 16 --hidden-size 2048 --ffn-hidden-size 8192 --num-attention-heads 32
	--group-query-attention --num-query-groups 8 --vocab-size 32000 --seq-length 2048 --swiglu
	--normalization RMSNorm --position-embedding-type rope --disable-bias-linear
	--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0
	--micro-batch-size 1 --global-batch-size 1"
[ "$DEVICE" = cuda ] || large=$small
echo '{"input_ids": [5, 7, 11, 300, 9, 20, 44]}' >one
{ cat one && echo '{"input_ids": [8]}' && printf '{"input_ids": [%s2]}\n' \
	"$(seq -s ', ' 1 150), "; } >three

linear="--linear-attention-freq 2 --linear-num-key-heads 4 --linear-num-value-heads 8
	--linear-key-head-dim 32 --linear-value-head-dim 32 --attention-output-gate --qk-layernorm
	--apply-layernorm-1p"

# texts DEVICE FILE OPTION...: of the small model
texts()
{
	on=$1 to=$2
	shift 2
	# shellcheck disable=SC2086 # options
	"$B/mtrain" -q $small --backend "$on" --tokenizer-type NullTokenizer --generate 24 "$@" |
		sed 's/, "logprob.*//' >"$to"
}

# fail WORD...
fail()
{
	echo "failed: $*"
	exit 1
}

# follows OPTION...: texts and logits of fp32 of the small model with these options are the CPU's
follows()
{
	texts cpu cpu.texts --prompts three "$@"
	texts "$DEVICE" gpu.texts --prompts three "$@"
	cmp cpu.texts gpu.texts || fail "texts of fp32 differ from the CPU's: $*"
	texts "$DEVICE" gpu.texts --prompts three --no-kv-cache --generate-batch-size 2 "$@"
	cmp cpu.texts gpu.texts || fail "texts of fp32 without kept keys differ: $*"
	texts cpu cpu.texts --prompts one --logits-file cpu.npy "$@"
	texts "$DEVICE" gpu.texts --prompts one --logits-file gpu.npy "$@"
	"$B/tests/tools/npydiff" cpu.npy gpu.npy 1e-3 ||
		fail "logits of fp32 differ from the CPU's: $*"
}

follows
# shellcheck disable=SC2086 # options
follows $linear
echo "texts and logits of fp32 are the CPU's"
texts "$DEVICE" a.texts --prompts one --bf16 --generate 1 --logits-file a.npy
texts "$DEVICE" b.texts --prompts one --bf16 --generate 1 --logits-file b.npy --no-kv-cache
"$B/tests/tools/npydiff" a.npy b.npy 5e-2 || fail "logits of bf16 differ without kept keys"
echo "logits of bf16 with kept keys are those of a pass over all"
for n in one three; do
	texts "$DEVICE" a.texts --prompts $n --bf16
	texts "$DEVICE" b.texts --prompts $n --bf16 --no-cuda-graphs
	cmp a.texts b.texts || fail "texts of bf16 differ where passes are recorded"
done
echo "texts of bf16 of passes that are recorded are those of passes that are queued"

# speed PROMPTS: tokens/s of a run of the large model
speed()
{
	for _ in $(seq "$1"); do cat one; done >prompts
	# shellcheck disable=SC2086 # options
	"$B/mtrain" $large --backend "$DEVICE" --bf16 --tokenizer-type NullTokenizer \
		--generate 1025 --generate-batch-size "$1" --prompts prompts 2>notes >made
	sed -n 's/.* \([0-9]*\) tokens.s$/\1/p' notes
}

printf 'prompts\ttokens_per_second\tweights_GB_per_second\tshare_of_peak\n'
for n in 1 32; do
	for _ in $(seq "$RUNS"); do speed "$n"; done | awk -v n="$n" -v peak="$PEAK" '
	{ sum += $1 }
	END {
		steps = sum / NR / n
		bytes = 2 * (16 * (2048 * 2048 * 2.5 + 3 * 2048 * 8192) + 32000 * 2048)
		printf "%d\t%.0f\t%.0f\t%.2f\n", n, n * steps, steps * bytes / 1e9,
			steps * bytes / 1e9 / peak
	}'
done
