#!/usr/bin/env bats
# mtok: which input a run takes, bad lines that are skipped, runs that are stopped and resumed,
# sentences, counts of several kinds

bats_require_minimum_version 1.5.0
load common

setup_file()
{
	cd "$BATS_FILE_TMPDIR"
	for i in $(seq 60); do
		printf '{"id": %d, "text": "the quick brown fox number %d jumps over the lazy dog\\nand runs %d miles", "title": "Fox %d"}\n' \
			"$i" $((i * 37 % 100)) $((i * 7)) "$i"
	done >docs.jsonl
	for i in $(seq 20000); do
		printf '{"text": "document %d of many: %d %d \\u3042 \\"quoted\\"", "title": "%d"}\n' "$i" $((i * 7919 % 10007)) $((i * i)) "$i"
	done >many.jsonl
	mtok train -q --sentencepiece-defaults -o t.model --model-type bpe --vocab-size 360 --byte-fallback docs.jsonl
	mtok train -q --sentencepiece-defaults -o u.model --vocab-size 100 --soft-vocab-limit docs.jsonl
}

setup()
{
	cd "$BATS_TEST_TMPDIR"
	ln -s "$BATS_FILE_TMPDIR"/{docs.jsonl,many.jsonl,t.model,u.model} .
	ln -s "$TOP/tests/bats/data/bad.jsonl" .
}

# lengths FILE.idx: the lengths of its sequences on one line
lengths()
{
	local n
	n=$(od -An -j18 -N8 -tu8 "$1")
	[ $((n)) = 0 ] || od -An -v -j34 -N $((4 * n)) -tu4 -w1000000 "$1" | sed 's/^ *//;s/  */ /g'
}

# same A B: two datasets of the same bytes
same()
{
	cmp "$1.bin" "$2.bin"
	cmp "$1.idx" "$2.idx"
}

spm="--tokenizer-model t.model"

@test "--files-from: names on lines, ended by NULs, on standard input, after the others" {
	cp docs.jsonl 'with blank.jsonl'
	mtok -q -o want $spm docs.jsonl 'with blank.jsonl' docs.jsonl
	printf 'with blank.jsonl\n\ndocs.jsonl\r\n' >list
	mtok -q -o a $spm --input docs.jsonl --files-from list
	printf 'docs.jsonl\0with blank.jsonl\0docs.jsonl\0' | mtok -q -o b $spm --files-from -
	same want_text_document a_text_document
	same want_text_document b_text_document
	: >list
	run mtok -o c $spm --files-from list
	expect 2 "mtok: list: no file names"
	run mtok -o c $spm --files-from nowhere
	expect 2 "mtok: cannot open 'nowhere': No such file or directory"
	echo gone.jsonl >list
	run mtok -o c $spm --files-from list
	expect 2 "mtok: cannot open 'gone.jsonl': No such file or directory"
	[ -z "$(ls c* 2>/dev/null)" ]
}

@test "--part: the parts of plain and compressed files, joined, are the whole" {
	gzip -c docs.jsonl >b.gz
	zstd -q -c <docs.jsonl >d.zst
	head -c -1 docs.jsonl >e.jsonl
	mtok -q -o want $spm --append-eod docs.jsonl b.gz docs.jsonl d.zst e.jsonl
	for n in 1 2 3 7 40; do
		rm -f part*
		for i in $(seq $n); do
			mtok -q -o "part$(printf %02d "$i")" $spm --append-eod --part "$i/$n" docs.jsonl b.gz docs.jsonl d.zst e.jsonl
		done
		ls part*_text_document.idx | sed 's/.idx$//' | xargs mshard cat -q --force -o joined
		same want_text_document joined
	done
	grep -q '"part": "40/40"' part40_text_document.json
	grep -q '"file": "e.jsonl", "bytes": [0-9]*, "from": [0-9]*, "to": [0-9]*' part40_text_document.json
}

