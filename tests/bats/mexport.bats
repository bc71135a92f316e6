# mexport: bit-identical tensors, equivalent config.json, tokenizer files, every refusal with its
# line

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	hf=$TOP/tests/golden/ckpt
	make_checkpoint=$B/tests/unit/reshard
}

@test "import and export give the same file back" {
	for family in llama gpt2 mixtral qwen3_moe; do
		mckpt import "$hf/$family" ck-$family
		mexport -q ck-$family out-$family
		cmp out-$family/model.safetensors "$hf/$family/model.safetensors"
		mckpt reshard ck-$family split-$family --tensor-model-parallel-size 4 \
			--pipeline-model-parallel-size 2 --data-parallel-size 2
		mexport -q split-$family out-split-$family
		diff -r out-$family out-split-$family
		mckpt import out-$family again-$family
		mckpt diff ck-$family again-$family >diff
	done
	[ "$(ls out-llama)" = "$(printf 'config.json\ngeneration_config.json\nmodel.safetensors')" ]
}

@test "experts of a layer in one tensor are those of each" {
	mckpt import "$hf/stacked" ck
	mexport -q ck out
	cmp out/model.safetensors "$hf/qwen3_moe/model.safetensors"
	mckpt diff "$hf/stacked" "$hf/qwen3_moe" >diff
}

@test "config.json says the same" {
	for family in llama gpt2; do
		mckpt import "$hf/$family" ck-$family
		mexport -q ck-$family out-$family
		for f in config generation_config; do
			"$B/tests/tools/jsontool" covers "$hf/$family/$f.json" out-$family/$f.json n_ctx
		done
	done
}

@test "several ends of text survive import, training and export" {
	cp -r "$hf/llama" hf
	sed -i 's/"eos_token_id": 2,/"eos_token_id": [2, 7, 9],/' hf/config.json
	mckpt import hf ck
	mtrain -q --pretrained-checkpoint ck --mock-data --train-iters 1 --lr 1e-4 --seq-length 8 \
		--eval-iters 0 --save run >/dev/null
	for from in ck run; do
		mexport -q $from out-$from
		tr -d ' \n' <out-$from/config.json | grep -q '"eos_token_id":\[2,7,9\],"pad_token_id":null'
		[ "$(tr -d ' \n' <out-$from/generation_config.json)" = '{"_from_model_config":true,"bos_token_id":1,"eos_token_id":[2,7,9]}' ]
	done
	mckpt import out-run again
	mckpt info again | grep -q "^eos_token_id	2 7 9$"
}

@test "GPT-2's dropouts stay two" {
	cp -r "$hf/gpt2" hf
	sed -i 's/"embd_pdrop": 0.0/"embd_pdrop": 0.25/; s/"resid_pdrop": 0.0/"resid_pdrop": 0.125/' hf/config.json
	mckpt import hf ck
	tiny="--mock-data --train-iters 1 --lr 1e-4 --seq-length 8 --eval-iters 0"
	mtrain -q --pretrained-checkpoint ck $tiny --save run --metrics-file both >/dev/null
	for from in ck run; do
		mexport -q $from out-$from
		grep -q '"embd_pdrop": 0.25' out-$from/config.json
		grep -q '"resid_pdrop": 0.125' out-$from/config.json
	done
	# Both are used in training; --hidden-dropout alone sets both, as in Megatron-LM.
	loss() { mtrain -q --pretrained-checkpoint ck $tiny --metrics-file log "$@" >/dev/null && sed 's/.*"lm_loss": \([^,]*\).*/\1/' log; }
	[ "$(loss)" = "$(loss --embedding-dropout 0.25 --hidden-dropout 0.125)" ]
	[ "$(loss)" != "$(loss --hidden-dropout 0.125)" ]
	[ "$(loss --hidden-dropout 0.125)" = "$(loss --hidden-dropout 0.125 --embedding-dropout 0.125)" ]
}

