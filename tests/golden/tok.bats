#!/usr/bin/env bats
# mtok against $GOLDEN/golden/tok: ids, dataset bytes for 1, 2 and 4 workers, decoding

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
	spm-*) echo "--tokenizer-model $files/$1.model" ;;
	esac
}

sum()
{
	sha256sum <"$1" | cut -d' ' -f1
}

# same_bytes TOKENIZER: every corpus of sums.tsv, with --append-eod
same_bytes()
{
	local n=0
	while IFS=$'\t' read -r name _ _ _ bin idx; do
		[ "${name%.*}" = "$1" ] || continue
		for w in 1 2 4; do
			mtok -q --force -o out --append-eod --workers $w $(options "$1") --input "$GOLDEN/corpus/${name##*.}.jsonl"
			[ "$(sum out_text_document.bin) $(sum out_text_document.idx)" = "$bin $idx" ] || { echo "$name, $w workers"; return 1; }
		done
		n=$((n + 1))
	done <"$tok/sums.tsv"
	[ "$n" -ge 5 ]
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
@test "spm-bpe-8k: bytes" { same_bytes spm-bpe-8k; }
@test "spm-bpe-span-3k: bytes" { same_bytes spm-bpe-span-3k; }

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
