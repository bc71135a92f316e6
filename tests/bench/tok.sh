#!/bin/sh
# tok.sh - speed of tokenizers alone, one thread, on text that does not repeat; appends to
# results.tsv
#
# GOLDEN holds tokenizers/ and corpus/. The English model of the generator (text.c) is what prose.sh
# prints; the Japanese one is corpus/ja.jsonl. MB is the size of the text. Peers are tiktoken and
# tokenizers where PYTHON has them, on the first PEER_MB, documents one by one in one thread. All
# figures are MB/s of processor time, the best of RUNS, so that other people's load counts little.
# SentencePiece models have libsentencepiece as their peer, in the same process. The expressions of
# other tokenizers, from tests/golden/hf, cut for GPT-2's vocabulary; Llama 3's is the measure of
# them. They are encoded by turns with gigatoken and tokenizers; gigatoken takes all of the text, as
# it remembers what it has encoded, and refuses expressions that it does not know. ONLY=expressions
# runs these alone. Columns as in bench.sh.
set -eu
: "${B:=build}" "${GOLDEN:?where the tokenizers are}" "${PYTHON:=python3}" "${MB:=200}" "${RUNS:=3}"
: "${ONLY:=}" "${PEER_MB:=10}"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source=tests/bench/record
. tests/bench/record

# best TOKENIZER TYPE CORPUS: MB/s of the first pass of a fresh worker
best()
{
	for _ in $(seq "$RUNS"); do
		"$B/tests/bench/encode" "$1" "$2" "$3" | sed -n 's/^cold\t\([0-9.]*\) .*/\1/p'
	done | sort -g | tail -n 1
}

# peer NAME MODEL CORPUS: MB/s of a Python package, or - where it is absent or refuses
peer()
{
	head -c "${PEER_MB}000000" "$3" | sed '$d' >"$tmp/part.jsonl"
	[ "$1" != gigatoken ] || cp "$3" "$tmp/part.jsonl"
	"$PYTHON" tests/bench/tok_peer.py "$1" "$2" "$tmp/part.jsonl" 2>"$tmp/log" || echo -
}

# cut_by NAME: GPT-2's tokenizer.json with the steps of another tokenizer
cut_by()
{
	steps=tests/golden/hf/$1.json
	[ "$1" != llama-3 ] || steps=$GOLDEN/tokenizers/l3style.tokenizer.json
	"$PYTHON" - "$GOLDEN/tokenizers/gpt2.tokenizer.json" "$steps" <<-'END'
		import json, sys
		model, steps = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
		json.dump({**model, "pre_tokenizer": steps["pre_tokenizer"]}, sys.stdout)
	END
}

# expressions LANGUAGE: a row for each and each peer, all of which have a turn in every run
expressions()
{
	names='llama-3 deepseek kimi han hangul bloom'
	rm -f "$tmp"/*.rate
	for _ in $(seq "$RUNS"); do
		for name in $names; do
			cut_by "$name" >"$tmp/model.json"
			"$B/tests/bench/encode" "$tmp/model.json" HuggingFaceTokenizer \
				"$tmp/$1.jsonl" | sed -n 's/^cold\t\([0-9.]*\) .*/\1/p' \
				>>"$tmp/$name.ours.rate"
			for peer in gigatoken tokenizers; do
				peer "$peer" "$tmp/model.json" "$tmp/$1.jsonl" \
					>>"$tmp/$name.$peer.rate"
			done
		done
	done
	for name in $names; do
		for peer in gigatoken tokenizers; do
			record "GPT-2's vocabulary cut by $name, 1 thread, $MB MB $1, MB/s; \
peer: $peer, MB/s" "$(sort -g "$tmp/$name.ours.rate" | tail -n 1)" \
				"$(sort -g "$tmp/$name.$peer.rate" | tail -n 1)"
		done
	done
}

sh tests/bench/prose.sh "$GOLDEN/corpus/en.jsonl" >"$tmp/en.model"
"$B/tests/bench/text" words "$MB" 1 "$tmp/en.model" >"$tmp/English.jsonl"
"$B/tests/bench/text" chars "$MB" 1 "$GOLDEN/corpus/ja.jsonl" >"$tmp/Japanese.jsonl"
for language in English Japanese; do
	expressions "$language"
done
[ "$ONLY" != expressions ] || exit 0

gpt2=$GOLDEN/tokenizers/gpt2-vocab.json,$GOLDEN/tokenizers/gpt2-merges.txt
for language in English Japanese; do
	figure=$(best "$gpt2" GPT2BPETokenizer "$tmp/$language.jsonl")
	for name in tiktoken tokenizers; do
		model=$GOLDEN/tokenizers
		[ "$name" = tiktoken ] || model=$model/gpt2.tokenizer.json
		record "GPT-2 BPE alone, 1 thread, $MB MB $language, MB/s; peer: $name, MB/s" \
			"$figure" \
			"$(peer "$name" "$model" "$tmp/$language.jsonl")"
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