@test "a Hugging Face directory is a source of exports and of runs, whose masters are not rounded" {
	mexport -q "$hf/gpt2" out
	mckpt diff out "$hf/gpt2" >diff
	"$make_checkpoint" a 131
	mexport -q --dtype fp32 a hf32
	mtrain -q --pretrained-checkpoint hf32 --bf16 --mock-data --train-iters 1 --lr 0 --min-lr 0 \
		--weight-decay 0 --seq-length 8 --eval-iters 0 --save run >/dev/null
	mckpt diff --only '*weight' run a >diff
}

@test "without a tokenizer there is a note" {
	mckpt import "$hf/llama" ck
	fails 0 "mexport: no tokenizer files are written; to add them: mexport --force --tokenizer-model FILE ck out \
(or --vocab-file and --merge-file)" mexport ck out
}

@test "the run's own tokenizer is found by path and hash, and bos is as in the training" {
	seq -f '{"text": "the cat sat on mat %g"}' 300 >t.jsonl
	mtok train -q --vocab-size 300 --soft-vocab-limit -o t.model t.jsonl
	mtok train -q --vocab-size 290 --soft-vocab-limit -o other.model t.jsonl
	options="--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 300
		--global-batch-size 2 --lr 1e-3 --eval-iters 0 --num-threads 1 --position-embedding-type rope
		--normalization RMSNorm --norm-epsilon 1e-5 --swiglu --disable-bias-linear --train-iters 1"
	for bos in '' --prepend-bos; do
		mtok -q -o d$bos $bos --append-eod --tokenizer-model t.model t.jsonl
		mtrain -q $options --data-path d${bos}_text_document --tokenizer-model t.model --save run$bos >/dev/null
	done
	fails 0 "mexport: the tokenizer is the run's: t.model" mexport run out
	cmp t.model out/tokenizer.model
	grep -qx '  "add_bos_token": false,' out/tokenizer_config.json
	grep -q '"post_processor":null' out/tokenizer.json
	mexport -q --force run--prepend-bos out
	grep -qx '  "add_bos_token": true,' out/tokenizer_config.json
	grep -q '"post_processor":{"type":"TemplateProcessing"' out/tokenizer.json
	fails 0 "mexport: --add-bos-token false: documents of the training began with bos" mexport --force --add-bos-token false --tokenizer-model t.model run--prepend-bos out
	grep -qx '  "add_bos_token": false,' out/tokenizer_config.json
	fails 1 "mexport: --add-bos-token: is for a SentencePiece model: other tokenizers say it themselves" \
		mexport --force --add-bos-token true --vocab-file v.json --merge-file m.txt run out
	# the notes of datasets that mshard makes say it, too
	mshard cat -q -o both d_text_document d_text_document
	grep -qx '  "bos_id": -1,' both.json
	mshard cat -q -o both --force d_text_document d--prepend-bos_text_document
	[ "$(grep -c bos_id both.json)" = 0 ]
	mv other.model t.model
	run --separate-stderr mexport --force run out
	[ "$status" = 0 ]
	[[ ${stderr_lines[0]} == "mexport: the run's tokenizer: 't.model' is another tokenizer (hash "* ]]
	[[ ${stderr_lines[1]} == "mexport: no tokenizer files are written; to add them: mexport --force"* ]]
	rm t.model
	run --separate-stderr mexport --force run out
	[ "${stderr_lines[0]}" = "mexport: the run's tokenizer: cannot open 't.model': No such file or directory" ]
	[ ! -e out/tokenizer.json ]
}

