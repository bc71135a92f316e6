#!/bin/sh
# hostile.sh - time and memory that small hostile inputs take on this machine; appends to
# results.tsv
#
# Columns as in bench.sh. Each figure is the least of three runs.
set -eu
: "${B:=build}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source=tests/bench/record
. tests/bench/record
cd "$tmp"

# least FIELD COMMAND...: CPU ms (2) or resident KB (3)
least()
{
	field=$1
	shift
	for _ in 1 2 3; do
		"$B/tests/bench/usage" "$@" | cut -f "$field"
	done | sort -n | head -n 1
}

# One line of 400 MB in a gzip file of 2 MB.
{ printf '{"text": "'; head -c 400000000 /dev/zero | tr '\0' a; printf '"}\n'; } | gzip -1 >line.gz
record "mtok count of one line of 400 MB, resident KB; peer: --max-document-bytes, KB" \
	"$(least 3 mtok count -q --workers 1 --on-error skip --tokenizer-type NullTokenizer \
		--vocab-size 9 line.gz)" 262144

# A run of blanks of which each is an added token that takes white space on both sides.
cat >tokenizer.json <<-END
	{"version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null,
	 "decoder": null,
	 "added_tokens": [{"id": 2, "content": " ", "single_word": false, "lstrip": true,
	   "rstrip": true, "normalized": false, "special": true}],
	 "model": {"type": "BPE", "vocab": {"x": 0, "y": 1}, "merges": []}}
END
for n in 4000000 8000000; do
	{
		printf '{"text": "x'
		head -c $n /dev/zero | tr '\0' ' '
		printf 'y"}\n'
	} >blanks$n.jsonl
done
one="-q --workers 1 --tokenizer-model tokenizer.json"
# shellcheck disable=SC2086 # words
record "mtok count of 8 million blanks that are added tokens, CPU ms; peer: of 4 million, CPU ms" \
	"$(least 2 mtok count $one blanks8000000.jsonl)" \
	"$(least 2 mtok count $one blanks4000000.jsonl)"

"$B/tests/bench/header" make many.safetensors 1000000
record "open a safetensors file of a million tensors, CPU ms; peer: cat, CPU ms" \
	"$(least 2 "$B/tests/bench/header" open many.safetensors)" "$(least 2 cat many.safetensors)"
record "open a safetensors file of a million tensors, resident KB; peer: the file, KB" \
	"$(least 3 "$B/tests/bench/header" open many.safetensors)" \
	"$(($(wc -c <many.safetensors) / 1024))"

run="--dry-run --world-size 1048576 --num-layers 16 --hidden-size 64 --num-attention-heads 8
	--seq-length 16 --vocab-size 64 --mock-data --train-iters 1 --lr 1 --micro-batch-size 1
	--global-batch-size 1048576"
# shellcheck disable=SC2086 # words
record "mtrain --dry-run of 2^20 ranks, tensor 8, pipeline 16, CPU ms; peer: tensor 1, pipeline 1, \
CPU ms" \
	"$(least 2 mtrain $run --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16)" \
	"$(least 2 mtrain $run)"
