#!/bin/sh
# tok.sh - speed of tokenizers alone, one thread, on text that does not repeat; appends to
# results.tsv
#
# GOLDEN holds tokenizers/ and corpus/. The English model of the generator (text.c) is what prose.sh
# prints; the Japanese one is corpus/ja.jsonl. MB is the size of the text. Peers are tiktoken and
# tokenizers where PYTHON has them, on the first 10 MB, documents one by one in one thread. All
# figures are MB/s of processor time, the best of RUNS, so that other people's load counts little.
# SentencePiece models have libsentencepiece as their peer, in the same process. Columns as in
# bench.sh.
set -eu
: "${B:=build}" "${GOLDEN:?where the tokenizers are}" "${PYTHON:=python3}" "${MB:=200}" "${RUNS:=3}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
commit=$(git rev-parse --short HEAD)

# record WORKLOAD FIGURE PEER
record()
{
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$(date +%F)" "$commit" "$machine" "$1" "$2" "$3" |
		tee -a tests/bench/results.tsv
}

# best TOKENIZER TYPE CORPUS: MB/s of the first pass of a fresh worker
best()
{
	for _ in $(seq "$RUNS"); do
		"$B/tests/bench/encode" "$1" "$2" "$3" | sed -n 's/^cold\t\([0-9.]*\) .*/\1/p'
	done | sort -g | tail -n 1
}

# peer NAME CORPUS: MB/s of a Python package, or - where it is absent
peer()
{
	head -c 10000000 "$2" | sed '$d' >"$tmp/part.jsonl"
	"$PYTHON" tests/bench/tok_peer.py "$1" "$GOLDEN/tokenizers" "$tmp/part.jsonl" \
		2>"$tmp/log" || echo -
}

sh tests/bench/prose.sh "$GOLDEN/corpus/en.jsonl" >"$tmp/en.model"
"$B/tests/bench/text" words "$MB" 1 "$tmp/en.model" >"$tmp/English.jsonl"
"$B/tests/bench/text" chars "$MB" 1 "$GOLDEN/corpus/ja.jsonl" >"$tmp/Japanese.jsonl"
gpt2=$GOLDEN/tokenizers/gpt2-vocab.json,$GOLDEN/tokenizers/gpt2-merges.txt
for language in English Japanese; do
	figure=$(best "$gpt2" GPT2BPETokenizer "$tmp/$language.jsonl")
	for name in tiktoken tokenizers; do
		record "GPT-2 BPE alone, 1 thread, $MB MB $language, MB/s; peer: $name, MB/s" \
			"$figure" \
			"$(peer "$name" "$tmp/$language.jsonl")"
	done
done

for model in spm-bpe-8k spm-uni-8k; do
	for language in English Japanese; do
		for _ in $(seq "$RUNS"); do
			"$B/tests/bench/spm" "$GOLDEN/tokenizers/$model.model" \
				"$tmp/$language.jsonl"
		done | sort -g | tail -n 1 >"$tmp/rates"
		record "$model alone, 1 thread, $MB MB $language, MB/s; \
peer: libsentencepiece, MB/s" \
			"$(cut -f1 "$tmp/rates")" "$(cut -f2 "$tmp/rates")"
	done
done
