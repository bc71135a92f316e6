#!/usr/bin/env bats
# mshard.bats - every verb of mshard, its exit statuses and its words

bats_require_minimum_version 1.5.0

setup()
{
	export D="$TOP/tests/golden/data"
	cd "$BATS_TEST_TMPDIR"
	cp "$D"/corpora/* "$D"/merge/* .
	chmod u+w ./*
	mkdir corpora
	cp "$D"/corpora/* corpora/
}

# refused STATUS LINE COMMAND...: the command fails with this status, this one line and nothing on stdout
refused()
{
	local status_wanted=$1 line_wanted=$2
	shift 2
	run --separate-stderr "$@"
	[ "$status" = "$status_wanted" ] || { echo "status $status: $output $stderr"; return 1; }
	[ "$stderr" = "$line_wanted" ] || { echo "said: $stderr"; return 1; }
	[ -z "$output" ] || { echo "printed: $output"; return 1; }
}

# no_leftovers: no temporary file in this directory
no_leftovers()
{
	[ -z "$(find . -name '*.tmp' -o -name '*.??????' -type f)" ]
}

@test "no arguments, unknown verb, help, version" {
	refused 2 "mshard: a verb is needed; --help lists those there are" mshard
	refused 2 "mshard: unknown verb 'frobnicate'; --help lists those there are" mshard frobnicate
	run -0 mshard --help
	help=$output
	for verb in info verify head cat index blend; do
		[[ "$help" == *"  $verb "* ]]
		run -0 mshard "$verb" --help
		[[ "$output" == "usage: mshard $verb [options]"* ]]
	done
	run -0 mshard --version
	[[ "$output" == mshard* ]]
}

@test "verbs without their operands are usage errors" {
	for verb in info verify head cat; do
		refused 2 "mshard: which dataset? PREFIX is the path of its files without .bin and .idx" mshard $verb
	done
	refused 2 "mshard: head prints one dataset at a time, not 2" mshard head a_u16 b_i32
	refused 2 "mshard: --output: where should the merged dataset go?" mshard cat a_u16
	for verb in index blend; do
		refused 2 "mshard: --data-path: which dataset? (or --data-args-path, --train-data-path, --per-split-data-args-path)" mshard $verb
		refused 2 "mshard: operand 'a_u16': the datasets are those of --data-path" mshard $verb a_u16
	done
}

@test "info: rows, either file of the pair, several datasets" {
	run -0 mshard info e_tiny_i32.idx
	[ "$output" = "dataset	item	value
e_tiny_i32	documents	5
e_tiny_i32	empty_documents	0
e_tiny_i32	sequences	5
e_tiny_i32	tokens	37
e_tiny_i32	dtype	int32
e_tiny_i32	bin_bytes	148
e_tiny_i32	modes	no
e_tiny_i32	fingerprint	94715cfa527ef829-148
e_tiny_i32	shortest	1
e_tiny_i32	longest	16
e_tiny_i32	length 1-1	1
e_tiny_i32	length 2-3	1
e_tiny_i32	length 4-7	1
e_tiny_i32	length 8-15	1
e_tiny_i32	length 16-31	1" ]
	run -0 mshard info a_u16.bin d_sent_u16
	[[ "$output" == *"a_u16	empty_documents	3"*"d_sent_u16	length 0-0	11"* ]]
}

@test "info --json: one object a line" {
	run -0 mshard info --json e_tiny_i32 d_sent_u16
	[ "${#lines[@]}" = 2 ]
	[[ "${lines[0]}" == '{"dataset": "e_tiny_i32", "documents": 5, "empty_documents": 0, "sequences": 5, "tokens": 37, "dtype": "int32",'* ]]
	[[ "${lines[1]}" == *'"shortest": 0, "longest": 11, "lengths": [{"from": 0, "to": 0, "sequences": 11}, '* ]]
}

@test "info: a dataset that is not there" {
	run --separate-stderr mshard info nowhere
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: cannot open 'nowhere.idx': No such file or directory" ]
}

@test "verify: sound datasets" {
	run -0 --separate-stderr mshard verify a_u16 d_sent_u16.bin "$D/malformed/trailing_modes"
	[ "$output" = "a_u16: ok, 63 documents, 60 sequences, 1278 tokens of uint16
d_sent_u16: ok, 40 documents, 108 sequences, 599 tokens of uint16
$D/malformed/trailing_modes: ok, 3 documents, 5 sequences, 31 tokens of uint16" ]
	[ -z "$stderr" ]
}

@test "verify: every damaged pair is refused, and the others are still looked at" {
	cd "$D/malformed"
	for idx in *.idx; do
		name=${idx%.idx}
		case $name in ok | trailing_modes) continue ;; esac
		run --separate-stderr mshard verify "$name" ok
		[ "$status" = 1 ]
		[[ "$stderr" == "mshard: $name."*": "* ]]
		[ "${#stderr_lines[@]}" = 1 ]
		[ "$output" = "ok: ok, 3 documents, 5 sequences, 31 tokens of uint16" ]
	done
}

@test "verify --vocab-size: ids in range or not" {
	run -0 mshard verify --vocab-size 50257 a_u16
	refused 1 "mshard: b_i32.bin: token 0 of sequence 0 is 82344; the ids of a vocabulary of 50257 end at 50256" \
		mshard verify b_i32 --vocab-size 50257
	refused 2 "mshard: --vocab-size 0: must be from 1 to 2147483648" mshard verify --vocab-size 0 a_u16
}

@test "head: documents as ids" {
	run -0 mshard head -n 2 d_sent_u16
	[ "${lines[0]}" = "document	sequence	tokens	ids" ]
	[ "${lines[1]%%	*}" = 0 ]
	[ "${lines[-1]%%	*}" = 1 ]
	run -0 mshard head e_tiny_i32 --document 4
	[ "${#lines[@]}" = 2 ]
	[ "${lines[1]}" = "4	4	1	65499" ]
	run -0 mshard head a_u16
	[ "${#lines[@]}" = 11 ]
	run -0 mshard head a_u16 -n 100
	[ "$(grep -c '	-	0	$' <<<"$output")" = 3 ]
	[ "$(awk -F'\t' 'NR > 1 { t += $3; n += split($4, x, " ") } END { print t, n }' <<<"$output")" = "1278 1278" ]
}

@test "head: a document that is not there" {
	run --separate-stderr mshard head --document 63 a_u16
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: a_u16: no document 63: there are 63, counted from 0" ]
}

@test "cat: the bytes of Megatron-LM's merge" {
	run -0 mshard cat -o all eod_text_document part2_text_document.idx plain_text_document
	[ -z "$output" ]
	cmp all.idx merged.idx
	cmp all.bin merged.bin
	no_leftovers
}

@test "cat: one dataset is a copy, sentences and empty documents included" {
	for name in a_u16 b_i32 c_u16 d_sent_u16; do
		mshard cat --output copy-$name $name
		cmp copy-$name.idx $name.idx
		cmp copy-$name.bin $name.bin
	done
}

@test "cat: an existing target needs --force" {
	cp a_u16.bin all.bin
	refused 1 "mshard: all.bin: exists already; --force replaces it" mshard cat -o all a_u16 c_u16
	rm all.bin
	cp a_u16.idx all.idx
	refused 1 "mshard: all.idx: exists already; --force replaces it" mshard cat -o all a_u16 c_u16
	run -0 mshard cat -o all --force a_u16 c_u16
	run -0 mshard verify all
	[ "$output" = "all: ok, 75 documents, 72 sequences, 15990 tokens of uint16" ]
	run -0 mshard cat -o all --force all all
	run -0 mshard verify all
	[ "$output" = "all: ok, 150 documents, 144 sequences, 31980 tokens of uint16" ]
}

@test "cat: token types" {
	refused 1 "mshard: b_i32: tokens of int32, but those of a_u16 are uint16; --widen merges them" mshard cat -o all a_u16 b_i32
	[ ! -e all.bin ] && [ ! -e all.idx ]
	run -0 mshard cat --widen -o all a_u16 b_i32
	run -0 mshard info all
	[[ "$output" == *"all	dtype	int32"* ]]
	diff <(mshard head -n 1000 a_u16 | cut -f4) <(mshard head -n 63 all | cut -f4)
	diff <(mshard head -n 5000 b_i32 | sed 1d | cut -f4) <(mshard head -n 5000 --document 63 all | sed 1d | cut -f4)
}

@test "cat: damaged input, modes, no such directory: nothing is left" {
	refused 1 "mshard: $D/malformed/doc_last.idx: the document index ends with 4, not with the 5 sequences" \
		mshard cat -o all a_u16 "$D/malformed/doc_last"
	refused 1 "mshard: $D/malformed/trailing_modes: has modes (multimodal data), which the result could not hold" \
		mshard cat -o all "$D/malformed/trailing_modes"
	run --separate-stderr mshard cat -o no/such/all a_u16
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: cannot create 'no/such/all.bin."*"': No such file or directory" ]]
	[ ! -e all.bin ] && [ ! -e all.idx ]
	no_leftovers
}

@test "a full disk under stdout is an error" {
	for args in "info a_u16" "info --json a_u16" "verify a_u16" "head b_i32 -n 1000" \
		"index --data-path a_u16 --split 1 --seq-length 8" "blend --data-path a_u16 b_i32 --split 1 --seq-length 8"; do
		run --separate-stderr bash -c "mshard $args >/dev/full"
		[ "$status" = 1 ]
		[[ "$stderr" == "mshard: cannot write standard output"* ]]
	done
}

@test "unknown option" {
	refused 2 "mshard: unknown option '--jsno'; the nearest is '--json'" mshard info --jsno a_u16
}

@test "the examples of the manual" {
	mkdir data
	for name in a b c; do
		cp a_u16.idx data/${name}_text_document.idx
		cp a_u16.bin data/${name}_text_document.bin
	done
	examples=$(sed -n '/^.Sh EXAMPLES/,/^.Sh DIAGNOSTICS/p' "$TOP/man/mshard.1" | sed -e 's/\\e$/\\/' -e 's/^\.Dl //' |
		awk '/^\$ / { on = 1; sub(/^\$ /, "") } on { print } !/\\$/ { on = 0 }')
	run -0 sh -eu -c "${examples//32000/50257}"
	[ "$(grep -c '' <<<"$examples")" = 8 ]
	[[ "$output" == "data/a_text_document: ok, "*"train	1000	542	"*"valid	0	1	"* ]]
	[[ "$output" == *"train	data/a_text_document	0.7	700	0.700000	"* ]]
	[ -e data/all.idx ] && [ "$(ls cache | wc -l)" = 10 ]
}
