#!/bin/sh
# round_trip.sh - round_trip.sh FILE.jsonl ...: whether texts come back from a model of default
# options that mtok train makes of them
#
# B: the build directory. VOCAB_SIZE: 8000. Prints a line for each file, its documents and bytes;
# status 1 when a text does not come back.
set -eu
: "${B:=build}" "${VOCAB_SIZE:=8000}"
B=$(cd "$B" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
"$B/mtok" train -q --vocab-size "$VOCAB_SIZE" -o "$tmp/model" "$@"
for file; do
	"$B/mtok" -q --force --tokenizer-model "$tmp/model" -o "$tmp/data" "$file"
	"$B/mtok" decode --json --tokenizer-model "$tmp/model" "$tmp/data_text_document" |
		"$B/tests/tools/jsontool" lines text >"$tmp/back"
	"$B/tests/tools/jsontool" lines text <"$file" >"$tmp/texts"
	if cmp "$tmp/texts" "$tmp/back"; then
		echo "$(basename "$file"): $(wc -l <"$tmp/texts") documents, \
$(wc -c <"$tmp/texts") bytes come back"
	else
		failed=1
	fi
done
exit $failed
