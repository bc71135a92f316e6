#!/bin/sh
# generate.sh - tokens/s of --generate in one thread of a CPU, beside transformers with its cache;
# appends to results.tsv
#
# A Llama of 49 M parameters in fp32, TOKENS tokens after 8, of one prompt and of eight. PYTHON has
# torch and transformers. Both have a turn in each of RUNS runs, and the best counts: seconds are of
# processor time, so that other people's load counts little, and those of one token are taken off,
# with which a program starts. The third row is the share of the bound that reading each weight once
# at the measured rate sets. Columns as in bench.sh.
set -eu
: "${B:=build}" "${PYTHON:=python3}" "${RUNS:=5}" "${TOKENS:=128}"
B=$(cd "$B" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source=tests/bench/record
. tests/bench/record
export OMP_NUM_THREADS=1 OMPI_MCA_ess_singleton_isolated=1

# peer WORD...: generate_peer.py without what it says of itself
peer()
{
	"$PYTHON" tests/bench/generate_peer.py "$@" 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
}

# spent TOKENS: seconds of processor time of a run
spent()
{
	command time -o "$tmp/seconds" -f '%U %S' "$B/mtrain" -q --model "$tmp/model" \
		--pretrained-checkpoint "$tmp/model" --tokenizer-type NullTokenizer \
		--vocab-size 10240 --num-threads 1 --seq-length 1024 --generate "$1" \
		--prompts "$tmp/prompts" >"$tmp/texts"
	awk '{ print $1 + $2 }' "$tmp/seconds"
}

# ours PROMPTS: seconds of a token of each
ours()
{
	for _ in $(seq "$1"); do
		echo '{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8]}'
	done >"$tmp/prompts"
	echo "$(spent 1) $(spent $((TOKENS + 1)))" | awk -v n="$TOKENS" '{ print ($2 - $1) / n }'
}

# rate FILE PROMPTS: tokens/s of the best run
rate()
{
	sort -g "$1" | awk -v n="$2" 'NR == 1 { printf "%.1f\n", n / $1 }'
}

parameters=$(peer write "$tmp/model")
bandwidth=$(peer bandwidth)
for prompts in 1 8; do
	rm -f "$tmp/ours" "$tmp/peer"
	for _ in $(seq "$RUNS"); do
		ours $prompts >>"$tmp/ours"
		peer generate "$tmp/model" "$TOKENS" $prompts >>"$tmp/peer"
	done
	record "mtrain --generate, Llama 49M fp32, prompts: $prompts, of 8 and $TOKENS tokens, 1\
 thread, tokens/s of processor time; peer: transformers with its cache" \
		"$(rate "$tmp/ours" $prompts)" "$(rate "$tmp/peer" $prompts)"
	[ $prompts != 1 ] || one=$(rate "$tmp/ours" 1)
done
record "mtrain --generate, Llama 49M fp32, one prompt, 1 thread, weights read, GB/s; peer: a sum\
 over 512 MiB, GB/s" \
	"$(awk -v r="$one" -v n="$parameters" 'BEGIN { printf "%.1f", r * n * 4e-9 }')" \
	"$(awk -v b="$bandwidth" 'BEGIN { printf "%.1f", b * 1e-9 }')"
