#!/usr/bin/env bats
# mtok: every verb, every class of bad line, exit statuses, inputs of every kind

bats_require_minimum_version 1.5.0
load common

setup_file()
{
	cd "$BATS_FILE_TMPDIR"
	for i in $(seq 60); do
		printf '{"id": %d, "text": "the quick brown fox number %d jumps over the lazy dog\\nand runs %d miles", "title": "Fox %d"}\n' \
			"$i" $((i * 37 % 100)) $((i * 7)) "$i"
	done >docs.jsonl
	mtok train -q --sentencepiece-defaults -o t.model --model-type bpe --vocab-size 360 --byte-fallback docs.jsonl
	# A byte-level BPE of 256 bytes, four merges and <|endoftext|>.
	perl -CS -e '
		my ($next, $i) = (0x100, 0);
		my @c = map { chr((($_ >= 33 && $_ <= 126) || ($_ >= 161 && $_ <= 172) || $_ >= 174) ? $_ : $next++) } 0 .. 255;
		my @merge = (["t", "h"], ["th", "e"], ["\x{120}", "the"], ["o", "x"]);
		sub quote { my $s = shift; $s =~ s/(["\\])/\\$1/g; return "\"$s\"" }
		open my $v, ">:utf8", "vocab.json";
		print $v "{", join(", ", map { quote($_) . ": " . $i++ } @c, (map { join "", @$_ } @merge), "<|endoftext|>"), "}\n";
		open my $m, ">:utf8", "merges.txt";
		print $m "#version: 0.2\n", map { "@$_\n" } @merge;'
}

setup()
{
	cd "$BATS_TEST_TMPDIR"
	ln -s "$BATS_FILE_TMPDIR"/{docs.jsonl,t.model,vocab.json,merges.txt} .
	ln -s "$TOP/tests/bats/data/bad.jsonl" .
}

spm="--tokenizer-model t.model"
bpe="--vocab-file vocab.json --merge-file merges.txt"

@test "encode writes .bin, .idx and .json that mshard verifies; summary on stderr" {
	run --separate-stderr mtok encode --input docs.jsonl -o out $spm --append-eod
	[ "$status" = 0 ]
	[ -z "$output" ]
	[[ $stderr =~ ^'mtok: 60 documents, '[0-9]+' tokens, 0.0 MB in '.*' MB/s)'$ ]]
	[ "$(ls out*)" = "$(printf '%s\n' out_text_document.bin out_text_document.idx out_text_document.json out_text_document.sum)" ]
	grep -q '"type": "SentencePieceTokenizer"' out_text_document.json
	grep -q '"append_eod": true' out_text_document.json
	grep -q '"documents": 60' out_text_document.json
	mshard verify -q out_text_document
	named_last out_text_document.idx out_text_document.bin out_text_document.json
}

@test "encode is the default verb; operands are inputs; several keys in one pass" {
	mtok -q -o out $spm --json-keys text title -- docs.jsonl docs.jsonl
	grep -q '"documents": 120' out_text_document.json
	mtok -q -o one $spm --json-keys title --input docs.jsonl docs.jsonl
	cmp out_title_document.bin one_title_document.bin
	cmp out_title_document.idx one_title_document.idx
}

@test "the output does not depend on --workers" {
	for i in $(seq 40); do cat docs.jsonl; done >many.jsonl
	mtok -q -o w1 $spm --append-eod --workers 1 many.jsonl
	for w in 2 3 4; do
		mtok -q -o "w$w" $spm --append-eod --workers "$w" many.jsonl
		cmp w1_text_document.bin "w${w}_text_document.bin"
		cmp w1_text_document.idx "w${w}_text_document.idx"
	done
}

@test "standard input, gzip and zstd give the bytes of the plain file" {
	mtok -q -o plain $spm docs.jsonl
	mtok -q -o stdin $spm <docs.jsonl
	cat docs.jsonl | mtok -q -o dash $spm --input -
	gzip -c docs.jsonl >named-anything
	zstd -q -c <docs.jsonl >docs.zst
	mtok -q -o gz $spm named-anything
	mtok -q -o zst $spm docs.zst
	zstd -q -c <docs.jsonl | mtok -q -o pipe $spm
	for x in stdin dash gz zst pipe; do
		cmp plain_text_document.bin "${x}_text_document.bin"
		cmp plain_text_document.idx "${x}_text_document.idx"
	done
}

@test "damaged and foreign compression" {
	gzip -c docs.jsonl | head -c 200 >cut.gz
	run mtok -o out $spm cut.gz
	expect 1 "mtok: cut.gz: truncated: the compressed data ends too early"
	zstd -q -c <docs.jsonl | head -c 200 >cut.zst
	run mtok -o out $spm cut.zst
	expect 1 "mtok: cut.zst: truncated: the compressed data ends too early"
	printf '\3757zXZ\0' >a.xz
	run mtok -o out $spm a.xz
	expect 1 "mtok: a.xz: only gzip and zstd are decompressed here; pipe it through xzcat"
	printf 'PAR1\25\4\25' >a.parquet
	run mtok -o out $spm a.parquet
	expect 1 "mtok: a.parquet: only gzip and zstd are decompressed here; pipe it through a program that makes JSON Lines of Parquet"
	[ -z "$(ls out* 2>/dev/null)" ]
}

@test "byte-level BPE: ids, eod, special strings matched or not" {
	printf '{"text": "the fox<|endoftext|> the"}\n{"text": ""}\n{"text": ["x", "", "the"]}\n' \
		>in
	mtok -q -o a $bpe --append-eod in
	[ "$(ids a_text_document.bin)" = "257 32 102 259 260 258 260 120 257 260" ]
	mtok -q -o b $bpe --special-as-text in
	[ "$(ids b_text_document.bin)" = "257 32 102 259 60 124 101 110 100 111 102 116 101 120 116 124 62 258 120 257" ]
	mtok -q -o c $bpe --append-eod --eod-id 7 in
	[ "$(ids c_text_document.bin)" = "257 32 102 259 260 258 7 120 257 7" ]
	# lengths 6, 1 and 2; document index 0 1 1 3
	[ "$(od -An -v -j34 -N12 -tu4 a_text_document.idx | tr -s ' ')" = " 7 1 2" ]
	[ "$(od -An -v -j70 -tu8 a_text_document.idx | tr -s ' \n' ' ')" = " 0 1 1 3 " ]
}

@test "an eod outside the vocabulary widens the type when it must" {
	printf '{"text": "x"}\n' | mtok -q -o a $bpe --append-eod --eod-id 70000
	[ "$(od -An -tu4 a_text_document.bin | tr -s ' ')" = " 120 70000" ]
}

@test "NullTokenizer reads ids" {
	printf '{"text": "5 0 99"}\n' |
		mtok -q -o a --tokenizer-type NullTokenizer --vocab-size 100 --append-eod
	[ "$(ids a_text_document.bin)" = "5 0 99 99" ]
	run mtok -o b --tokenizer-type NullTokenizer --vocab-size 100 <<<'{"text": "5 100"}'
	[ "$status" = 1 ]
	[ "$output" = "mtok: standard input:1: refused: '100' at byte 3 of the text: must be an id below 100" ]
	run mtok -o b --tokenizer-type NullTokenizer
	expect 2 "mtok: NullTokenizer needs --vocab-size of at least 1"
}

@test "every class of bad line stops the run with its place and leaves nothing" {
	local n=0
	while IFS=$'\t' read -r want; do
		n=$((n + 1))
		{ echo; sed -n "${n}p" bad.jsonl; } >line.jsonl
		run mtok -o out $spm line.jsonl
		case $want in
		ok | blank) [ "$status" = 0 ] && rm out_* ;;
		*) [ "$status" = 1 ] && [ "$output" = "mtok: line.jsonl:2: $want" ] && [ -z "$(ls out* 2>/dev/null)" ] ;;
		esac || { echo "line $n: $output"; return 1; }
	done <<-'END'
	ok
	blank
	blank
	syntax: unterminated string at byte 22
	syntax: the line ends too early at byte 12
	syntax: text after the value at byte 14
	syntax: text after the value at byte 13
	syntax: no member name at byte 2
	syntax: control character in a string at byte 13
	syntax: unknown escape at byte 21
	syntax: \u without four hexadecimal digits at byte 16
	syntax: \u without four hexadecimal digits at byte 18
	syntax: no member name at byte 26
	syntax: no member name at byte 2
	ok
	missing-key: no member 'text' in the object at byte 1
	missing-key: no member 'text' in the object at byte 1
	wrong-type: 'text' is null, not a string or a list of strings, at byte 9
	wrong-type: 'text' is a number, not a string or a list of strings, at byte 9
	wrong-type: 'text' is a boolean, not a string or a list of strings, at byte 9
	wrong-type: 'text' is an object, not a string or a list of strings, at byte 9
	wrong-type: 'text' is a list with other things in it, not a string or a list of strings, at byte 10
	not-object: the line is an array at byte 1
	not-object: the line is a string at byte 1
	not-object: the line is a number at byte 1
	not-object: the line is null at byte 1
	lone-surrogate: 'text' has an unpaired surrogate escape at byte 20
	lone-surrogate: 'text' has an unpaired surrogate escape at byte 19
	lone-surrogate: 'text' has an unpaired surrogate escape at byte 19
	lone-surrogate: 'text' has an unpaired surrogate escape at byte 27
	bad-utf8: malformed UTF-8 at byte 23
	bad-utf8: malformed UTF-8 at byte 25
	bad-utf8: malformed UTF-8 at byte 19
	bad-utf8: malformed UTF-8 at byte 25
	bad-utf8: malformed UTF-8 at byte 20
	bad-utf8: malformed UTF-8 at byte 11
	bom: byte order mark inside the file, at byte 1
	syntax: text after the value at byte 21
	ok
	syntax: unterminated string at byte 26
	END
	[ "$n" = 40 ]
}

