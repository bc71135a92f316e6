#!/usr/bin/env bats
# mtok with tokenizer.json and rank files: kinds known by content, special tokens, configs beside a
# file, every refusal

bats_require_minimum_version 1.5.0

setup()
{
	cd "$BATS_TEST_TMPDIR"
	json=$TOP/tests/fuzz/corpus/tokenizer_json ranks=$TOP/tests/fuzz/corpus/rank_file
	printf '{"text": "abc <s>ab <x> a"}\n{"text": ""}\n' >docs.jsonl
}

# ids OPTION...: the ids of docs.jsonl on one line
ids()
{
	mtok -q --force -o out --input docs.jsonl "$@" &&
		od -An -v -tu2 -w1000000 out_text_document.bin | sed 's/^ *//;s/  */ /g'
}

# documents PREFIX: the ids of the documents, one line each
documents()
{
	perl -e '
		local $/;
		open my $i, "<:raw", "$ARGV[0].idx"; my $idx = <$i>;
		# type 8 is 16 bits, 4 is 32
		open my $b, "<:raw", "$ARGV[0].bin"; my @ids = unpack ord(substr $idx, 17) == 8 ? "v*" : "V*", <$b>;
		my ($n, $d) = unpack "Q<2", substr $idx, 18;
		my @lengths = unpack "l<$n", substr $idx, 34;
		my @first = unpack "q<$d", substr $idx, 34 + 12 * $n;
		for my $k (1 .. $#first) {
			my $count = 0;
			$count += $_ for @lengths[$first[$k - 1] .. $first[$k] - 1];
			print join(" ", splice @ids, 0, $count), "\n";
		}' "$1"
}

# golden FILE: a tokenizer of tests/golden, with its model in place
golden()
{
	perl -0pe 's{"model":"([^"]*)"}{open my $f, "<", "$ENV{TOP}/tests/golden/hf/model.$1" or die; "\"model\":" . <$f>}e' "$1"
}

# refused LINE OPTION...: mtok info must end with 2 and exactly this line
refused()
{
	local want=$1
	shift
	run mtok info "$@"
	[ "$status" = 2 ]
	[ "$output" = "$want" ] || { printf 'got:  %s\nwant: %s\n' "$output" "$want"; return 1; }
}

@test "tokenizer.json: added tokens, the template and its switch" {
	cp "$json/bytes" t
	run mtok info --tokenizer-model t
	[ "$status" = 0 ]
	[ "${lines[0]}" = "type	HuggingFaceTokenizer" ]
	[ "${lines[1]}" = "vocab_size	261" ]
	# bos, "abc", " ", <s>, "ab", <x> with the spaces that touch it, "a"; then bos of the empty
	# document
	[ "$(ids --tokenizer-model t)" = "259 257 32 259 256 260 97 259" ]
	[ "$(ids --tokenizer-model t --tokenizer-hf-no-include-special-tokens)" = "257 32 259 256 260 97" ]
	[ "$(ids --tokenizer-model t --special-as-text --tokenizer-hf-no-include-special-tokens)" = \
		"257 32 60 115 62 256 260 97" ]
	# the template already has a bos
	[ "$(ids --tokenizer-model t --prepend-bos)" = "259 257 32 259 256 260 97 259" ]
	[ "$(echo 259 257 32 259 256 260 97 | mtok decode --tokenizer-model t)" = "<s>abc <s>ab<x>a" ]
	[ "$(echo 259 257 32 259 256 260 97 | mtok decode --skip-special --tokenizer-model t)" = "abc ab<x>a" ]
}

@test "a directory: special ids come from the configs beside tokenizer.json" {
	mkdir d
	cp "$json/bytes" d/tokenizer.json
	special() { mtok info --tokenizer-model "$1" | sed -n 's/^\(...\)_id\t/\1 /p' | tr '\n' ' '; }
	[ "$(special d)" = "unk -1 bos 259 eos -1 pad -1 " ]
	echo '{"eos_token": {"content": "<x>"}, "bos_token": null, "pad_token": "<s>"}' >d/tokenizer_config.json
	[ "$(special d)" = "unk -1 bos -1 eos 260 pad 259 " ]
	[ "$(special d/tokenizer.json)" = "unk -1 bos -1 eos 260 pad 259 " ]
	echo '{"eos_token_id": [97, 98], "bos_token_id": 7}' >d/config.json
	[ "$(special d)" = "unk -1 bos -1 eos 260 pad 259 " ]
	rm d/tokenizer_config.json
	[ "$(special d)" = "unk -1 bos 7 eos 97 pad -1 " ]
	cp d/tokenizer.json other.json
	[ "$(special other.json)" = "unk -1 bos 259 eos -1 pad -1 " ]
	mtok info --tokenizer-model d | grep -qx "file	d/tokenizer.json"
	# what transformers writes when no length is set
	echo '{"model_max_length": 1000000000000000019884624838656, "eos_token": "<x>"}' >d/tokenizer_config.json
	[ "$(special d)" = "unk -1 bos 7 eos 260 pad -1 " ]
	mkdir empty
	refused "mtok: cannot open 'empty/tokenizer.json': No such file or directory" --tokenizer-model empty
}

