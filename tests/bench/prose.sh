#!/bin/sh
# prose.sh FALLBACK.jsonl - the English model of the benchmarks' text (text.c), as JSON Lines of
# ASCII
#
# The lines of this machine's manual pages that are running text, forty per document; FALLBACK where
# there are few. Drama, which the goldens have, has shorter pieces than what models are trained on:
# 3.8 bytes instead of 4.4.
set -eu
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
find /usr/share/man/man[1578] -name '*.gz' -type f -size +4k 2>/dev/null | sort | head -n 800 |
	xargs -r zcat 2>/dev/null |
	grep -v "^[.']" |
	sed 's/\\f[BIRP]//g; s/\\f([A-Z]*//g; s/\\[&%|]//g; s/\\-/-/g' |
	sed 's/\\(.q/'"'"'/g; s/\\(..//g' |
	tr -d '"\\\t' | tr -cd '\n -~' | grep '[a-z] [a-z]' |
	awk '
		{ text = text $0 "\\n" }
		NR % 40 == 0 { print "{\"text\": \"" text "\"}"; text = "" }' >"$tmp"
if [ "$(wc -c <"$tmp")" -gt 2000000 ]; then cat "$tmp"; else cat "$1"; fi