@test "the line number is that of the file, the first bad line wins, also with many workers" {
	{ for i in $(seq 200); do cat docs.jsonl; done; echo 'x'; cat docs.jsonl; echo 'y'; } >many.jsonl
	run mtok -q -o out $spm --workers 4 docs.jsonl many.jsonl
	expect 1 "mtok: many.jsonl:12001: syntax: no value at byte 1"
	[ -z "$(ls out* 2>/dev/null)" ]
}

@test "a bad line stops a run whose input never ends" {
	run timeout 20 sh -c "yes nonsense | mtok -q -o out $spm"
	expect 1 "mtok: standard input:1: syntax: no value at byte 1; --format text is for plain text"
	run timeout 5 bash -c "mtok -q -o out $spm < <(exec 2>&- 3>&-; echo nonsense; head -c 900000 /dev/zero; sleep 15)"
	[ "$status" = 1 ]
}

@test "--on-error skip counts by class" {
	run --separate-stderr mtok -o out $spm --on-error skip bad.jsonl
	[ "$status" = 0 ]
	[ "${stderr_lines[0]}" = \
		"mtok: skipped bad lines: 13 syntax, 2 missing-key, 5 wrong-type, 4 not-object, 4 lone-surrogate, 6 bad-utf8, 1 bom" ]
	[ "${stderr_lines[1]}" = "mtok: skipped blank lines: 2" ]
	grep -q '"documents": 3' out_text_document.json
	grep -q '"skipped_lines": {"syntax": 13, "missing-key": 2,' out_text_document.json
	named_last out_text_document.idx out*
}

@test "a line longer than --max-document-bytes is skipped without being held" {
	{ printf '{"text": "before"}\n{"text": "'; head -c 200000000 /dev/zero | tr '\0' a; printf '"}\n'; cat docs.jsonl; } |
		gzip -1 >long.gz
	fails 1 "mtok: long.gz:2: too-long: more than 16777216 bytes, the most that --max-document-bytes allows" \
		mtok -q -o out $spm --max-document-bytes 16777216 long.gz
	# The sanitizer reserves more addresses than any limit.
	limit='ulimit -v 200000'
	case $B in *-address* | *-run) limit=: ;; esac
	run -0 bash -c "$limit; mtok -q -o out $spm --max-document-bytes 16777216 --workers 1 --on-error skip long.gz"
	grep -q '"documents": 61' out_text_document.json
	grep -q '"skipped_lines": {"too-long": 1}' out_text_document.json
	[ "$(sed -n 2p out.errors.tsv | cut -f 1-4)" = "$(printf 'long.gz\t2\t19\ttoo-long')" ]
	run mtok train -q --sentencepiece-defaults -o m.model --max-document-bytes 16777216 long.gz
	expect 1 "mtok: long.gz:2: too-long: more than 16777216 bytes, the most that --max-document-bytes allows"
}

@test "a long line with escapes takes twice its bytes" {
	case $B in *-address* | *-run) skip "the sanitizer or emulator keeps memory of its own" ;; esac
	{ printf '{"text": "'; yes '100000 100001 100002\u0020' | head -n 2307692 | tr -d '\n'; printf '3"}\n'; } >long.jsonl
	run -0 "$B/tests/bench/usage" mtok -q -o out --tokenizer-type NullTokenizer --vocab-size 200000 --workers 1 long.jsonl
	read -r _ _ kilobytes <<<"$output"
	[ "$kilobytes" -lt 125000 ] || { echo "$kilobytes KB"; false; }
}