@test "--part: lines are numbered in the file; what is not a part is refused" {
	{ cat docs.jsonl; echo x; } >bad
	run mtok -o out $spm --part 4/4 bad
	expect 1 "mtok: bad:61: syntax: no value at byte 1"
	for p in 0/4 5/4 4 x/2 1/0 1/2x 1/; do
		run mtok -o out $spm --part $p docs.jsonl
		expect 2 "mtok: --part $p: must be I/N with I from 1 to N and N at most 1000000"
	done
	run mtok -o out $spm --part 1/2 </dev/null
	expect 2 "mtok: --part: '-' has no size; only files can be shared out"
	[ -z "$(ls out* 2>/dev/null)" ]
}

@test "line ends, byte order marks, several members and frames, long lines" {
	sed 's/$/\r/' docs.jsonl >crlf
	{ printf '\357\273\277'; cat docs.jsonl; } >bom
	{ head -n 20 docs.jsonl | gzip; tail -n +21 docs.jsonl | gzip -1; } >two.gz
	{ head -n 20 docs.jsonl | zstd -q; tail -n +21 docs.jsonl | zstd -q -3; } >two.zst
	mtok -q -o want $spm docs.jsonl
	for f in crlf bom two.gz two.zst; do
		mtok -q -o "$f" $spm $f
		same want_text_document ${f}_text_document
	done
	{ printf '{"text": "'; head -c 5000000 /dev/zero | tr '\0' a; printf '"}\n{"text": "b"}\n'; } >long
	mtok -q -o long $spm --workers 2 long
	run mtok decode $spm long_text_document
	[ "${#lines[0]}" = 5000000 ]
	[ "${lines[1]}" = b ]
}

@test "--on-error skip lists file, line, offset, class and reason" {
	run mtok -q -o out $spm --on-error skip docs.jsonl bad.jsonl
	[ "$status" = 0 ]
	[ "$(wc -l <out.errors.tsv)" = 36 ]
	[ "$(head -n 2 out.errors.tsv | cut -f1,2,4- | tr '\t' '|')" = "$(printf '%s\n' 'file|line|class|reason' \
		'bad.jsonl|4|syntax|unterminated string at byte 22')" ]
	# Each offset is the one of its line.
	tail -n +2 out.errors.tsv | while IFS=$'\t' read -r _ line offset _; do
		[ "$(tail -c +$((offset + 1)) bad.jsonl | head -n 1 | md5sum)" = "$(sed -n "${line}p" bad.jsonl | md5sum)" ]
	done
	mtok -q -o w8 $spm --on-error skip --workers 8 --error-list here docs.jsonl bad.jsonl
	cmp here out.errors.tsv
	[ ! -e w8.errors.tsv ]
	run mtok -q -o other $spm --on-error skip --error-list here docs.jsonl
	expect 2 "mtok: 'here' exists; --force replaces it"
	mtok -q -o other --force $spm --on-error skip --error-list here docs.jsonl
	cat bad.jsonl >own
	run mtok -q -o other --force $spm --on-error skip --error-list own docs.jsonl
	expect 2 "mtok: 'own' is not a list of bad lines: it is not replaced"
	mtok -q -o good $spm --on-error skip docs.jsonl
	[ "$(wc -l <good.errors.tsv)" = 1 ]
}

@test "SIGINT and SIGTERM without --resume leave nothing and end as by the signal" {
	for s in INT TERM HUP; do
		# The program waits for a pipe that stays silent; perl says by which signal it ended.
		run perl -e '
			my ($name, @command) = @ARGV;
			pipe my $r, my $w;
			my $pid = fork // die;
			if (!$pid) {
				$SIG{INT} = $SIG{$name} = "DEFAULT";
				close $w;
				open STDIN, "<&", $r;
				exec @command;
			}
			select undef, undef, undef, 0.05 until glob ".out_*";
			select undef, undef, undef, 0.1;
			kill $name, $pid;
			waitpid $pid, 0;
			print $? & 127;' "$s" mtok -q -o out $spm docs.jsonl -
		expect 0 "$(kill -l "$s")"
		[ -z "$(ls out* 2>/dev/null)" ]
	done
}