@test "what lies beside the weights that a run began with is in its export, and a change is a note" {
	seq -f '{"text": "the cat sat on mat %g"}' 300 >t.jsonl
	mtok train -q --model-type bpe --vocab-size 400 --byte-fallback -o t.model t.jsonl
	mexport -q --tokenizer-model t.model "$hf/llama" hf
	echo '{"temperature": 0.6}' >hf/generation_config.json
	mkdir hf/additional_chat_templates
	for f in chat_template.jinja additional_chat_templates/tools.jinja; do echo "$f" >"hf/$f"; done
	cp -r hf was
	# same DIR: has the files of the beginning
	same()
	{
		for f in tokenizer.json tokenizer_config.json tokenizer.model chat_template.jinja \
			additional_chat_templates/tools.jinja; do cmp "was/$f" "$1/$f" || return 1; done
		grep -q '"temperature": 0.6' "$1/generation_config.json"
	}
	# by mckpt import, a run of the checkpoint's weights, and one that resumes
	mckpt import hf ck
	train="mtrain -q --model hf --mock-data --seq-length 8 --micro-batch-size 1 --global-batch-size 1
		--lr 1e-3 --eval-iters 0 --num-threads 1"
	$train --pretrained-checkpoint ck --train-iters 1 --save run >log
	$train --load run --save run --train-iters 2 --override-opt_param-scheduler >log
	mckpt reshard run/iter_0000002 again
	for from in hf ck run again; do
		mexport "$from" out-$from 2>said
		grep -qx "mexport: the tokenizer is that of the model that the run began with: $PWD/hf/tokenizer.json" said
		[ "$(wc -l <said)" = 1 ] || [ "$(sed -n '/rows, .* more than the tokenizer has/p' said | wc -l)" = 1 ]
		same out-$from
	done
	run mexport -q --check run out-run
	expect 0 "out-run: ok: 39 tensors in 1 files"
	# a tokenizer.json that lies alone is completed, one that is another is not
	mkdir alone
	cp hf/tokenizer.json alone
	mexport -q --tokenizer-model alone run out-alone
	for f in tokenizer.model chat_template.jinja; do cmp "was/$f" "out-alone/$f"; done
	sed 's/"version"/ "version"/' hf/tokenizer.json >alone/tokenizer.json
	mexport -q --force --tokenizer-model alone run out-alone
	[ ! -e out-alone/chat_template.jinja ]
	grep -q '"temperature": 0.6' out-alone/generation_config.json
	# what has changed, is gone, or is not here at all
	echo changed >hf/chat_template.jinja
	rm hf/tokenizer.model
	mexport --force run out-run 2>said
	grep -qx "mexport: $PWD/hf/chat_template.jinja: has changed since the run began with that model" said
	grep -qx "mexport: of the model that the run began with: cannot open '$PWD/hf/tokenizer.model': No such file or directory" said
	echo ' ' >>hf/tokenizer.json
	mexport --force run out-run 2>said
	grep -qx "mexport: $PWD/hf/tokenizer.json: has changed since the run began with that model: it is not taken" said
	grep -q "mexport: no tokenizer files are written; to add them: " said
	[ ! -e out-run/tokenizer.json ]
	rm -r hf
	mexport --force run out-run 2>said
	grep -qx "mexport: '$PWD/hf', whose model the run began with, is not here: its tokenizer, templates and generation_config.json are not taken" said
	[ "$(tr -d ' \n' <out-run/generation_config.json)" != "" ]
}

@test "shards: limit, index, a large tensor alone" {
	mckpt import "$hf/llama" ck
	mexport -q --max-shard-size 70000 ck out
	[ -z "$(find out -name 'model-*.safetensors' -size +71k)" ]
	grep -q '"total_parameters": 248896' out/model.safetensors.index.json
	grep -q '"total_size": 497792' out/model.safetensors.index.json
	mckpt verify out
	mckpt diff out "$hf/llama" >diff
	mexport -q --max-shard-size 1 ck each
	[ "$(find each -name 'model-*.safetensors' | wc -l)" = 39 ]
	mckpt diff each "$hf/llama" >diff
}

