# tasks.bats - --eval-tasks: what is refused, with its line, and what the options change

bats_require_minimum_version 1.5.0

setup() {
	llama=$TOP/tests/golden/ckpt/llama golden=$TOP/tests/golden/tasks
	cd "$BATS_TEST_TMPDIR" || exit 1
	start=(mtrain -q --model "$llama" --pretrained-checkpoint "$llama" --num-threads 1
		--tokenizer-type HuggingFaceTokenizer --tokenizer-model "$golden" --seq-length 64
		--skip-train --eval-tasks lines)
	tasks=("${start[@]}" --eval-tasks-output answers)
}

# pair CONTEXT CONTINUATION: a line
pair() {
	printf '{"task": "t", "id": 0, "type": "loglikelihood", "context": "%s", "continuation": "%s"}\n' \
		"$1" "$2"
}

# refused MESSAGE: the lines are, before anything is computed
refused() {
	run -1 --separate-stderr "${tasks[@]}" "${@:2}"
	[ -z "$output" ]
	[ "$stderr" = "mtrain: $1" ]
	[ ! -e answers ]
}

@test "a wrong line ends the run with file and line" {
	pair a b >lines
	echo '{"task": "t", "id": 1, "type": "multiple_choice", "context": "a", "continuations": ["b", "c"], "choices": ["b", "c"], "gold": 2}' >>lines
	refused "lines:2: type multiple_choice: the lines of task t before it have another"
	sed -i '2s/"t"/"u"/' lines
	refused "lines:2: gold: must be the number of a choice, from 0 to 1"
	pair a '' >lines
	refused "lines:1: continuation: gives no token of its own"
	pair '' '' >lines
	refused "lines:1: continuation: gives no token of its own"
	pair a "$(printf 'x y %.0s' $(seq 10))" >lines
	refused "lines:1: continuation: 31 tokens: must be at most the 8 that the model can read (--eval-max-length)" \
		--eval-max-length 8
	pair "$(printf 'x y %.0s' $(seq 40))" b >lines
	refused "lines:1: a request of 122 tokens: must be at most --seq-length 64, or give --eval-max-length to cut it"
	echo '{"task": "r", "id": 0, "type": "loglikelihood_rolling", "text": ""}' >lines
	refused "--eval-tasks: task r: its texts have no byte, by which its perplexities are divided"
	printf 'x\n' >lines
	run -1 --separate-stderr "${tasks[@]}"
	[[ $stderr == "mtrain: lines:1: not valid JSON: "* ]]
	: >lines
	refused "--eval-tasks: the files have no line"
}

@test "what does not go with tasks is wrong usage" {
	pair a b >lines
	run -2 --separate-stderr "${tasks[@]}" --eval-tasks no
	[ "${stderr_lines[0]}" = "mtrain: --eval-tasks no: no such file" ]
	run -2 --separate-stderr "${tasks[@]}" --generate 3
	[ "${stderr_lines[0]}" = "mtrain: --eval-tasks and --generate exclude each other" ]
	run -2 --separate-stderr mtrain -q --model "$llama" --pretrained-checkpoint "$llama" \
		--vocab-size 500 --seq-length 64 --skip-train --eval-tasks lines
	[ "${stderr_lines[0]}" = "mtrain: --eval-tasks: needs a tokenizer (--tokenizer-model F, or --vocab-file F --merge-file F)" ]
	run -1 --separate-stderr "${start[@]}" --eval-tasks-output /dev/null/x
	[[ $stderr == "mtrain: --eval-tasks-output: "*"/dev/null/x"* ]]
}

@test "ids in place of texts, by weights that nobody has trained" {
	pair '5 7 11' ' 3 9' >lines
	ids=(mtrain --model "$llama" --num-threads 1 --tokenizer-type NullTokenizer --vocab-size 500
		--seq-length 64 --skip-train --eval-tasks lines)
	run -0 --separate-stderr "${ids[@]}"
	[[ $output == *" task t at iteration 0 | samples: 1 | acc: 0.0000 | perplexity: "* ]]
	[[ $stderr == *"mtrain: the weights are random: neither --load nor --pretrained-checkpoint names others"* ]]
	run -0 --separate-stderr "${ids[@]}" --pretrained-checkpoint "$llama"
	[[ $stderr != *random* ]]
	pair '' x >lines
	run -1 "${ids[@]}" -q
	[ "$output" = "mtrain: lines:1: 'x' at byte 1 of the text: must be an id below 500" ]
}

# lls: of the last run
lls() {
	sed 's/.*"lls": \[\([^]]*\)\].*/\1/' answers
}

@test "the beginning of text, the length that is read, and several files" {
	{ printf '\xef\xbb\xbf' && pair 'the river' ' of stone'; } >lines
	run -0 "${tasks[@]}"
	[[ $output == *" task t at iteration 0 | samples: 1 | acc: 0.0000 | perplexity: "* ]]
	auto=$(lls)
	"${tasks[@]}" --eval-add-bos yes >log
	[ "$(lls)" = "$auto" ]
	"${tasks[@]}" --eval-add-bos no >log
	without=$(lls)
	[ "$without" != "$auto" ]
	# a text that begins with it has it once
	pair '<s>the river' ' of stone' >lines
	"${tasks[@]}" >log
	[ "$(lls)" = "$auto" ]
	# what is cut off changes nothing
	pair 'another world: the river' ' of stone' >long
	"${tasks[@]}" --eval-tasks long --eval-max-length 4 >log
	cut=$(lls)
	"${tasks[@]}" --eval-tasks long lines --eval-max-length 4 >log
	[ "$(lls | head -n 1)" = "$cut" ]
	[ "$(wc -l <answers)" = 2 ]
}
