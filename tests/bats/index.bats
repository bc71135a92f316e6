#!/usr/bin/env bats
# index.bats - mshard index and mshard blend: index maps and blends, their cache, and what is
# refused

bats_require_minimum_version 1.5.0
load common

setup()
{
	export D="$TOP/tests/golden/data"
	cd "$BATS_TEST_TMPDIR"
	mkdir corpora
	cp "$D"/corpora/* .
	cp "$D"/corpora/* corpora/
	chmod u+w ./* corpora/*
}

# same_files CASE SPLIT: the arrays and texts of a case's split are in ./cache under the names that
# it gives
same_files()
{
	local params="$D/cases/$1/params.tsv" part hash class name count=0
	for want in "$D/cases/$1/$2".*; do
		name=$(basename "$want")
		name=${name#"$2."}
		case $name in text.npy | tokens.npy | labels.npy | loss_mask.npy | position_ids.npy | attention_mask.npy) continue ;; esac
		part='' class=GPTDataset
		case $name in
		[0-9]*) part=${name%%.*}. name=${name#*.} ;;
		blend.*) part=blend. name=${name#*.} class=BlendedDataset ;;
		dataset_*) part=blend. class=BlendedDataset ;;
		esac
		hash=$(awk -F'\t' -v key="$2.${part}hash" '$1 == key { print $2 }' "$params")
		cmp "cache/$hash-$class-$2-$name" "$want"
		count=$((count + 1))
	done
	[ "$count" -gt 0 ]
}

@test "index: the files of Megatron-LM, and again from the cache" {
	args="--data-path corpora/a_u16 --split 969,31,0 --seq-length 8 --num-samples 100,1,0
		--data-cache-path cache --tokenizer-option vocab_size=50257 eod_id=50256"
	for time in first second; do
		run -0 --separate-stderr mshard index $args
		[ "$output" = "split	samples	epochs	hash	dataset
train	153	1	07413fe3bbba35698666381cf0b9c91c	corpora/a_u16
valid	6	1	f16cd52099bd3cfd4b6fb867079e28b6	corpora/a_u16" ]
		[ -z "$stderr" ]
		[ "$(ls cache | grep -v -- '-keys.txt$')" = "$(sed -n 's/^01_a_s8_one_epoch	//p' "$D/cache_files.tsv" | sort)" ]
	done
	for file in description.txt document_index.npy sample_index.npy shuffle_index.npy; do
		cmp cache/*-train-$file "$D/cases/01_a_s8_one_epoch/train.$file"
		cmp cache/*-valid-$file "$D/cases/01_a_s8_one_epoch/valid.$file"
	done
}

@test "index: one epoch, default directory, a damaged map is rebuilt" {
	run -0 mshard index --data-path corpora/b_i32 --split 969,30,1 --seq-length 64 \
		--num-samples all,all,all --seed 1 --tokenizer-option vocab_size=128256 \
		eod_id=128001
	[ "$(cut -f1-3 <<<"$output")" = "split	samples	epochs
train	678	1
valid	21	1
test	0	1" ]
	file=$(echo corpora/b_i32/cache/GPTDataset_indices/*-train-shuffle_index.npy)
	cmp "$file" "$D/cases/04_b_s64_none/train.shuffle_index.npy"
	truncate -s 1000 "$file"
	run -0 mshard index --data-path corpora/b_i32 --split 969,30,1 --seq-length 64 \
		--num-samples all,all,all --seed 1 --tokenizer-option vocab_size=128256 \
		eod_id=128001
	cmp "$file" "$D/cases/04_b_s64_none/train.shuffle_index.npy"
}

@test "index: an empty split is an error that names it" {
	run --separate-stderr mshard index --data-path corpora/a_u16 --split 969,30,1 \
		--seq-length 8 --num-samples 100,1,0 --data-cache-path cache
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: corpora/a_u16: the test split has 0 tokens: --split '969,30,1' gives it the share 0.001 of 60 sequences, which is 0; at least 2 tokens are needed: --split 58,1,1 gives some to every split" ]
	[ -z "$output" ] && [ -z "$(ls cache)" ]
	run -0 mshard index --data-path corpora/a_u16 --split 58,1,1 --seq-length 8 \
		--num-samples 100,1,1 --data-cache-path cache
	[ "$(wc -l <<<"$output")" = 4 ]
}

@test "index: wrong usage" {
	refused 2 "mshard: --data-path: '0.3' is a number where a prefix is expected: a list is PREFIX ... or WEIGHT PREFIX ...; write ./0.3 for a dataset of that name" \
		mshard index --data-path 0.3 a_u16 0.7 --seq-length 8
	refused 2 "mshard: --data-path, --data-args-path, --data-schedule, --per-split-data-args-path and --train-data-path with --valid- and --test-: only one of them can name the data" \
		mshard index --data-path a_u16 --train-data-path b_i32 --seq-length 8
	refused 2 "mshard: cannot open 'nowhere': No such file or directory" mshard blend --data-args-path nowhere --seq-length 8
	refused 2 "mshard: --seq-length is needed: the tokens of a sample" mshard index --data-path a_u16
	refused 2 "mshard: --seq-length 0: must be from 1 to 2147483646" mshard index --data-path a_u16 --seq-length 0
	for counts in 5 1,2 1,2,3,4 1,2,x all,all -1,2,3 allall,1,1; do
		refused 2 "mshard: --num-samples $counts: must be TRAIN,VALID,TEST, each a number from 0 or all" \
			mshard index --data-path a_u16 --seq-length 8 --num-samples=$counts
	done
	for split in 1,2,3,4 1e3,2,4; do
		refused 2 "mshard: --split '$split': '4' is a fourth share: there are at most three, of training, validation and test" \
			mshard index --data-path a_u16 --seq-length 8 --split $split
	done
	for word in nan NaN inf Infinity; do
		refused 2 "mshard: --split '90,$word,5': '$word' is not a share: shares are up to three numbers from 0, such as 969,30,1" \
			mshard index --data-path a_u16 --seq-length 8 --split 90,$word,5
	done
	refused 2 "mshard: --split '0,0': the shares must have a finite sum above 0" \
		mshard index --data-path a_u16 --seq-length 8 --split 0,0
	refused 2 "mshard: --tokenizer-option x: must be KEY=VALUE" \
		mshard index --data-path a_u16 --seq-length 8 --tokenizer-option x
	[ ! -e a_u16 ]
}

@test "index: a cache that cannot be written" {
	run --separate-stderr mshard index --data-path a_u16 --seq-length 8 --split 1 \
		--data-cache-path a_u16.idx
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: cannot create directory 'a_u16.idx': a file of that name exists" ]
}

@test "index: blends, by words and by a file" {
	run -0 mshard index --data-path 30 corpora/a_u16 50 corpora/b_i32 20 corpora/c_u16 \
		--split 90,10,0 --seq-length 64 --num-samples 700,20,0 --data-cache-path cache \
		--tokenizer-option vocab_size=50257 eod_id=50256
	[ "${lines[0]}" = "split	samples	epochs	hash	dataset" ]
	[ "${lines[1]}" = "train	700	-	2e400dbbf71eacb87f6fa88ccba7e11a	-" ]
	[ "${lines[2]}" = "train	228	13	9a07e4445fa9758fd623c6d9072d2736	corpora/a_u16" ]
	[ "${#lines[@]}" = 9 ]
	same_files 20_blend3_weights train
	same_files 20_blend3_weights valid
	first=$output
	printf '30 corpora/a_u16\n50 corpora/b_i32\n20 corpora/c_u16\n' >list
	before=$(stat -c '%n %i' cache/*)
	run -0 --separate-stderr mshard index --data-args-path <(cat list) --split 90,10,0 \
		--seq-length 64 --num-samples 700,20,0 --data-cache-path cache \
		--tokenizer-option vocab_size=50257 eod_id=50256 --num-dataset-builder-threads 1
	[ "$output" = "$first" ] && [ -z "$stderr" ]
	[ "$(stat -c '%n %i' cache/*)" = "$before" ]
}

@test "index: without weights by size, and every sample once" {
	args="--data-path corpora/a_u16 corpora/f_u16edge corpora/c_u16 --split 80,20,0
		--seq-length 32 --seed 1 --data-cache-path cache
		--tokenizer-option vocab_size=50257 eod_id=50256"
	run -0 mshard index $args --num-samples 400,10,5
	same_files 22_blend3_noweights_sizes train
	same_files 22_blend3_noweights_sizes valid
	run -0 mshard index $args
	same_files 23_blend3_exhaustive train
	same_files 23_blend3_exhaustive valid
	run -0 --separate-stderr mshard index $args --num-samples 4000,10,5
	[ "$stderr" = "mshard: the train split has 403 samples, fewer than the 4000 wanted: its list has no weights, so each corpus gives one epoch at most" ]
}

@test "index: a list a split, by options and by a JSON file" {
	args="--seq-length 16 --seed 42 --num-samples 600,25,50
		--tokenizer-option vocab_size=50257 eod_id=50256"
	run -0 mshard index $args --data-cache-path cache \
		--train-data-path 1 corpora/a_u16 3 corpora/b_i32 \
		--valid-data-path corpora/f_u16edge --test-data-path corpora/c_u16 corpora/e_tiny_i32
	for split in train valid test; do
		same_files 25_blend_per_split $split
	done
	first=$output
	echo '{"train": [1, "corpora/a_u16", "3", "corpora/b_i32"], "valid": "corpora/f_u16edge",
		"test": ["corpora/c_u16", "corpora/e_tiny_i32"]}' >splits.json
	run -0 mshard index $args --data-cache-path again --per-split-data-args-path splits.json
	[ "$output" = "$first" ]
	[ "$(ls cache)" = "$(ls again)" ]
	echo '{"train": ["corpora/a_u16"], "valid": []}' >splits.json
	refused 2 "mshard: splits.json: valid: it names no dataset" mshard index $args --per-split-data-args-path splits.json
}

@test "index: a blend that draws more than Megatron-LM builds is built, with a note" {
	list="0.4 corpora/e_tiny_i32"
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
		list="$list 0.05 corpora/f_u16edge"
	done
	run -0 --separate-stderr mshard index --data-path $list --split 1,0,0 --seq-length 9 \
		--num-samples 10,0,0 --mid-level-dataset-surplus 0 --data-cache-path cache
	[ "$stderr" = "mshard: corpora/e_tiny_i32: the train blend draws 6 samples from it, but a request for 4 gives only 4: the request is raised to 6" ]
	cmp cache/*-BlendedDataset-train-dataset_index.npy \
		"$D/cases/27_blend_oversample_surplus/train.dataset_index.npy"
	run -0 --separate-stderr mshard index -q --data-path $list --split 1,0,0 --seq-length 9 \
		--num-samples 10,0,0 --mid-level-dataset-surplus 0 --data-cache-path cache
	[ -z "$stderr" ]
}

@test "index: the extra token and the last partial sample" {
	run -0 mshard index --data-path corpora/a_u16 --split 90,9,1 --seq-length 8 --seed 1 \
		--num-samples 400,5,2 --data-cache-path cache --no-add-extra-token-to-sequence \
		--tokenizer-option vocab_size=50257 eod_id=50256
	for split in train valid test; do
		same_files 12_a_no_extra_token $split
	done
	run -0 mshard index --data-path corpora/a_u16 --split 50,50,0 --seq-length 64 \
		--num-samples 10,all,all --data-cache-path cache \
		--no-drop-last-partial-validation-sequence --tokenizer-option vocab_size=50257 \
		eod_id=50256
	same_files 11_a_keep_partial_valid train
	same_files 11_a_keep_partial_valid valid
}

@test "index: stale maps are rebuilt, with a note; those of Megatron-LM are taken" {
	args="--data-path corpora/a_u16 --split 1 --seq-length 8 --num-samples 50,0,0
		--data-cache-path cache"
	run -0 --separate-stderr mshard index $args
	[ -z "$stderr" ]
	hash=$(awk 'NR == 2 { print $4 }' <<<"$output")
	touch -d @1000000 corpora/a_u16.bin
	run -0 --separate-stderr mshard index $args
	[ "$stderr" = "mshard: corpora/a_u16: the train maps $hash in 'cache' are damaged, or their key is that of other data; rebuilt" ]
	rm cache/*-keys.txt
	before=$(stat -c '%n %i' cache/*)
	run -0 --separate-stderr mshard index $args
	[ -z "$stderr" ]
	[ "$(stat -c '%n %i' cache/*.npy cache/*description.txt | sort)" = "$(sort <<<"$before")" ]
	[ -e cache/*-keys.txt ]
	rm cache/*-keys.txt
	printf '\1' | dd of="$(echo cache/*shuffle_index.npy)" bs=1 seek=131 conv=notrunc \
		status=none
	run -0 --separate-stderr mshard index $args
	ours=$(awk 'NR == 2 { print $4 }' <<<"$output")
	[ "$stderr" = "mshard: corpora/a_u16: the train maps $hash in 'cache' do not fit the dataset, and their key is missing or of other options; they are kept, and the maps of this run are $ours" ]
	[ "$(tail -n 3 "cache/$ours-GPTDataset-train-description.txt")" = "}
add_extra_token 1
drop_last_partial 1" ]
	run -0 --separate-stderr mshard index $args
	[ -z "$stderr" ] && [ "$(awk 'NR == 2 { print $4 }' <<<"$output")" = "$ours" ]
}

@test "index: maps of Megatron-LM that other options made are never overwritten" {
	args="--data-path corpora/a_u16 --split 50,50,0 --seq-length 64 --num-samples 0,all,0
		--data-cache-path cache --tokenizer-option vocab_size=50257 eod_id=50256"
	case="$D/cases/11_a_keep_partial_valid"
	hash=$(awk -F'\t' '$1 == "valid.hash" { print $2 }' "$case/params.tsv")
	mkdir cache
	for name in description.txt document_index.npy sample_index.npy shuffle_index.npy; do
		cp "$case/valid.$name" "cache/$hash-GPTDataset-valid-$name"
	done
	run -0 --separate-stderr mshard index $args
	ours=$(awk '$1 == "valid" { print $4 }' <<<"$output")
	[[ "$stderr" == *"the valid maps $hash in 'cache' are damaged, or have other lengths; they are kept, and the maps of this run are $ours" ]]
	same_files 11_a_keep_partial_valid valid
	run -0 --separate-stderr mshard index $args --no-drop-last-partial-validation-sequence
	[ "$(awk '$1 == "valid" { print $4 }' <<<"$output")" = "$hash" ]
	run -0 --separate-stderr mshard index $args
	[ "$(awk '$1 == "valid" { print $4 }' <<<"$output")" = "$ours" ]
	same_files 11_a_keep_partial_valid valid
}

@test "index: the tokenizer's options name the maps, as those of Megatron-LM do; those of another are reported" {
	args="--data-path corpora/a_u16 --split 1 --seq-length 8 --num-samples 50,0,0
		--data-cache-path cache"
	null="--tokenizer-type NullTokenizer --vocab-size 50257"
	run -0 mshard index $args --tokenizer-option vocab_size=50257 pad_id=-1
	first=$output hash=$(awk 'NR == 2 { print $4 }' <<<"$output")
	run -0 --separate-stderr mshard index $args $null
	[ "$output" = "$first" ] && [ -z "$stderr" ] && [ "$(ls cache | wc -l)" = 5 ]
	echo '{"<|endoftext|>": 0, "a": 1}' >vocab.json
	echo '#version: 0.2' >merges.txt
	run -0 --separate-stderr mshard index $args --vocab-file vocab.json --merge-file merges.txt
	other=$(awk 'NR == 2 { print $4 }' <<<"$output")
	[ "$stderr" = "mshard: corpora/a_u16: the train maps $hash in 'cache' belong to another tokenizer, or to another spelling of its options: built as $other" ]
	[ "$(sed -n '/"tokenizer"/,$p' "cache/$other-GPTDataset-train-description.txt")" = '    "tokenizer": {
        "class": "megatron.core.tokenizers.text.text_tokenizer.MegatronTokenizerText",
        "tokenizer_path": "GPT2BPETokenizer",
        "additional_special_tokens": "[]",
        "vocab_file": "vocab.json",
        "merges_file": "merges.txt",
        "use_fast": "True",
        "trust_remote_code": "False",
        "include_special_tokens": "True",
        "use_gigatoken": "False"
    }
}' ]
	run -0 --separate-stderr mshard index $args --vocab-file vocab.json --merge-file merges.txt
	[ -z "$stderr" ]
	run -0 --separate-stderr mshard sample $args $null
	[ -z "$stderr" ] && [ "$(ls cache | wc -l)" = 10 ]
	refused 2 "mshard: --tokenizer-class, --tokenizer-path and --tokenizer-option: replace a tokenizer, but one is given too" \
		mshard index $args $null --tokenizer-option vocab_size=50257
	refused 2 "mshard: cannot open 'none': No such file or directory" mshard index $args --tokenizer-model none
}

@test "index: a full disk leaves no files" {
	run --separate-stderr bash -c "trap '' XFSZ; ulimit -f 1
		mshard index --data-path corpora/b_i32 --split 1 --seq-length 8 --data-cache-path cache"
	[ "$status" = 1 ]
	[[ "$stderr" == "mshard: cannot write 'cache/"*"-GPTDataset-train-document_index.npy': File too large" ]]
	[ -z "$(ls cache)" ]
}

@test "index: one file of keys, the same whatever the number of threads" {
	for threads in 1 4; do
		run -0 mshard index --data-path 1 corpora/b_i32 2 corpora/a_u16 3 corpora/c_u16 \
			--split 8,1,1 --seq-length 8 --num-samples 200,20,20 --num-dataset-builder-threads $threads \
			--data-cache-path cache$threads
	done
	diff -r cache1 cache4
	[ "$(wc -l <cache1/*-keys.txt)" = 13 ]
	keys=$(basename cache1/*-keys.txt)
	[ "$keys" = "$(md5sum <"cache1/$keys" | cut -c 1-32)-keys.txt" ]
}

@test "index: several at once in one directory" {
	for i in 1 2 3 4 5; do
		mshard index --data-path 1 corpora/b_i32 2 corpora/a_u16 --split 1 --seq-length 8 \
			--num-samples 20000,0,0 --data-cache-path cache >"out$i" 2>"err$i" &
		pids="${pids:-} $!"
	done
	for pid in $pids; do
		wait "$pid"
	done
	for i in 1 2 3 4 5; do
		cmp out1 "out$i"
		[ ! -s "err$i" ]
	done
	[ "$(ls cache | grep -cv -- '-keys.txt$')" = 11 ]
	run -0 --separate-stderr mshard index --data-path 1 corpora/b_i32 2 corpora/a_u16 \
		--split 1 --seq-length 8 --num-samples 20000,0,0 --data-cache-path cache
	[ -z "$stderr" ]
	[ "$output" = "$(cat out1)" ]
}

@test "blend: what each dataset gives" {
	run -0 --separate-stderr mshard blend \
		--data-path 30 corpora/a_u16 50 corpora/b_i32 20 corpora/c_u16 --split 90,10,0 \
		--seq-length 64 --num-samples 700,20,0 --data-cache-path cache \
		--tokenizer-option vocab_size=50257 eod_id=50256 --consumed-samples 100
	[ "$output" = "split	dataset	weight	samples	share	tokens	epochs	epoch_tokens	requested	consumed	hash
train	corpora/a_u16	0.3	210	0.300000	13440	11.9679	1123	212	30	-
train	corpora/b_i32	0.5	350	0.500000	22400	0.5555	40326	352	50	-
train	corpora/c_u16	0.2	140	0.200000	8960	0.6091	14710	141	20	-
train	-	1	700	1.000000	44800	0.7977	56159	-	100	2e400dbbf71eacb87f6fa88ccba7e11a
valid	corpora/a_u16	0.3	6	0.300000	384	2.4774	155	7	0	-
valid	corpora/b_i32	0.5	10	0.500000	640	0.1418	4512	11	0	-
valid	corpora/c_u16	0.2	4	0.200000	256	128.0000	2	5	0	-
valid	-	1	20	1.000000	1280	0.2741	4669	-	0	5aa953730dbdf55cf7b99363e2a275c2" ]
	[ -z "$stderr" ]
	[ "$(ls cache | wc -l)" = 7 ]
	cmp cache/2e400dbbf71eacb87f6fa88ccba7e11a-BlendedDataset-train-dataset_index.npy \
		"$D/cases/20_blend3_weights/train.dataset_index.npy"
	cmp cache/2e400dbbf71eacb87f6fa88ccba7e11a-BlendedDataset-train-dataset_sample_index.npy \
		"$D/cases/20_blend3_weights/train.dataset_sample_index.npy"
	cmp cache/5aa953730dbdf55cf7b99363e2a275c2-BlendedDataset-valid-description.txt \
		"$D/cases/20_blend3_weights/valid.blend.description.txt"
}

@test "blend: --dry-run writes nothing; one dataset has a table, too" {
	run -0 mshard blend --dry-run --data-path corpora/a_u16 corpora/c_u16 --split 1 \
		--seq-length 8 --data-cache-path cache
	[ "${#lines[@]}" = 4 ]
	[ ! -e cache ]
	run -0 mshard blend --dry-run --data-path corpora/a_u16 --split 1 --seq-length 8 \
		--num-samples 400,0,0
	[ "${lines[1]}" = "train	corpora/a_u16	1	479	1.000000	3832	2.9984	1278	400	0	-" ]
	[ "${lines[2]}" = "train	-	1	479	1.000000	3832	2.9984	1278	-	0	-" ]
}

@test "blend: --dry-run counts without the index, whose arrays may not fit into memory" {
	local limit list="--data-path 0.3 corpora/a_u16 0.7 corpora/c_u16 --split 1 --seq-length 8 --consumed-samples 777"
	mshard blend --dry-run $list --num-samples 1000,0,0 >counted
	mshard blend $list --num-samples 1000,0,0 --data-cache-path cache >made
	diff counted made
	mshard blend --dry-run $list --num-samples 1000,0,0 --data-cache-path cache | diff - made
	# of 40 million samples the arrays are 400 MB; the sanitizer reserves more addresses
	case $B in *-address* | *-run) limit=unlimited ;; *) limit=200000 ;; esac
	(ulimit -v $limit && mshard blend --dry-run $list --num-samples 40000000,0,0) >large
	[ "$(tail -n 1 large | cut -f 4)" = 40000000 ]
}

@test "blend: weights that are no share of their sum" {
	for pair in "1e-320 1e10" "1e308 1e308"; do
		set -- $pair
		refused 1 "mshard: corpora/a_u16: its weight ${1/e308/e+308} is 0 as a share of the sum of the weights, in numbers of 64 bits; leave the corpus out, or give weights that are less far apart" \
			mshard blend --dry-run --data-path "$1" corpora/a_u16 "$2" corpora/c_u16 --split 1 --seq-length 8 --num-samples 10,0,0
	done
	run -0 mshard blend --dry-run --data-path 1e-320 corpora/a_u16 1 corpora/c_u16 --split 1 --seq-length 8 --num-samples 10,0,0
}

@test "blend: what cannot be one" {
	run --separate-stderr mshard blend --data-path 1 corpora/a_u16 --split 1 --seq-length 8
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: the train split has weights but no number of samples: weights need one; a list without weights takes every sample once" ]
	run --separate-stderr mshard blend --data-path corpora/a_u16 corpora/e_tiny_i32 --split 1 \
		--seq-length 64
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: corpora/e_tiny_i32: 37 tokens in the train split: a blend needs at least one sample, which is 65 tokens" ]
	run --separate-stderr mshard blend --data-path 1 corpora/a_u16 1 corpora/gone --split 1 \
		--seq-length 8 --num-samples 5,0,0
	[ "$status" = 1 ]
	[ "$stderr" = "mshard: cannot open 'corpora/gone.idx': No such file or directory" ]
}
