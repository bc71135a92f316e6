# generate.bats - text that follows prompts: logits of kept keys, lines of JSON, where texts end

bats_require_minimum_version 1.5.0

setup() {
	llama=$TOP/tests/golden/ckpt/llama
	cd "$BATS_TEST_TMPDIR" || exit 1
	unset start
	start=(mtrain -q --model "$llama" --pretrained-checkpoint "$llama" --num-threads 1
		--tokenizer-type NullTokenizer --vocab-size 500 --seq-length 64)
}

# header SHAPE TYPE: of a .npy file
header() {
	printf '\223NUMPY\001\000\166\000%-117s\n' \
		"{'descr': '<$2', 'fortran_order': False, 'shape': ($1), }"
}

# tokens ID...: tokens.npy, of ids below 256
tokens() {
	header $#, i4 >tokens.npy
	for id; do
		# shellcheck disable=SC2059 # the format is the byte
		printf "\\$(printf %03o "$id")\\000\\000\\000" >>tokens.npy
	done
}

# same MODEL VOCABULARY TOLERANCE OPTION...: what chose each token is what a pass over the whole
# text gives there
same() {
	local model=$1 v=$2 tolerance=$3 all n=6 type=f4 bytes=4
	shift 3
	case " $* " in *" --fp64 "*) type=f8 bytes=8 ;; esac
	start=(mtrain -q --model "$model" --pretrained-checkpoint "$model" --num-threads 1
		--tokenizer-type NullTokenizer --vocab-size "$v" --seq-length 32 "$@")
	echo '{"input_ids": [5, 7, 11, 3, 9, 20, 44]}' >prompt
	"${start[@]}" --prompts prompt --generate $n --logits-file kept.npy >line
	all="5 7 11 3 9 20 44 $(sed 's/.*"tokens": \[\([^]]*\)\].*/\1/; s/,//g' line)"
	# shellcheck disable=SC2086 # a list
	tokens ${all% *}
	"${start[@]}" --tokens-file tokens.npy --logits-file whole.npy
	{ header "$n, $v" $type && tail -c $((n * v * bytes)) whole.npy; } >rows.npy
	"$B/tests/tools/npydiff" kept.npy rows.npy "$tolerance"
}

@test "kept keys give the logits of a pass over the whole text: every family" {
	for model in "$TOP"/tests/golden/families/*; do
		v=$(sed -n 's/.*"vocab_size": \([0-9]*\).*/\1/p' "$model/config.json")
		same "$model" "$v" 1e-5
	done
	for model in mixtral qwen3_moe; do
		same "$TOP/tests/golden/ckpt/$model" 83 1e-5
	done
	same "$TOP/tests/golden/families/gemma" 91 1e-12 --fp64
}

@test "lines of JSON, in the order of the prompts, whatever the batch; wrong lines are told" {
	cat >prompts <<-'END'
	{"input_ids": [5, 7, 11, 3, 9, 20, 44], "id": "a \u00e9"}
	{"input_ids": [8], "max_tokens": 3}

	{"prompt": "1 2 3 4 5 6 7 8 9 10 11 12", "id": 7, "seed": 3}
	{"prompt": 3}
	{"input_ids": [499, 500]}
	{"prompt": "1", "promt": "2"}
	{"prompt": "1", "input_ids": [2]}
	{"prompt": "1", "max_tokens": 0}
	[1]
	{"prompt": "1", "id": null}
	END
	printf '{"input_ids": [%s 1]}\n' "$(printf '1,%.0s' $(seq 63))" >>prompts
	run -1 --separate-stderr "${start[@]}" --fp64 --generate 5 --prompts prompts
	[ -z "$stderr" ]
	echo "$output" >batch
	[ "$(sed -n 1p batch)" = '{"id": "a é", "prompt": "5 7 11 3 9 20 44", "text": " 350 5 263 377 129", "tokens": [350, 5, 263, 377, 129], "finish": "length", "logprob": -18.8584}' ]
	[[ $(sed -n 2p batch) == '{"id": 1, "prompt": "8", "text": " 70 414 337", "tokens": [70, 414, 337], "finish": "length", '* ]]
	[[ $(sed -n 3p batch) == '{"id": 7, "prompt": "1 2 3 4 5 6 7 8 9 10 11 12", '* ]]
	tail -n +4 batch | diff - <(cat <<-'END'
	{"id": 3, "error": "line 5: prompt: must be a string"}
	{"id": 4, "error": "line 6: id 500 is outside the vocabulary of 500"}
	{"id": 5, "error": "line 7: 'promt': is no member of a prompt: prompt, input_ids, id, max_tokens, seed"}
	{"id": 6, "error": "line 8: needs one of \"prompt\" and \"input_ids\""}
	{"id": 7, "error": "line 9: max_tokens: must be from 1 to 1073741824"}
	{"id": 8, "error": "line 10: must be an object"}
	{"id": 9, "error": "line 11: id: must be a string or a whole number"}
	{"id": 10, "error": "line 12: 64 tokens: must be fewer than --seq-length 64"}
	END
	)
	for way in "--generate-batch-size 1" "--generate-batch-size 2" --no-kv-cache; do
		# shellcheck disable=SC2086 # options
		run -1 "${start[@]}" --fp64 --generate 5 --prompts - $way <prompts
		diff batch <(echo "$output")
	done
}