@test "--resume: killed again and again, the dataset is that of one run" {
	sed 's/"text"/"text": "x", "title": "y", "text"/' docs.jsonl >more.jsonl
	mtok -q -o want $spm --json-keys text title --on-error skip --append-eod many.jsonl bad.jsonl more.jsonl many.jsonl
	gzip -c many.jsonl >many.gz
	kills=0
	for try in $(seq 60); do
		rc=0
		timeout -s KILL "$(awk -v t="$try" 'BEGIN { print 0.04 + 0.02 * t }')" mtok -q -o out --resume --resume-interval 0 $spm \
			--workers $((try % 3 + 1)) --json-keys text title --on-error skip --append-eod \
			many.gz bad.jsonl more.jsonl many.jsonl 2>err || rc=$?
		[ $rc != 0 ] || break
		[ $rc = 137 ] || { cat err; return 1; }
		# What has its final name is complete.
		[ ! -e out_text_document.idx ] || same want_text_document out_text_document
		kills=$((kills + 1))
		# Killed between its last act and its exit: there is nothing left to resume.
		[ ! -e out_title_document.idx ] || [ -e out.resume ] || { rc=0; break; }
	done
	[ $rc = 0 ]
	[ $kills -gt 0 ]
	same want_text_document out_text_document
	same want_title_document out_title_document
	cmp want.errors.tsv out.errors.tsv
	# The notes describe the whole run.
	for m in documents tokens text_bytes blank_lines skipped_lines; do
		[ "$(grep "\"$m\"" want_text_document.json)" = "$(grep "\"$m\"" out_text_document.json)" ]
	done
	[ -z "$(ls out*.part out.resume 2>/dev/null)" ]
}

@test "--resume: stopped by a signal it exits 3; other options and inputs are refused by name" {
	cp docs.jsonl first.jsonl
	mkfifo slow
	# The second file is a pipe at first, so that the run is certain to wait there.
	run mtok -o out --resume $spm first.jsonl slow
	expect 2 "mtok: --resume: 'slow' cannot be read a second time; give files"
	run mtok -o out --resume $spm
	expect 2 "mtok: --resume: 'standard input' cannot be read a second time; give files"
	for i in $(seq 40); do cat many.jsonl; done >big.jsonl
	mtok -o out --resume --resume-interval 0 $spm --workers 1 first.jsonl big.jsonl 2>err &
	while [ ! -e out.resume ]; do sleep 0.02; done
	kill -TERM $!
	rc=0
	wait $! || rc=$?
	[ $rc = 3 ]
	[ "$(cat err)" = "mtok: interrupted; --resume continues" ]
	[ -e out.resume ] && [ -e out_text_document.bin.part ]
	run mtok -o out $spm first.jsonl big.jsonl
	expect 2 "mtok: 'out.resume' belongs to a run that stopped; --resume continues it, --force drops it"
	run mtok -o out --resume $spm --append-eod first.jsonl big.jsonl
	expect 2 'mtok: --resume: an option is not that of the run that stopped: --append-eod "no" there, --append-eod "yes" here (out.resume)'
	run mtok -o out --resume $spm first.jsonl
	[ "$status" = 2 ]
	[[ $output == 'mtok: --resume: the inputs are not those of the run that stopped: "big.jsonl" '*' there, nothing here (out.resume)' ]]
	echo >>first.jsonl
	run mtok -o out --resume $spm first.jsonl big.jsonl
	[ "$status" = 2 ]
	[[ $output == 'mtok: --resume: the inputs are not those of the run that stopped: "first.jsonl" '*' bytes, changed at '*' there, '* ]]
	mtok -q -o out --force $spm docs.jsonl
	mtok -q -o want $spm docs.jsonl
	same want_text_document out_text_document
	[ "$(ls out*)" = "$(printf '%s\n' out_text_document.bin out_text_document.idx out_text_document.json out_text_document.sum)" ]
}

