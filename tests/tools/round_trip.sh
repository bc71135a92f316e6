#!/bin/sh
# round_trip.sh - round_trip.sh FILE.jsonl ...: whether texts come back from a model of default
# options that mtok train makes of them
#
# B: the build directory. VOCAB_SIZE: 8000. PYTHON reads the texts as they were. Prints a line for
# each file: its documents, those that come back, and those that come back but for U+2581, which is
# how SentencePiece writes a blank. Status 1 when another text does not come back.
set -eu
: "${B:=build}" "${VOCAB_SIZE:=8000}" "${PYTHON:=python3}"
B=$(cd "$B" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# compare FILE BACK: the row of a file
compare()
{
	"$PYTHON" -c 'import json, sys
was, back = ([json.loads(line)["text"] for line in open(path, "rb") if line.strip()]
             for path in sys.argv[1:])
same = sum(x == y for x, y in zip(was, back))
mark = sum(x != y and x.replace("\u2581", " ") == y for x, y in zip(was, back))
print(len(was), same, mark, sep="\t")
sys.exit(len(was) != len(back) or same + mark != len(was))' "$1" "$2"
}

"$B/mtok" train -q --vocab-size "$VOCAB_SIZE" -o "$tmp/model" "$@"
printf 'file\tdocuments\tequal\tbut_for_u2581\n'
for file; do
	"$B/mtok" -q --force --tokenizer-model "$tmp/model" -o "$tmp/data" "$file"
	"$B/mtok" decode --json --tokenizer-model "$tmp/model" "$tmp/data_text_document" \
		>"$tmp/back"
	printf '%s\t' "$(basename "$file")"
	compare "$file" "$tmp/back" || failed=1
done
exit $failed
