#!/usr/bin/env bats
# limits.bats - each tool under a limit of the size of files (ulimit -f, as batch systems set it):
# status 1, one line with the file's name, and nothing left
bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	mkdir out
}

# limited NAME COMMAND...: it cannot write the file of this name
limited()
{
	local name=$1
	shift
	run --separate-stderr bash -c 'ulimit -f 8; exec "$@"' limited "$@"
	[ "$status" = 1 ] || { echo "status $status: $stderr" >&2; return 1; }
	[ "${#stderr_lines[@]}" = 1 ] && [[ $stderr == "${1##*/}: cannot "*"'out/"*"$name"*"': File too large" ]] ||
		{ echo "$stderr" >&2; return 1; }
	[ -z "$(find out -type f)" ] || { find out >&2; return 1; }
}

@test "mtok and mshard" {
	for i in $(seq 3000); do
		echo '{"text": "1 2 3 4 5 6 7 8 9 10 11 12 13"}'
	done >a.jsonl
	limited o_text_document mtok encode -q a.jsonl --output-prefix out/o \
		--tokenizer-type NullTokenizer --vocab-size 512
	mtok encode -q a.jsonl --output-prefix a --tokenizer-type NullTokenizer --vocab-size 512
	limited m mshard cat -q -o out/m a_text_document a_text_document
}

@test "mckpt and mexport" {
	limited pieces-00000.safetensors mckpt import -q "$TOP/tests/golden/ckpt/llama" out/ck
	mckpt import -q "$TOP/tests/golden/ckpt/llama" ck
	limited pieces-00000.safetensors mckpt reshard -q ck out/split
	limited model.safetensors mexport -q ck out/hf
}