@test "tokens that only the configs of a directory name get the next ids, as AutoTokenizer gives them" {
	mkdir d
	cp "$json/bytes" d/tokenizer.json
	printf '{"text": "<w><y>a<x><z>b"}\n' >docs.jsonl
	plain=$(mtok info --tokenizer-model d | sed -n 's/^hash\t//p')
	# the ids of the file only sort; a token that is known keeps its id
	echo '{"added_tokens_decoder": {"500": {"content": "<z>"}, "400": {"content": "<y>", "special": true}, "259": {"content": "<s>"}},
		"pad_token": "<w>", "eos_token": {"content": "<y>"}, "additional_special_tokens": ["<v>"]}' >d/tokenizer_config.json
	[ "$(ids --tokenizer-model d --tokenizer-hf-no-include-special-tokens)" = "263 261 97 260 262 98" ]
	mtok info --tokenizer-model d >info
	grep -qx "vocab_size	265" info && grep -qx "pad_id	263" info &&
		grep -qx "eos_id	261" info
	grep -qx "file	d/tokenizer_config.json" info
	[ "$(sed -n 's/^hash\t//p' info)" != "$plain" ]
	echo '{"<w>": 262, "<z>": 261}' >d/added_tokens.json
	echo '{}' >d/tokenizer_config.json
	echo '{"pad_token": "<y>"}' >d/special_tokens_map.json
	[ "$(ids --tokenizer-model d --tokenizer-hf-no-include-special-tokens)" = "262 263 97 260 261 98" ]
}

@test "a directory without tokenizer.json; a hub's name; what of the configs is ignored" {
	mkdir d e
	cp "$json/bytes" d/tokenizer.json
	echo '{"add_bos_token": true, "add_prefix_space": false}' >d/tokenizer_config.json
	run --separate-stderr mtok -o out --input docs.jsonl --tokenizer-model d
	[[ $stderr == *'mtok: d/tokenizer_config.json: "add_bos_token" is ignored, as by transformers 5: tokenizer.json decides'* ]]
	[[ $stderr == *'"add_prefix_space" is ignored'* ]]
	cp "$json/llama2" d/tokenizer.json
	echo '{"add_bos_token": false, "tokenizer_class": "CodeLlamaTokenizer"}' >d/tokenizer_config.json
	run --separate-stderr mtok -o out --force --input docs.jsonl --tokenizer-model d
	[[ $stderr == *'"add_bos_token" is ignored, as by transformers 5: CodeLlamaTokenizer decides'* ]]
	echo '{"tokenizer_class": "CohereTokenizerFast"}' >d/tokenizer_config.json
	run --separate-stderr mtok -o out --force --input docs.jsonl --tokenizer-model d
	[[ $stderr == *"mtok: d: unknown class 'CohereTokenizer': tokenizer.json is followed"* ]]
	seq -f '{"text": "ab abc %g"}' 300 >train.jsonl
	mtok train -q --sentencepiece-defaults -o e/tokenizer.model --vocab-size 30 --soft-vocab-limit train.jsonl
	run --separate-stderr mtok -o out --force --input docs.jsonl --tokenizer-model e
	[[ $stderr == *"mtok: e: no tokenizer.json: its SentencePiece model is read, as by AutoTokenizer of transformers 5"* ]]
	rm e/tokenizer.model
	perl -MJSON::PP -e 'local $/; print encode_json(decode_json(<>)->{model}{vocab})' "$json/bytes" >e/vocab.json
	printf '#version: 0.2\na b\nab c\n' >e/merges.txt
	[ "$(ids --tokenizer-model e)" = "$(ids --vocab-file e/vocab.json --merge-file e/merges.txt)" ]
	echo '{"tokenizer_class": "PreTrainedTokenizerFast"}' >e/tokenizer_config.json
	refused "mtok: e: the class 'TokenizersBackend' is not made of vocab.json and merges.txt" --tokenizer-model e
	echo '{"tokenizer_class": "WhisperTokenizer"}' >e/tokenizer_config.json
	refused "mtok: e: the class 'WhisperTokenizer' is supported only with a tokenizer.json" --tokenizer-model e
	echo '{}' >e/tokenizer_config.json
	echo '{"model_type": "nllb"}' >e/config.json
	refused "mtok: e: a model of type 'nllb' is supported only with a tokenizer.json" --tokenizer-model e
	rm e/config.json
	echo '{' >e/vocab.json
	run mtok info --tokenizer-model e
	[ "$status" = 2 ]
	[[ $output == "mtok: e/vocab.json: not valid JSON: "* ]]
	refused "mtok: cannot open 'meta-llama/Llama-3-8B': no such file or directory; nothing is downloaded from a hub: \
give a directory with its tokenizer.json" --tokenizer-model meta-llama/Llama-3-8B
	refused "mtok: cannot open './x': No such file or directory" --tokenizer-model ./x
}

@test "Llama 2's form: characters, byte fallback, decoder" {
	printf '{"text": "lo a b\\u3042"}\n' >docs.jsonl
	[ "$(ids --tokenizer-model "$json/llama2")" = "2 8 5 2 4 236 138 139" ]
	[ "$(echo 2 8 5 2 4 236 138 139 | mtok decode --tokenizer-model "$json/llama2")" = "lo a bあ" ]
}