@test "--resume: documents of text between blank lines, and not with another rule" {
	for i in $(seq 40); do
		cat many.jsonl
		printf ' \t\n\n'
	done >big.txt
	text="$spm --document-by blank-line"
	mtok -q -o want $text big.txt
	mtok -q -o out --resume --resume-interval 0 $text --workers 1 big.txt &
	while [ ! -e out.resume ]; do sleep 0.02; done
	kill -KILL $!
	wait $! || true
	run mtok -q -o out --resume $spm --document-by line big.txt
	expect 2 'mtok: --resume: an option is not that of the run that stopped: --document-by "blank-line" there, --document-by "line" here (out.resume)'
	mtok -q -o out --resume $text big.txt
	same want_text_document out_text_document
	grep '"documents": 40,' out_text_document.json
}

@test "--resume: a damaged state, and files that are shorter than it says" {
	for i in $(seq 20); do cat many.jsonl; done >big.jsonl
	mtok -q -o out --resume --resume-interval 0 $spm --workers 1 big.jsonl &
	while [ ! -e out.resume ]; do sleep 0.02; done
	kill -KILL $!
	wait $! || true
	cp out.resume state
	sed '/^counts/d' state >out.resume
	run mtok -q -o out --resume $spm big.jsonl
	expect 2 "mtok: --resume: 'out.resume' is damaged"
	head -c -5 state >out.resume
	run mtok -q -o out --resume $spm big.jsonl
	expect 2 "mtok: --resume: 'out.resume' is damaged"
	cp state out.resume
	cp out_text_document.bin.part kept
	: >out_text_document.bin.part
	run mtok -q -o out --resume $spm big.jsonl
	[ "$status" = 2 ]
	[[ $output == "mtok: out_text_document.bin.part: shorter than the "*" bytes that were written" ]]
	cp kept out_text_document.bin.part
	mtok -q -o out --resume $spm big.jsonl
	mtok -q -o want $spm big.jsonl
	same want_text_document out_text_document
}

@test "--resume: a commit that was cut short is finished" {
	mtok -q -o want $spm docs.jsonl
	mtok -q -o out --resume --resume-interval 0 $spm docs.jsonl
	same want_text_document out_text_document
	# The state in which a machine that stopped between the renames leaves it.
	for stage in before staged whole moved noted summed after; do
		rm -f out* state
		mtok -q -o out --resume --resume-interval 0 $spm docs.jsonl &
		wait $!
		size=$(stat -c %s out_text_document.bin)
		mtok info $spm | sed -n 's/^hash\t//p' >hash
		{
			printf 'mtok resume 1 %s\n' "$(sed -n 's/.*"made_by": "\(.*\)",/\1/p' out_text_document.json)"
			printf 'option --%s "%s"\n' tokenizer-type SentencePieceTokenizer tokenizer-model "$(cat hash)" special-as-text no \
				tokenizer-hf-no-include-special-tokens no unigram-ties 0.2.2 tokenizer-like transformers-5.24 tiktoken-pattern '' tiktoken-num-special-tokens 1000 vocab-size 0 \
				json-keys text append-eod no eod-id -1 prepend-bos no split-sentences no keep-newlines no on-error stop \
				max-document-bytes 268435456 error-list '' mask-key '' spans-key '' segments no \
				chat-format '' allow-control no part '' format auto \
				document-by file document-separator ''
			printf 'input "docs.jsonl" %s bytes, changed at %s\n' "$(stat -L -c %s docs.jsonl)" "$(stat -L -c %.9Y docs.jsonl | tr -d .)"
			printf 'place 0 %s 60 0\nerrors 0\ncommitting 1\ncounts 60 0 0\n' "$(stat -L -c %s docs.jsonl)"
			for i in $(seq 14); do echo 'bad 0'; done
			printf 'key %s 60 60 60 1 1 1 0\nend\n' "$size"
		} >out.resume
		tail -c +35 out_text_document.idx | head -c 240 >out_text_document.lengths.part
		tail -c +$((35 + 240 + 480 + 8)) out_text_document.idx | head -c 480 >out_text_document.documents.part
		case $stage in
		before)
			mv out_text_document.bin out_text_document.bin.part
			rm out_text_document.idx out_text_document.json out_text_document.sum ;;
		staged)
			mv out_text_document.bin out_text_document.bin.new
			rm out_text_document.idx out_text_document.json out_text_document.sum ;;
		whole)
			for name in bin json sum idx; do mv out_text_document.$name out_text_document.$name.new; done ;;
		moved)
			for name in json sum idx; do mv out_text_document.$name out_text_document.$name.new; done ;;
		noted)
			for name in sum idx; do mv out_text_document.$name out_text_document.$name.new; done ;;
		summed) mv out_text_document.idx out_text_document.idx.new ;;
		after) ;;
		esac
		mtok -q -o out --resume $spm docs.jsonl
		same want_text_document out_text_document
		[ "$(ls out*)" = "$(printf '%s\n' out_text_document.bin out_text_document.idx out_text_document.json out_text_document.sum)" ]
	done
}

