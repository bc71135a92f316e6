#!/usr/bin/env bats
# mshard.bats - every verb of mshard, its exit statuses and its words

bats_require_minimum_version 1.5.0
load common

setup()
{
	export D="$TOP/tests/golden/data"
	cd "$BATS_TEST_TMPDIR"
	cp "$D"/corpora/* "$D"/merge/* .
	chmod u+w ./*
	mkdir corpora
	cp "$D"/corpora/* corpora/
}

# no_leftovers: no temporary file in this directory
no_leftovers()
{
	[ -z "$(find . -name '*.tmp' -o -name '*.??????' -type f)" ]
}

@test "no arguments, unknown verb, help, version" {
	refused 2 "mshard: no verb given; --help lists the verbs" mshard
	refused 2 "mshard: unknown verb 'frobnicate'; --help lists the verbs" mshard frobnicate
	run -0 mshard --help
	help=$output
	for verb in info verify head sample cat split mask repair index blend; do
		[[ "$help" == *"  $verb "* ]]
		run -0 mshard "$verb" --help
		[[ "$output" == "usage: mshard $verb [options]"* ]]
	done
	run -0 mshard --version
	[[ "$output" == mshard* ]]
}

@test "verbs without their operands are usage errors" {
	for verb in info verify head cat split mask repair; do
		refused 2 "mshard: a dataset is needed: PREFIX is the path of its files without .bin and .idx" mshard $verb
	done
	refused 2 "mshard: head takes one dataset at a time, not 2" mshard head a_u16 b_i32
	refused 2 "mshard: --output is needed: the prefix of the merged dataset" mshard cat a_u16
	refused 2 "mshard: --output is needed: the prefix of the pieces" mshard split a_u16 --tokens 5
	refused 2 "mshard: split needs one of --documents, --tokens, --proportion and --without, not none" mshard split -o x a_u16
	refused 2 "mshard: split needs one of --documents, --tokens, --proportion and --without, not several" \
		mshard split -o x a_u16 --tokens 5 --proportion 1,1
	refused 2 "mshard: split takes one dataset at a time, not 2" mshard split -o x --tokens 5 a_u16 b_i32
	for shares in '1,x x' ', ' '-1,2 -1' '1,,2 ' 'inf,1 inf' '90,nan nan'; do
		refused 2 "mshard: --proportion ${shares% *}: '${shares#* }' is not a share: must be numbers from 0, such as 90,5,5" \
			mshard split -o x --proportion="${shares% *}" a_u16
	done
	refused 2 "mshard: --proportion 0,0: the shares must have a finite sum above 0" mshard split -o x --proportion 0,0 a_u16
	refused 2 "mshard: repair needs one of --output and --in-place" mshard repair a_u16
	refused 2 "mshard: repair needs only one of --output and --in-place" mshard repair --in-place -o x a_u16
	refused 2 "mshard: --global-batch-size is needed: the samples of an iteration" \
		mshard sample --data-path a_u16 --seq-length 8 --index
	refused 2 "mshard: --global-batch-size 12: must be a multiple of --micro-batch-size 2 times --data-parallel-size 4" \
		mshard sample --data-path a_u16 --seq-length 8 --index --micro-batch-size 2 \
		--data-parallel-size 4 --global-batch-size 12
	for verb in index blend sample; do
		refused 2 "mshard: no data: one of --data-path, --data-args-path, --data-schedule, --train-data-path and --per-split-data-args-path is needed" mshard $verb
		refused 2 "mshard: unexpected operand 'a_u16': --data-path names the datasets" mshard $verb a_u16
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
	refused 1 "mshard: cannot open 'nowhere.idx': No such file or directory" mshard info nowhere
	refused 1 "mshard: cannot open 'nowhere.idx': No such file or directory" mshard info --json nowhere a_u16
	run --separate-stderr mshard info a_u16 nowhere
	[ "$status" = 1 ]
	[ "${lines[0]}" = "dataset	item	value" ]
	[ "$(cut -f1 <<<"$output" | sort -u)" = "a_u16
dataset" ]
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
	refused 1 "mshard: b_i32.bin: token 0 of sequence 0 is 82344: with a vocabulary of 50257 it must be at most 50256" \
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
	refused 1 "mshard: a_u16: document 63: must be below 63, the number of documents" mshard head --document 63 a_u16
	refused 1 "mshard: cannot open 'nowhere.idx': No such file or directory" mshard head nowhere
}

@test "cat: the bytes of Megatron-LM's merge" {
	run -0 mshard cat -o all eod_text_document part2_text_document.idx plain_text_document
	[ -z "$output" ]
	cmp all.idx merged.idx
	cmp all.bin merged.bin
	named_last all.idx all.bin all.json
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
	cp a_u16.idx all.idx
	refused 1 "mshard: 'all.idx' exists; --force replaces it" mshard cat -o all a_u16 c_u16
	run -0 mshard cat -o all --force a_u16 c_u16
	run -0 mshard verify all
	[ "$output" = "all: ok, 75 documents, 72 sequences, 15990 tokens of uint16, sums agree" ]
	run -0 mshard cat -o all --force all all
	run -0 mshard verify all
	[ "$output" = "all: ok, 150 documents, 144 sequences, 31980 tokens of uint16, sums agree" ]
}

@test "cat --force replaces datasets, and nothing that only has a name of one" {
	refused_and_kept()
	{
		refused 1 "mshard: '$1' $2: it is not replaced" mshard cat -o all a_u16
		refused 1 "mshard: '$1' $2: it is not replaced" mshard cat --force -o all a_u16
		[ "$(cat "$1")" = mine ]
		rm -f "$1"
		no_leftovers
	}
	for name in bin idx json xxh sum; do
		echo mine >all.$name
		case $name in
		bin) refused_and_kept all.bin "has no index beside it that would make it a dataset" ;;
		idx) refused_and_kept all.idx "is not the index of a dataset" ;;
		json) refused_and_kept all.json "is not the notes of a dataset" ;;
		xxh) refused_and_kept all.xxh "is not the checksums of a dataset" ;;
		sum) refused_and_kept all.sum "is not the checksums of tokens" ;;
		esac
	done
	echo mine >there
	for name in bin idx json xxh sum; do
		ln -s there all.$name
		refused_and_kept all.$name "is a symbolic link"
	done
	[ "$(cat there)" = mine ]
	mshard cat -q -o all a_u16
	mshard verify -q --xxh all >/dev/null
	mshard cat -q --force -o all c_u16
	cmp all.bin c_u16.bin
	[ ! -e all.xxh ]
	refused 1 "mshard: --output a_u16: is what is to be repaired; --in-place does it" \
		mshard repair --force -o a_u16 a_u16
	for name in bin idx; do mv all.$name x_00000.$name; done
	refused 1 "mshard: --output x: 'x_00000' would be replaced by a piece of it" \
		mshard split --force -o x --documents 5 x_00000
	cmp x_00000.bin c_u16.bin
}

@test "a replacement that was cut short is finished by the next writer" {
	mshard cat -q -o want c_u16
	for stage in tokens whole removed moved noted summed; do
		rm -f all.*
		mshard cat -q -o all a_u16
		for name in bin json sum idx; do cp want.$name all.$name.new; done
		case $stage in
		tokens) rm all.idx.new ;;
		removed) rm all.idx all.json all.sum ;;
		moved) rm all.idx all.json all.sum && mv all.bin.new all.bin ;;
		noted) rm all.idx all.sum && for name in bin json; do mv all.$name.new all.$name; done ;;
		summed) rm all.idx && for name in bin json sum; do mv all.$name.new all.$name; done ;;
		esac
		case $stage in
		whole | tokens) mshard verify -q all ;;
		*)
			refused 1 "mshard: all.idx: its replacement was cut short; mshard repair --in-place finishes it" \
				mshard verify all ;;
		esac
		run -0 mshard repair --in-place all
		[ "$output" = "all: sound, nothing to repair" ]
		if [ $stage = tokens ]; then
			cmp all.bin a_u16.bin
		else
			cmp all.bin c_u16.bin
			cmp all.json want.json
			mshard verify -q all
			cmp all.sum want.sum
		fi
		mshard cat -q --force -o all c_u16
		[ "$(ls all.*)" = "$(printf '%s\n' all.bin all.idx all.json all.sum)" ]
	done
}

@test "a second writer waits, and is refused by the name of the first" {
	locks_are_seen
	mkfifo pipe
	mtok -q -o d --tokenizer-type NullTokenizer --vocab-size 9 pipe & first=$!
	exec 9>pipe
	until [ -e d_text_document.lock ]; do sleep 0.02; done
	held="mshard: 'd_text_document.lock' is held by process $first of host "
	run -1 --separate-stderr mshard cat -o d_text_document a_u16
	[[ "${stderr_lines[0]}" == "$held"*": waiting for its end, up to 5 s" ]]
	[[ "${stderr_lines[1]}" == "$held"*", which is running" ]]
	echo '{"text": "1 2"}' >&9
	exec 9>&-
	wait $first
	mshard verify -q d_text_document
	[ ! -e d.lock ] && [ ! -e d_text_document.lock ]
}

@test "cat: token types" {
	refused 1 "mshard: b_i32: tokens of int32, but those of a_u16 are uint16; --widen merges them" mshard cat -o all a_u16 b_i32
	[ ! -e all.bin ] && [ ! -e all.idx ]
	run -0 mshard cat --widen -o all a_u16 b_i32
	run -0 mshard info all
	[[ "$output" == *"all	dtype	int32"* ]]
	diff <(mshard head -n 1000 a_u16 | cut -f4) <(mshard head -n 63 all | cut -f4)
	diff <(mshard head -n 5000 b_i32 | sed 1d | cut -f4) \
		<(mshard head -n 5000 --document 63 all | sed 1d | cut -f4)
}

@test "cat: damaged input, modes, no such directory: nothing is left" {
	refused 1 "mshard: $D/malformed/doc_last.idx: the document index ends with 4, not with the 5 sequences" \
		mshard cat -o all a_u16 "$D/malformed/doc_last"
	refused 1 "mshard: a_u16: has no modes, but $D/malformed/trailing_modes has some: either all sequences have modes or none" \
		mshard cat -o all "$D/malformed/trailing_modes" a_u16
	refused 1 "mshard: $D/malformed/trailing_modes: has modes (multimodal data), but a_u16 has none: either all sequences have modes or none" \
		mshard cat -o all a_u16 "$D/malformed/trailing_modes"
	refused 1 "mshard: cannot create 'no/such/all.lock': No such file or directory" mshard cat -o no/such/all a_u16
	[ ! -e all.bin ] && [ ! -e all.idx ]
	no_leftovers
}

# put FILE OFFSET FORMAT VALUE...: overwrites bytes of a file with perl's pack
put()
{
	perl -e 'my ($f, $at, $as, @v) = @ARGV; open my $h, "+<", $f or die; binmode $h; seek $h, $at, 0; print $h pack $as, @v' "$@"
}

# tokenizer: t.model, and u_text_document made with it; v_text_document made with ids alone
tokenizer()
{
	for i in $(seq 60); do
		printf '{"text": "the quick brown fox number %d\\tjumps over the lazy dog\\nand runs %d miles"}\n' "$i" $((i * 7))
	done >docs.jsonl
	mtok train -q --sentencepiece-defaults -o t.model --model-type bpe --vocab-size 340 --byte-fallback \
		--normalization-rule-name identity docs.jsonl
	mtok -q -o u --tokenizer-model t.model --append-eod docs.jsonl
	mtok -q -o v --tokenizer-type NullTokenizer --vocab-size 340 <<<'{"text": "1 2 339"}'
}

@test "verify --xxh: written the first time, then every change is found" {
	run -0 mshard verify --xxh a_u16
	[ "$output" = "a_u16: ok, 63 documents, 60 sequences, 1278 tokens of uint16, checksums written" ]
	[ "$(grep -cE '^XXH3_[0-9a-f]{16}  a_u16\.(idx|bin)$' a_u16.xxh)" = 2 ]
	run -0 mshard verify --xxh a_u16
	[ "$output" = "a_u16: ok, 63 documents, 60 sequences, 1278 tokens of uint16, checksums agree" ]
	for x in idx bin xxh; do cp a_u16.$x moved.$x; done
	run -0 mshard verify --xxh moved
	put a_u16.bin 100 C 1
	run --separate-stderr mshard verify --xxh a_u16
	[ "$status" = 1 ]
	[[ "$stderr" =~ ^'mshard: a_u16.bin: XXH3-64 '[0-9a-f]{16}', but a_u16.xxh has '[0-9a-f]{16}': it is damaged, or was rewritten since; if it is right, remove a_u16.xxh'$ ]]
	put moved.idx $((34 + 12 * 60 + 8)) q 0
	run -0 mshard verify moved
	run --separate-stderr mshard verify --xxh moved
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: moved.idx: XXH3-64 "* ]]
	for damage in '$d' '2d' 's/XXH3/xxh/' 's/  / /' '$p' 's/idx/bin/'; do
		sed -i "$damage" moved.xxh
		refused 1 "mshard: moved.xxh: it must have two lines, the checksums of the .idx and of the .bin" mshard verify --xxh moved
		cp a_u16.xxh moved.xxh
	done
}

@test "verify: a block that is not what it was is named; --seal makes the sums of other datasets" {
	run -0 mshard verify a_u16
	[ "$output" = "a_u16: ok, 63 documents, 60 sequences, 1278 tokens of uint16" ]
	run -0 mshard verify --seal a_u16
	[ "$output" = "a_u16: ok, 63 documents, 60 sequences, 1278 tokens of uint16, sums written" ]
	run -0 mshard verify --seal a_u16
	[ "$output" = "a_u16: ok, 63 documents, 60 sequences, 1278 tokens of uint16, sums agree" ]
	mshard cat -o twice a_u16 a_u16
	mshard split -o part --documents 40 a_u16
	run -0 mshard verify twice part_00000 part_00001
	[ "$(grep -c ', sums agree$' <<<"$output")" = 3 ]
	put a_u16.bin 100 C 1
	damaged="mshard: a_u16.bin: block 0 (bytes 0 to 2555) has XXH3-64 "
	run --separate-stderr mshard verify a_u16
	[ "$status" = 1 ]
	[[ "$stderr" =~ ^"$damaged"[0-9a-f]{16}', but a_u16.sum has '[0-9a-f]{16}': the file is damaged, or was rewritten since; if it is right, remove a_u16.sum'$ ]]
	cp part_00000.sum a_u16.sum
	refused 1 "mshard: a_u16.sum: belongs to another index than a_u16.idx: the dataset was replaced or damaged; if it is right, remove a_u16.sum and make it anew with mshard verify --seal" \
		mshard verify --seal a_u16
	head -c 60 part_00000.sum >a_u16.sum
	refused 1 "mshard: a_u16.sum: 60 bytes, not the size of a file of 1 checksums: it is truncated or damaged" \
		mshard verify a_u16
	# checksums of the whole files are compared before the sums are written
	rm a_u16.sum
	mshard verify --xxh part_00000
	rm part_00000.sum
	put part_00000.bin 100 C 1
	run -1 mshard verify --seal --xxh part_00000
	[ ! -e part_00000.sum ]
}

@test "verify with a tokenizer: the range of its ids, and whether it made the dataset" {
	tokenizer
	run -0 mshard verify --tokenizer-model t.model u_text_document
	cp v_text_document.bin w.bin
	cp v_text_document.idx w.idx
	run --separate-stderr mshard verify --tokenizer-type NullTokenizer --vocab-size 9 w
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: w.bin: token 2 of sequence 0 is 339: with a vocabulary of 9 it must be at most 8" ]
	run --separate-stderr mshard verify --tokenizer-model t.model v_text_document
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: v_text_document.json: made with a NullTokenizer with hash "*", but the one given has hash "* ]]
	run --separate-stderr mshard verify --tokenizer-model no.model u_text_document
	[ "$status" = 2 ]
	echo '{"tokenizer": {"type": "X", "hash": "12"}}' >u_text_document.json
	refused 1 "mshard: u_text_document.json: the tokenizer's hash '12' is not 16 hexadecimal digits" \
		mshard verify --tokenizer-model t.model u_text_document
	run -0 mshard verify u_text_document
}

@test "verify: operands that are not a pair of regular files" {
	mkdir d.bin
	cp a_u16.idx d.idx
	refused 1 "mshard: cannot open 'd.bin': not a regular file" mshard verify d
	rm a_u16.bin
	refused 1 "mshard: cannot open 'a_u16.bin': No such file or directory" mshard verify a_u16
}

@test "more sequences than training can number are refused by name, at once" {
	[ -z "${RUN:-}" ] || skip "the emulator does not map a file of 26 GB"
	n=2147483648
	truncate -s $((34 + 12 * n + 16)) big.idx
	printf 'MMIDIDX\0\0' | dd of=big.idx conv=notrunc status=none
	put big.idx 9 'Q<CQ<Q<' 1 8 $n 2
	: >big.bin
	for args in "verify" "head" "cat -o all a_u16" "sample --seq-length 8 --data-path"; do
		refused 1 "mshard: big.idx: 2147483648 sequences and 1 documents: index maps number at most 2147483647; mshard split divides it" \
			mshard $args big
	done
	no_leftovers
}

@test "a dataset of nothing" {
	mtok -q -o none --tokenizer-type NullTokenizer --vocab-size 5 </dev/null
	run -0 mshard verify --xxh none_text_document
	[ "$output" = "none_text_document: ok, 0 documents, 0 sequences, 0 tokens of uint16, sums agree, checksums written" ]
	run -0 mshard head none_text_document
	[ "$output" = "document	sequence	tokens	ids" ]
	run -0 mshard info none_text_document
	[[ "$output" == *"longest	0" ]]
	run -0 mshard cat -o all none_text_document a_u16 none_text_document
	cmp all.idx a_u16.idx
	run -0 mshard cat -o nothing none_text_document none_text_document
	cmp nothing.idx none_text_document.idx
	refused 1 "mshard: none_text_document: it has no documents to split" mshard split -o x --tokens 5 none_text_document
	run --separate-stderr mshard sample --data-path none_text_document --seq-length 8 --split 1
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: none_text_document: the train split has 0 tokens"* ]]
}

@test "info names the tokenizer of the notes" {
	tokenizer
	hash=$(mtok info --tokenizer-model t.model | sed -n 's/^hash	//p')
	run -0 mshard info u_text_document
	[[ "$output" == *"u_text_document	tokenizer	SentencePieceTokenizer
u_text_document	tokenizer_hash	$hash
"* ]]
	run -0 mshard info --json u_text_document
	[[ "$output" == *"\"tokenizer\": \"SentencePieceTokenizer\", \"tokenizer_hash\": \"$hash\", "* ]]
	echo '[' >u_text_document.json
	run --separate-stderr mshard info u_text_document
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: u_text_document.json"* ]]
}

@test "head and sample: text" {
	tokenizer
	run -0 mshard head -n 2 --tokenizer-model t.model u_text_document
	[ "${lines[0]}" = "document	sequence	tokens	text" ]
	[ "${lines[1]}" = '0	0	23	"the quick brown fox number 1\u0009jumps over the lazy dog\u000aand runs 7 miles"' ]
	run -0 mshard sample --data-path u_text_document --seq-length 30 --split 1 -n 2 \
		--tokenizer-model t.model
	[ "${lines[0]}" = "sample	dataset	parts	tokens	text" ]
	[ "$(cut -f4 <<<"${lines[1]}")" = 31 ]
	[[ "${lines[1]}" == *'"'*"fox"*'"' ]]
	run -0 mshard head -n 1 --tokenizer-type NullTokenizer --vocab-size 400 v_text_document
	[ "${lines[1]}" = '0	0	3	"1 2 339"' ]
	run --separate-stderr mshard head --tokenizer-model t.model a_u16
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: a_u16: sequence 0: "* ]]
	[ -z "$output" ]
	run --separate-stderr mshard sample --data-path a_u16 --seq-length 8 --split 1 \
		--tokenizer-model t.model
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: sample 0: "* ]]
	[ -z "$output" ]
	run --separate-stderr mshard sample --data-path u_text_document --seq-length 30 --split 1 \
		--fim-data
	[ "$status" = 2 ]
	[[ "$stderr" == "mshard: --fim-data: rearranges text, for which it needs the tokenizer"* ]]
	run --separate-stderr mshard sample --data-path u_text_document --seq-length 30 --split 1 \
		--fim-data --tokenizer-model t.model
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: --fim-data: the tokenizer has no token '<fim_prefix>'; \
name one of its own with --fim-prefix-token" ]
	# Pieces of the model stand for the tokens; without a rate nothing changes.
	words="--fim-prefix-token <s> --fim-middle-token </s> --fim-suffix-token <unk>
		--fim-pad-token <unk> --fim-eod-token </s>"
	run -0 mshard sample --data-path u_text_document --seq-length 30 --split 1 \
		--tokenizer-model t.model
	plain=${lines[1]}
	# shellcheck disable=SC2086 # a list of words
	run -0 mshard sample --data-path u_text_document --seq-length 30 --split 1 --fim-data \
		--tokenizer-model t.model $words --fim-rate 0
	[ "${lines[1]}" = "$plain" ]
	# shellcheck disable=SC2086 # a list of words
	run -0 mshard sample --data-path u_text_document --seq-length 30 --split 1 --fim-data \
		--tokenizer-model t.model $words --fim-rate 1
	[ "$(cut -f4 <<<"${lines[1]}")" = 31 ]
	[ "${lines[1]}" != "$plain" ]
}

@test "sample, index and blend: nothing is printed for datasets that do not open" {
	for verb in sample "sample --index --global-batch-size 1" index blend; do
		refused 1 "mshard: cannot open 'nowhere.idx': No such file or directory" \
			mshard $verb --data-path nowhere --seq-length 8 --split 1
	done
	mtok -q -o none --tokenizer-type NullTokenizer --vocab-size 5 </dev/null
	for verb in index blend; do
		run --separate-stderr mshard $verb --data-path none_text_document --seq-length 8 \
			--split 1
		[ "$status" = 1 ]
		[ -z "$output" ]
	done
}

@test "sample: the tokens are those of its parts, in the order of Megatron-LM" {
	run -0 mshard sample --data-path corpora/a_u16 --split 969,31,0 --seq-length 8 \
		--num-samples 100,1,0 -n 1000
	[ "${#lines[@]}" = 154 ]
	join="$(mshard head -n 100 a_u16 | awk -F'\t' '
		NR == FNR { if ($2 != "-") ids[$2] = $4; next }
		FNR > 1 {
			n = split($3, part, ",")
			text = ""
			for (i = 1; i <= n; i++) {
				split(part[i], p, /[:+]/)
				split(ids[p[1]], id, " ")
				for (k = 1; k <= p[3]; k++)
					text = text (text ? " " : "") id[p[2] + k]
			}
			print text
		}' - <(printf '%s\n' "$output"))"
	[ "$join" = "$(sed 1d <<<"$output" | cut -f5)" ]
	run -0 mshard sample --data-path corpora/a_u16 --split 969,31,0 --seq-length 8 \
		--num-samples 100,1,0 --which valid --sample 5
	[ "${#lines[@]}" = 2 ]
	refused 1 "mshard: sample 6: the valid split has 6, counted from 0" \
		mshard sample --data-path corpora/a_u16 --split 969,31,0 --seq-length 8 \
		--num-samples 100,1,0 --which valid --sample 6
	[ ! -e corpora/a_u16 ]
}

@test "sample --index: the sequential loader of Megatron-LM" {
	n=0
	while IFS=$'\t' read -r total consumed b d rank batches count; do
		printf '{"text": "%s"}\n' "$(seq -s ' ' 0 $((total * 4)))" |
			mtok -q --force -o s --tokenizer-type NullTokenizer --vocab-size 9999
		args="--data-path s_text_document --split 1 --seq-length 4 --index
			--consumed-samples $consumed --micro-batch-size $b --data-parallel-size $d
			--global-batch-size $((b * d)) -n 40"
		if [ "$count" = 0 ]; then
			refused 1 "mshard: 7 samples are fewer than one micro batch of 2 on each of 4 data ranks" mshard sample $args
			continue
		fi
		run -0 mshard sample $args
		got=$(awk -F'\t' -v rank="$rank" -v b="$b" '
			NR > 1 && $3 == rank { s = s (k % b ? ", " : (k ? "], [" : "[[")) $4; k++ }
			END { print s "]]" }' <<<"$output")
		[ "$got" = "$batches" ] || { echo "$total $consumed $b $d $rank: $got"; return 1; }
		n=$((n + 1))
	done < <(sed 1d "$D/samplers/single.tsv")
	[ "$n" = 21 ]
	# A global batch of several micro batches; iterations count from 1.
	run -0 mshard sample --data-path corpora/a_u16 --split 1 --seq-length 16 --index \
		--micro-batch-size 2 --data-parallel-size 2 --global-batch-size 8 --iteration 3
	[ "$(sed 1d <<<"$output" | cut -f1-4)" = "$(for i in $(seq 0 7); do
		printf '3\t%s\t%s\t%s\n' $((i / 4)) $((i % 4 / 2)) $((16 + i)); done)" ]
	refused 1 "mshard: 88 of 79 samples consumed: too few are left for a micro batch on every data rank" \
		mshard sample --data-path corpora/a_u16 --split 1 --seq-length 16 --index \
		--micro-batch-size 2 --data-parallel-size 2 --global-batch-size 8 --iteration 12
}

@test "sample --index: the cyclic loader of Megatron-LM" {
	n=0
	while IFS=$'\t' read -r total consumed b d sharded rank batches; do
		[ -e "s$total.idx" ] || printf '{"text": "%s"}\n' "$(seq -s ' ' 0 $((total * 4)))" |
			mtok -q --force -o "s$total" --tokenizer-type NullTokenizer \
			--vocab-size 9999
		brackets=${batches//[^[]/}
		run -0 mshard sample --data-path "s${total}_text_document" --split 1 \
			--seq-length 4 --index --consumed-samples "$consumed" \
			--micro-batch-size "$b" --data-parallel-size "$d" \
			--global-batch-size $((b * d)) -n $((${#brackets} - 1)) \
			--dataloader-type cyclic $([ "$sharded" = 1 ] || echo --no-data-sharding)
		got=$(awk -F'\t' -v rank="$rank" -v b="$b" '
			NR > 1 && $3 == rank { s = s (k % b ? ", " : (k ? "], [" : "[[")) $4; k++ }
			END { print s "]]" }' <<<"$output")
		[ "$got" = "$batches" ] || { echo "$total $consumed $b $d $sharded $rank: $got"; return 1; }
		n=$((n + 1))
	done < <(sed 1d "$D/samplers/cyclic.tsv")
	[ "$n" -ge 20 ]
}

@test "sample: a blend takes from each dataset what Megatron-LM does" {
	run -0 mshard sample --data-path 30 corpora/a_u16 50 corpora/b_i32 20 corpora/c_u16 \
		--split 90,10,0 --seq-length 64 --num-samples 700,20,0 -n 1000
	[ "${lines[0]}" = "sample	dataset	parts	tokens	ids" ]
	[ "$(sed 1d <<<"$output" | cut -f2)" = "$(od -An -v -j128 -w2 -td2 "$D/cases/20_blend3_weights/train.dataset_index.npy" |
		awk 'BEGIN { split("a_u16 b_i32 c_u16", name, " ") } { print "corpora/" name[$1 + 1] }')" ]
	refused 1 "mshard: corpora/a_u16: no test split: its share in --split '1' is 0" \
		mshard sample --data-path corpora/a_u16 --split 1 --seq-length 64 --which test
}

@test "cat: notes keep the tokenizer; a mix is refused unless forced" {
	tokenizer
	cp u_text_document.bin w.bin
	cp u_text_document.idx w.idx
	mtok -q -o x --tokenizer-model t.model docs.jsonl
	run -0 --separate-stderr mshard cat -o same u_text_document x_text_document
	[ -z "$stderr" ]
	for key in type hash vocab_size files; do
		[ "$(grep "\"$key\"" same.json)" = "$(grep "\"$key\"" u_text_document.json)" ]
	done
	grep -q '"append_eod": null' same.json
	grep -q '"eod_id": 2' same.json
	grep -q "{\"file\": \"x_text_document\", \"bytes\": $(stat -c %s x_text_document.bin)}" \
		same.json
	grep -q '"documents": 120' same.json
	h=$(mtok info --tokenizer-model t.model | sed -n 's/^hash	//p')
	n=$(mtok info --tokenizer-type NullTokenizer --vocab-size 340 | sed -n 's/^hash	//p')
	refused 1 "mshard: v_text_document: made with a NullTokenizer with hash $n, but u_text_document with a SentencePieceTokenizer with hash $h; --mix-tokenizers merges them anyway" \
		mshard cat -o mix w u_text_document v_text_document
	[ ! -e mix.bin ]
	run -0 --separate-stderr mshard cat --mix-tokenizers -o mix u_text_document v_text_document
	[ "$stderr" = "mshard: mix: made with several tokenizers: its notes name none" ]
	grep -q '"tokenizer": null' mix.json
	run -0 --separate-stderr mshard cat -o part u_text_document w
	[ "$stderr" = "mshard: part: 1 of 2 inputs do not record their tokenizer: its notes name none" ]
	grep -q '"tokenizer": null' part.json
	mshard verify -q --xxh same
	run -0 --separate-stderr mshard cat --force -o same w
	[ ! -e same.xxh ]
	grep -q '"tokenizer": null' same.json
}

@test "cat and verify: memory does not grow with the dataset" {
	case $B in *-address* | *-run) skip "the sanitizer or emulator reserves more addresses than the limit" ;; esac
	for i in $(seq 200); do printf '{"text": "%s"}\n' "$(seq -s ' ' 1 3000)"; done |
		mtok -q -o a --tokenizer-type NullTokenizer --vocab-size 70000
	one=$(stat -c %s a_text_document.bin)
	mshard cat -o b $(yes a_text_document | head -n 100)
	[ "$(stat -c %s b.bin)" = $((100 * one)) ]
	run -0 bash -c "ulimit -v 120000; mshard cat -o c b b && mshard verify --vocab-size 70000 --xxh c"
	[ "$(stat -c %s c.bin)" = $((200 * one)) ]
	[ $((200 * one)) -gt 400000000 ]
}

@test "split: pieces laid end to end are the dataset" {
	for args in "--tokens 300" "--documents 7" "--proportion 90,5,5" "--proportion 1,0,2" "--tokens 1"; do
		for name in a_u16 d_sent_u16; do
			mkdir pieces
			run -0 mshard split -o pieces/p $args $name
			[ "${lines[0]}" = "dataset	documents	sequences	tokens" ]
			[ "$(sed 1d <<<"$output" | cut -f1)" = "$(ls pieces/*.idx | sed 's/\.idx$//')" ]
			mshard verify -q pieces/*.idx
			mshard cat --force -o whole pieces/*.idx
			cmp whole.idx $name.idx
			cmp whole.bin $name.bin
			rm -r pieces
		done
	done
	run -0 mshard split -o p --tokens 300 a_u16
	[ "$output" = "dataset	documents	sequences	tokens
p_00000	13	13	293
p_00001	17	15	290
p_00002	12	12	287
p_00003	17	16	299
p_00004	4	4	109" ]
	run -0 mshard split -o q --proportion 8,1,1 a_u16
	[ "$(cut -f1,2 <<<"$output")" = "dataset	documents
q_00000	50
q_00001	7
q_00002	6" ]
	grep -q '{"file": "a_u16", "bytes": 2556, "first_document": 50}' q_00001.json
}

@test "split: names that are taken, and nothing left of a failure" {
	cp a_u16.idx p_00002.idx
	refused 1 "mshard: 'p_00002.idx' exists; --force replaces it" mshard split -o p --documents 10 a_u16
	[ "$(ls p_*)" = p_00002.idx ]
	run -0 mshard split --force -o p --documents 10 a_u16
	[ "$(ls p_*.idx | wc -l)" = 7 ]
	rm p_*
	mkdir p_00003.bin
	run --separate-stderr mshard split --force -o p --documents 10 a_u16
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: 'p_00003.bin' is a directory: it is not replaced" ]
	[ "$(ls -d p_*)" = p_00003.bin ]
	no_leftovers
}

@test "cat and split: modes stay with their sequences" {
	cp "$D/malformed/trailing_modes.bin" m.bin
	cp "$D/malformed/trailing_modes.idx" m.idx
	chmod u+w m.*
	printf '\1\2\3\4\5' |
		dd of=m.idx bs=1 seek=$(($(stat -c %s m.idx) - 5)) conv=notrunc status=none
	run -0 mshard split -o p --documents 1 m
	[ "$(for p in p_0000?.idx; do tail -c "$(mshard info "${p%.idx}" | awk '$2 == "sequences" { print $3 }')" "$p"; done |
		od -An -tu1 | xargs)" = "1 2 3 4 5" ]
	run -0 mshard cat -o all p_0000?.idx
	cmp m.bin all.bin
	cmp m.idx all.idx
	run -0 mshard cat --widen -o twice all all
	[ "$(tail -c 10 twice.idx | od -An -tu1 | xargs)" = "1 2 3 4 5 1 2 3 4 5" ]
	run -0 mshard verify twice
}

@test "no stream and no name of a file is a place for a dataset; a prefix may end in .bin" {
	for name in - /dev/stdout /dev/fd/1; do
		refused 2 "mshard: --output $name: must be a prefix: a dataset is the files PREFIX.bin and PREFIX.idx, not a stream" \
			mshard cat -o $name a_u16
		refused 2 "mshard: --output $name: must be a prefix: a dataset is the files PREFIX.bin and PREFIX.idx, not a stream" \
			mshard split -o $name --documents 5 a_u16
	done
	refused 2 "mshard: --output x.bin: must be the prefix without .bin or .idx" mshard cat -o x.bin a_u16
	refused 2 "mshard: --output x.idx: must be the prefix without .bin or .idx" mshard repair -o x.idx a_u16
	[ ! -e - ] && [ ! -e ./-.bin ] && [ ! -e x.bin ] && [ ! -e x.bin.bin ]
	cp a_u16.bin x.bin.bin
	cp a_u16.idx x.bin.idx
	for name in x.bin x.bin.bin x.bin.idx; do
		run -0 mshard verify $name
		[[ "$output" == "x.bin: ok, "* ]]
	done
}

@test "head -n 0 prints the names of the columns alone" {
	run -0 mshard head -n 0 a_u16
	[ "$output" = "document	sequence	tokens	ids" ]
	run -0 mshard head -n 0 --document 3 a_u16
	[ "$output" = "document	sequence	tokens	ids" ]
}

@test "repair: offsets that a merge added up in 32 bits" {
	# Three sequences of 1.2 GB; the file has holes in place of the tokens.
	printf 'MMIDIDX\0\0' >w.idx
	put w.idx 9 'Q<CQ<Q<l<3q<3q<4' 1 8 3 4 600000000 600000000 600000000 0 1200000000 -1894967296 0 1 2 3
	truncate -s 3600000000 w.bin
	refused 1 "mshard: w.idx: sequence 2 starts at byte -1894967296, but the lengths before it add up to 2400000000" mshard verify w
	run -0 mshard repair --in-place w
	[ "$output" = "w: wrong offsets, recomputed from the lengths: 1 of 3, the first that of sequence 2 (-1894967296)" ]
	run -0 mshard verify w
	[ "$output" = "w: ok, 3 documents, 3 sequences, 1800000000 tokens of uint16" ]
	run -0 mshard repair --in-place w
	[ "$output" = "w: sound, nothing to repair" ]
	no_leftovers
}

@test "repair: document indices that a merge did not extend, or did not shift" {
	mshard cat -o all a_u16 c_u16
	n=$(((34 + 12 * 72)))
	# Only the documents of the first part.
	head -c $((n + 8 * 64)) all.idx >forgot.idx
	put forgot.idx 26 'Q<' 64
	cp all.bin forgot.bin
	refused 1 "mshard: forgot.idx: the document index ends with 60, not with the 72 sequences" mshard verify forgot
	run -0 mshard repair -o r forgot
	[ "$output" = "forgot: the document index covered 60 of 72 sequences; each of the others became a document" ]
	cmp r.idx all.idx
	cmp r.bin all.bin
	# The second part is unchanged.
	cp all.idx shift.idx
	cp all.bin shift.bin
	put shift.idx $((n + 8 * 64)) 'q<12' $(seq 12)
	run --separate-stderr mshard verify shift
	[ "$status" = 1 ]
	run -0 mshard repair -o s shift
	[ "$output" = "shift: the document index was not shifted in a merge: shifted" ]
	cmp s.idx all.idx
}

@test "repair: a .bin that is too long is cut, a document that is not whole is dropped" {
	cp a_u16.bin long.bin
	cp a_u16.idx long.idx
	printf 'xyz' >>long.bin
	mshard verify -q --xxh a_u16
	cp a_u16.xxh long.xxh
	run -0 mshard repair -o r long
	[ "$output" = "long: bytes of the .bin after its last sequence, dropped: 3" ]
	cmp r.bin a_u16.bin
	cmp r.idx a_u16.idx
	[ "$(stat -c %s long.bin)" = 2559 ]
	run -0 mshard repair --in-place long
	cmp long.bin a_u16.bin
	cmp long.idx a_u16.idx
	[ ! -e long.xxh ]
	last=$(mshard head --document 62 a_u16 | tail -n 1 | cut -f3)
	truncate -s -1 long.bin
	run -0 mshard repair --in-place long
	[ "$output" = "long: the .bin ended 1 bytes too early; dropped from the end: documents 1, sequences 1, tokens $last" ]
	run -0 mshard verify long
	[ "$output" = "long: ok, 62 documents, 59 sequences, $((1278 - last)) tokens of uint16" ]
}

@test "repair: every damaged pair becomes sound or is beyond repair; notes keep the tokenizer" {
	cd "$D/malformed"
	for idx in *.idx; do
		name=${idx%.idx}
		run --separate-stderr mshard repair -o "$BATS_TEST_TMPDIR/r" --force "$name"
		case $name in
		ok | trailing_modes) [ "$status" = 0 ] && [ "$output" = "$name: sound, nothing to repair" ] ;;
		arrays_short | doc_* | pointer_* | bin_short | bin_long | bin_odd | trailing_junk)
			[ "$status" = 0 ] && [[ "$output" == "$name: "* ]] && mshard verify -q "$BATS_TEST_TMPDIR/r" ;;
		len_negative | lengths_short | count_huge | bin_empty)
			[ "$status" = 1 ] && [[ "$stderr" == "mshard: $name."*": beyond repair: "* ]] ;;
		*) [ "$status" = 1 ] && [[ "$stderr" == "mshard: $name.idx: "* ]] ;;
		esac || { echo "$name: $status $output $stderr"; return 1; }
	done
	cd "$BATS_TEST_TMPDIR"
	tokenizer
	truncate -s -2 u_text_document.bin
	refused 1 "mshard: 'a_u16.bin' exists; --force replaces it" mshard repair -o a_u16 u_text_document
	run -0 mshard repair --in-place u_text_document
	grep -q '"type": "SentencePieceTokenizer"' u_text_document.json
	grep -q '"documents": 59' u_text_document.json
	mshard verify -q --tokenizer-model t.model u_text_document
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

@test "pipes in the place of files that are mapped are refused at once" {
	mkfifo p.idx
	cp a_u16.bin p.bin
	refused 1 "mshard: cannot open 'p.idx': not a regular file" timeout 10 mshard info p
	rm p.idx p.bin
	cp a_u16.idx p.idx
	mkfifo p.bin
	refused 1 "mshard: cannot open 'p.bin': not a regular file" timeout 10 mshard verify p
}

@test "names with control characters and malformed UTF-8 are escaped, others are not" {
	refused 1 "mshard: cannot open 'a\\u009b2J\\x1b[31m\\xff\\nb\\u202eü.idx': No such file or directory" \
		mshard info $'a\xc2\x9b2J\x1b[31m\xff\nb\xe2\x80\xaeü'
}

@test "the examples of the manual" {
	tokenizer
	mkdir data
	for name in a b c; do
		mtok -q -o data/$name --tokenizer-model t.model --append-eod docs.jsonl
	done
	cp t.model tokenizer.model
	cp data/a_text_document.idx data/broken.idx
	head -c 2000 data/a_text_document.bin >data/broken.bin
	examples=$(sed -n '/^.Sh EXAMPLES/,/^.Sh DIAGNOSTICS/p' "$TOP/man/mshard.1" |
		sed -e 's/\\e$/\\/' -e 's/^\.Dl //' |
		awk '/^\$ / { on = 1; sub(/^\$ /, "") } on { print } !/\\$/ { on = 0 }')
	run -0 --separate-stderr sh -eu -c "${examples//1000000000/1000}"
	[ -z "$stderr" ]
	for verb in info verify head sample cat split mask repair index blend; do
		grep -q "^mshard $verb " <<<"$examples" || { echo "no example of $verb"; return 1; }
	done
	[[ "$output" == *"data/a_text_document	tokens	"* ]]
	[[ "$output" == *"data/a_text_document: ok, 60 documents, 60 sequences, "*" checksums written"* ]]
	[[ "$output" == *"data/broken: the .bin ended "* ]]
	[[ "$output" == *"split	samples	epochs	hash	dataset
train	"*"valid	"*"sample	dataset	parts	tokens	text
0	"*"iteration	micro_batch	rank	sample	dataset	sequence	offset
30	0	0	928	"* ]]
	mshard verify -q --xxh data/all data/part_00000 data/held_00001 data/whole
	[ "$(ls cache | wc -l)" = 9 ]
}

@test "a mask goes with its tokens through every verb" {
	for i in 1 2 3 4; do
		printf '{"ids": [%d, 7, 8, 9], "marks": [0, 1, %d, 1]}\n' "$i" $((i % 2))
	done | mtok -q --json-keys ids --mask-key marks --tokenizer-type NullTokenizer \
		--vocab-size 20 -o m
	mv m_ids_document.json x.json
	for f in m_ids_document*; do mv "$f" "m${f#m_ids_document}"; done
	sed 's/m_ids_document_mask/m_mask/' x.json >m.json
	run -0 mshard head -n 2 m
	[ "$output" = $'document\tsequence\ttokens\tmask\tids\n0\t0\t4\t1+3\t1 7 8 9\n1\t1\t4\t1+1 3+1\t2 7 8 9' ]
	run -0 mshard verify m
	[ "$output" = "m: ok, 4 documents, 4 sequences, 16 tokens of uint16, sums agree, a mask counts 10" ]
	run -0 mshard info m
	[[ "$output" == *$'m\tmask\tm_mask\n'* ]]
	run -0 mshard info --json m
	[[ "$output" == *'"mask": "m_mask", '* ]]
	run -0 mshard split --documents 3 -o p m
	run -0 mshard cat -o again p_00000 p_00001
	cmp again.bin m.bin && cmp again_mask.bin m_mask.bin && cmp again_mask.idx m_mask.idx
	grep -q '"mask": "again_mask"' again.json
	# One without a mask counts whole.
	rm p_00001_mask.* && sed -i '/"mask"/d' p_00001.json
	run -0 mshard cat --force -o again p_00000 p_00001
	run -0 mshard verify again
	[[ "$output" == *"a mask counts 12" ]]
	# The end of the tokens is lost: the mask is cut alike.
	truncate -s 26 again.bin
	rm again.sum
	refused 1 "mshard: --in-place: again has a mask; --output repairs both" \
		mshard repair --in-place again
	run -0 mshard repair -o whole again
	run -0 mshard verify whole
	[[ "$output" == *", 12 tokens of uint16, sums agree, a mask counts 8" ]]
	rm m_mask.idx
	refused 1 "mshard: m: its mask, which m.json names: cannot open 'm_mask.idx': No such file or directory" \
		mshard head m
	no_leftovers
}

@test "mask: documents and spans are taken out of the loss" {
	printf '{"text": "1 2 3"}\n{"text": "4 5"}\n{"text": "6 7 8 9"}\n' |
		mtok -q --tokenizer-type NullTokenizer --vocab-size 20 -o p
	echo 1 >list
	run -0 mshard mask --documents list p_text_document
	[ "$output" = $'dataset\tmask\ttokens\tcounted\np_text_document\tp_text_document_mask\t9\t7' ]
	printf 'document\tfirst\tcount\n2\t1\t2\n' >list
	refused 1 "mshard: 'p_text_document_mask' exists; --force takes more out of it" \
		mshard mask --documents list p_text_document
	run -0 mshard mask --force --documents list p_text_document
	run -0 mshard head p_text_document
	[ "$(echo "$output" | cut -f 4)" = $'mask\n0+3\n\n0+1 3+1' ]
	grep -q '"mask": "p_text_document_mask"' p_text_document.json
	for line in "3:document 3: p_text_document has 3, counted from 0" \
		"2 3 2:document 2: tokens [3, +2) of 4" \
		"2 3:must be a document, or document, first token and number of tokens"; do
		printf '0\n%s\n' "${line%%:*}" >list
		refused 1 "mshard: list:2: ${line#*:}" \
			mshard mask --force --documents list p_text_document
	done
	refused 2 "mshard: --documents is needed: the list of documents" mshard mask p_text_document
	no_leftovers
}

@test "split: documents of a list are left out" {
	printf '{"text": [%s], "m": [%s]}\n' "1, 2, 3" "1, 0, 1" "4, 5" "1, 1" "6, 7, 8" "0, 0, 1" "9" 1 |
		mtok -q --tokenizer-type NullTokenizer --vocab-size 20 --mask-key m -o p
	printf '3\n1\n1\n' >list
	run -0 mshard split --without list -o q p_text_document
	[ "$output" = $'dataset\tdocuments\tsequences\ttokens\nq\t2\t2\t6' ]
	run -0 mshard head q
	[ "$(echo "$output" | cut -f 4,5)" = $'mask\tids\n0+1 2+1\t1 2 3\n2+1\t6 7 8' ]
	run -0 mshard verify q
	grep -q '"type": "NullTokenizer"' q.json
	refused 1 "mshard: 'q.bin' exists; --force replaces it" \
		mshard split --without list -o q p_text_document
	# Rows of where name the documents of a sample, however much of one it read.
	mshard where --data-path p_text_document --split 1,0,0 --seq-length 4 --global-batch-size 1 \
		--step 1 >rows
	run -0 mshard split --without rows --corpus p_text_document -o r p_text_document
	[ "$(mshard head r | sed 1d | wc -l)" = $((4 - $(sed 1d rows | cut -f 6 | sort -u | wc -l))) ]
	refused 1 "mshard: rows: a table of several datasets: --corpus says of which its rows are read" \
		mshard split --without rows -o s p_text_document
	printf '1\n4\n' >list
	refused 1 "mshard: list:2: document 4: p_text_document has 4, counted from 0" \
		mshard split --without list -o s p_text_document
	seq 0 3 >list
	refused 1 "mshard: list: has all documents of p_text_document" \
		mshard split --without list -o s p_text_document
	: >list
	refused 1 "mshard: --output p_text_document: 'p_text_document' would be replaced by a piece of it" \
		mshard split --force --without list -o p_text_document p_text_document
	run -0 mshard split --without list -o s p_text_document
	cmp s.bin p_text_document.bin
	cmp s.idx p_text_document.idx
	cmp s_mask.bin p_text_document_mask.bin
	refused 2 "mshard: --corpus needs --without" \
		mshard split --documents 1 --corpus p_text_document -o t p_text_document
	no_leftovers
}

@test "where: what is asked for, and of what" {
	refused 2 "mshard: one of --step or --sample, --document and --losses is needed" \
		mshard where --run save
	refused 2 "mshard: only one of --step or --sample, --document and --losses is needed" \
		mshard where --run save --step 3 --losses x
	refused 2 "mshard: --step 4-3: must be an iteration from 1 to 1000000000000, or two with - between" \
		mshard where --run save --step 4-3
	refused 2 "mshard: --document a: must be PREFIX:K, a document from 0 on of a dataset" \
		mshard where --run save --document a
	refused 2 "mshard: --run: its checkpoints name the data: leave the lists of datasets out" \
		mshard where --run save --step 3 --data-path a
	mkdir -p save
	refused 1 "mshard: no iter_* directory in 'save'" mshard where --run save --step 3
	printf 'iteration\tsample\tcorpus\ttokens\tloss\n1\tx\ta\t1\t1\n' >losses
	mtok encode --tokenizer-type NullTokenizer --vocab-size 9 -q -o w - <<<'{"text": "1 2 3 4 5"}'
	refused 1 "mshard: losses:2: must be iteration, sample, corpus, tokens and loss between tabs" \
		mshard where --data-path w_text_document --split 1,0,0 --seq-length 2 \
		--global-batch-size 1 --losses losses
	run -0 --separate-stderr mshard where --data-path w_text_document --split 1,0,0 \
		--seq-length 2 --global-batch-size 1 --sample 0
	[ "${lines[0]}" = "$(printf 'iteration\trank\tmicro_batch\tsample\tcorpus\tdocument\tsequence\tfirst\tcount\tat\ttrained')" ]
	[[ "${lines[1]}" == "1	0	0	0	w_text_document	0	0	"[02]"	3	0	2" ]]
	# What the run does not have, of samples that are named and of one epoch.
	where=(mshard where --data-path w_text_document --split 1,0,0 --seq-length 2
		--global-batch-size 2 --micro-batch-size 2)
	refused 1 "mshard: --step 2: the run has 1 iterations (--num-samples 3,0,0)" \
		"${where[@]}" --num-samples 3,0,0 --step 2
	refused 1 "mshard: --sample 2: is of iteration 2: the run has 1 iterations (--num-samples 3,0,0)" \
		"${where[@]}" --num-samples 3,0,0 --sample 2
	refused 1 "mshard: --step 5000000000: the run has 1 iterations (--num-samples all,all,all)" \
		"${where[@]}" --step 5000000000
	refused 2 "mshard: --step 5000000000000: must be an iteration from 1 to 1000000000000, or two with - between" \
		"${where[@]}" --step 5000000000000
	run -0 "${where[@]}" --num-samples 3,0,0 --document w_text_document:0
	[ "$(echo "$output" | cut -f 1 | sort -u | tr '\n' ' ')" = "1 iteration " ]
	fails 1 "mshard: iteration 1: its 2 samples are no multiple of the micro batch of 3 times 1 data-parallel ranks: give --micro-batch-size and --data-parallel-size" \
		"${where[@]}" --micro-batch-size 3 --step 1
	echo "1 2 3" >list
	refused 1 "mshard: list: --corpus: is for a table of mshard where, which begins with the word iteration" \
		mshard mask --documents list --corpus w_text_document w_text_document
}