@test "tokenizer.json: the ids that Python's tokenizers gives" {
	for json in "$TOP"/tests/golden/hf/*.json; do
		name=$(basename "$json" .json)
		golden "$json" >t
		# where the reference fails the text is a bad line
		mtok -q --force -o out --on-error skip --input "$TOP/tests/golden/hf/texts.jsonl" \
			--tokenizer-model t 2>skipped
		grep -vx error "$TOP/tests/golden/hf/$name.tsv" >want
		documents out_text_document | diff -u want - || { echo "$name"; return 1; }
	done
}

# classes DIRECTORY OPTION...: each NAME.tsv in it has what AutoTokenizer makes of tests/golden/auto/NAME
classes()
{
	local results=$1 want from
	shift
	for want in "$results"/*.tsv; do
		from=$TOP/tests/golden/auto/$(basename "$want" .tsv)
		rm -rf d
		cp -r "$from" d
		golden "$from/tokenizer.json" >d/tokenizer.json
		mtok -q --force -o out --input "$TOP/tests/golden/hf/texts.jsonl" --tokenizer-model d "$@"
		{ mtok info --tokenizer-model d "$@" | sed -n 's/^vocab_size\t//p' && documents out_text_document; } |
			diff -u "$want" - || { echo "$want"; return 1; }
	done
}

@test "a directory whose config names a class: the size and the ids that AutoTokenizer of transformers 5 gives, and of 4.57" {
	classes "$TOP/tests/golden/auto"
	classes "$TOP/tests/golden/auto/old" --tokenizer-like transformers-4.57
}

# as_golden FILE OPTION...: each line of FILE is a directory of tests/golden/bare, its config, and the ids of each text
as_golden()
{
	local file=$1 line
	shift
	while IFS= read -r line; do
		rm -rf d
		cp -r "$TOP/tests/golden/bare/${line%%	*}" d
		cut -f 2 <<<"$line" >d/tokenizer_config.json
		mtok -q --force -o out --input "$TOP/tests/golden/bare/texts.jsonl" --tokenizer-model d "$@"
		cut -f 3- <<<"$line" | tr '\t' '\n' | diff -u - <(documents out_text_document) ||
			{ echo "$line"; return 1; }
	done <"$file"
}

@test "a directory without tokenizer.json: the ids that AutoTokenizer of transformers 5.24 gives, and of 5.23 where they differ" {
	as_golden "$TOP/tests/golden/bare/cases.tsv"
	as_golden "$TOP/tests/golden/bare/older.tsv" --tokenizer-like transformers-5.23
}

@test "--tokenizer-like: a note, the release in the side file and in info, and its own hash" {
	cp -r "$TOP/tests/golden/bare/llama" d
	echo '{"text": "a"}' >docs.jsonl
	run --separate-stderr mtok -o out --input docs.jsonl --tokenizer-model d --tokenizer-type HuggingFaceTokenizer
	[ "$status" = 0 ]
	[[ $stderr == *"mtok: d: the ids are those of transformers-5.24; 5.24 follows the model's own settings, such as its \
dummy prefix, and 5.23 does not: --tokenizer-like chooses"* ]]
	grep -q '"tokenizer_like": "transformers-5.24"' out_text_document.json
	mtok -q -o old --input docs.jsonl --tokenizer-model d --tokenizer-like transformers-5.23
	grep -q '"tokenizer_like": "transformers-5.23"' old_text_document.json
	mtok info --tokenizer-model d | grep -qx "like	transformers-5.24"
	mtok info --json --tokenizer-model d --tokenizer-like transformers-5.23 | grep -q '"like": "transformers-5.23"'
	[ "$(mtok info --tokenizer-model d | grep ^hash)" != "$(mtok info --tokenizer-model d --tokenizer-like transformers-5.23 | grep ^hash)" ]
	# a class of its own, of which the releases make the same
	echo '{"tokenizer_class": "LlamaTokenizer"}' >d/tokenizer_config.json
	mtok -q --force -o out --input docs.jsonl --tokenizer-model d
	run grep tokenizer_like out_text_document.json
	[ "$status" = 1 ]
	refused "mtok: d: no tokenizer.json: --tokenizer-like transformers-4.57 needs one" --tokenizer-model d --tokenizer-like transformers-4.57
	mkdir e
	cp "$json/bytes" e/tokenizer.json
	echo '{"tokenizer_class": "T5TokenizerFast", "add_prefix_space": true}' >e/tokenizer_config.json
	refused "mtok: e/tokenizer.json: e: transformers 4.57 makes a T5Tokenizer with \"add_prefix_space\" of other files, which is not followed" \
		--tokenizer-model e --tokenizer-like transformers-4.57
	rm e/tokenizer_config.json
	echo '{"model_type": "llama"}' >e/config.json
	refused "mtok: e/tokenizer.json: e: no \"tokenizer_class\", and --tokenizer-like transformers-4.57 does not go by the model type 'llama'" \
		--tokenizer-model e --tokenizer-like transformers-4.57
}

@test "info --check compares ids with those that another program gave" {
	cp "$json/bytes" t
	printf '{"text": "abc <s>", "ids": [259, 257, 32, 259]}\n\n{"ids": [259], "text": ""}\n' >ids
	mtok info --tokenizer-model t --check ids | grep -qx "checked	2"
	mtok info --json --tokenizer-model t --check ids | grep -q '"checked": 2}'
	printf '{"text": "abc", "ids": [259, 97]}\n' >>ids
	run mtok info --tokenizer-model t --check ids
	[ "$status" = 1 ]
	[ "$output" = "mtok: ids:4: the ids differ from those in the file: 2 ids, not 2; place 1 has 257, not 97" ]
	printf '{"text": "abc", "ids": [259]}' >ids
	run mtok info --tokenizer-model t --check ids
	[ "$output" = "mtok: ids:1: the ids differ from those in the file: 2 ids, not 1; place 1 has 257, not none" ]
	echo '{"text": "abc"}' >ids
	run mtok info --tokenizer-model t --check ids
	[ "$output" = 'mtok: ids:1: not an object with "text", a string, and "ids", a list' ]
	echo '{"text": "abc", "ids": ["a"]}' >ids
	run mtok info --tokenizer-model t --check ids
	[ "$output" = 'mtok: ids:1: id 0 of the list is not an integer' ]
	: >ids
	run mtok info --tokenizer-model t --check ids
	[ "$status" = 1 ]
	[ "$output" = 'mtok: ids: no texts' ]
	run mtok info --tokenizer-model t --check nowhere
	[ "$output" = "mtok: cannot open 'nowhere': No such file or directory" ]
}

@test "add_bos_token and add_eos_token: no id twice, the switch, the file alone, a token that is not there" {
	cp -r "$TOP/tests/golden/bare/llama" d
	echo '{"text": "a"}' >docs.jsonl
	echo '{"tokenizer_class": "LlamaTokenizer"}' >d/tokenizer_config.json
	plain=$(ids --tokenizer-model d)
	hash=$(mtok info --tokenizer-model d | grep '^hash')
	echo '{"add_bos_token": true, "add_eos_token": true, "tokenizer_class": "LlamaTokenizer"}' >d/tokenizer_config.json
	[ "$(ids --tokenizer-model d)" = "1 $plain 2" ]
	[ "$(ids --tokenizer-model d --prepend-bos --append-eod)" = "1 $plain 2" ]
	[ "$(ids --tokenizer-model d --append-eod --eod-id 0)" = "1 $plain 2 0" ]
	[ "$(ids --tokenizer-model d --tokenizer-hf-no-include-special-tokens)" = "$plain" ]
	[ "$(ids --tokenizer-model d/tokenizer.model)" = "$plain" ]
	[ "$(mtok info --tokenizer-model d | grep -c "^file	d/tokenizer_config.json")" = 1 ]
	[ "$(mtok info --tokenizer-model d | grep '^hash')" != "$hash" ]
	# only bos and eos are put there; null is neither a token nor a switch
	echo '{"add_eos_token": true, "eos_token": "<unk>", "tokenizer_class": "LlamaTokenizer"}' >d/tokenizer_config.json
	mtok info --tokenizer-model d | grep -qx "eos_id	0"
	[ "$(ids --tokenizer-model d --append-eod)" = "$plain 0" ]
	echo '{"add_bos_token": true, "bos_token": null, "add_eos_token": null, "tokenizer_class": "LlamaTokenizer"}' >d/tokenizer_config.json
	[ "$(ids --tokenizer-model d)" = "$plain" ]
	# a class with a template of its own
	echo '{"add_bos_token": true, "tokenizer_class": "T5Tokenizer"}' >d/tokenizer_config.json
	[ "$(ids --tokenizer-model d | sed 's/.* //')" = 2 ]
	[ "$(ids --tokenizer-model d --tokenizer-hf-no-include-special-tokens | wc -w)" = 1 ]
	mv d/tokenizer.model d/spiece.model
	[ "$(ids --tokenizer-model d | sed 's/.* //')" = 2 ]
	echo '{' >d/tokenizer_config.json
	run mtok info --tokenizer-model d
	[ "$status" = 2 ]
	[[ $output == "mtok: d/tokenizer_config.json: not valid JSON: "* ]]
}

@test "truncation and padding are ignored with a note" {
	sed 's/"truncation": null/"truncation": {"max_length": 4}/' "$json/bytes" >t
	run --separate-stderr mtok -o out --input docs.jsonl --tokenizer-model t
	[ "$status" = 0 ]
	[[ $stderr == *'mtok: t: "truncation" is ignored'* ]]
}

@test "tokenizer.json: what is not supported is refused by its name" {
	part() { sed "s/\"$1\": [a-z]*,/\"$1\": {\"type\": \"$2\"},/;s/\"$1\": {\"type\": \"ByteLevel\"[^}]*}/\"$1\": {\"type\": \"$2\"}/" "$json/bytes" >t; }
	part pre_tokenizer UnicodeScripts
	refused "mtok: t: pre_tokenizer 'UnicodeScripts' is not supported" --tokenizer-model t
	part normalizer Nmt
	refused "mtok: t: normalizer 'Nmt' is not supported" --tokenizer-model t
	part decoder CTC
	refused "mtok: t: decoder 'CTC' is not supported" --tokenizer-model t
	sed 's/"type": "Sequence"/"type": "Pairs"/' "$json/bytes" >t
	refused "mtok: t: post_processor 'Pairs' is not supported" --tokenizer-model t
	mtok info --tokenizer-model t --tokenizer-hf-no-include-special-tokens
	sed 's/"type": "Sequence"/"type": "BertProcessing", "cls": ["x", 999]/' "$json/bytes" >t
	refused "mtok: t: post_processor 'BertProcessing': \"cls\" must be a token and its id" --tokenizer-model t
	part pre_tokenizer 'FixedLength", "length": 0, "x": "'
	refused "mtok: t: pre_tokenizer 'FixedLength': \"length\" 0 must be positive" --tokenizer-model t
	sed 's/"type": "BPE"/"type": "WordPiece"/' "$json/bytes" >t
	refused "mtok: t: model 'WordPiece' is not supported" --tokenizer-model t
	cp "$json/unigram" t
	refused "mtok: t: it has no tokens" --tokenizer-model t
	echo '{"model": {"vocab": [["a", -1.5]], "unk_id": 1}}' >t
	refused 'mtok: t: model: "unk_id" 1: must be an id below 1' --tokenizer-model t
	echo '{"model": {"vocab": [["a", -1.5], ["b"]], "unk_id": 0}}' >t
	refused 'mtok: t: model: entry 1 of "vocab" is not a token with its score' --tokenizer-model t
	cp "$json/dropout" t
	refused "mtok: t: model: dropout 0.1 is not supported: ids would be random" --tokenizer-model t
}

@test "tokenizer.json: malformed files give one line" {
	cp "$json/badmerge" t
	refused "mtok: t: model: merge 0: 'b' is not in the vocabulary" --tokenizer-model t
	cp "$json/twice" t
	refused "mtok: t: id 0 occurs twice" --tokenizer-model t
	cp "$json/hugeid" t
	refused "mtok: t: the id of 'a' is 2000000000, but there are 1 tokens" --tokenizer-model t
	sed 's/"id": 259/"id": "259"/' "$json/bytes" >t
	refused "mtok: t: the id of '<s>' is not an integer" --tokenizer-model t
	sed 's/"ids": \[259\]/"ids": [999]/' "$json/bytes" >t
	refused "mtok: t: post_processor 'TemplateProcessing': an id of '<s>' is not a token" --tokenizer-model t
	sed 's/"a b"/"ab b"/' "$json/bytes" >t
	refused "mtok: t: model: the merge of 'ab' and 'b': the join is not in the vocabulary" --tokenizer-model t
	head -c 100 "$json/bytes" >t
	run mtok info --tokenizer-model t
	[ "$status" = 2 ] && [ "${#lines[@]}" = 1 ]
	[[ $output == "mtok: t: not valid JSON: "* ]]
}

# added VOCAB TOKEN ...: a tokenizer.json with this vocabulary and these added tokens, "id content flags" each, the
# flags of: n normalized, l lstrip, r rstrip; NORM is its normalizer, MERGES are its merges
added()
{
	perl -MJSON::PP -e '
		my ($norm, $merges, $vocab, @t) = @ARGV;
		my @at = map {
			my ($id, $content, $flags) = /^(\d+) (.*) (\S+)$/s;
			{ id => $id + 0, content => $content, single_word => \0, special => \0,
				map { ($_ => index($flags, substr $_, 0, 1) < 0 ? \0 : \1) } qw(normalized lstrip rstrip) }
		} @t;
		print encode_json({ added_tokens => \@at, normalizer => JSON::PP->new->allow_nonref->decode($norm),
			model => { type => "BPE", unk_token => "?", vocab => decode_json($vocab), merges => decode_json($merges) } });
		' -- "${NORM-null}" "${MERGES-[]}" "$@"
}

@test "added tokens have the ids that tokenizers gives, with a note where the file has others" {
	echo '{"text": "ab<s>b<x><y>"}' >docs.jsonl
	# a gap in the ids of the file
	added '{"?": 0, "a": 1, "b": 2}' '3 <s> -' '40 <x> -' '7 <y> -' >t
	run --separate-stderr mtok -o out --input docs.jsonl --tokenizer-model t
	[[ $stderr == *"mtok: t: added token '<x>' has id 4, not 40 as in the file, and 1 more have others: tokenizers \
numbers them in their order"* ]]
	[ "$(ids --tokenizer-model t)" = "1 2 3 2 4 5" ]
	[ "$(mtok info --tokenizer-model t | grep vocab_size)" = "vocab_size	6" ]
	# a hole in the vocabulary: <y> has the id of b, and its text
	added '{"?": 0, "a": 1, "b": 4}' '2 <s> -' '3 <y> -' '5 <x> -' >t
	[ "$(ids --tokenizer-model t)" = "1 4 3 4 5 4" ]
	[ "$(echo 3 4 5 1 | mtok decode --tokenizer-model t)" = "<s> <y> <x> a" ]
	run --separate-stderr mtok -o out --force --input docs.jsonl --tokenizer-model t
	[[ $stderr == *"mtok: t: added token '<s>' has id 3, not 2 as in the file, and 1 more have others"* ]]
	# the flags of the later entry count; a text without content is no token
	added '{"?": 0, "a": 1, "b": 2}' '3 <s> -' '4  -' '3 <s> lr' >t
	echo '{"text": "a <s> b"}' >docs.jsonl
	run --separate-stderr mtok -o out --force --input docs.jsonl --tokenizer-model t
	[[ $stderr != *"not "* ]]
	[ "$(ids --tokenizer-model t)" = "1 3 2" ]
}

@test "added tokens that a normalizer makes empty or equal, and a pair of merges listed twice" {
	export NORM='{"type": "Strip", "strip_left": true, "strip_right": true}'
	local vocab='{"?": 0, "a": 1, "b": 2, "ab": 3}'
	added "$vocab" '4   nr' '5 q n' >t
	echo '{"text": "ab q  ab"}' >docs.jsonl
	[ "$(ids --tokenizer-model t)" = "1 2 4 5 0 4 1 2" ]
	echo '{"text": "aé"}' >docs.jsonl
	run mtok -o out --force --input docs.jsonl --tokenizer-model t
	[ "$status" = 1 ]
	[[ $output == "mtok: docs.jsonl:1: refused"*"matches inside the character at byte 2: tokenizers fails there" ]]
	NORM='{"type": "Lowercase"}'
	added "$vocab" '4 Q n' '5 q n' >t
	refused "mtok: t: added token 'q': the normalizer makes it equal to another one" --tokenizer-model t
	added "$vocab" '4 Q -' '5 q n' >t
	echo '{"text": "Qqa"}' >docs.jsonl
	[ "$(ids --tokenizer-model t)" = "4 5 1" ]
	NORM=null MERGES='["a b", "b c", "ab c", "a b"]'
	added '{"?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "bc": 5, "abc": 6}' >t
	echo '{"text": "abc"}' >docs.jsonl
	[ "$(ids --tokenizer-model t)" = "1 5" ]
}

@test "an expression that gives up is a bad line" {
	printf '{"text": "%s"}\n' "$(printf 'a%.0s' $(seq 40))c" >docs.jsonl
	run mtok -o out --input docs.jsonl --tokenizer-model "$json/backtrack"
	[ "$status" = 1 ]
	[[ $output == "mtok: docs.jsonl:1: refused"*"a regular expression gave up at byte 0 of the text: match limit exceeded"* ]]
}

@test "a rank file that is a directory's tokenizer.model: bos and eos by the configs" {
	mkdir d
	cp "$ranks/lines" d/tokenizer.model
	echo '{"text": "abc"}' >docs.jsonl
	few=(--tokenizer-model d --tiktoken-pattern cl100k --tiktoken-special-tokens '<x>' '</s>')
	plain=$(ids "${few[@]}")
	hash=$(mtok info "${few[@]}" | grep '^hash')
	echo '{"add_eos_token": true, "eos_token": "</s>", "add_bos_token": true, "bos_token": "<y>"}' >d/tokenizer_config.json
	[ "$(ids "${few[@]}")" = "$plain 272" ]
	[ "$(ids "${few[@]}" --append-eod)" = "$plain 272" ]
	[ "$(mtok info "${few[@]}" | grep '^hash')" != "$hash" ]
	run --separate-stderr mtok -o out --force --input docs.jsonl "${few[@]}"
	[[ $stderr == *"mtok: d: no tokenizer.json: tokenizer.model is read"* ]]
	[[ $stderr == *$'mtok: d: "add_bos_token" is ignored: \'<y>\' is not in the vocabulary'* ]]
	# switches that are off leave the hash alone
	echo '{"add_eos_token": false, "tokenizer_class": "T5Tokenizer"}' >d/tokenizer_config.json
	[ "$(mtok info "${few[@]}" | grep '^hash')" = "$hash" ]
}

@test "rank files: known by their size, else the pattern is asked for" {
	cp "$ranks/lines" t
	refused "mtok: t: no published file has 259 ranks: --tiktoken-pattern is needed" --tokenizer-model t
	refused "mtok: t: --tiktoken-pattern x: must be v1, v2, gpt2, cl100k, o200k or qwen2" --tokenizer-model t --tiktoken-pattern x
	[ "$(ids --tokenizer-model t --tiktoken-pattern cl100k)" = "260 32 60 115 62 256 32 60 120 62 32 97" ]
	[ "$(ids --tokenizer-model t --tiktoken-pattern cl100k --append-eod --tiktoken-special-tokens '<x>' '</s>')" = \
		"260 32 60 115 62 256 32 271 32 97 272" ]
	[ "$(ids --tokenizer-model t --tiktoken-pattern cl100k --special-as-text --tiktoken-special-tokens '<x>')" = \
		"260 32 60 115 62 256 32 60 120 62 32 97" ]
	[ "$(echo 260 32 271 | mtok decode --tokenizer-model t --tiktoken-pattern gpt2 --tiktoken-special-tokens '<x>')" = "abc <x>" ]
	run mtok info --pieces --tokenizer-model t --tiktoken-pattern gpt2
	[ "${lines[258]}" = '257		0	unused' ] || [ "${lines[258]}" = '257	""	0	unused' ]
}

# fill COUNT [RANK TOKEN]: a rank file of so many tokens, of which no text has the later ones but the named one
fill()
{
	perl -MMIME::Base64 -e 'my ($count, $rank, $token) = @ARGV; open my $f, "<", "$ENV{TOP}/tests/golden/rank/ranks"; my @r = <$f>; print @r;
		for my $i (@r .. $count - 1) {
			print encode_base64(defined $rank && $i == $rank ? $token : "\xff\xfe$i", ""), " $i\n";
		}' "$@"
}

# same_as NAME OPTION...: the ids of tests/golden/rank/NAME.tsv
same_as()
{
	local name=$1
	shift
	mtok -q --force -o out --input "$TOP/tests/golden/rank/texts.jsonl" "$@"
	documents out_text_document | diff -u "$TOP/tests/golden/rank/$name.tsv" -
}

@test "HuggingFaceTokenizer takes every directory that is taken without a type; tekken.json by its members" {
	mkdir d r p
	cp "$TOP/tests/golden/rank/tekken.json" d
	same_as tekken --tokenizer-type HuggingFaceTokenizer --tokenizer-model d --special-as-text
	cp "$ranks/lines" r/tokenizer.model
	echo '{"text": "abc"}' >docs.jsonl
	[ "$(ids --tokenizer-type HuggingFaceTokenizer --tokenizer-model r --tiktoken-pattern cl100k)" = \
		"$(ids --tokenizer-model r --tiktoken-pattern cl100k)" ]
	cp "$TOP/tests/golden/bare/llama/tokenizer.model" p
	[ "$(ids --tokenizer-type HuggingFaceTokenizer --tokenizer-model p)" = "$(ids --tokenizer-model p)" ]
	# the order of the members and the name do not matter
	for order in 'vocab config special_tokens' 'special_tokens vocab config' 'x special_tokens config vocab'; do
		perl -MJSON::PP -e 'local $/; my $j = JSON::PP->new->canonical; my $v = $j->decode(<STDIN>);
			print "{ ", join(", ", map { "\"$_\" : " . (exists $v->{$_} ? $j->encode($v->{$_}) : q({"a\\"}": [1, "]"]})) } @ARGV), "}"' \
			$order <d/tekken.json >t
		same_as tekken --tokenizer-model t --special-as-text
	done
	cp "$json/bytes" tekken.json
	mtok info --tokenizer-model tekken.json | grep -qx "type	HuggingFaceTokenizer"
	echo '{' >tekken.json
	run mtok info --tokenizer-model tekken.json
	[[ $output == "mtok: tekken.json: "* ]]
}

@test "tekken.json: the ids that mistral-common gives" {
	mkdir d
	cp "$TOP/tests/golden/rank/tekken.json" d
	same_as tekken --tokenizer-model d --special-as-text
	cp "$TOP/tests/golden/rank/early.json" t
	same_as early --tokenizer-model t --special-as-text
	echo '{"text": "<s>a[INST]<SPECIAL_25>"}' >docs.jsonl
	[ "$(ids --tokenizer-model d)" = "1 127 3 25" ]
	[ "$(ids --tokenizer-model t)" = "1 127 3 25" ]
	mtok info --tokenizer-model d >info
	grep -qx "vocab_size	$(($(wc -l <"$TOP/tests/golden/rank/ranks") + 20))" info
	grep -qx "bos_id	1" info && grep -qx "eos_id	2" info && grep -qx "pad_id	5" info
	sed 's/"version":"v3"/"version":"v11"/' t >u
	refused "mtok: u: no \"special_tokens\" and version 'v11': only v1 to v7 have default ones" --tokenizer-model u
	sed 's/"pattern":"/&x/' t >u
	refused 'mtok: u: "pattern" is not a known one: --tiktoken-pattern is needed' --tokenizer-model u
	same_as early --tokenizer-model u --special-as-text --tiktoken-pattern v2
	sed 's/"default_num_special_tokens":30/"default_num_special_tokens":5/;s/"default_vocab_size":[0-9]*/"default_vocab_size":300/' \
		d/tekken.json >u
	refused 'mtok: u: 7 special tokens, but "default_num_special_tokens" 5' --tokenizer-model u
	sed 's/"\[INST\]"/"<s>"/' d/tekken.json >u
	refused "mtok: u: special token 3: '<s>' occurs twice" --tokenizer-model u
	sed 's/"vocab"/"words"/' t >u
	refused 'mtok: u: not a tekken.json: it must have a "config" with a "pattern", and a list "vocab"' --tokenizer-model u
	refused "mtok: t: --tiktoken-special-tokens: not with a tekken.json, which names its own" --tokenizer-model t --tiktoken-special-tokens x
}