@test "--prepend-bos and --eod-token" {
	printf '{"text": "fox"}\n{"text": ""}\n{"text": ["fox", "dog"]}\n' >in
	mtok -q -o plain $spm in
	mtok -q -o both $spm --prepend-bos --append-eod in
	mtok -q -o named $spm --prepend-bos --append-eod --eod-token '</s>' in
	same both_text_document named_text_document
	[ "$(ids both_text_document.bin | cut -d' ' -f1)" = 1 ]
	[ "$(lengths both_text_document.idx)" = "$(lengths plain_text_document.idx | awk '{ print $1 + 2, $2 + 1, $3 + 1 }')" ]
	[ "$(ids both_text_document.bin | tr ' ' '\n' | grep -cx 1)" = 2 ]
	[ "$(ids both_text_document.bin | tr ' ' '\n' | grep -cx 2)" = 2 ]
	run mtok -o x $spm --append-eod --eod-token nothing in
	expect 2 "mtok: --eod-token: the tokenizer has no piece 'nothing'"
	run mtok -o x $spm --append-eod --eod-token '</s>' --eod-id 2 in
	expect 2 "mtok: --eod-id and --eod-token exclude each other: give one of them"
	mtok train -q --sentencepiece-defaults -o none.model --vocab-size 100 --soft-vocab-limit --bos-id -1 --eos-id -1 docs.jsonl
	run mtok -o x --tokenizer-model none.model --append-eod in
	expect 2 "mtok: --append-eod: this tokenizer has no end-of-document id; give --eod-id or --eod-token"
	run mtok -o x --tokenizer-model none.model --prepend-bos in
	expect 2 "mtok: --prepend-bos: this tokenizer has no beginning-of-document id"
}

@test "--split-sentences: a sentence is a sequence, the text is the document" {
	printf '%s\n' '{"text": "Mr. Fox ran. He saw 3.5 dogs!  \"Why?\" he asked.\n\nThe end"}' '{"text": ""}' \
		'{"text": ["犬が走った。「速い。」と言った！", "One. Two."]}' >in
	mtok -q -o out $spm --split-sentences --append-eod in
	[ "$(ls out*.idx)" = out_text_sentence.idx ]
	mshard verify -q out_text_sentence
	run mtok decode $spm --skip-special out_text_sentence
	[ "$(lengths out_text_sentence.idx | wc -w)" = 9 ]
	printf '%s\n' '{"text": ["Mr. Fox ran.", "He saw 3.5 dogs!", "\"Why?\" he asked.", "The end"]}' '{"text": ""}' \
		'{"text": ["犬が走った。", "「速い。」", "と言った！", "One.", "Two."]}' >lists
	mtok -q -o want $spm --append-eod lists
	same want_text_document out_text_sentence
	printf '%s\n' '{"text": "One.\n\n Two.  Three.\n"}' >in
	printf '%s\n' '{"text": ["One.\n\n", "Two.", "Three.\n"]}' >lists
	mtok -q -o kept $spm --split-sentences --keep-newlines in
	mtok -q -o listed $spm lists
	same listed_text_document kept_text_sentence
}