@test "dtype: the run's by default, others on request, overflow is counted" {
	"$make_checkpoint" a 131
	mexport -q a out
	grep -q '"dtype": "bfloat16"' out/config.json
	[ "$(mckpt diff out out | cut -f 3 | sort -u | tr '\n' ' ')" = "BF16 dtype_a " ]
	mexport -q --dtype fp32 a out32
	grep -q '"torch_dtype": "float32"' out32/config.json
	mckpt import out32 back
	mckpt reshard --no-optim a weights
	mckpt diff weights back >diff
	mckpt import --dtype bf16 out32 rounded
	mexport -q rounded out-rounded
	mckpt diff out out-rounded >diff
	"$make_checkpoint" large 131 large
	fails 0 "mexport: 1 numbers are too large for fp16 and became infinite; bf16 would hold them" mexport -q --dtype fp16 large out16
	fails 1 "mckpt: out16: tensor 'decoder.final_layernorm.weight': 1 of 16 elements are not finite" mckpt verify out16
}

@test "GPT-2's vocab.json and merges.txt" {
	mckpt import "$hf/gpt2" ck
	printf '{"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}' >v.json
	printf '#version: 0.2\na b\n' >m.txt
	fails 0 "mexport: the model's vocabulary has 500 rows, 496 more than the tokenizer has tokens" \
		mexport --vocab-file v.json --merge-file m.txt ck out
	cmp v.json out/vocab.json
	cmp m.txt out/merges.txt
	grep -q '"merges":\["a b"\]' out/tokenizer.json
	grep -q '"tokenizer_class": "PreTrainedTokenizerFast"' out/tokenizer_config.json
	grep -q '"eos_token": "<|endoftext|>"' out/special_tokens_map.json
}

@test "a tokenizer.json and its configs are copied" {
	mckpt import "$hf/gpt2" ck
	mkdir tok
	cp "$TOP/tests/fuzz/corpus/tokenizer_json/bytes" tok/tokenizer.json
	fails 0 "mexport: the model's vocabulary has 500 rows, 239 more than the tokenizer has tokens" \
		mexport --tokenizer-model tok/tokenizer.json ck out
	cmp tok/tokenizer.json out/tokenizer.json
	grep -q '"add_bos_token": true' out/tokenizer_config.json
	grep -q '"bos_token": "<s>"' out/special_tokens_map.json
	echo '{"eos_token": "<x>", "chat_template": "none"}' >tok/tokenizer_config.json
	echo '{"eos_token": "<x>"}' >tok/special_tokens_map.json
	mexport -q --tokenizer-model tok ck again
	for f in tokenizer.json tokenizer_config.json special_tokens_map.json; do cmp "tok/$f" "again/$f"; done
	[ ! -e again/tokenizer.model ]
	mkdir tok/additional_chat_templates
	echo '{"<x>": 260}' >tok/added_tokens.json
	for f in chat_template.jinja tokenizer.model vocab.json merges.txt additional_chat_templates/tools.jinja; do
		echo "$f" >"tok/$f"
	done
	echo '{"temperature": 0.6, "eos_token_id": [499, 7], "stop": ["\u00e9", {"a": null}]}' \
		>tok/generation_config.json
	fails 0 "$(printf 'mexport: %s\n' \
		"the model's vocabulary has 500 rows, 239 more than the tokenizer has tokens" \
		"generation_config.json: \"eos_token_id\": [499, 7] -> 0, as in the model")" \
		mexport --force --tokenizer-model tok ck again
	for f in chat_template.jinja added_tokens.json tokenizer.model vocab.json merges.txt \
		additional_chat_templates/tools.jinja; do cmp "tok/$f" "again/$f"; done
	[ "$(tr -d ' \n' <again/generation_config.json)" = '{"temperature":0.6,"stop":["é",{"a":null}],"bos_token_id":0,"eos_token_id":0}' ]
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 499723\n' >tok/tokenizer.model
	fails 1 "mexport: tok/tokenizer.model: is a Git LFS pointer to a file of 499723 bytes, not that file: git lfs pull fetches it" \
		mexport -q --tokenizer-model tok ck no
	rm -r tok/additional_chat_templates tok/generation_config.json tok/tokenizer.model
	mexport -q --force --tokenizer-model tok ck again
	[ ! -e again/additional_chat_templates ]
	echo '{' >tok/tokenizer.json
	run mexport --tokenizer-model tok ck no
	[ "$status" = 1 ]
	[[ $output == "mexport: tok/tokenizer.json: not valid JSON: "* ]]
	[ ! -e no ]
}

