#!/usr/bin/env bats
# data.bats - the data of mtrain: lists, loaders, validation sets, changes on resume; every option,
# note and error

bats_require_minimum_version 1.5.0

# dataset NAME FIRST DOCUMENTS [OPTION...]: documents of 30 tokens FIRST, FIRST + 1, ...
dataset()
{
	local name=$1 first=$2 documents=$3
	shift 3
	for i in $(seq 1 "$documents"); do
		printf '{"text": "%s"}\n' \
			"$(seq -s ' ' $((first + i % 10)) $((first + i % 10 + 28)))"
	done >"$name.jsonl"
	mtok -q -o "$name" --tokenizer-type NullTokenizer --vocab-size 100 \
		--append-eod "$@" "$name.jsonl"
}

setup_file()
{
	cd "$BATS_FILE_TMPDIR" || exit
	dataset a 0 40
	dataset b 20 80
	dataset c 40 20
	dataset other 0 40 --vocab-size 90
}

setup()
{
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || exit
	for name in a b c other; do
		for end in bin idx json; do
			[ ! -e "$BATS_FILE_TMPDIR/${name}_text_document.$end" ] || cp "$BATS_FILE_TMPDIR/${name}_text_document.$end" "$name.$end"
		done
	done
	cat >tiny.conf <<-END
		num-layers 1
		hidden-size 16
		num-attention-heads 2
		vocab-size 100
		seq-length 16
		micro-batch-size 2
		global-batch-size 4
		train-iters 8
		lr 1e-3
		eval-iters 0
		log-interval 4
		num-threads 1
		split "1,0,0"
		data-cache-path cache
		override-opt_param-scheduler
	END
}

# fails STATUS LINE OPTION...: a run ends with this status and this line alone
fails()
{
	local want_status=$1 want=$2
	shift 2
	run --separate-stderr mtrain -q --config tiny.conf "$@"
	[ "$status" = "$want_status" ] || { echo "status $status: $stderr" >&2; return 1; }
	[ "$stderr" = "mtrain: $want" ] || { printf 'got:  %s\nwant: mtrain: %s\n' "$stderr" "$want" >&2; return 1; }
}

# works OPTION...: a run succeeds; its words are in $stderr and $output
works()
{
	run --separate-stderr mtrain --config tiny.conf "$@"
	[ "$status" = 0 ] || { echo "status $status: $stderr" >&2; return 1; }
}

# notes TEXT: the last run printed this note
notes()
{
	[[ "$stderr" == *"$1"* ]] || { printf 'not said: %s\n%s\n' "$1" "$stderr" >&2; return 1; }
}

# losses FILE: the losses of the steps
losses()
{
	sed -n '/"skipped"/s/.*"lm_loss": \([^,]*\).*/\1/p' "$1"
}