@test "options that need another one" {
	run mtok -o x $spm --keep-newlines docs.jsonl
	expect 2 "mtok: --keep-newlines needs --split-sentences"
	run mtok -o x $spm --error-list e docs.jsonl
	expect 2 "mtok: --error-list needs --on-error skip"
	run mtok count $spm --histogram --json docs.jsonl
	expect 2 "mtok: --histogram and --json exclude each other: --json includes the histogram"
}

@test "the first document empty; all documents empty" {
	printf '{"text": ""}\n{"text": "fox"}\n' >in
	mtok -q -o a $spm --append-eod in
	mshard verify -q a_text_document
	printf '{"text": ""}\n{"text": []}\n' >in
	mtok -q -o b $spm --append-eod in
	[ "$(stat -c %s b_text_document.bin)" = 0 ]
	[ "$(od -An -v -j18 -tu8 b_text_document.idx | tr -s ' \n' ' ')" = " 0 3 0 0 0 " ]
}

@test "a text of more than a million tokens stands between its neighbours, in either type" {
	perl -e 'print qq({"text": "7 8 9"}\n{"text": "), join(" ", map { $_ % 300 } 1 .. 1200000), qq("}\n{"text": "5"}\n)' >large.jsonl
	for type in "300 v" "100000 V"; do
		mtok -q -o out --force --tokenizer-type NullTokenizer --vocab-size "${type% *}" --append-eod large.jsonl
		perl -e 'my ($v, $t) = @ARGV; $v -= 1; print pack "$t*", 7, 8, 9, $v, (map { $_ % 300 } 1 .. 1200000), $v, 5, $v' \
			${type} | cmp - out_text_document.bin
	done
}

@test "count: several tokenizers, histogram, JSON" {
	run --separate-stderr mtok count -q $spm --compare u.model --json-keys text title -- docs.jsonl
	[ "$status" = 0 ]
	[ "${#lines[@]}" = 5 ]
	[ "$(printf '%s\n' "${lines[@]:1}" | cut -f1,2,3 | tr '\t' ' ')" = "$(printf '%s\n' 't.model text 60' 't.model title 60' \
		'u.model text 60' 'u.model title 60')" ]
	mtok -q -o one --tokenizer-model u.model docs.jsonl
	[ "$(printf '%s\n' "${lines[3]}" | cut -f6)" = $(($(stat -c %s one_text_document.bin) / 2)) ]
	printf '{"text": ""}\n{"text": "5"}\n{"text": "5 6 7"}\n{"text": "1 2"}\n' >in
	sed -i '/"text": ""/d' in
	run mtok count -q --tokenizer-type NullTokenizer --vocab-size 10 --histogram in
	expect 0 "$(printf 'tokenizer\tkey\tfrom\tto\tdocuments\nNullTokenizer\ttext\t1\t1\t1\nNullTokenizer\ttext\t2\t3\t2')"
	run mtok count -q --tokenizer-type NullTokenizer --vocab-size 10 --json in
	expect 0 '{"tokenizer": "NullTokenizer", "key": "text", "documents": 3, "sequences": 3, "bytes": 9, "tokens": 6, "bytes_per_token": 1.5000, "longest": 3, "histogram": [{"from": 1, "to": 1, "documents": 1}, {"from": 2, "to": 3, "documents": 2}]}'
	run mtok count -q $spm --compare nowhere -- docs.jsonl
	expect 2 "mtok: cannot open 'nowhere': No such file or directory"
}

@test "encode --json and info --json print one line of JSON" {
	printf '{"text": "5 6"}\n\n{"text": 1}\n' >in
	run --separate-stderr mtok -q -o out --tokenizer-type NullTokenizer --vocab-size 10 --on-error skip --json in
	[ "$status" = 0 ]
	[[ $output =~ ^'{"documents": 1, "input_bytes": 29, "seconds": '[0-9.]+', "blank_lines": 1, "skipped_lines": {"wrong-type": 1}, "keys": [{"key": "text", "documents": 1, "sequences": 1, "bytes": 3, "tokens": 2, "bytes_per_token": 1.5000, "longest": 2}]}'$ ]]
	run mtok info $spm --json
	[[ $output =~ ^'{"type": "SentencePieceTokenizer", "vocab_size": 360, "unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1, "hash": "'[0-9a-f]{16}'", "files": ["t.model"]}'$ ]]
}