@test "draws depend on seed, prompt and position alone" {
	printf '{"input_ids": [5, 7, 11]}\n{"input_ids": [5, 7, 11]}\n' >two
	sample=("${start[@]}" --fp64 --generate 6 --temperature 1.5)
	"${sample[@]}" --prompts two >plain
	[ "$(sed 's/"id": .,//' plain | sort -u | wc -l)" = 2 ]
	"${sample[@]}" --prompts two --generate-batch-size 1 | cmp - plain
	"${sample[@]}" --prompts two --no-kv-cache | cmp - plain
	head -n 1 two | "${sample[@]}" --prompts - --generate 9 >longer
	[[ $(cat longer) == "$(sed -n '1s/\(.*"text": "[^"]*\)".*/\1/p' plain)"* ]]
	"${sample[@]}" --prompts two --top-k 1 >likeliest
	"${start[@]}" --fp64 --generate 6 --prompts two | cmp - likeliest
	! "${sample[@]}" --prompts two --seed 5 | cmp - plain
}

@test "texts end at stop tokens and before stop texts" {
	echo '{"input_ids": [5, 7, 11, 3, 9, 20, 44]}' >prompt
	ends() {
		"${start[@]}" --fp64 --generate 5 --prompts prompt "$@" |
			sed 's/.*"text": \(.*\), "logprob.*/\1/'
	}
	[ "$(ends)" = '" 350 5 263 377 129", "tokens": [350, 5, 263, 377, 129], "finish": "length"' ]
	[ "$(ends --stop-token-ids 9 263)" = '" 350 5", "tokens": [350, 5], "finish": "stop"' ]
	[ "$(ends --seq-length 9)" = '" 350 5", "tokens": [350, 5], "finish": "length"' ]
	# texts of letters, of a tokenizer with fewer ids than the model
	yes '{"text": "the quick brown fox jumps over the lazy dog"}' | head -n 20 >text
	mtok train -q --model-type bpe --vocab-size 290 --soft-vocab-limit --byte-fallback -o t.model text
	letters=("${start[@]:0:8}" --tokenizer-model t.model --seq-length 64 --vocab-size 500 --fp64
		--generate 30 --temperature 0.7 --seed 4 --prompts -)
	echo '{"prompt": "the"}' >prompt
	"${letters[@]}" <prompt >whole
	for stop in h_k S_ Gx; do
		"${letters[@]}" --stop never "$stop" <prompt >cut
		[[ $(cat cut) == *'"finish": "stop"'* ]]
		whole=$(sed 's/.*"text": "\(.*\)", "tokens.*/\1/' whole)
		cut=$(sed 's/.*"text": "\(.*\)", "tokens.*/\1/' cut)
		[ -n "$cut" ] && [ "$cut" = "${whole%%"$stop"*}" ] && [ "$cut" != "$whole" ]
	done
	"${letters[@]}" --seed 7 --stop ' ' <prompt >cut
	[[ $(cat cut) == *'"finish": "stop"'* && $(cat cut) != *'"text": "'*' '*'", "tokens'* ]]
}

@test "stops that cannot be are wrong usage; a byte order mark is none of the prompts" {
	stops() {
		run -2 "${start[@]}" --generate 5 --prompts /dev/null "${@:2}"
		[ "${lines[0]}" = "mtrain: $1" ]
	}
	stops "--stop: an empty text would end every text at once" --stop 1 ''
	stops "--stop-token-ids x: must be a whole number from 0 to 1e15" --stop-token-ids 1 x
	stops "--stop-token-ids 500: is outside the vocabulary of 500" --stop-token-ids 499 500
	printf '\xef\xbb\xbf{"input_ids": [8], "max_tokens": 1}\nx\n' >prompts
	run -1 "${start[@]}" --generate 5 --prompts prompts
	[[ ${lines[0]} == '{"id": 0, "prompt": "8", "text": " 70", '* ]]
	[[ ${lines[1]} == '{"id": 1, "error": "line 2: not valid JSON: '* ]]
}

@test "the prompt of a file, or of standard input, is printed with what follows" {
	printf '5 7 11 3 9 20 44\n\n' >prompt
	[ "$("${start[@]}" --fp64 --generate 2 --prompt-file prompt)" = "5 7 11 3 9 20 44 350 5" ]
	[ "$("${start[@]}" --fp64 --generate 2 --prompt-file - <prompt)" = "5 7 11 3 9 20 44 350 5" ]
	run -1 "${start[@]}" --generate 2 --prompt-file none
	[ "$output" = "mtrain: cannot open 'none': No such file or directory" ]
	run -1 "${start[@]}" --generate 2 --prompt-file prompt --seq-length 7
	[ "$output" = "mtrain: --prompt-file: 7 tokens: must be fewer than --seq-length 7" ]
	run -2 "${start[@]}" --generate 2 --prompt-file prompt --prompts prompt
	[ "$output" = "mtrain: --prompts and --prompt-file exclude each other: give one of them" ]
	"${start[@]}" --generate 2 --prompts - </dev/null >empty
	[ ! -s empty ]
}

@test "a plan has room for the keys and values, of the prompts that can be read" {
	bytes() {
		"${start[@]}" --generate 4 --dry-run "$@" | awk -F '\t' 'NR == 2 { print $6 }'
	}
	echo '{"input_ids": [5, 7, 11, 3]}' >short
	kept=$(bytes --prompts short)
	computed=$(bytes --prompts short --no-kv-cache)
	# 4 layers, 8 positions, keys and values of 4 groups of 8, in fp32
	[ $((kept - computed)) -ge $((4 * 8 * 2 * 4 * 8 * 4)) ]
	[ "$(bytes --prompts -)" -gt "$kept" ]
}