@test "a tokenizer that does not fit or does not parse" {
	mckpt import "$hf/gpt2" ck
	awk 'BEGIN { printf "{"; for (i = 0; i < 501; i++) printf "%s\"t%d\": %d", i ? ", " : "", i, i; print "}" }' >v.json
	echo 't1 t2' >m.txt
	fails 1 "mexport: the tokenizer has 501 tokens, but the model's vocabulary has only 500 rows" \
		mexport --vocab-file v.json --merge-file m.txt ck out
	echo 't1  t2' >m.txt
	fails 1 "mexport: m.txt:1: not two symbols separated by one blank" \
		mexport --vocab-file v.json --merge-file m.txt ck out
	head -c 100 /dev/zero >t.model
	fails 1 "mexport: t.model: not a SentencePiece model: the protobuf message is broken at byte 0" mexport --tokenizer-model t.model ck out
	fails 1 "mexport: cannot open 'none.model': No such file or directory" \
		mexport --tokenizer-model none.model ck out
	[ ! -e out ]
}

@test "heads that take turns in a tensor come back, for one tensor rank and for two" {
	mtrain -q --mock-data --vocab-size 90 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 \
		--global-batch-size 2 --train-iters 1 --eval-iters 0 --lr 1e-3 --num-threads 1 --position-embedding-type rope \
		--rotary-percent 0.5 --use-parallel-residual --untie-embeddings-and-output-weights --no-save-optim --save ck
	mckpt reshard -q ck two --tensor-model-parallel-size 2
	for from in ck two; do
		mexport -q --arch gpt_neox "$from" "$from.hf"
		mckpt import -q "$from.hf" "$from.back"
		mckpt diff "$from" "$from.back"
	done
}

@test "refusals: family, missing tensors, existing target" {
	mckpt import "$hf/gpt2" ck
	fails 1 "mexport: ck/iter_0000000: cannot be exported as llama: llama has 'normalization RMSNorm', not 'normalization LayerNorm'" mexport --arch llama ck out
	known=$(sed -n '/^.Ss Families/,/^.El/s/^.It Sy //p' "$TOP/man/mexport.1" | paste -sd , | sed 's/,/, /g')
	documented=$(sed -n '/^| .model_type. | models/,/^$/s/^| `\([a-z0-9_]*\)` .*/\1/p' "$TOP/docs/MODELS.md" | sed 1d)
	[ "$(echo "$documented" | paste -sd , | sed 's/,/, /g')" = "$known" ]
	fails 1 "mexport: --arch bert: must be one of $known" mexport --arch bert ck out
	"$make_checkpoint" a 131 missing
	fails 1 "mexport: a/iter_0000007: tensor 'embedding.word_embeddings.weight' is missing (and 2 more; mckpt verify lists them)" \
		mexport a out
	"$make_checkpoint" b 131 shape
	fails 1 "mexport: b/iter_0000007: tensor 'embedding.word_embeddings.weight' has shape [130, 16], the model needs [131, 16] (and 2 more; mckpt verify lists them)" \
		mexport b out
	[ -z "$(ls -d out* 2>/dev/null)" ]
	mexport -q ck out
	touch out/model-00001-of-00002.safetensors
	fails 1 "mexport: 'out' exists; --force replaces a Hugging Face directory" mexport ck out
	mexport -q --force ck out/
	[ ! -e out/model-00001-of-00002.safetensors ]
	[ -z "$(ls -d out.* .out* out/*tmp* out/lock 2>/dev/null)" ]
	fails 1 "mexport: cannot open 'nowhere': No such file or directory" mexport nowhere out2
	fails 1 "mexport: cannot open 'owner/model': no such file or directory; nothing is downloaded from a hub: \
give a directory with its weights" mexport owner/model out2
}

