#!/bin/sh
# memory.sh OLD NEW - the memory plans of two builds: 6 models, 9 layouts and 10 options, as far as
# they are legal
#
# OLD and NEW are directories with mplan. Prints a line for each plan whose scratch or saved
# activations differ, and the counts at the end; status 1 if one of NEW is larger. Some seconds.
# shellcheck disable=SC2086
set -eu
old=$1/mplan new=$2/mplan
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

llama="--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \
	--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 \
	--group-query-attention"
cat >"$dir/models" <<END
gpt2-xl --num-layers 48 --hidden-size 1600 --num-attention-heads 25 --vocab-size 50257 \
	--seq-length 1024
llama-8b $llama --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \
	--num-query-groups 8 --ffn-hidden-size 14336 --vocab-size 128256 --seq-length 8192
llama-70b $llama --num-layers 80 --hidden-size 8192 --num-attention-heads 64 \
	--num-query-groups 8 --ffn-hidden-size 28672 --vocab-size 128256 --seq-length 8192
gemma-9b $llama --norm-placement both --activation geglu --num-layers 42 --hidden-size 3584 \
	--num-attention-heads 16 --num-query-groups 8 --kv-channels 256 --ffn-hidden-size 14336 \
	--vocab-size 256000 --seq-length 4096
mixtral $llama --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --num-query-groups 8 \
	--ffn-hidden-size 14336 --vocab-size 32000 --seq-length 4096 --num-experts 8
qwen3-30b $llama --qk-layernorm --num-layers 48 --hidden-size 2048 --num-attention-heads 32 \
	--num-query-groups 4 --kv-channels 128 --ffn-hidden-size 6144 --vocab-size 151936 \
	--seq-length 4096 --num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 \
	--moe-layer-freq ([0]*1+[1]*47)
END
cat >"$dir/layouts" <<END
--world-size 1
--world-size 4
--world-size 4 --expert-model-parallel-size 4
--world-size 4 --tensor-model-parallel-size 4
--world-size 4 --tensor-model-parallel-size 4 --sequence-parallel --tp-comm-overlap
--world-size 4 --context-parallel-size 4
--world-size 4 --context-parallel-size 4 --cp-comm-type a2a
--world-size 4 --pipeline-model-parallel-size 4
--world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
	--sequence-parallel
END
cat >"$dir/options" <<END
--bf16
--bf16 --recompute-granularity selective
--bf16 --recompute-granularity selective --recompute-modules layernorm mlp
--bf16 --recompute-granularity full
--bf16 --fp32-residual-connection
--bf16 --hidden-dropout 0.1
--fp16 --cpu-offloading-num-layers 2
--bf16 --fp8-format hybrid
--bf16 --fp8-format hybrid --fp8-recipe blockwise
--bf16 --data-parallel-sharding-strategy optim_grads_params --optimizer muon
END
set -f
while read -r model sizes; do
	while read -r layout; do
		while read -r options; do
			set -- $sizes $layout $options --global-batch-size 16
			"$old" mem "$@" >"$dir/old" 2>"$dir/why" || continue
			"$new" mem "$@" >"$dir/new" 2>"$dir/why" || { cat "$dir/why"; exit 1; }
			run="$model $*"
			paste "$dir/old" "$dir/new" | awk -v run="$run" -F '\t' '
			FNR == 1 { half = NF / 2; next }
			{ print run "\t" $7 "\t" $(half + 7) "\t" $8 "\t" $(half + 8) }'
		done <"$dir/options"
	done <"$dir/layouts"
done <"$dir/models" >"$dir/plans"
awk -F '\t' -v OFS='\t' 'BEGIN { print "run", "saved", "saved_new", "scratch", "scratch_new" }
$2 != $3 || $4 != $5 { print }
{ runs[$1]; stages++ }
$3 > $2 || $5 > $4 { larger++ }
$3 < $2 { saved++ }
$5 < $4 { scratch++; part = 1 - $5 / $4; if (part > most) most = part }
END {
	n = 0; for (r in runs) n++
	printf "%d plans of %d stages: %d larger, scratch smaller in %d by up to %.1f %%, " \
	    "saved activations in %d\n", n, stages, larger, scratch, 100 * most, saved
	exit larger > 0
}' "$dir/plans"
