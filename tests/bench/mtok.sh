#!/bin/sh
# mtok.sh - mtok from JSON Lines to a dataset: speed on one core, two workers, memory, start;
# appends to results.tsv
#
# GOLDEN holds tokenizers/ and corpus/. MB is the size of the text, which text.c makes of what
# prose.sh prints, and of corpus/ja.jsonl, so that it does not repeat. Speeds are MB/s of processor
# time (user and system) with --workers 1, the best of RUNS, so that other people's load counts
# little; those of two workers are of the clock, and mean something on a quiet machine alone: beside
# one worker's stand those of two processes with half of the text each. Peers are what PYTHON has of
# tiktoken, tokenizers and sentencepiece, in a loop of one process that reads, parses, encodes and
# writes (mtok_peer.py). Columns as in bench.sh.
set -eu
: "${B:=build}" "${GOLDEN:?where the tokenizers are}" "${PYTHON:=python3}" "${MB:=200}" "${RUNS:=3}"
B=$(cd "$B" && pwd)
GOLDEN=$(cd "$GOLDEN" && pwd)
PATH=$B:$PATH
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source=tests/bench/record
. tests/bench/record
files=$GOLDEN/tokenizers

# timed FIELD CORPUS OPTION...: the least value of a field (1 user + system seconds, 2 seconds, 3
# kB) of RUNS runs, of which none replaces a dataset: that would be the time of freeing the old one,
# too
timed()
{
	field=$1
	corpus=$2
	shift 2
	for _ in $(seq "$RUNS"); do
		rm -f "$tmp"/out_*
		/usr/bin/time -o "$tmp/time" -f '%U %S %e %M' mtok -q -o "$tmp/out" \
			--append-eod "$@" "$corpus"
		awk -v field="$field" '{ print field == 1 ? $1 + $2 : $(field + 1) }' "$tmp/time"
	done | sort -g | head -n 1
}

# speed CORPUS OPTION...: MB/s of processor time
speed()
{
	timed 1 "$@" --workers 1 |
		awk -v bytes="$(wc -c <"$1")" '{ printf "%.0f", bytes / $1 / 1e6 }'
}

# peer NAME FILE CORPUS: MB/s of a Python package on the first 10 MB, or - where it is absent
peer()
{
	head -c 10000000 "$3" | sed '$d' >"$tmp/part.jsonl"
	"$PYTHON" tests/bench/mtok_peer.py "$1" "$2" "$tmp/part.jsonl" "$tmp/peer.out" \
		2>"$tmp/log" || echo -
}

sh tests/bench/prose.sh "$GOLDEN/corpus/en.jsonl" >"$tmp/en.model"
"$B/tests/bench/text" words "$MB" 1 "$tmp/en.model" >"$tmp/English"
"$B/tests/bench/text" chars "$MB" 1 "$GOLDEN/corpus/ja.jsonl" >"$tmp/Japanese"
gpt2="--vocab-file $files/gpt2-vocab.json --merge-file $files/gpt2-merges.txt"

for language in English Japanese; do
	# shellcheck disable=SC2086 # words
	figure=$(speed "$tmp/$language" $gpt2)
	for name in tiktoken tokenizers; do
		record "mtok end to end, GPT-2, 1 core, $MB MB $language, MB/s; peer: \
$name in a loop, MB/s" "$figure" \
			"$(peer "$name" "$files" "$tmp/$language")"
	done
	for model in spm-uni-8k spm-bpe-8k; do
		record "mtok end to end, $model, 1 core, $MB MB $language, MB/s; peer: \
sentencepiece in a loop, MB/s" \
			"$(speed "$tmp/$language" --tokenizer-model "$files/$model.model")" \
			"$(peer sentencepiece "$files/$model.model" "$tmp/$language")"
	done
	record "JSON Lines alone, $language, user + system ns a byte; peer: none" "$(
		for _ in $(seq "$RUNS"); do
			OPENBLAS_NUM_THREADS=1 "$B/tests/bench/jsonl" "$tmp/$language"
		done | awk '{ print $1 + $2 }' | sort -g | head -n 1
	)" -
done

# halves CORPUS OPTION...: the least seconds of the clock for two processes side by side, each with
# one worker and one half of the lines: what the machine's two cores can do for such work
halves()
{
	corpus=$1
	shift
	split -n l/2 "$corpus" "$tmp/half."
	for _ in $(seq "$RUNS"); do
		rm -f "$tmp"/out*
		from=$(date +%s%N)
		for half in "$tmp"/half.*; do
			mtok -q -o "$tmp/out.${half##*.}" --append-eod "$@" --workers 1 "$half" &
		done
		wait
		echo "$from $(date +%s%N)"
	done | awk '{ printf "%.2f\n", ($2 - $1) / 1e9 }' | sort -g | head -n 1
	rm -f "$tmp"/half.* "$tmp"/out*
}

"$B/tests/bench/text" words $((5 * MB)) 2 "$tmp/en.model" >"$tmp/longer"
for size in $MB $((5 * MB)); do
	corpus=$tmp/English
	[ "$size" = "$MB" ] || corpus=$tmp/longer
	# shellcheck disable=SC2086 # words
	record "mtok two workers, GPT-2, $size MB English, seconds; peer: one worker, seconds" \
		"$(timed 2 "$corpus" $gpt2 --workers 2)" "$(timed 2 "$corpus" $gpt2 --workers 1)"
	# shellcheck disable=SC2086 # words
	record "mtok two workers, GPT-2, $size MB English, seconds; peer: \
two processes with one half each, seconds" \
		"$(timed 2 "$corpus" $gpt2 --workers 2)" "$(halves "$corpus" $gpt2)"
done
rm "$tmp/longer"
for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$tmp/English"; done >"$tmp/large"
# shellcheck disable=SC2086 # words
record "mtok peak memory of one worker, GPT-2, $((10 * MB)) MB English, MB; \
peer: eight workers, MB" \
	"$(RUNS=1 timed 3 "$tmp/large" $gpt2 --workers 1 | awk '{ printf "%.0f", $1 / 1024 }')" \
	"$(RUNS=1 timed 3 "$tmp/large" $gpt2 --workers 8 | awk '{ printf "%.0f", $1 / 1024 }')"

# start OPTION...: ms of the clock from the start of mtok count until the tokens of one line are on
# standard output, the mean of twenty, the best of RUNS; a dataset would measure the disk's fsync
start()
{
	for _ in $(seq "$RUNS"); do
		from=$(date +%s%N)
		for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			mtok count -q "$@" "$tmp/one" >"$tmp/log"
		done
		echo "$from $(date +%s%N)"
	done | awk '{ printf "%.1f\n", ($2 - $1) / 20e6 }' | sort -g | head -n 1
}

head -n 1 "$tmp/English" >"$tmp/one"
# shellcheck disable=SC2086 # words
record "mtok start, GPT-2, one line, ms; peer: none" "$(start $gpt2)" -
for name in cl100k_base.tiktoken llama3.tokenizer.json spm-bpe-8k.model; do
	[ ! -e "$files/$name" ] ||
		record "mtok start, $name, one line, ms; peer: none" \
		"$(start --tokenizer-model "$files/$name")" -
done