@test "a blend: tokens, samples, share and epochs of each corpus before the first step, consumed samples at the end" {
	works --data-path 0.75 a 0.25 b --metrics-file m.jsonl
	notes "mtrain: data: train: 32 samples from 2 corpora
mtrain: data: train: a: 1200 tokens, 24 samples, share 0.750000, 0.32 epochs
mtrain: data: train: b: 2400 tokens, 8 samples, share 0.250000, 0.05333 epochs"
	notes "mtrain: data: consumed of a: 24 samples, 0.32 epochs, 384 tokens, 384 trained on
mtrain: data: consumed of b: 8 samples, 0.05333 epochs, 128 tokens, 128 trained on"
	[ "$(grep '"corpus"' m.jsonl)" = '{"iteration": 4, "corpus": "a", "consumed_samples": 12, "consumed_tokens": 192, "trained_tokens": 192, "epochs": 0.16}
{"iteration": 4, "corpus": "b", "consumed_samples": 4, "consumed_tokens": 64, "trained_tokens": 64, "epochs": 0.026666666666666668}
{"iteration": 8, "corpus": "a", "consumed_samples": 24, "consumed_tokens": 384, "trained_tokens": 384, "epochs": 0.32000000000000001}
{"iteration": 8, "corpus": "b", "consumed_samples": 8, "consumed_tokens": 128, "trained_tokens": 128, "epochs": 0.053333333333333337}' ]
	works --data-path 0.75 a 0.25 b
	notes "32 samples from 2 corpora (maps from the cache)"
}

@test "the same lists from files, and lists for each split" {
	works --data-path 0.75 a 0.25 b --metrics-file one.jsonl
	echo "0.75 a 0.25 b" >list
	works --data-args-path list --metrics-file two.jsonl
	[ "$(losses one.jsonl)" = "$(losses two.jsonl)" ]
	works --train-data-path 0.75 a 0.25 b --valid-data-path c --test-data-path b c \
		--eval-iters 1 --metrics-file three.jsonl
	[ "$(losses one.jsonl)" = "$(losses three.jsonl)" ]
	notes "data: valid: c: 600 tokens"
	notes "data: test: 4 samples from 2 corpora"
	echo '{"train": [0.75, "a", 0.25, "b"], "valid": "c", "test": ["b", "c"]}' >lists
	works --per-split-data-args-path lists --eval-iters 1 --metrics-file four.jsonl
	[ "$(losses one.jsonl)" = "$(losses four.jsonl)" ]
	fails 2 "--data-path, --data-args-path, --data-schedule, --per-split-data-args-path and --train-data-path with --valid- and --test-: only one of them can name the data" \
		--data-path a --data-args-path list
	fails 2 "--data-args-path gone: there is no 'gone.idx'; give the prefix without .bin or .idx" --data-args-path <(echo gone)
	fails 2 "--valid-data-path gone: there is no 'gone.idx'; give the prefix without .bin or .idx" --train-data-path a \
		--valid-data-path gone
	fails 2 "--data-path: 'b' is not a number, but other weights are: either every prefix has a weight before it, or none has" \
		--data-path 1 a b c
	fails 1 "no samples to train on: --train-data-path is not given; --skip-train only evaluates" --valid-data-path a
	fails 1 "no samples to train on: --split gives training no share; --skip-train only evaluates" --data-path a --split 0,1,0
}

@test "a list in a pipe is read once, by rank 0 for all ranks" {
	echo "0.75 a 0.25 b" >list
	echo '{"train": [0.75, "a", 0.25, "b"], "valid": null, "test": null}' >lists
	mkfifo pipe
	mpirun -np 2 mtrain -q --config tiny.conf --data-path 0.75 a 0.25 b --metrics-file one.jsonl
	timeout 30 cat list >pipe &
	timeout 30 mpirun -np 2 mtrain -q --config tiny.conf --data-args-path pipe \
		--metrics-file two.jsonl
	[ "$(losses one.jsonl)" = "$(losses two.jsonl)" ]
	mpirun -np 2 mtrain -q --config tiny.conf --per-split-data-args-path /dev/stdin \
		--metrics-file three.jsonl <lists
	[ "$(losses one.jsonl)" = "$(losses three.jsonl)" ]
}

@test "a list without weights gives every sample once, and not more" {
	works --data-path a c --train-iters 20
	notes "data: train: 80 samples from 2 corpora"
	fails 1 "the train split has 111 samples, but the run takes 160: a list without weights gives every sample once; give weights, or train at most 27 iterations" \
		--data-path a c --train-iters 40
}

@test "many corpora and few samples: no oversampling" {
	works --data-path 1 a 1 b 1 c 1 a 1 b 1 c --train-iters 1 --mid-level-dataset-surplus 0
	notes "data: train: 6 samples from 6 corpora"
}

@test "a mix of tokenizers" {
	run --separate-stderr mtrain -q --config tiny.conf --data-path 1 a 1 other
	[ "$status" = 1 ]
	[[ "$stderr" == "mtrain: other was made with another tokenizer (NullTokenizer, hash "*") than a (NullTokenizer, hash "*")" ]]
	run --separate-stderr mtrain -q --config tiny.conf --data-path other \
		--tokenizer-type NullTokenizer
	[ "$status" = 1 ]
	[[ "$stderr" == "mtrain: other was made with another tokenizer (NullTokenizer, hash "*") than the one of this run (hash "*")" ]]
	works --data-path a --tokenizer-type NullTokenizer
	rm other.json
	works --data-path 1 a 1 other
}

@test "cyclic: a permutation each epoch, sharded or dealt" {
	works --data-path a --metrics-file single.jsonl
	works --data-path a --dataloader-type cyclic --metrics-file cyclic.jsonl
	works --data-path a --dataloader-type cyclic --no-data-sharding --metrics-file dealt.jsonl
	[ "$(losses single.jsonl)" != "$(losses cyclic.jsonl)" ]
	[ "$(losses cyclic.jsonl)" = "$(losses dealt.jsonl)" ]  # one data rank: the same permutation
	fails 2 "--dataloader-type random: must be one of single, cyclic" --data-path a \
		--dataloader-type random
	# Past the end the next epoch begins, also in a list without weights.
	works --data-path a c --dataloader-type cyclic --train-iters 40
	fails 1 "the train split: 111 samples are fewer than one micro batch of 112 on each of 1 data ranks" --data-path a c \
		--dataloader-type cyclic --micro-batch-size 112 --global-batch-size 112
	run -3 mtrain -q --config tiny.conf --data-path a --dataloader-type cyclic --save s \
		--exit-interval 3
	fails 1 "--dataloader-type cyclic: 12 samples were consumed, but with micro batches of 8 on 1 data ranks an epoch continues only at multiples of 8; the checkpoint's batch and layout continue it" \
		--data-path a --dataloader-type cyclic --load s --save s --micro-batch-size 8 \
		--global-batch-size 8
	works --data-path a --dataloader-type cyclic --load s --save s --metrics-file rest.jsonl
	[ "$(losses cyclic.jsonl | tail -n 5)" = "$(losses rest.jsonl)" ]
}

@test "tokens that are read instead of mapped are the same" {
	works --data-path 1 a 2 b --metrics-file mapped.jsonl
	works --data-path 1 a 2 b --no-mmap-bin-files --metrics-file read.jsonl
	[ "$(losses mapped.jsonl)" = "$(losses read.jsonl)" ]
}

@test "validation: all of a set, several sets with names, a set that is too small" {
	args="--train-data-path a --valid-data-path b c --eval-iters 2 --eval-interval 8"
	works $args --multiple-validation-sets --metrics-file m.jsonl
	[[ "$output" == *" validation-b loss at iteration 8 on validation set | lm loss value: "*\
" validation-c loss at iteration 8 on validation set | "* ]]
	grep -q '{"iteration": 8, "split": "valid", "set": "c", "lm_loss": ' m.jsonl
	works $args --multiple-validation-sets --validation-set-names books web
	[[ "$output" == *" validation-books loss at iteration 8 on validation set | "*\
" validation-web loss at iteration 8 on validation set | "* ]]
	fails 2 "--validation-set-names: 1 names for 2 validation sets" $args \
		--multiple-validation-sets --validation-set-names books
	fails 2 "--validation-set-names: is for --multiple-validation-sets" $args \
		--validation-set-names books web
	fails 2 "--multiple-validation-sets: the list of the valid split has weights, but each set is evaluated by itself" \
		--train-data-path a --valid-data-path 1 b 1 c --multiple-validation-sets
	# Full validation is the same whatever the batch: 149 samples of b, the last batch partly
	# masked.
	works $args --full-validation --multiple-validation-sets --train-iters 1 --lr 0 \
		--global-batch-size 4 --metrics-file four.jsonl
	works $args --full-validation --multiple-validation-sets --train-iters 1 --lr 0 \
		--global-batch-size 14 --metrics-file many.jsonl
	notes "data: valid b: 149 samples from 1 corpus"
	for file in four many; do
		sed -n '/"set"/s/.*"lm_loss": \([0-9.]*\).*/\1/p' $file.jsonl >$file
	done
	paste four many | awk '{ d = $1 - $2; n++; if (d > 1e-6 || d < -1e-6) bad = 1 } END { exit bad || n != 2 }'
	works $args --full-validation --metrics-file all.jsonl
	grep -q '"split": "valid", "lm_loss"' all.jsonl
	works --train-data-path a --valid-data-path c b --eval-iters 80 --eval-interval 8
	notes "data: valid: an evaluation takes each of its samples once, fewer than --eval-iters 80 batches"
	works --data-path a --split 50,50,0 --eval-iters 1 \
		--no-drop-last-partial-validation-sequence --full-validation
	notes "data: valid: 38 samples from 1 corpus"
}

@test "evaluations change nothing of the training, nor of one another, also after a resume" {
	evaluations() { sed -n '/"split"/s/.*"iteration": \([0-9]*\), \(.*\), "ppl".*/\1 \2/p' "$1"; }
	args="--train-data-path 3 a 1 b --valid-data-path b c --multiple-validation-sets
		--eval-iters 1"
	works $args --eval-interval 100 --metrics-file without.jsonl
	[ "$(evaluations without.jsonl | wc -l)" = 2 ]
	for every in 1 2 3; do
		works $args --eval-interval $every --metrics-file with.jsonl
		[ "$(losses without.jsonl)" = "$(losses with.jsonl)" ]
		[ "$(evaluations without.jsonl)" = "$(evaluations with.jsonl | grep '^8 ')" ]
		run -3 mtrain -q --config tiny.conf $args --eval-interval $every --save s \
			--exit-interval 4 --metrics-file half.jsonl
		works $args --eval-interval $every --load s --save s --metrics-file half.jsonl
		[ "$(losses with.jsonl)" = "$(losses half.jsonl)" ]
		[ "$(evaluations with.jsonl)" = "$(evaluations half.jsonl)" ]
		rm -r s
	done
	# Without learning every evaluation of a set gives the same loss.
	works $args --lr 0 --eval-interval 1 --metrics-file same.jsonl
	[ "$(evaluations same.jsonl | wc -l)" = 16 ]
	[ "$(evaluations same.jsonl | cut -d ' ' -f 2- | sort -u | wc -l)" = 2 ]
}

@test "documents apart: options that need the end of a document" {
	for option in --eod-mask-loss --reset-position-ids --reset-attention-mask; do
		fails 2 "$option: needs a tokenizer, whose end-of-document token it looks for" \
			--data-path a $option
		works --data-path a --tokenizer-type NullTokenizer --metrics-file "m$option.jsonl" \
			$option
	done
	works --data-path a --tokenizer-type NullTokenizer --metrics-file m.jsonl
	[ "$(losses m.jsonl)" != "$(losses m--reset-attention-mask.jsonl)" ]
	[ "$(losses m.jsonl)" != "$(losses m--reset-position-ids.jsonl)" ]
	[ "$(losses m.jsonl)" != "$(losses m--eod-mask-loss.jsonl)" ]
	# Rotary positions are those of the sample.
	rope="--data-path a --tokenizer-type NullTokenizer --position-embedding-type rope"
	works $rope --metrics-file rope.jsonl
	works $rope --metrics-file reset.jsonl --reset-position-ids
	notes "mtrain: --reset-position-ids: changes nothing, as in Megatron-LM: the model has no learned positions"
	[ "$(losses rope.jsonl)" = "$(losses reset.jsonl)" ]
	# The starts of documents are part of the memory plan: 4 bytes per token, rounded up to 256.
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data --dry-run
	plain=$(echo "$output" | tail -n 1 | cut -f 7)
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data --dry-run \
		--reset-attention-mask --tokenizer-type NullTokenizer
	[ "$(echo "$output" | tail -n 1 | cut -f 7)" = $((plain + 256)) ]
}

@test "the loss of each corpus" {
	works --data-path 1 a 1 b --log-loss-by-corpus --metrics-file m.jsonl
	[ "$(grep -c '"corpus": "[ab]", "consumed_samples": [0-9]*, "consumed_tokens": [0-9]*, "trained_tokens": [0-9]*, "epochs": [0-9.]*, "lm_loss": 4[0-9.]*, "tokens": 128}' m.jsonl)" = 4 ]
	works --data-path a --log-loss-by-corpus --metrics-file m.jsonl
	[ "$(grep -c '"corpus"' m.jsonl)" = 2 ]
}

@test "a list that changed between save and resume" {
	run -3 mtrain -q --config tiny.conf --data-path 1 a 1 b --save s --exit-interval 4
	says="s: the data changed since this checkpoint was saved:"
	how="--data-change restart begins the new order, \
--data-change exclude-seen draws no sample twice"
	fails 1 "$says the list has 3 corpora and had 2; $how" --data-path 1 a 1 b 1 c --load s \
		--save s
	fails 1 "$says the share of a is 0.75 and was 0.5; $how" --data-path 3 a 1 b --load s \
		--save s
	fails 1 "$says corpus 1 of the list, b, is not what a was; $how" --data-path 1 b 1 a \
		--load s --save s
	fails 1 "$says the list has no weights and had some; $how" --data-path a b --load s --save s
	fails 1 "$says --seed is 5 and was 1234; $how" --data-path 1 a 1 b --load s --save s \
		--seed 5
	fails 1 "$says --seq-length is 8 and was 16; $how" --data-path 1 a 1 b --load s --save s \
		--seq-length 8 --max-position-embeddings 16
	fails 1 "$says --split is '9,1,0' and was '1,0,0'; $how" --data-path 1 a 1 b --load s \
		--save s --split 9,1,0
	fails 1 "$says --dataloader-type or --no-data-sharding differs; $how" \
		--data-path 1 a 1 b --load s --save s --dataloader-type cyclic
	fails 1 "s: --data-change exclude-seen: corpora keep their order only with the same seed, length and split and the single loader, but --seed is 5 and was 1234; --data-change restart begins the new order" \
		--data-path 1 a 1 b --load s --save s --seed 5 --data-change exclude-seen
	# Other spellings of the same: a moved dataset, weights of the same shares.
	for end in bin idx; do mv a.$end moved.$end; done
	works --data-path 5 moved 5 b --load s --save s2 --train-iters 4
	for end in bin idx; do mv moved.$end a.$end; done
	cp -r s s3
	works --data-path 1 a 1 b 2 c --load s --save s --data-change exclude-seen
	notes "data: the data changed since the checkpoint: from sample 16 on it is the new list's"
	notes "data: train: a continues after 8 samples of its order"
	notes "data: consumed of a: 12 samples"
	notes "data: consumed of c: 8 samples"
	works --data-path 1 a 1 b 2 c --load s3 --save s3 --data-change restart
	notes "data: consumed of a: 4 samples"
	works --data-path 1 a 1 b 2 c --load s3 --save s3 --train-iters 9
	fails 2 "--data-change maybe: must be one of refuse, restart, exclude-seen, mask" --data-path a \
		--data-change maybe
}

@test "a longer run that makes another order says so, and can keep the order" {
	run -3 mtrain -q --config tiny.conf --data-path c --save s --exit-interval 4
	works --data-path c --load s --save s2 --train-iters 12
	notes "data: c: 2 epochs, the last by itself, where the checkpoint has 1: its samples have another order from here on, and some that were seen come again; --data-change exclude-seen keeps the order"
	works --data-path c --load s --save s3 --train-iters 12 --data-change exclude-seen
	notes "data: c: the train blend draws 32 samples from it, but only 21 were not drawn before: its order starts over"
	[[ "$stderr" != *"another order"* ]]
}

@test "another micro batch or global batch continues with the same samples" {
	works --data-path 1 a 1 b --train-iters 8 --save all
	run -3 mtrain -q --config tiny.conf --data-path 1 a 1 b --save s --exit-interval 4
	# 16 samples are left of 32: two steps of 8.
	works --data-path 1 a 1 b --load s --save s --global-batch-size 8 --micro-batch-size 4 \
		--train-iters 6 --override-opt_param-scheduler
	[ "$(grep '^data_corpus_' all/iter_0000008/state.conf | cut -d ' ' -f 2,8)" = \
		"$(grep '^data_corpus_' s/iter_0000006/state.conf | cut -d ' ' -f 2,8)" ]
}

@test "a damaged record of the data, and none" {
	run -3 mtrain -q --config tiny.conf --data-path 1 a 1 b --save s --exit-interval 4
	cp s/iter_0000004/state.conf good
	sed 's/^data_start 0/data_start 1/' good >s/iter_0000004/state.conf
	fails 1 "s/iter_0000004/state.conf: changed after it was saved: wrong checksum; mckpt seal accepts an intended change" \
		--data-path 1 a 1 b --load s --save s
	for damage in 's/^data_corpus_1 .*/data_corpus_1 x/' '/^data_corpus_1/s/ 8 b$/ 9223372036854775807 b/'; do
		sed "$damage" good >s/iter_0000004/state.conf
		mckpt seal s
		fails 1 "s/iter_0000004: state.conf: 'data_corpus_1' is damaged" \
			--data-path 1 a 1 b --load s --save s
	done
	# An imported checkpoint has none: the run continues from its number of samples.
	grep -v '^data_' good >s/iter_0000004/state.conf
	mckpt seal s
	works --data-path 3 a 1 b --load s --save s
}

@test "maps that cannot be kept: a note, or an error where the place was named" {
	sed -i /cache/d tiny.conf
	touch a
	works --data-path a --metrics-file own.jsonl
	notes "data: index maps are not kept, each rank builds its own: "
	rm a
	works --data-path a --metrics-file kept.jsonl
	[ -d a/cache/GPTDataset_indices ]
	[ "$(losses own.jsonl)" = "$(losses kept.jsonl)" ]
	touch file
	run --separate-stderr mtrain -q --config tiny.conf --data-path b --data-cache-path file
	[ "$status" = 1 ]
	[[ "$stderr" == "mtrain: cannot "*"'file"* ]]
	[ "$(wc -l <<<"$stderr")" = 1 ]
}

@test "data: maps that mshard made with the tokenizer's options are found; those of another tokenizer are reported" {
	mshard index --data-path a --seq-length 16 --split 1,0,0 --num-samples 32,0,0 \
		--data-cache-path cache --tokenizer-type NullTokenizer --vocab-size 100 >rows
	before=$(ls cache)
	run -0 --separate-stderr mtrain --config tiny.conf --data-path a \
		--tokenizer-type NullTokenizer
	notes "(maps from the cache)"
	[ "$(ls cache)" = "$before" ]
	run -0 --separate-stderr mtrain --config tiny.conf --data-path a
	notes "a: the train maps $(awk 'NR == 2 { print $4 }' rows) in 'cache' belong to another tokenizer, or to another spelling of its options: built as "
}

@test "samples of one token" {
	works --data-path a --seq-length 1 --metrics-file m.jsonl
	[ "$(losses m.jsonl | wc -l)" = 8 ]
	works --data-path a --seq-length 1 --position-embedding-type rope
}

@test "masks: what the loss counts, in the record, and wrong ones" {
	# The same as leaving out inputs that are the end of a document: labels after it are 0.
	awk 'BEGIN { for (i = 0; i < 30; i++) { ids = m = ""
		for (k = 0; k < 29; k++) { ids = ids (7 * i + k) % 98 ", "; m = m (k > 0) ", " }
		printf "{\"ids\": [%s99], \"m\": [%s1]}\n", ids, m } }' >in.jsonl
	mtok -q -o x --json-keys ids --mask-key m --tokenizer-type NullTokenizer --vocab-size 100 \
		in.jsonl
	null="--data-path x_ids_document --tokenizer-type NullTokenizer"
	works $null --metrics-file mask.jsonl
	run -3 mtrain -q --config tiny.conf $null --save s --exit-interval 4
	works $null --loss-mask ignore --eod-mask-loss --metrics-file eod.jsonl
	[ "$(losses mask.jsonl)" = "$(losses eod.jsonl)" ]
	grep -q '^data_corpus_0 [^ ]*+[^ ]* ' s/iter_0000004/state.conf
	how="--data-change mask keeps the order, --data-change restart begins the new order, --data-change exclude-seen draws no sample twice"
	says="s: the data changed since this checkpoint was saved:"
	fails 1 "$says x_ids_document has no mask and had one; $how" $null --load s --loss-mask ignore
	# Another mask: the order stays.
	sed 's/, 1\]}/, 0]}/' in.jsonl | mtok -q --force -o x --json-keys ids --mask-key m \
		--tokenizer-type NullTokenizer --vocab-size 100
	fails 1 "$says the mask of x_ids_document is not what it was; $how" $null --load s --save s
	works $null --load s --save s --data-change mask
	[[ "$stderr" != *"new list"* ]]
	fails 2 "--loss-mask some: must be one of use, ignore" $null --loss-mask some
	# Each document of a sample counts as one; of a sample that is one document all labels do.
	works $null --data-change mask --loss-per document --metrics-file document.jsonl
	works $null --data-change mask --metrics-file token.jsonl
	[ "$(losses document.jsonl)" != "$(losses token.jsonl)" ]
	alone="--sample-packing best-fit --seq-length 29 --max-position-embeddings 32"
	works $null $alone --loss-per document --metrics-file document.jsonl
	works $null $alone --metrics-file token.jsonl
	paste <(losses document.jsonl) <(losses token.jsonl) | awk '
		{ d = $1 - $2; if (d * d > 1e-10) exit 1 } END { exit NR != 8 }'
	fails 2 "--loss-per document: --mock-data has no documents" --mock-data --loss-per document
	# Wrong masks end the run before its first step, with a line.
	printf '\2' | dd of=x_ids_document_mask.bin bs=1 seek=40 conv=notrunc status=none
	rm x_ids_document_mask.sum
	fails 1 "x_ids_document_mask.bin: token 10 of sequence 1 has the value 2: a mask has only 0 and 1" $null
	rm x_ids_document_mask.idx
	fails 1 "x_ids_document: its mask, which x_ids_document.json names: cannot open 'x_ids_document_mask.idx': No such file or directory" $null
}