@test "an id that the type does not hold is refused, not cut" {
	printf '{"text": "x"}\n' | mtok -q -o a $spm --append-eod --eod-id 65499
	[ "$(stat -c %s a_text_document.bin)" = $(($(ids a_text_document.bin | wc -w) * 2)) ]
	printf '{"text": "x"}\n' | mtok -q -o b $spm --append-eod --eod-id 65500
	[ $(($(stat -c %s b_text_document.bin) % 4)) = 0 ]
	[ "$(od -An -v -tu4 -w4 b_text_document.bin | tail -n 1 | tr -d ' ')" = 65500 ]
}

@test "bytes do not depend on the workers, with many batches" {
	for i in 1 2 3 4; do cat many.jsonl; done >big.jsonl
	mtok -q -o w1 $spm --workers 1 big.jsonl
	for w in 2 3 8; do
		mtok -q -o w$w $spm --workers $w big.jsonl
		same w1_text_document w${w}_text_document
	done
}

@test "every example of the manual runs" {
	mkdir data raw
	cp many.jsonl corpus.jsonl
	# A byte-level BPE of 256 bytes, one merge and <|endoftext|>.
	perl -CS -e '
		my ($next, $i) = (0x100, 0);
		my @c = map { chr((($_ >= 33 && $_ <= 126) || ($_ >= 161 && $_ <= 172) || $_ >= 174) ? $_ : $next++) } 0 .. 255;
		sub quote { my $s = shift; $s =~ s/(["\\])/\\$1/g; return "\"$s\"" }
		open my $v, ">:utf8", "vocab.json";
		print $v "{", join(", ", map { quote($_) . ": " . $i++ } @c, "th", "<|endoftext|>"), "}\n";
		open my $m, ">:utf8", "merges.txt";
		print $m "t h\n";'
	cat docs.jsonl bad.jsonl | zstd -q >a.zst
	gzip -c docs.jsonl >raw/a.jsonl.gz
	rm t.model
	# The model of the first example has 8000 pieces, for which this text is too small.
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh DIAGNOSTICS/p' "$TOP/man/mtok.1" | awk '
		/^\.Ed/ { inside = 0 }
		inside { gsub(/\\e/, "\\"); sub(/--vocab-size 8000/, "--vocab-size 320"); print }
		/^\.Bd/ { inside = 1 }' >examples.sh
	[ "$(grep -c '^mtok\|| mtok' examples.sh)" = 11 ]
	mkdir texts
	seq -f 'the quick brown fox number %g jumps over the lazy dog' 400 >texts/a.txt
	SLURM_ARRAY_TASK_ID=1 run bash -e -o pipefail examples.sh
	[ "$status" = 0 ] || { echo "$output"; return 1; }
	for d in a_text b_text gpt2_text gpt2_title p1_text c_text; do
		mshard verify -q data/${d}_document
	done
	same data/all data/p1_text_document
}

@test "progress on a terminal: documents, tokens, speed and what is left; nothing of it in a log" {
	command -v script >/dev/null || skip "no script(1)"
	for i in $(seq 10); do cat many.jsonl; done >big.jsonl
	run script -qec "mtok -o out $spm big.jsonl" /dev/null
	[ "$status" = 0 ]
	[[ $output =~ [0-9]+' documents, '[0-9]+' tokens, '[0-9.]+' MB, '[0-9.]+' MB/s, '[0-9]+' %, '[0-9]+':'[0-9]{2}':'[0-9]{2}' left' ]]
	run --separate-stderr mtok -o log $spm big.jsonl
	[ "${#stderr_lines[@]}" = 1 ]
}
