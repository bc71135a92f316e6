#!/usr/bin/env bats
# mtok against $GOLDEN/golden/tok: ids, dataset bytes for 1, 2, 3 and 8 workers, decoding

bats_require_minimum_version 1.5.0

setup()
{
	cd "$BATS_TEST_TMPDIR"
	tok=$GOLDEN/golden/tok files=$GOLDEN/tokenizers
}

# options NAME: the tokenizer's options
options()
{
	case $1 in
	gpt2) echo "--vocab-file $files/gpt2-vocab.json --merge-file $files/gpt2-merges.txt" ;;
	gpt2.ordinary) echo "$(options gpt2) --special-as-text" ;;
	spm-uni-8k) echo "--tokenizer-model $files/$1.model --unigram-ties 0.2.1" ;;
	spm-*) echo "--tokenizer-model $files/$1.model" ;;
	cl100k) echo "--tokenizer-model $files/cl100k_base.tiktoken" ;;
	l3style.tiktoken)
		echo "--tokenizer-model $files/$1 --tiktoken-pattern cl100k --tiktoken-special-tokens <|begin_of_text|> <|end_of_text|>" \
			"<|eot_id|> <|start_header_id|> <|end_header_id|>" ;;
	l3style | llama2style) echo "--tokenizer-model $files/$1.tokenizer.json --tokenizer-hf-no-include-special-tokens" ;;
	qwen2style) echo "--tokenizer-model $files/$1.tokenizer.json" ;;
	megatron-tiktoken.*)
		echo "--tokenizer-model $files/megatron-tiktoken.vocab.json --vocab-size 9000 --tiktoken-pattern ${1##*.}" ;;
	esac
}

sum()
{
	sha256sum <"$1" | cut -d' ' -f1
}

# same_bytes TOKENIZER: every corpus of sums.tsv, with --append-eod, for 1, 2, 3 and 8 workers, plain, gzip, zstd and in parts
same_bytes()
{
	local n=0
	while IFS=$'\t' read -r name _ _ _ bin idx; do
		[ "${name%.*}" = "$1" ] || continue
		corpus=$GOLDEN/corpus/${name##*.}.jsonl
		gzip -c "$corpus" >gz
		zstd -q -c <"$corpus" >zst
		for w in 1 2 3 8; do
			for input in "$corpus" gz zst; do
				mtok -q --force -o out --append-eod --workers $w $(options "$1") --input "$input"
				[ "$(sum out_text_document.bin) $(sum out_text_document.idx)" = "$bin $idx" ] || {
					echo "$name, $w workers, $input"
					return 1
				}
			done
		done
		for i in 1 2 3; do
			mtok -q --force -o "part$i" --append-eod --part "$i/3" $(options "$1") --input "$corpus"
		done
		[ "$(cat part{1,2,3}_text_document.bin | sha256sum | cut -d' ' -f1)" = "$bin" ] || { echo "$name in parts"; return 1; }
		n=$((n + 1))
	done <"$tok/sums.tsv"
	[ "$n" = 6 ]
}

# same_ids TOKENIZER: the files of ids, without eod, and the counts of every document
same_ids()
{
	for xz in "$tok/$1".*.ids.u16.xz; do
		corpus=${xz#"$tok/$1."}
		corpus=${corpus%.ids.u16.xz}
		case $corpus in *.*) continue ;; esac
		mtok -q --force -o out $(options "$1") --input "$GOLDEN/corpus/$corpus.jsonl"
		xz -dc "$xz" | cmp - out_text_document.bin
	done
}

@test "gpt2: bytes" { same_bytes gpt2; }
@test "gpt2.ordinary: bytes" { same_bytes gpt2.ordinary; }
@test "spm-uni-8k: bytes" { same_bytes spm-uni-8k; }
@test "spm-uni-8k by the newer rule of ties: ids" {
	local n=0
	while IFS=$'\t' read -r name _ count want; do
		case $name in spm-uni-8k.spm023.*) ;; *) continue ;; esac
		for w in 1 2; do
			mtok -q --force -o out --workers $w --tokenizer-model "$files/spm-uni-8k.model" --input "$GOLDEN/corpus/${name##*.}.jsonl"
			got=$(perl -e 'local $/; print pack "V*", unpack "v*", <STDIN>' <out_text_document.bin | sha256sum | cut -d' ' -f1)
			[ "$got" = "$want" ] || { echo "$name, $w workers"; return 1; }
		done
		n=$((n + 1))
	done <"$tok/sums.spm023.tsv"
	[ "$n" = 6 ]
}
@test "spm-bpe-8k: bytes" { same_bytes spm-bpe-8k; }
@test "spm-bpe-span-3k: bytes" { same_bytes spm-bpe-span-3k; }
@test "cl100k: bytes" { same_bytes cl100k; }
@test "l3style.tiktoken: bytes" { same_bytes l3style.tiktoken; }
@test "l3style: bytes" { same_bytes l3style; }
@test "llama2style: bytes" { same_bytes llama2style; }
@test "qwen2style: bytes" { same_bytes qwen2style; }
@test "megatron-tiktoken.v1: bytes" { same_bytes megatron-tiktoken.v1; }
@test "megatron-tiktoken.v2: bytes" { same_bytes megatron-tiktoken.v2; }