@test "--force removes an export, and nothing else" {
	mckpt import -q "$hf/llama" ck
	cp "$hf/llama/config.json" ck
	for force in "" --force; do
		fails 1 "mexport: 'ck' is what is exported: it is not replaced" mexport $force ck ck
	done
	mv ck/latest* .
	fails 1 "mexport: 'ck/iter_0000000' is nothing that this program writes: 'ck' is not replaced" \
		mexport --force ck/iter_0000000 ck
	mv latest* ck
	cp -r ck other
	rm -r other/iter_0000000
	fails 1 "mexport: 'other/latest_checkpointed_iteration.txt' is nothing that this program writes: 'other' is not replaced" \
		mexport --force ck other
	rm other/latest*
	mkdir other/.git
	fails 1 "mexport: 'other/.git' is nothing that this program writes: 'other' is not replaced" mexport --force ck other
	rmdir other/.git
	mexport -q --force ck other
	mv other/model.safetensors weights
	ln -s ../weights other/model.safetensors
	fails 1 "mexport: 'other/model.safetensors' is a symbolic link: 'other' is not replaced" mexport --force ck other
	echo mine >file
	fails 1 "mexport: 'file' exists and is not a directory" mexport --force ck file
	[ "$(cat file)" = mine ]
	mckpt verify -q ck
}