@test "rank files of Llama 3 and 4: the ids that tiktoken gives by their models' own tables" {
	fill 128000 100255 " Conveyor" >t
	same_as llama3 --tokenizer-model t
	fill 200000 >t
	same_as llama4 --tokenizer-model t
	mtok info --tokenizer-model t >info
	grep -qx "vocab_size	202048" info && grep -qx "eos_id	200001" info && grep -qx "pad_id	200018" info
	run --separate-stderr mtok -o out --force --input docs.jsonl --tokenizer-model t
	[[ $stderr == *"mtok: t: taken for Llama 4's by its number of ranks; --tiktoken-pattern and --tiktoken-special-tokens override this"* ]]
}

@test "Megatron-LM's list of tokens" {
	cp "$ranks/list" t
	# special tokens come first, then the bytes
	[ "$(ids --tokenizer-model t --vocab-size 300 --tiktoken-num-special-tokens 10)" = "266 109 42 1 266 42 70 130 72 42 107" ]
	[ "$(ids --tokenizer-model t --vocab-size 300 --tiktoken-num-special-tokens 10 --append-eod \
		--tiktoken-special-tokens '<unk>' '<s>' '</s>' '<x>')" \
		= "266 109 42 1 266 42 3 42 107 2" ]
	run mtok info --tokenizer-model t
	[ "${lines[1]}" = "vocab_size	131072" ]
	[ "${lines[4]}" = "eos_id	2" ]
	refused "mtok: t: --tiktoken-special-tokens: '</s>' is missing" --tokenizer-model t --tiktoken-special-tokens '<s>' '<unk>'
	refused "mtok: t: --vocab-size 900: must be above the 1000 special tokens" --tokenizer-model t --vocab-size 900
	cp "$ranks/wrongrank" t
	refused 'mtok: t: entry 5: "rank" must be 5' --tokenizer-model t
}