@test "gpt2 as tokenizer.json gives the bytes of its two files" {
	for c in en ja code multi unicode edge; do
		mtok -q --force -o two $(options gpt2) --input "$GOLDEN/corpus/$c.jsonl"
		mtok -q --force -o one --tokenizer-model "$files/gpt2.tokenizer.json" --input "$GOLDEN/corpus/$c.jsonl"
		cmp two_text_document.bin one_text_document.bin
		cmp two_text_document.idx one_text_document.idx
	done
}

@test "decoding gives the texts again" {
	texts() { perl -MJSON::PP -ne 'next unless /\S/; s/^\xef\xbb\xbf//; print JSON::PP->new->utf8->allow_nonref->encode(decode_json($_)->{text}), "\n"'; }
	for t in gpt2 cl100k l3style l3style.tiktoken megatron-tiktoken.v2 llama2style; do
		for c in en ja code multi unicode; do
			# U+2581 is a space to Llama 2, and <EXTRA_A> takes the spaces beside it
			case $t.$c in llama2style.unicode | l3style.unicode) continue ;; esac
			mtok -q --force -o out $(options "$t") --input "$GOLDEN/corpus/$c.jsonl"
			mtok decode out_text_document --json $(options "$t") | texts >got
			texts <"$GOLDEN/corpus/$c.jsonl" | cmp - got || { echo "$t $c"; return 1; }
		done
	done
}

@test "ids" {
	for t in gpt2 gpt2.ordinary spm-uni-8k spm-bpe-8k spm-bpe-span-3k; do
		same_ids "$t"
	done
}

@test "small.append_eod.json: ids and sequence lengths" {
	for t in gpt2 spm-uni-8k; do
		for c in crlf:text bom:text keys:title keys:text sentences:text; do
			mtok -q --force -o out --append-eod $(options "$t") --json-keys "${c#*:}" --input "$GOLDEN/corpus/${c%:*}.jsonl"
			perl -MJSON::PP -e '
				my ($file, $t, $c, $prefix) = @ARGV;
				local $/;
				open my $f, "<", $file; my $docs = decode_json(<$f>)->{$t}{$c};
				open my $b, "<:raw", "$prefix.bin"; my $ids = join " ", unpack "v*", <$b>;
				open my $i, "<:raw", "$prefix.idx"; my $idx = <$i>;
				my ($n, $d) = unpack "Q<2", substr $idx, 18;
				my $lengths = join " ", unpack "l<$n", substr $idx, 34;
				my ($sum, @ends) = (0);
				push @ends, $sum += @{$_->{sequence_lengths}} for @$docs;
				$ids eq join " ", map { @{$_->{ids}} } @$docs or die "$t $c: ids";
				$lengths eq join " ", map { @{$_->{sequence_lengths}} } @$docs or die "$t $c: lengths";
				join(" ", unpack "q<$d", substr $idx, 34 + 12 * $n) eq "0 @ends" or die "$t $c: documents";' \
				"$tok/small.append_eod.json" "$t" "$c" "out_${c#*:}_document"
		done
	done
}

@test "spm-decode.tsv" {
	while IFS=$'\t' read -r name want; do
		case $name in spm-*) ;; *) continue ;; esac
		t=${name%.*}
		mtok -q --force -o out $(options "$t") --input "$GOLDEN/corpus/${name##*.}.jsonl"
		got=$(mtok decode --json $(options "$t") out_text_document | perl -MJSON::PP -MDigest::SHA -e '
			my $h = Digest::SHA->new(256);
			while (<STDIN>) {
				my $s = decode_json($_)->{text};
				utf8::encode($s);
				$h->add(pack("V", length $s), $s);
			}
			print $h->hexdigest;')
		[ "$got" = "$want" ] || { echo "$name"; return 1; }
	done <"$tok/spm-decode.tsv"
}