@test "a link to a directory is followed, an empty directory is filled" {
	mckpt import -q "$hf/llama" ck
	mexport -q ck want
	mkdir -m 700 empty private
	for force in "" --force; do
		mexport -q $force ck empty
		diff -r want empty
		[ "$(stat -c %a empty)" = 700 ]
		rm empty/*
	done
	ln -s private link
	for force in "" --force; do
		mexport $force ck link/ 2>err
		grep -qx "mexport: 'link' is a symbolic link: '$PWD/private' is written" err
		[ -L link ] && diff -r want private
		[ "$(stat -c %a private)" = 700 ]
	done
	ln -s nowhere dangling
	fails 1 "mexport: 'dangling' is a symbolic link to nothing" mexport --force ck dangling
	[ -z "$(find . -name '*.tmp' -o -name '*lock')" ]
}

@test "a directory that cannot be renamed is filled" {
	unshare -rm true 2>/dev/null || skip "no name space of mounts"
	mckpt import -q "$hf/llama" ck
	mexport -q ck want
	mkdir disk
	# shellcheck disable=SC2016 # the inner shell expands it
	unshare -rm sh -ec '
		mount -t tmpfs none disk
		mexport -q ck disk
		diff -r want disk
		mkdir disk/additional_chat_templates
		touch disk/model-00001-of-00002.safetensors disk/additional_chat_templates/a.jinja
		mexport -q --force ck disk
		diff -r want disk
		[ -z "$(ls -A disk | grep "^[.]")" ]'
}

@test "--check finds what is wrong with an export, in its weights, texts and tokenizer" {
	seq -f '{"text": "the cat sat on mat %g"}' 300 >t.jsonl
	for n in 400 390; do
		mtok train -q --model-type bpe --vocab-size $n --byte-fallback -o $n.model t.jsonl
	done
	mckpt import "$hf/llama" ck
	mexport -q --tokenizer-model 400.model ck tok
	rm tok/model.safetensors
	echo '{{ messages }}' >tok/chat_template.jinja
	mexport -q --tokenizer-model tok --max-shard-size 70000 ck hf
	run --separate-stderr mexport -q --check --tokenizer-model tok ck hf
	expect 0 "hf: ok: 39 tensors in 8 files"
	for src in '' ck; do
		run --separate-stderr mexport -q --check $src hf
		expect 0 "hf: ok: 39 tensors in 8 files"
	done
	# found LINES FAULT...: what the check says of a copy in which FAULT has done its work
	found()
	{
		want=$1
		shift
		rm -rf bad
		cp -r hf bad
		(cd bad && "$@")
		fails 1 "$want" mexport -q --check --tokenizer-model tok ck bad
	}
	flip()
	{
		printf '\377' | dd of=model-00003-of-00008.safetensors bs=1 seek=20000 conv=notrunc status=none
	}
	found "mexport: bad: tensor 'model.layers.0.mlp.down_proj.weight': 1 of 11264 elements of \
'decoder.layers.0.mlp.linear_down.weight' differ" flip
	# A bit here and there in the weights is as many elements.
	rm -rf bad
	cp -r hf bad
	RANDOM=47 flipped=0
	for file in bad/model-*.safetensors; do
		size=$(stat -c %s "$file")
		for ((k = 0; k < 20 && 1500 * (k + 2) < size; k++)); do
			at=$((size - 1 - 1500 * k - RANDOM % 1400))
			byte=$(od -An -tu1 -N1 -j "$at" "$file")
			printf "\\$(printf %03o $((byte ^ 1 << RANDOM % 8)))" |
				dd of="$file" bs=1 seek="$at" conv=notrunc status=none
			flipped=$((flipped + 1))
		done
	done
	[ "$flipped" -ge 100 ]
	run --separate-stderr mexport -q --check --tokenizer-model tok ck bad
	[ "$status" = 1 ]
	[ "$(sed -n 's/.*: \([0-9]*\) of [0-9]* elements of .* differ$/\1/p' <<<"$stderr" |
		awk '{ n += $1 } END { print n }')" = "$flipped" ]
	# exchange TENSOR BYTES: the first two stretches of so many bytes of a tensor change places
	exchange()
	{
		local file header at
		file=$(grep -l "\"$1\"" model-*.safetensors)
		header=$(od -An -tu8 -N8 "$file" | tr -d ' ')
		at=$(head -c $((8 + header)) "$file" | tail -c "$header" |
			sed "s/.*\"$1\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/")
		dd if="$file" of=two bs=1 skip=$((8 + header + at)) count=$((2 * $2)) status=none
		{ tail -c "$2" two; head -c "$2" two; } |
			dd of="$file" bs=1 seek=$((8 + header + at)) conv=notrunc status=none
		rm two
	}
	# of heads of 8 rows of 64 numbers
	found "mexport: bad: tensor 'model.layers.1.self_attn.q_proj.weight': 916 of 4096 elements of \
'decoder.layers.1.self_attention.linear_q.weight' differ" exchange model.layers.1.self_attn.q_proj.weight 1024
	found "mexport: bad: 1 shard is missing: model-00003-of-00008.safetensors" \
		rm model-00003-of-00008.safetensors
	found "mexport: bad/model.safetensors.index.json: tensor 'model.norm.weight' is in \
model-00007-of-00008.safetensors, not in model-00001-of-00008.safetensors" \
		sed -i '/model.norm/s/-00007/-00001/' model.safetensors.index.json
	found "mexport: bad/config.json: \"eos_token_id\" is 3, must be 2
mexport: bad/config.json: eos is not the tokenizer's, 2" sed -i 's/"eos_token_id": 2/"eos_token_id": 3/' config.json
	found "mexport: bad/config.json: \"rms_norm_eps\" is 1e-06, must be 1e-05" \
		sed -i 's/1e-05/1e-06/' config.json
	found "mexport: bad/config.json: \"rope_theta\" is 10001.0, must be 10000.0" \
		sed -i '/^  "rope_theta"/s/10000/10001/' config.json
	found "mexport: bad/tokenizer.json: \"model\" is another one
mexport: bad/tokenizer.json: 2 of 400 ids are of other pieces, 259 first
mexport: bad/tokenizer.json: the text of all pieces has other ids
mexport: bad/tokenizer.json: 6 of 1000 texts have other ids, number 94 first" \
		sed -i 's/"at":259,"he":260/"at":260,"he":259/' tokenizer.json
	found "mexport: bad/tokenizer.json: \"model\" is another one
mexport: bad/tokenizer.json: 4 of 400 pieces have other ids, that of 259 first
mexport: bad/tokenizer.json: the text of all pieces has other ids
mexport: bad/tokenizer.json: 6 of 1000 texts have other ids, number 94 first" \
		sed -i 's/"merges":\["a t",/"merges":[/' tokenizer.json
	found "mexport: bad/chat_template.jinja: not UTF-8 at byte 0
mexport: bad/chat_template.jinja: differs from byte 0 on" \
		sh -c "printf '\377\n' >chat_template.jinja"
	# the tokenizer of another model; and without the run's own, what the directory itself says
	mexport -q --force --tokenizer-model 390.model ck other
	run --separate-stderr mexport -q --check --tokenizer-model 400.model ck other
	[ "$status" = 1 ]
	[[ $stderr == *"other/tokenizer.json: has 390 tokens, must have 400"* ]]
	cp other/tokenizer.json bad
	printf '\377\n' >bad/chat_template.jinja
	fails 1 "mexport: bad/chat_template.jinja: not UTF-8 at byte 0" mexport -q --check bad
	refused 2 "mexport: --check: not with --force: nothing is written" mexport --check --force ck hf
	refused 1 "mexport: 'ck' is no Hugging Face directory" mexport --check ck
}

@test "a second export waits, and is refused by the name of the first" {
	locks_are_seen
	mckpt import -q "$hf/llama" ck
	until [ -e out.lock ]; do # one that ends before it is stopped is started once more
		rm -rf out
		mexport -q ck out & first=$!
		until [ -e out.lock ] || [ -e out ]; do :; done
		kill -STOP $first
	done
	run -1 --separate-stderr mexport ck out
	[[ "${stderr_lines[-1]}" == "mexport: 'out.lock' is held by process $first of host "*", which is running" ]]
	kill -9 $first
	wait $first || true
	mexport ck out 2>err
	grep -q "^mexport: 'out.lock' is broken: it was held by process $first of host .*, which has ended" err
	[ ! -e out.lock ] && [ -e out/model.safetensors ]
}

@test "usage: 2, and nothing is written" {
	fails 2 "mexport: operands needed: SRC DST; 1 given" mexport a
	fails 2 "mexport: --max-shard-size 5 apples: not a size such as 50GB, 5GiB or 300000" \
		mexport --max-shard-size '5 apples' a b
	fails 2 "mexport: --vocab-file and --merge-file: both are needed" mexport --vocab-file v a b
	fails 2 "mexport: --tokenizer-model excludes --vocab-file and --merge-file: give one kind of tokenizer" \
		mexport --tokenizer-model t --vocab-file v a b
	fails 2 "mexport: --dtype fp8: must be one of auto, bf16, fp16, fp32" \
		mexport --dtype fp8 a b
	run mexport --help
	[ "$status" = 0 ] && [[ $output == "usage: mexport [options] SRC DST"* ]]
	run mexport --version
	[ "$status" = 0 ]
}

@test "a full disk leaves no files" {
	mckpt import "$hf/llama" ck
	run --separate-stderr bash -c 'ulimit -f 100; trap "" XFSZ; mexport -q ck out'
	[ "$status" = 1 ]
	[[ $stderr == "mexport: cannot "* ]]
	[ -z "$(ls -d out* 2>/dev/null)" ]
}

@test "the manual's option list is the tool's" {
	mexport --mdoc >want
	sed -n '/^\.\\" begin options/,/^\.\\" end options/p' "$TOP/man/mexport.1" |
		sed '1d;$d' >have
	diff -u have want
}