@test "rank files: malformed lines" {
	cp "$ranks/norank" t
	refused "mtok: t:1: no rank after the token" --tokenizer-type TikTokenizer --tokenizer-model t
	cp "$ranks/twice" t
	refused "mtok: t: rank 0 occurs twice" --tokenizer-model t
	cp "$ranks/bigrank" t
	refused "mtok: t: rank 2000000000, but there are 257 tokens" --tokenizer-model t
	sed 5d "$ranks/lines" >t
	refused "mtok: t: no token for byte 0x04" --tokenizer-model t --tiktoken-pattern gpt2
	sed '5s/ 4/ x/' "$ranks/lines" >t
	refused "mtok: t:5: 'x' is not a rank" --tokenizer-model t
}

@test "--version tells the libraries that ids depend on" {
	run mtok --version
	[[ $output =~ PCRE2\ [0-9.]+,\ utf8proc\ [0-9.]+\ \(Unicode\ [0-9.]+\) ]]
}

@test "--unigram-ties: the rule is in the side file and in the state of --resume" {
	for i in $(seq 300); do
		printf '{"text": "ab abc a|| || | bcd cd d%d || |||"}\n' "$i"
	done >docs.jsonl
	mtok train -q --sentencepiece-defaults -o t.model --model-type unigram --vocab-size 40 --soft-vocab-limit docs.jsonl
	mtok -q -o new --tokenizer-model t.model --input docs.jsonl
	mtok -q -o old --tokenizer-model t.model --unigram-ties 0.2.1 --input docs.jsonl
	grep -qx '    "unigram_ties": "0.2.2"' new_text_document.json
	grep -qx '    "unigram_ties": "0.2.1"' old_text_document.json
	mshard cat -q -o both new_text_document new_text_document
	grep -q '"unigram_ties": "0.2.2"' both.json
	# a tokenizer without such a rule does not mention it
	mtok -q -o bytes --tokenizer-model "$json/bytes" --input docs.jsonl
	run grep unigram_ties bytes_text_document.json
	[ "$status" = 1 ]
}

