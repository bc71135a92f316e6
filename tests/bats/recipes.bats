#!/usr/bin/env bats
# recipes.bats - option files of real runs: each layout is legal and fits its GPU, each small form
# trains, and a text becomes a run by the targets of a recipe's Makefile

bats_require_minimum_version 1.5.0

# The tests write beside the recipes, so they work in a copy.
setup_file()
{
	cp -R "$TOP/recipes" "$BATS_FILE_TMPDIR/recipes"
	# A tokenizer may give the vocabulary; its size is needed without one.
	export MAKEFLAGS=--no-print-directory VOCAB_OF_TOKENIZER=100000
}

setup()
{
	cd "$BATS_FILE_TMPDIR/recipes"
}

# each COMMAND...: runs it in the directory of every recipe, with its name as the last word
each()
{
	local file name
	for file in */Makefile; do
		name=${file%/*}
		(cd "$name" && "$@" "$name") || { echo "$name"; return 1; }
	done
}

is_whole()
{
	[ -s model.conf ] && [ -s run.conf ] && [ -s small.conf ] && [ -s Makefile ] &&
		[ "$(wc -l <README)" -le 20 ] &&
		grep -q '^Numbers: \|^Layout and speed: ' README &&
		grep -q 'Not run: ' README &&
		! grep -qE '^(data-path|tokenizer-model|save|load) ' model.conf run.conf
}

@test "a recipe is options, a source of its numbers, and what was not run" {
	[ "$(ls -d */Makefile | wc -l)" = 11 ]
	each is_whole
	run -0 make -s -C gpt2-124m help
	[ "$(wc -l <<<"$output")" = 9 ]
}

vocab()
{
	grep -q '^vocab-size' model.conf || echo "VOCAB=$VOCAB_OF_TOKENIZER"
}

is_legal()
{
	local out
	# shellcheck disable=SC2046
	out=$(make -s check $(vocab)) || return 1
	[[ $out == "ok: "*" on $(sed -n 's/^RANKS = //p' Makefile) ranks: "* ]]
}

@test "mplan check passes every layout" {
	each is_legal
	run -0 make -s -C llama2-7b-continual check
	[[ $output == "ok: 6738415616 parameters on 32 ranks: tensor 2, pipeline 2, data 8; "* ]]
	run -0 make -s -C llama2-13b-continual check
	[[ $output == *" on 64 ranks: tensor 2, pipeline 4, data 8; "* ]]
	run -0 make -s -C llama2-70b-continual check
	[[ $output == *" on 256 ranks: tensor 8, pipeline 8, data 4; "* ]]
	run -0 make -s -C gpt2-345m check
	[[ $output == *" on 4 ranks: tensor 1, pipeline 1, data 4; "* ]]
	run -0 make -s -C qwen3-30b-a3b check
	[[ $output == "ok: 30532122624 parameters on 16 ranks: tensor 1, pipeline 1, data 16, expert 16; "* ]]
	run -0 make -s -C llama31-8b check
	[[ $output == "ok: 8030261248 parameters on 8 ranks: tensor 1, context 2, pipeline 1, data 4; "* ]]
}

# Every option is read, and none has a note, but for what --save, which jobs give, needs.
fits()
{
	# shellcheck disable=SC2046
	make -s fit $(vocab) >out 2>err || return 1
	grep -q "^mtrain: fits $(sed -n 's/^RANKS = //p' Makefile) x " err
	grep -v '^mtrain: \(fits\|stage\|unlike Megatron-LM\) ' err |
		diff <(echo "mtrain: read by nothing in this run: --save-interval (needs --save)") -
}

@test "every run fits the GPU of its recipe, and mtrain reads all its options" {
	each fits
}

@test "the place of each layout in the search, and why a better one exists" {
	run -0 sh "$TOP/tests/bench/recipes.sh"
}

learns()
{
	make -s small >log 2>err || return 1
	[ "$(grep -c 'lm loss: ' log)" = 20 ] || return 1
	sed -n 's/.*lm loss: \([^ ]*\) .*/\1/p' log |
		awk 'NR == 1 { first = $1 } END { exit !($1 + 0 < first + 0) }'
}

@test "every small form trains, and its loss falls" {
	each learns
}

@test "text to tokens to one file of options to a run" {
	cd gpt2-124m
	for i in $(seq 1200); do printf '{"text": "the cat %d sat on mat %d"}\n' "$i" $((i % 7)); done >docs.jsonl
	mtok train -q -o t.model --model-type bpe --vocab-size 320 docs.jsonl
	run -0 make -s text DATA=docs.jsonl TOKENIZER=t.model
	run -0 make -s tokens DATA=docs.jsonl TOKENIZER=t.model
	run -0 make -s verify
	[[ $output == "data/corpus_text_document: ok, 1200 documents, "* ]]
	run -0 make -s index
	run -0 make -s plan
	make -s all.conf TOKENIZER=t.model WEIGHTS=weights
	[ "$(tail -3 all.conf)" = "data-path \"$PWD/data/corpus_text_document\"
tokenizer-model \"$PWD/t.model\"
pretrained-checkpoint \"$PWD/weights\"" ]
	rm all.conf
	make -s all.conf TOKENIZER=t.model
	grep -v '^mock-data\|^vocab-size' small.conf >own.conf
	mtrain --config all.conf --config own.conf --save S --save-interval 20 --vocab-size 320 >log 2>err
	[ "$(cat S/latest_checkpointed_iteration.txt)" = 20 ]
	sed -n 's/.*lm loss: \([^ ]*\) .*/\1/p' log |
		awk 'NR == 1 { first = $1 } END { exit !($1 < first - 0.05) }'
}