# list_memory STRING KEY...: a line of 24 MB that is a list of them takes twice that and 64 MiB
list_memory()
{
	{ printf '{"text": "7", "x": [%s' "$1"; yes ",$1" | tr -d '\n' | head -c $((24000000 / (${#1} + 1) * (${#1} + 1))); printf ']}\n'; } >list.jsonl
	run -0 "$B/tests/bench/usage" mtok -q --force -o out $spm --workers 1 --json-keys "${@:2}" --input list.jsonl
	read -r _ _ kilobytes <<<"$output"
	[ "$kilobytes" -lt 112411 ] || { echo "$*: $kilobytes KB"; false; }
}

@test "a list of short strings takes twice its bytes, wanted or not" {
	case $B in *-address* | *-run) skip "the sanitizer or emulator keeps memory of its own" ;; esac
	for string in '""' '"7"' '"\u0037"'; do
		list_memory "$string" x
	done
	list_memory '""' text x
	list_memory '[]' text
	list_memory 7 text
}

# most_memory TEXT MODEL...: a line of 24 MB that repeats TEXT takes twice that and 64 MiB
most_memory()
{
	{ printf '{"text": "'; yes "$1" | tr -d '\n' | head -c 24000000; printf '"}\n'; } >long.jsonl
	run -0 "$B/tests/bench/usage" mtok -q --force -o out "${@:2}" --workers 1 long.jsonl
	read -r _ _ kilobytes <<<"$output"
	[ "$kilobytes" -lt 112411 ] || { echo "$*: $kilobytes KB"; false; }
}

@test "a text of one piece takes twice its bytes, with an id a byte too" {
	case $B in *-address* | *-run) skip "the sanitizer or emulator keeps memory of its own" ;; esac
	mtok train -q --sentencepiece-defaults -o u.model --model-type unigram --vocab-size 80 docs.jsonl
	cat >uni.json <<-'END'
		{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
		 "post_processor": null, "decoder": null, "model": {"type": "Unigram", "unk_id": 0,
		 "byte_fallback": false, "vocab": [["<unk>", 0.0], ["th", -4.0], ["hq", -5.0],
		 ["t", -3.0], ["h", -3.5], ["e", -2.0], ["qz", -4.5], ["z", -3.0], ["q", -3.0]]}}
	END
	# a SentencePiece BPE model that makes an unused piece of t and he, or of th and e
	perl -e '
		sub field { my ($key, $value) = @_; chr($key) . chr(length $value) . $value }
		sub piece {
			my ($text, $score, $type) = @_;
			field(0x0a, field(0x0a, $text) . pack("Cf<CC", 0x15, $score, 0x18, $type))
		}
		print piece("<unk>", 0, 2), map({ piece($_, -9, 1) } qw(t h e)), piece("th", -1, 1),
			piece("he", -2, 1), piece("the", -3, 5), field(0x12, "\x18\x02"),
			field(0x1a, "\x18\0\x20\0\x28\0")' >unused.model
	most_memory the --tokenizer-model unused.model
	for text in zq the; do
		most_memory $text --tokenizer-model u.model
		most_memory $text --tokenizer-model uni.json
		most_memory $text $bpe
		most_memory $text $spm
		most_memory $text --tokenizer-model "$TOP/tests/fuzz/corpus/tokenizer_json/llama2"
	done
}

@test "tokens of long documents wait in a file: one that is refused leaves none, order stays" {
	perl -e '
		print qq({"text": "1 2 3"}\n{"text": "), "7 " x 2999999, qq(7"}\n);
		print qq({"text": ["), "8 " x 2999999, qq(8", "no"]}\n{"text": "4"}\n);
		open my $f, ">:raw", "expected";
		print $f pack "V*", 1, 2, 3, (7) x 3000000, 4;' >long.jsonl
	for workers in 1 3; do
		mtok -q --force -o out --tokenizer-type NullTokenizer --vocab-size 200000 \
			--on-error skip --workers $workers long.jsonl
		cmp out_text_document.bin expected
		mshard verify -q out_text_document
	done
	[ "$(ls -A | grep -c '^out')" = 5 ]
}

@test "empty input is an empty dataset" {
	mtok -q -o out $spm </dev/null
	[ "$(stat -c %s out_text_document.bin out_text_document.idx | tr '\n' ' ')" = "0 42 " ]
}

@test "an existing target is an error unless --force" {
	mtok -q -o out $spm docs.jsonl
	run mtok -o out $spm docs.jsonl
	expect 2 "mtok: 'out_text_document.bin' exists; --force replaces it"
	mtok -q -o out $spm --force docs.jsonl
}

@test "preprocess_data's command line is accepted" {
	sed 's/"text"/"content"/' docs.jsonl >F
	run mtok --input F --output-prefix codeparrot --vocab vocab.json --dataset-impl mmap \
		--tokenizer-type GPT2BPETokenizer --merge-file merges.txt --json-keys content \
		--workers 32 --chunk-size 25 --append-eod
	[ "$status" = 0 ]
	[ "${lines[0]}" = "mtok: without effect here: --dataset-impl (datasets are always mapped to memory), \
--chunk-size (work is dealt out by bytes)" ]
	[ -s codeparrot_content_document.bin ]
	[ -s codeparrot_content_document.idx ]
}

@test "options of preprocess_data that are not here are refused by name, all at once" {
	run mtok --input docs.jsonl -o out $spm --find-optimal-num-workers --partitions 2 --vocab-extra-ids 100 --null-tokenizer-eod-id 5
	[ "$status" = 2 ]
	[ "$output" = "mtok: 4 options cannot be used as given:
mtok: --find-optimal-num-workers: it measures on samples and writes no whole dataset; one worker a core is the default
mtok: --partitions: one run gives one dataset; --workers is enough, and --part for many jobs
mtok: --vocab-extra-ids: pieces come from the tokenizer's files: a model with that many more can have them as added tokens
mtok: --null-tokenizer-eod-id: give --eod-id" ]
}

@test "options of preprocess_data that have no effect are accepted" {
	mtok -q --input docs.jsonl -o plain $spm
	run mtok --partitions 1 --vocab-extra-ids=0 --keep-sequential-samples --workers-to-check 16 32 64 --max-documents 100000 \
		--performance-dir p --padded-vocab-size 512 --make-vocab-size-divisible-by 128 --no-pad-vocab-size \
		--chat-template t --null-tokenizer-pad-id -1 --use-gigatoken --input docs.jsonl -o out $spm
	[ "$status" = 0 ]
	[[ $output == *"mtok: without effect here: --keep-sequential-samples (the order of the lines is always kept), "* ]]
	[[ $output == *"--max-documents, --performance-dir (it belongs to --find-optimal-num-workers and changes nothing without it)"* ]]
	[[ $output != *"--partitions"* ]]
	cmp plain_text_document.bin out_text_document.bin
	cmp plain_text_document.idx out_text_document.idx
}

@test "a quoted pattern names the files in their order, unless there is a file of that name" {
	mkdir in
	for i in 2 1 3; do echo "{\"text\": \"the $i\"}" >in/$i.jsonl; done
	mtok -q -o plain $spm in/1.jsonl in/2.jsonl in/3.jsonl
	mtok -q -o out $spm --input 'in/*.jsonl'
	cmp plain_text_document.bin out_text_document.bin
	grep -q '"file": "in/2.jsonl"' out_text_document.json
	cp in/3.jsonl 'in/[12].jsonl'
	mtok -q -o one $spm --input 'in/[12].jsonl'
	grep -qx '  "documents": 1,' one_text_document.json
	run mtok -o none $spm --input 'in/*.json'
	expect 2 "mtok: cannot open 'in/*.json': No such file or directory"
}

@test "wrong usage: status 2, one line" {
	run mtok --input docs.jsonl $spm
	expect 2 "mtok: --output-prefix is needed; \`mtok count' only counts"
	run mtok --input docs.jsonl -o out
	expect 2 "mtok: no tokenizer: give --tokenizer-model, or --vocab-file and --merge-file"
	run mtok --input nowhere -o out $spm
	expect 2 "mtok: cannot open 'nowhere': No such file or directory"
	run mtok --input docs.jsonl -o out --tokenizer-model nowhere
	expect 2 "mtok: cannot open 'nowhere': No such file or directory"
	echo nonsense >text
	run mtok --input docs.jsonl -o out --tokenizer-model text
	expect 2 "mtok: text: not a known tokenizer file"
	run mtok --input docs.jsonl -o out --tokenizer-type BertWordPieceCase
	[ "$status" = 2 ]
	[ "$output" = "mtok: unknown tokenizer type 'BertWordPieceCase': must be one of SentencePieceTokenizer, \
GPTSentencePieceTokenizer, Llama2Tokenizer, JapaneseSentencePiece, TikTokenizer, HuggingFaceTokenizer, GPT2BPETokenizer, NullTokenizer" ]
	run mtok --input docs.jsonl -o out --tokenizer-type GPT2BPETokenizer $spm
	expect 2 "mtok: GPT2BPETokenizer needs --vocab-file and --merge-file"
	run mtok --input docs.jsonl -o out $spm --json-keys text text
	expect 2 "mtok: --json-keys: 'text' occurs twice"
	run mtok --input docs.jsonl -o out $spm --workers -1
	expect 2 "mtok: --workers -1: must be from 0 to 4096"
	[ -z "$(ls out* 2>/dev/null)" ]
}

@test "vocab.json and merges.txt are checked against each other" {
	echo 'the fox' >m2
	run mtok count --vocab-file vocab.json --merge-file m2 docs.jsonl
	expect 2 "mtok: m2:1: 'fox' is not in the vocabulary"
	printf '#version: 0.2\nt h\nh t\n' >m2
	run mtok count --vocab-file vocab.json --merge-file m2 docs.jsonl
	expect 2 "mtok: m2:3: 'h t': the join is not in the vocabulary"
	printf 'the\n' >m2
	run mtok count --vocab-file vocab.json --merge-file m2 docs.jsonl
	expect 2 "mtok: m2:1: it must be two tokens separated by a space"
	echo '{"a": 0, "b": 2}' >v2
	run mtok count --vocab-file v2 --merge-file merges.txt docs.jsonl
	expect 2 "mtok: v2: the id of 'b' is 2, but there are 2 tokens"
	echo '{"a": 0, "b": 1}' >v2
	: >m2
	run mtok count --vocab-file v2 --merge-file m2 docs.jsonl
	expect 2 "mtok: v2: no token for byte 0x00"
}

@test "a model that is cut off is refused" {
	head -c 500 t.model >cut.model
	run mtok info --tokenizer-model cut.model
	[ "$status" = 2 ]
	[[ $output =~ ^"mtok: cut.model: not a SentencePiece model: the protobuf message is broken at byte "[0-9]+$ ]]
	printf '\n\3\n\1x' >cut.model
	run mtok info --tokenizer-model cut.model
	expect 2 "mtok: cut.model: no piece is of type unknown: exactly one must be"
}

@test "count" {
	printf '{"text": "the fox"}\n{"text": ["the", "x"]}\n' >in
	run --separate-stderr mtok count -q $bpe in
	[ "$status" = 0 ]
	[ "$output" = "$(printf 'tokenizer\tkey\tdocuments\tsequences\tbytes\ttokens\tbytes_per_token\tlongest\nvocab.json\ttext\t2\t3\t11\t6\t1.8333\t4')" ]
	[ -z "$stderr" ]
}

@test "count to a full disk fails" {
	run bash -c "mtok count -q $bpe docs.jsonl >/dev/full"
	expect 1 "mtok: cannot write standard output"
	run bash -c "mtok info $bpe >/dev/full"
	expect 1 "mtok: cannot write standard output"
}

@test "a dataset that does not fit leaves nothing" {
	for i in $(seq 400); do cat docs.jsonl; done >many.jsonl
	run bash -c "trap '' XFSZ; ulimit -f 64; mtok -q -o out $spm many.jsonl"
	[ "$status" = 1 ]
	[[ $output == *"File too large"* ]]
	[ "${#lines[@]}" = 1 ]
	[ -z "$(ls out* 2>/dev/null)" ]
}

@test "decode gives the text back, from a dataset and from ids" {
	printf '{"text": "the fox"}\n{"text": ""}\n{"text": "line\\nfeed \\u3042"}\n' >in
	mtok -q -o out $bpe --append-eod in
	run mtok decode $bpe --skip-special out_text_document
	expect 0 "$(printf 'the fox\n\nline\nfeed あ')"
	mtok decode $bpe --skip-special --json out_text_document >back.jsonl
	mtok -q -o again $bpe --append-eod back.jsonl
	cmp out_text_document.bin again_text_document.bin
	cmp out_text_document.idx again_text_document.idx
	run mtok decode $bpe <<<'257 32,102 259 260'
	expect 0 "the fox<|endoftext|>"
	run mtok decode $bpe --json - <<<'227'
	expect 0 $'{"text": "\ufffd"}'
}

@test "decode refuses what is not an id" {
	run mtok decode $bpe <<<'257 261'
	expect 1 "mtok: standard input:1: id 261 is outside the vocabulary of 261"
	run mtok decode $bpe <<<'257 x'
	expect 1 "mtok: standard input:1: 'x' is not a token id"
	printf '{"text": "5 70"}\n' | mtok -q -o n --tokenizer-type NullTokenizer --vocab-size 400
	run mtok decode --tokenizer-type NullTokenizer --vocab-size 60 n_text_document
	expect 1 "mtok: n_text_document: document 0: id 70 is outside the vocabulary of 60"
}

@test "info" {
	run mtok info $bpe
	[ "$status" = 0 ]
	[ "${lines[0]}" = "$(printf 'type\tGPT2BPETokenizer')" ]
	[ "${lines[1]}" = "$(printf 'vocab_size\t261')" ]
	[ "${lines[4]}" = "$(printf 'eos_id\t260')" ]
	[ "${lines[5]}" = "$(printf 'pad_id\t-1')" ]
	[[ ${lines[6]} =~ ^hash$'\t'[0-9a-f]{16}$ ]]
	[ "${lines[7]}" = "$(printf 'file\tvocab.json')" ]
	[ "${lines[8]}" = "$(printf 'file\tmerges.txt')" ]
	run mtok info --pieces $spm
	[ "${lines[1]}" = "$(printf '0\t"<unk>"\t0\tunknown')" ]
	[ "${lines[4]}" = "$(printf '3\t"<0x00>"\t0\tbyte')" ]
	[ "${#lines[@]}" = 361 ]
	run mtok info $spm extra
	expect 2 "mtok: unexpected operand 'extra'"
}

@test "train: what of the corpus does not come back is counted, and the options are named" {
	for i in $(seq 60); do
		printf '{"text": "def f%d(x):\\n    if x:\\n\\t\\treturn  %d\\n"}\n' "$i" "$i"
	done >code.jsonl
	run -0 --separate-stderr mtok train -q -o kept.model --vocab-size 300 --soft-vocab-limit code.jsonl
	[ -z "$stderr" ]
	run -0 --separate-stderr mtok train -q -o lost.model --sentencepiece-defaults --vocab-size 60 \
		--soft-vocab-limit code.jsonl
	[ "$stderr" = "mtok: 60 of the first 60 texts do not come back from this model: 180 line feeds, 120 tabs, 180 blanks and 0 other bytes are missing; what brings text back: --byte-fallback --keep-extra-whitespaces --allow-whitespace-only-pieces --no-add-dummy-prefix --normalization-rule-name identity, all of which hold without --sentencepiece-defaults" ]
	run -0 --separate-stderr mtok train -q -o blanks.model --normalization-rule-name nfkc \
		--vocab-size 300 --soft-vocab-limit - <<<'{"text": "ｶ a"}'
	[ "$stderr" = "mtok: 1 of the first 1 texts do not come back from this model: 0 line feeds, 0 tabs, 0 blanks and 3 other bytes are missing; what brings text back: --normalization-rule-name identity" ]
}

@test "mtok train tells the pieces that were made, not those that were asked for" {
	run -0 --separate-stderr mtok train -o few.model --vocab-size 4000 --soft-vocab-limit docs.jsonl
	pieces=$(mtok info --tokenizer-model few.model | sed -n 's/^vocab_size\t//p')
	[ "$pieces" -lt 4000 ]
	[[ "$stderr" == *"few.model: $pieces pieces from "* ]]
}

@test "JapaneseSentencePiece: lines end in a piece, and eod is another one" {
	mtok train -q --sentencepiece-defaults -o j.model --user-defined-symbols '<|endofline|>' \
		'<|endoftext|>' '<|padding|>' --vocab-size 100 --soft-vocab-limit docs.jsonl
	fork="--tokenizer-type JapaneseSentencePiece --vocab-file j.model"
	sed 's/\\n/<|endofline|>/g' docs.jsonl >lines.jsonl
	mtok -q --input docs.jsonl -o fork $fork
	mtok -q --input lines.jsonl -o plain --tokenizer-model j.model
	cmp fork_text_document.bin plain_text_document.bin
	mtok -q --input docs.jsonl -o ended $fork --append-eod
	grep -q '"eod_id": 4,' ended_text_document.json
	mtok info $fork | grep -qx "$(printf 'pad_id\t5')"
	[ "$(mtok decode fork_text_document $fork | head -n 2)" = \
		"$(printf 'the quick brown fox number 37 jumps over the lazy dog\nand runs 7 miles')" ]
	[ "$(mtok info $fork | grep hash)" != "$(mtok info --tokenizer-model j.model | grep hash)" ]
	run mtok info --tokenizer-type JapaneseSentencePiece
	[ "$status" = 2 ]
	[[ $output == *"JapaneseSentencePiece needs --vocab-file" ]]
}

@test "train: the same model twice, unigram and bpe, symbols" {
	mtok train -q --sentencepiece-defaults -o again.model --model-type bpe --vocab-size 360 --byte-fallback docs.jsonl
	cmp t.model again.model
	run mtok train --sentencepiece-defaults -o u.model --vocab-size 100 --soft-vocab-limit --user-defined-symbols '<A,B>' '<"C">' --control-symbols '<X>' \
		--pad-id 3 docs.jsonl
	[ "$status" = 0 ]
	pieces=$(mtok info --tokenizer-model u.model | sed -n 's/^vocab_size\t//p')
	[[ ${lines[0]} == "mtok: 60 of the first 60 texts do not come back from this model: 60 line feeds, "* ]]
	[[ ${lines[1]} =~ ^"mtok: u.model: $pieces pieces from 120 sentences, "[0-9.]+' MB'$ ]]
	run mtok info --pieces --tokenizer-model u.model
	[[ $output == *'"<A,B>"'* ]]
	[[ $output == *'"<\"C\">"'* ]]
	[[ $output == *$'"<X>"\t0\tcontrol'* ]]
	mtok info --tokenizer-model u.model | grep -qx "$(printf 'pad_id\t3')"
}

@test "devices and pipes in the place of a tokenizer's files are refused at once" {
	mkfifo pipe
	for file in /dev/zero /dev/urandom pipe; do
		for options in "--tokenizer-model $file" "--tokenizer-type TikTokenizer --tokenizer-model $file" \
			"--tokenizer-type SentencePieceTokenizer --tokenizer-model $file" \
			"--vocab-file $file --merge-file merges.txt" "--vocab-file vocab.json --merge-file $file"; do
			# shellcheck disable=SC2086 # a list of words
			run timeout 5 mtok info $options
			expect 2 "mtok: cannot open '$file': not a regular file"
		done
		run timeout 5 mtok train -o n.model --normalization-rule-tsv "$file" docs.jsonl
		expect 2 "mtok: cannot open '$file': not a regular file"
	done
	mkdir d
	for name in tokenizer.json tokenizer.model vocab.json; do
		mkfifo d/$name
		run timeout 5 mtok info --tokenizer-model d
		[ "$status" = 2 ] && [ "$(wc -l <<<"$output")" = 1 ]
		rm d/$name
	done
	run timeout 5 mtok count --files-from /dev/zero $spm
	expect 2 "mtok: /dev/zero: a list of file names of more than 256 MiB"
	run timeout 5 mtok count --config /dev/zero
	expect 2 "mtok: /dev/zero: larger than 16777216 bytes"
}

@test "out of memory: the line has the tool's name" {
	case $B in *-address* | *-run) skip "the sanitizer or emulator reserves more addresses than the limit" ;; esac
	printf '{"text": "%0100000000d"}\n' 0 >long.jsonl
	run bash -c "ulimit -v 200000; mtok count $spm --workers 1 long.jsonl"
	[ "$status" = 1 ]
	[[ $output == "mtok: out of memory: cannot allocate "*" bytes" ]]
}

@test "train: errors" {
	run mtok train --vocab-size 400 docs.jsonl
	expect 2 "mtok: --output is needed"
	cp t.model own.model
	run mtok train -o own.model docs.jsonl
	expect 2 "mtok: 'own.model' exists; --force replaces it"
	run mtok train -o t.model --force docs.jsonl
	expect 2 "mtok: 't.model' is a symbolic link: it is not replaced"
	run mtok train -o docs.jsonl --force docs.jsonl
	expect 2 "mtok: 'docs.jsonl' is a symbolic link: it is not replaced"
	cat docs.jsonl >text.jsonl
	run mtok train -o text.jsonl --force docs.jsonl
	expect 2 "mtok: 'text.jsonl' is not a SentencePiece model: it is not replaced"
	run mtok train -o /dev/null --force docs.jsonl
	expect 2 "mtok: '/dev/null' is not a regular file: it is not replaced"
	run mtok train --sentencepiece-defaults -o n.model --vocab-size 60 bad.jsonl
	expect 1 "mtok: bad.jsonl:4: syntax: unterminated string at byte 22"
	run mtok train --sentencepiece-defaults -o n.model --vocab-size 100000 docs.jsonl
	[ "$status" = 1 ]
	[[ $output == "mtok: cannot train: Vocabulary size too high (100000). Please set it to a value <= "* ]]
	[ "${#lines[@]}" = 1 ]
	run mtok train --sentencepiece-defaults -o n.model --vocab-size 60 --character-coverage 0.9 docs.jsonl
	[ "$status" = 1 ]
	[[ $output == "mtok: cannot train: libsentencepiece requires "*"character_coverage() >= 0.98 "* ]]
	[ "${#lines[@]}" = 1 ]
	run mtok train -o n.model </dev/null
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	[ ! -e n.model ]
}

@test "text: a file is a document, a directory its files, a separator cuts" {
	mkdir -p d/sub
	printf 'the quick  fox\n\n\tjumps\n' >d/a.txt
	printf '{"text": "one line"}\n' >d/b.jsonl
	printf '# fox\n---\n\n---\nlazy dog\n---\n' | gzip >d/sub/c.md.gz
	printf 'not read' >d/.hidden.txt
	mtok -q -o all $spm d
	[ "$(mtok decode $spm all_text_document)" = "$(printf 'the quick fox jumps\none line\n# fox --- --- lazy dog ---')" ]
	grep -qF '{"file": "d/a.txt", "bytes": 23, "format": "text"},' all_text_document.json
	run -0 mtok count $spm --document-separator=--- --json d
	[[ $output == *'"documents": 4'* ]]
	mtok train -q -o own.model --vocab-size 300 --soft-vocab-limit d
	mtok -q -o own --tokenizer-model own.model d/a.txt
	mtok decode --tokenizer-model own.model own_text_document | cmp - <(cat d/a.txt; echo)
	# every part has whole files
	for i in 1 2 3; do
		mtok -q -o part$i $spm --part $i/3 d
	done
	mshard cat -q -o parts part1_text_document part2_text_document part3_text_document
	cmp parts.bin all_text_document.bin
	run mtok count $spm --format jsonl d/a.txt
	expect 1 "mtok: d/a.txt:1: syntax: no value at byte 1; --format text is for plain text"
	run mtok train -o n.model --format jsonl d/a.txt
	expect 1 "mtok: d/a.txt:1: syntax: no value at byte 1; --format text is for plain text"
	run mtok count --tokenizer-type NullTokenizer --vocab-size 9 d/a.txt
	expect 1 "mtok: d/a.txt:1: refused: 'the' at byte 1 of the text: must be an id below 9; read as plain text: --format jsonl is for JSON Lines"
	printf 'a\n---\nb\377\n' >d/a.txt
	run mtok count $spm --document-separator=--- d/a.txt
	expect 1 "mtok: d/a.txt:2: bad-utf8: malformed UTF-8 at byte 2"
	run mtok count $spm --document-separator=--- d/b.jsonl
	expect 2 "mtok: --document-separator: none of the files is plain text: give --format text"
	run mtok count $spm --input d/a.txt --json-keys a b
	expect 2 "mtok: --json-keys: 'd/a.txt' is plain text, which has one member: give one name, or --format jsonl"
	mkdir none
	run mtok count $spm none
	expect 2 "mtok: 'none': a directory without files"
}

# texts PREFIX: the documents of a dataset of own.model, a JSON string each
texts()
{
	mtok decode --json --tokenizer-model own.model "$1" | sed 's/^{"text": //; s/}$//'
}

@test "text: documents by blank lines and by lines, all other bytes as they are" {
	mkdir d
	printf '\357\273\277\n \t\none\r\n  two \n\t \n\r\n\n\tthree\n\nfour\n' >d/a.txt
	printf 'five\n\n\nsix\r\n \t' | gzip >d/b.md.gz
	mtok train -q -o own.model --vocab-size 300 --soft-vocab-limit d
	own="-q --tokenizer-model own.model --append-eod"
	mtok $own -o blank --document-by blank-line d
	diff <(texts blank_text_document) - <<-'END'
		"one\u000d\u000a  two "
		"\u0009three"
		"four\u000a"
		"five"
		"six"
	END
	mtok $own -o line --document-by line d
	diff <(texts line_text_document) - <<-'END'
		"one"
		"  two "
		"\u0009three"
		"four"
		"five"
		"six"
	END
	grep -q '"blank_lines": 9,' line_text_document.json
	grep -q '"document_by": "line",' line_text_document.json
	grep -q '"document_by": "blank-line",' blank_text_document.json
	# Lines are shared out, but no other documents.
	seq 2000 >lines.txt
	for by in line blank-line file; do
		mtok $own -o all --force --document-by $by lines.txt
		for i in 1 2 3; do
			mtok $own -o part$i --force --document-by $by --part $i/3 lines.txt
		done
		mshard cat -q --force -o parts part1_text_document part2_text_document \
			part3_text_document
		cmp parts.bin all_text_document.bin
		cmp parts.idx all_text_document.idx
		case $by in
		line) grep -q '"from": .*, "to": ' part2_text_document.json ;;
		*) ! grep -q '"from"' part2_text_document.json ;;
		esac
	done
	# A longer document is one bad line, and the next begins after it.
	printf 'a\n\n%0500000d\nb\n \n\nc\n' 0 >long.txt
	run -0 mtok count --tokenizer-model own.model --document-by blank-line --on-error skip \
		--max-document-bytes 1000 --json long.txt
	[[ $output == *'"documents": 2'* ]]
	[[ $output == *'skipped bad lines: 1 too-long'* ]]
	refused 2 "mtok: --document-separator and --document-by line exclude each other: a separator \
cuts files" mtok count $spm --document-by line --document-separator=--- d
	refused 2 "mtok: --document-by: none of the files is plain text: give --format text" \
		mtok count $spm --document-by line docs.jsonl
	printf 'a\n\n\nb\377\n' >bad.txt
	refused 1 "mtok: bad.txt:2: bad-utf8: malformed UTF-8 at byte 2" \
		mtok count $spm --document-by blank-line bad.txt
}

@test "text: the dataset of a directory has the bytes of its files" {
	mkdir -p d/code d/japanese
	cp "$TOP/tok/ends.c" "$TOP/tok/ends.h" d/code
	cp "$TOP/man/ja/man7/mikoshi-tutorial.7" d/japanese
	printf '\t \r\n\r\n\0 \357\274\241 e\314\201 \343\200\200x  \n\n\n' >d/edge
	printf 'no end of a line \360\237\221\251\342\200\215\360\237\222\273' >d/final
	mtok train -q -o own.model --format text --vocab-size 900 --soft-vocab-limit d
	mtok -q -o own --format text --tokenizer-model own.model d
	find d -type f | LC_ALL=C sort | while read -r file; do
		cat "$file"
		echo
	done >files
	mtok decode --tokenizer-model own.model own_text_document | cmp - files
}

@test "progress notes at --log-interval" {
	run mtok -o out $spm --log-interval 10 docs.jsonl
	[[ ${lines[0]} =~ ^'mtok: Processed 60 documents ('[0-9.]+' docs/s, '[0-9.]+' MB/s).'$ ]]
}

@test "--help of every verb; --version" {
	for v in encode count decode train info; do
		run mtok "$v" --help
		[ "$status" = 0 ]
		[[ ${lines[0]} == "usage: mtok $v [options]"* ]]
	done
	run mtok --version
	[ "$status" = 0 ]
	[[ $output == "mtok (mikoshi) "* ]]
}

@test "the manual's option lists are those of the program" {
	sed -n '/^\.\\" begin options/,/^\.\\" end options/p' "$TOP/man/mtok.1" | sed '1d;$d' >manual
	mtok --mdoc >program
	diff manual program
}

@test "models whose pieces contradict each other are refused" {
	# one more piece at the end of the protobuf: an empty one, then one that begins with a NUL
	mtok train -q --sentencepiece-defaults -o u.model --vocab-size 60 --soft-vocab-limit docs.jsonl
	{ cat u.model; printf '\n\7\n\0\25\0\0\0\0'; } >bad.model
	pieces=$(mtok info --tokenizer-model u.model | sed -n 's/^vocab.size[^0-9]*//p')
	run mtok info --tokenizer-model bad.model
	expect 2 "mtok: bad.model: piece $pieces is empty or not plain UTF-8"
	{ cat u.model; printf '\n\11\n\2\0x\25\0\0\0\0'; } >bad.model
	run mtok info --tokenizer-model bad.model
	expect 2 "mtok: bad.model: piece $pieces is empty or not plain UTF-8"
	{ cat u.model; printf '\n\11\n\2ab\25\0\0\200\177'; } >bad.model
	run mtok info --tokenizer-model bad.model
	expect 2 "mtok: bad.model: piece $pieces has no finite score"
	{ cat u.model; printf '\n\12\n\6<0x41>\30\6'; } >bad.model
	run mtok info --tokenizer-model bad.model
	expect 2 "mtok: bad.model: byte piece $pieces in a model without byte fallback"
	{ cat u.model; printf '\32\13\22\11\4\1\0\0aaaaa'; } >bad.model
	run mtok info --tokenizer-model bad.model
	expect 2 "mtok: bad.model: its normalisation rules have an index of 260 bytes in 5"
}

@test "four forms of a line that says what is trained" {
	none="--tokenizer-type GPT2BPETokenizer --vocab-file vocab.json --merge-file merges.txt -q"
	cat >format.json <<-'END'
		{"start": "the ", "roles": {"user": {"before": "U ", "after": "\n", "train": false},
		 "bot": {"before": "B ", "after": "<|endoftext|>", "train": true}}, "strip": true}
	END
	echo '{"text": [{"role": "user", "content": " the ox\u3000"}, {"role": "bot", "content": "\u00e9 the"}]}' >messages
	echo '{"text": [{"text": "the U the ox\nB ", "train": false}, {"text": "\u00e9 the<|endoftext|>", "train": true}]}' >segments
	echo '{"text": "the U the ox\nB \u00e9 the<|endoftext|>", "spans": [[15, 33]]}' >spans
	mtok $none -o a --chat-format format.json messages
	mtok $none -o b --segments segments
	mtok $none -o c --spans-key spans spans
	run -0 mshard head a_text_document
	row=$output
	for name in b c; do
		cmp a_text_document.bin ${name}_text_document.bin
		cmp a_text_document_mask.bin ${name}_text_document_mask.bin
	done
	ids=$(echo "$row" | sed -n '2s/.*\t//p')
	marks=$(od -An -v -tu1 a_text_document_mask.bin | tr -s '\n ' ' ')
	printf '{"text": [%s], "m": [%s]}\n' "$(echo $ids | sed 's/ /, /g')" \
		"$(echo $marks | sed 's/ /, /g')" >ids
	mtok $none -o d --mask-key m ids
	cmp a_text_document.bin d_text_document.bin
	cmp a_text_document_mask.bin d_text_document_mask.bin
	# Both bytes of a character that is trained, the text after it, and the end.
	[ "$(echo "$row" | cut -f 4 | tail -n 1)" = 9+4 ]
	# An end of a document counts as the token before it, a beginning does not.
	mtok $none -o e --append-eod --segments segments
	run -0 mshard head e_text_document
	[ "$(echo "$output" | cut -f 4 | tail -n 1)" = 9+5 ]
	grep -q '"mask": "e_text_document_mask"' e_text_document.json
	grep -q '"trained_tokens": 5' e_text_document.json
}

# chat_line FORM LINE WHY: a bad line of a form, given by its options
chat_line()
{
	echo "$2" >line
	refused 1 "mtok: line:1: $3" mtok -o x --tokenizer-type GPT2BPETokenizer \
		--vocab-file vocab.json --merge-file merges.txt $1 line
}

@test "lines and tables that do not say what is trained" {
	echo '{"roles": {"u": {"before": "", "after": "", "train": true}}}' >f
	chat_line "--mask-key m" '{"text": [1], "m": [1, 0]}' "bad-chat: 1 numbers in 'text', but 2 in 'm'"
	chat_line "--mask-key m" '{"text": [1], "m": [2]}' "bad-chat: item 0 of 'm' is neither 0 nor 1"
	chat_line "--mask-key m" '{"text": [999], "m": [1]}' "refused: id 999 is outside the vocabulary of 261"
	chat_line "--mask-key m" '{"text": [1]}' "missing-key: no member 'm'"
	chat_line "--mask-key m" '{"text": "a", "m": [1]}' "wrong-type: 'text' is not a list"
	# A list without an id is a document without a token, as an empty text is.
	printf '%s\n' '{"text": [], "m": []}' '{"text": [7], "m": [1]}' >line
	run -0 mtok -q -o w --tokenizer-type GPT2BPETokenizer --vocab-file vocab.json \
		--merge-file merges.txt --mask-key m line
	run -0 mshard info w_text_document
	[[ $output == *"	empty_documents	1"*"	tokens	1"* ]]
	chat_line "--segments" '{"text": [{"text": "a"}]}' 'bad-chat: segment 0 is not {"text": STRING, "train": BOOL}'
	chat_line "--spans-key s" '{"text": "abc", "s": [[1, 2], [0, 1]]}' "bad-span: span 1, [0, 1], begins before the end of the one before it, or ends before it begins"
	chat_line "--spans-key s" '{"text": "abc", "s": [[-1, 2]]}' "bad-span: span 0, [-1, 2], begins before the text, or ends before it begins"
	chat_line "--spans-key s" '{"text": "\u00e9\u00e9", "s": [[1, 3]]}' "bad-span: span 0 ends after the 2 characters"
	chat_line "--spans-key s" '{"text": "abc", "s": [[1]]}' "bad-span: span 0 is not [BEGIN, END]"
	chat_line "--chat-format f" '{"text": []}' "bad-chat: a conversation without a message"
	chat_line "--chat-format f" '{"text": ["u"]}' "bad-chat: message 0 is not an object"
	chat_line "--chat-format f" '{"text": [{"content": ""}]}' "bad-chat: message 0 has no role"
	chat_line "--chat-format f" '{"text": [{"role": 1, "content": ""}]}' "bad-chat: message 0: its role is not a string"
	chat_line "--chat-format f" '{"text": [{"role": "x", "content": ""}]}' "bad-chat: message 0: f has no role 'x'"
	chat_line "--chat-format f" '{"text": [{"role": "u", "content": null}]}' "bad-chat: message 0: its content is not a string"
	chat_line "--chat-format f" '{"text": [{"role": "u", "content": "", "name": "n"}]}' "bad-chat: message 0 has a member 'name'; --chat-ignore leaves it out"
	chat_line "--chat-format f" '{"text": [{"role": "u", "content": "a<|endoftext|>"}]}' "control-in-content: message 0: its content holds the special token '<|endoftext|>'; --allow-control takes it as one"
	chat="mtok -q --tokenizer-type GPT2BPETokenizer --vocab-file vocab.json --merge-file merges.txt"
	run -0 $chat -o y --chat-format f --chat-ignore name --allow-control <<-'END'
		{"text": [{"role": "u", "content": "a<|endoftext|>", "name": 1}]}
	END
	echo '{"text": [{"text": "a", "train": false}]}' >line
	refused 1 'mtok: none of 1 tokens is trained: a chat template marks what is by {% generation %}, a table by "train": true' \
		$chat -o z --segments line
	echo '{"roles": {"u": {"before": "", "train": true}}}' >g
	refused 2 "mtok: g: role 'u': 'after' must be a string, and is missing" \
		$chat -o z --chat-format g line
	echo '{"roles": {"u": {"before": "", "before": "a", "after": "", "train": true}}}' >g
	refused 2 "mtok: g: role 'u': 'before' is there twice" $chat -o z --chat-format g line
	echo '{"roles": {"u": {"before": "", "after": "", "train": true}, "u": {}}}' >g
	refused 2 "mtok: g: role 'u' is there twice" $chat -o z --chat-format g line
	echo '{"roles": {}, "stop": 1}' >g
	refused 2 "mtok: g: 'stop' is no member of a chat format" $chat -o z --chat-format g line
	refused 2 "mtok: --mask-key, --spans-key, --segments and --chat-format exclude each other: they are four forms of a line" \
		$chat -o z --segments --spans-key s line
	refused 2 "mtok: --allow-control needs --chat-format" $chat -o z --allow-control line
	refused 2 "mtok: --mask-key text: must differ from that of --json-keys" \
		$chat -o z --mask-key text line
	refused 2 "mtok: --segments: takes one of --json-keys, not 2" \
		$chat -o z --segments --json-keys a b --input line
	# A tokenizer that leaves blanks out has no place for its tokens.
	echo '{"text": [{"text": "the  fox", "train": true}]}' >line
	refused 1 "mtok: line:1: refused: the tokenizer does not give this text back; give ids by --mask-key" \
		mtok -q -o z --tokenizer-model t.model --segments line
}