@test "words that an option or the default verb would swallow; ids on the command line" {
	cp "$json/bytes" t
	printf '{"title": "a", "text": "b"}\n' >in.jsonl
	run mtok -o out --tokenizer-model t --json-keys title text in.jsonl </dev/null
	[ "$status" = 2 ]
	[ "$output" = "mtok: --json-keys: 'in.jsonl' is taken for a key, but it is a file: give files by --input, or after \`--'" ]
	mtok -q -o out --tokenizer-model t --json-keys title text -- in.jsonl
	[ "$(od -An -tu2 out_text_document.bin)" = "   259    98" ]
	run mtok encod --tokenizer-model t in.jsonl
	[ "$status" = 2 ]
	[ "$output" = "mtok: 'encod' is neither a verb nor a file; --help lists the verbs" ]
	[ "$(mtok decode --tokenizer-model t --ids 97 98,99)" = "abc" ]
	run mtok decode --tokenizer-model t 97 98
	[ "$status" = 1 ]
	[ "$output" = "mtok: there is no dataset '97'; ids are given by --ids, or on standard input" ]
	run mtok decode --tokenizer-model t --ids 97 999
	[ "$status" = 1 ]
	[ "$output" = "mtok: --ids: id 999 is outside the vocabulary of 261" ]
}