@test "packed samples: whole documents, in the record, and what they exclude" {
	packed="--data-path a --sample-packing best-fit --seq-length 64"
	packed="$packed --max-position-embeddings 64"
	works $packed --metrics-file m.jsonl
	# Documents of 30 tokens: two of them in a sample of 65.
	notes "data: train: a: 1200 tokens, 32 samples, share 1.000000, 1.6 epochs"
	notes "data: train: a: packed, 0.9231 of its samples are tokens"
	[ "$(grep -c '"fill": 0.92307692307692313' m.jsonl)" = 8 ]
	run -3 mtrain -q --config tiny.conf $packed --save s --exit-interval 4
	grep -q '^data_packing cut$' s/iter_0000004/state.conf
	works $packed --load s --save s --metrics-file again.jsonl
	[ "$(losses m.jsonl | tail -n 1)" = "$(losses again.jsonl | tail -n 1)" ]
	fails 1 "s: the data changed since this checkpoint was saved: --sample-packing or --long-documents differs; --data-change restart begins the new order, --data-change exclude-seen draws no sample twice" \
		$packed --load s --long-documents drop
	works --data-path a --dataloader-inter-document-masking --metrics-file apart.jsonl
	works --data-path a --metrics-file cut.jsonl
	[ "$(losses apart.jsonl)" != "$(losses cut.jsonl)" ]
	works --data-path a --sample-packing best-fit
	notes "data: a: of the train split 40 sequences of more than 17 tokens are cut into pieces"
	fails 1 "a: the train split has no sequence that --sample-packing best-fit takes" \
		--data-path a --sample-packing best-fit --long-documents drop
	fails 2 "--sample-packing best-fit: --mock-data has no documents" --mock-data \
		--sample-packing best-fit
}
