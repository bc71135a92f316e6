# front: forms in which Hugging Face's models lie on disk, read alike by mckpt, mexport and mtrain,
# and those that are refused, each with its line

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	bin=$TOP/tests/golden/ckpt/bin
	cp -R "$bin/plain" plain
}

# same DIR LINE...: mckpt imports the weights of plain, with these lines; mexport writes the same
same()
{
	local dir=$1
	shift
	fails 0 "$(printf 'mckpt: %s\n' "$@")" mckpt import "$dir" ck
	mckpt diff ck plain >diff
	mexport -q "$dir" out
	cmp out/model.safetensors out-plain/model.safetensors
	rm -r ck out
}

@test "pytorch_model.bin: a view, a shared table and a buffer; shards and a stale index" {
	mexport -q plain out-plain
	same "$bin/one" \
		"$bin/one: not read: 1 tensors (0.0 MB) are buffers, which follow from config.json"
	same "$bin/sharded" "$bin/sharded: the index names 1 tensor that is in no file, such as 'model.layers.0.self_attn.rotary_emb.inv_freq'"
	mckpt verify "$bin/one" "$bin/sharded"
	cp -R "$bin/one" bad
	printf x | dd of=bad/pytorch_model.bin bs=1 seek=1900 conv=notrunc status=none
	fails 1 "$(printf 'mckpt: %s\n' \
		"bad: not read: 1 tensors (0.0 MB) are buffers, which follow from config.json" \
		"bad/pytorch_model.bin: record 'pytorch_model/data/0' does not match its CRC-32")" \
		mckpt import bad ck
}

@test "a hub's cache: its root, links, and which snapshot" {
	mexport -q plain out-plain
	mkdir -p cache/blobs cache/refs cache/snapshots/0123
	for f in config.json model.safetensors; do
		mv "plain/$f" "cache/blobs/$f"
		ln -s "../../blobs/$f" "cache/snapshots/0123/$f"
	done
	cp -R "$bin/plain/." plain
	mckpt import cache ck
	mckpt diff ck plain >diff
	mexport -q cache out
	cmp out/model.safetensors out-plain/model.safetensors
	mtrain -q --model cache --pretrained-checkpoint cache --num-threads 1 --mock-data \
		--seq-length 8 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 --lr 1e-3 --eval-iters 0
	cp -R cache/snapshots/0123 cache/snapshots/4567
	printf 4567 >cache/refs/main
	mckpt import cache second
	rm cache/refs/main
	run --separate-stderr mckpt import cache third
	[ "$status" = 1 ]
	[[ $stderr = "mckpt: cache: is the root of a hub's cache, whose refs/main names none of its snapshots; give one: "* ]]
	rm -r cache/snapshots/*
	fails 1 "mckpt: cache: is the root of a hub's cache without a snapshot" \
		mckpt import cache third
}

@test "directories of other forms are refused, each by its form, by every tool" {
	refuses() {
		local line=$2 dir=$1
		fails 1 "mckpt: $line" mckpt import "$dir" ck
		fails 1 "mexport: $line" mexport "$dir" out
		[ ! -e ck ] && [ ! -e out ]
	}
	cp -R plain lfs
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9976576152\n' \
		>lfs/model.safetensors
	refuses lfs "lfs/model.safetensors: is a Git LFS pointer to a file of 9976576152 bytes, not that file: git lfs pull fetches it"
	mkdir lora
	echo '{"peft_type": "LORA", "base_model_name_or_path": "x/y"}' >lora/adapter_config.json
	refuses lora "lora: is an adapter (LORA) of 'x/y', not a model: merge it into that model"
	cp -R plain variant
	mv variant/model.safetensors variant/model.fp16.safetensors
	refuses variant "variant: holds variants of the weights alone: fp16; rename the files of one, such as model.fp16.safetensors to model.safetensors"
}

@test "blocks of FP8 are decoded alike by every tool; other methods are refused by name" {
	note="$bin/fp8: 7 tensors of fp8 in blocks of 4 x 6 are decoded, to BF16 where no other type is asked for"
	fails 0 "mckpt: $note" mckpt import "$bin/fp8" ck
	run -0 --separate-stderr mexport "$bin/fp8" out
	[ "${stderr_lines[0]}" = "mexport: $note" ]
	mexport -q ck out-ck
	mexport -q "$bin/decoded" out-decoded
	cmp out/model.safetensors out-decoded/model.safetensors
	cmp out-ck/model.safetensors out-decoded/model.safetensors
	cmp out/config.json out-decoded/config.json
	run --separate-stderr mtrain --model "$bin/fp8" --pretrained-checkpoint "$bin/fp8" \
		--num-threads 1 --mock-data --seq-length 8 --micro-batch-size 1 --lr 1e-3 \
		--global-batch-size 1 --train-iters 1 --eval-iters 0
	[ "$status" = 0 ]
	[[ $stderr = *"mtrain: $note"* ]]
	mckpt verify "$bin/fp8"
	cp -R "$bin/fp8" other
	for block in '[4, 8]' '[4]' '4'; do
		tr -d '\n' <"$bin/fp8/config.json" | sed "s/\(weight_block_size\": \)[^]]*]/\1$block/" \
			>other/config.json
		run --separate-stderr mckpt import other bad
		[ "$status" = 1 ]
		echo "$stderr" >>said
	done
	run -0 cat said
	[ "$output" = "mckpt: other: 1 tensors of fp8 in blocks of 4 x 8 are decoded, to BF16 where no other type is asked for
mckpt: other: tensor 'model.layers.0.self_attn.q_proj.weight' is quantised and not decoded: its factors 'model.layers.0.self_attn.q_proj.weight_scale_inv' do not have the shape of blocks of 4 x 8 (and 5 more; mckpt verify lists them)
mckpt: other: is quantised by fp8 in blocks of no known size; start from the unquantised model
mckpt: other: is quantised by fp8 in blocks of no known size; start from the unquantised model" ]
	for method in gptq awq bitsandbytes compressed-tensors modelopt hqq aqlm torchao fbgemm_fp8 \
		unheard-of; do
		sed "s/\"hidden_size\"/\"quantization_config\": {\"quant_method\": \"$method\"}, &/" \
			"$bin/plain/config.json" >plain/config.json
		fails 1 "mckpt: plain: is quantised by $method; start from the unquantised model" \
			mckpt import plain bad
	done
	fails 1 "mexport: plain: is quantised by unheard-of; start from the unquantised model" \
		mexport plain bad
	[ ! -e bad ]
}

@test "files of Meta and Mistral: one, ranks with rows or columns of the table, safetensors" {
	meta=$TOP/tests/golden/ckpt/meta
	mexport -q "$meta/hf" out-hf
	for form in one two three mistral; do
		cp -R "$meta/$form" "$form"
		fails 0 "mckpt: $form/params.json: not read: unheard_of" mckpt import "$form" ck
		mexport -q ck out
		mexport -q "$form" out-direct
		for out in out out-direct; do
			cmp $out/model.safetensors out-hf/model.safetensors
			cmp $out/config.json out-hf/config.json
		done
		mckpt verify -q "$form"
		mckpt import -q --model "$meta/hf" "$form" of-model
		mckpt diff -q of-model "$meta/hf" >diff
		rm -r ck out out-direct of-model
	done
	mtrain -q --model "$meta/hf" --pretrained-checkpoint two --num-threads 1 --mock-data \
		--seq-length 8 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 --lr 1e-3 --eval-iters 0
	printf x | dd of=two/consolidated.01.pth bs=1 seek=2500 conv=notrunc status=none
	run --separate-stderr mckpt verify two
	[ "$status" = 1 ]
	[[ $stderr == *"two/consolidated.01.pth: record 'consolidated.01/data/0' does not match its CRC-32"* ]]
}

@test "files of Meta and Mistral: what is missing, or another model, is said" {
	meta=$TOP/tests/golden/ckpt/meta
	# changed FORM SCRIPT LINE...: with params.json changed by a script of sed
	changed() {
		rm -rf x
		cp -R "$meta/$1" x
		sed -i "$2" x/params.json
		shift 2
		fails 1 "$(printf 'mckpt: %s\n' "$@")" mckpt import x ck
	}
	changed one 's/"unheard_of"/"use_scaled_rope"/' 'x/params.json: "use_scaled_rope" does not say the scaling'"'"'s factor; mckpt import --model config.json says the model instead'
	changed one 's/"unheard_of": 1/"moe": {"num_experts": 8}/' \
		'x/params.json: "moe" is set, which is not supported'
	changed one 's/"n_heads"/"heads"/' 'x/params.json: "n_heads" is missing'
	changed two 's/"n_kv_heads": 2/"n_kv_heads": 4/' 'x/params.json: not read: unheard_of' \
		"x: tensor 'layers.0.attention.wk.weight' has shape [4, 16] in each file, params.json needs [16, 16] (and 3 more; mckpt verify lists them)"
	rm x/consolidated.00.pth
	fails 1 "mckpt: x: 'consolidated.00.pth' is missing: 'consolidated.01.pth' is there" \
		mckpt import x ck
	mv x/consolidated.01.pth x/consolidated.00.pth
	rm x/params.json
	fails 1 "mckpt: x: holds consolidated files in the form of Meta or Mistral, but no \
params.json: mckpt import --model config.json says the model instead" mckpt import x ck
	sed 's/"llama"/"qwen2"/' "$meta/hf/config.json" >qwen.json
	fails 1 "mckpt: qwen.json: is of the family qwen2; those of Meta's and Mistral's files are llama and mistral" \
		mckpt import --model qwen.json "$meta/one" ck
	cp "$meta/one/consolidated.00.pth" "$meta/one/params.json" plain
	fails 0 "mckpt: plain: consolidated files are not read, since model.safetensors is there" \
		mckpt import plain ck
}

@test "members of config.json that nobody reads are named" {
	sed 's/"hidden_size"/"unheard_of": Infinity, "use_cache": false, &/' \
		"$bin/plain/config.json" >plain/config.json
	fails 0 "mckpt: plain/config.json: not read: unheard_of" mckpt import plain ck
	run --separate-stderr mtrain --model plain --dry-run --seq-length 8 --mock-data --lr 1e-3
	[[ $stderr = *"mtrain: plain/config.json: not read: unheard_of"* ]]
}

@test "weights alone may get other positions, with a note; a resumed run may not" {
	mkdir longer
	sed 's/"hidden_size"/"rope_theta": 500000.0, &/' plain/config.json >longer/config.json
	options="--num-threads 1 --mock-data --seq-length 8 --micro-batch-size 1 --lr 1e-3
		--global-batch-size 1 --eval-iters 0"
	# shellcheck disable=SC2086 # options are words
	run --separate-stderr mtrain $options --model longer --pretrained-checkpoint plain \
		--train-iters 1 --save run --load run
	[ "$status" = 0 ]
	[[ $stderr = *"mtrain: plain: 'rotary-base 10000.0' -> 'rotary-base 500000.0'"* ]]
	# shellcheck disable=SC2086
	run --separate-stderr mtrain $options --model plain --train-iters 2 --save run --load run
	[ "$status" != 0 ]
	[[ $stderr = *"the checkpoint has 'rotary-base 500000.0', the run 'rotary-base 10000.0'"* ]]
}

# rename FILE SCRIPT [DATA]: changes the header of a safetensors file by a script of sed, and appends
# a file to its data
rename()
{
	local n head
	n=$(od -An -tu8 -N8 "$1")
	head=$(tail -c +9 "$1" | head -c "$((n))" | sed "$2")
	# shellcheck disable=SC2059 # bytes in octal
	{
		printf "\\$(printf %o $((${#head} & 255)))\\$(printf %o $((${#head} >> 8)))\\0\\0\\0\\0\\0\\0"
		printf %s "$head"
		tail -c "+$((n + 9))" "$1"
		[ -z "${3:-}" ] || cat "$3"
	} >renamed
	mv renamed "$1"
}

# add DIR NAME DTYPE SHAPE DATA: one tensor more
add()
{
	local file=$1/model.safetensors end
	end=$(($(stat -c %s "$file") - 8 - $(od -An -tu8 -N8 "$file")))
	rename "$file" "s/^{/{\"$2\":{\"dtype\":\"$3\",\"shape\":$4,\"data_offsets\":[$end,$((end + $(stat -c %s "$5")))]},/" "$5"
}

# refused_everywhere DIR LINE: by mckpt, mexport and mtrain alike
refused_everywhere()
{
	fails 1 "mckpt: $2" mckpt import "$1" ck
	fails 1 "mexport: $2" mexport "$1" out
	run --separate-stderr mtrain --model plain --pretrained-checkpoint "$1" --num-threads 1 \
		--mock-data --seq-length 8 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 \
		--lr 1e-3 --eval-iters 0
	[ "$status" = 1 ]
	[ "${stderr##*$'\n'}" = "mtrain: $2" ]
	[ ! -e ck ] && [ ! -e out ]
}

# trains DIR: mtrain starts from it
trains()
{
	mtrain -q --model "$1" --pretrained-checkpoint "$1" --num-threads 1 --mock-data \
		--seq-length 8 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 --lr 1e-3 \
		--eval-iters 0
}

@test "names without model., with language_model. on either side, and of an adapter's base" {
	mexport -q plain out-plain
	cp -R plain bare
	rename bare/model.safetensors 's/"model\./"/g'
	mckpt import bare ck
	mckpt diff ck plain >diff
	trains bare
	rm -r ck
	sed 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' plain/config.json >bare/config.json
	refused_everywhere bare "bare: a base model without 'lm_head.weight', but config.json says \"tie_word_embeddings\": false"
	for prefix in language_model.model. model.language_model. base_model.model.model.; do
		cp -R plain renamed.d
		rename renamed.d/model.safetensors "s/\"model\\./\"$prefix/g"
		mckpt import renamed.d ck
		mckpt diff ck plain >diff
		mexport -q renamed.d out
		cmp out/model.safetensors out-plain/model.safetensors
		rm -r ck out renamed.d
	done
}

@test "tensors of other modalities, of MTP and of classifiers: passed over with a note, or refused" {
	mexport -q plain out-plain
	head -c 32 /dev/zero >data
	cp -R plain tower
	rename tower/model.safetensors 's/"model\./"model.language_model./g'
	add tower model.visual.blocks.0.weight F32 '[8]' data
	add tower model.visual.blocks.1.weight F32 '[8]' data
	printf '{"model_type": "qwen3_vl", "vision_config": {"depth": 1}, "text_config": %s}' \
		"$(cat plain/config.json)" >tower/config.json
	same tower "tower/config.json: of a qwen3_vl model the text's part is read" \
		"tower: not read: 2 tensors (0.0 MB) are of images or sound"
	cp -R plain mtp
	add mtp mtp.layers.0.eh_proj.weight F32 '[8]' data
	same mtp "mtp: not read: 1 tensors (0.0 MB) are of layers that predict later tokens (MTP)"
	cp -R plain score
	add score score.weight F32 '[1,8]' data
	refused_everywhere score "score: tensor 'score.weight' is of a classifier or a reward model, not of a language model"
	cp -R plain foreign
	add foreign model.layers.0.unheard.weight F32 '[8]' data
	refused_everywhere foreign "foreign: tensor 'model.layers.0.unheard.weight' does not belong to a llama model of this config.json"
}

@test "a tensor in two shards is one, if its bytes are the same" {
	mexport -q plain out-plain
	mkdir twice
	cp plain/config.json twice
	cp plain/model.safetensors twice/model-00001-of-00002.safetensors
	cp plain/model.safetensors twice/model-00002-of-00002.safetensors
	printf '{"weight_map": {"model.norm.weight": "model-%s-of-00002.safetensors", "model.embed_tokens.weight": "model-%s-of-00002.safetensors"}}' \
		00001 00002 >twice/model.safetensors.index.json
	mckpt import twice ck
	mckpt diff ck plain >diff
	mexport -q twice out
	cmp out/model.safetensors out-plain/model.safetensors
	trains twice
	rm -r ck out
	truncate -s -1 twice/model-00002-of-00002.safetensors
	printf '\001' >>twice/model-00002-of-00002.safetensors
	refused_everywhere twice "twice: tensor 'model.norm.weight' is in model-00001-of-00002.safetensors and another one in model-00002-of-00002.safetensors"
}

@test "a tied head may have another type, but not other numbers" {
	local n i
	n=$(od -An -tu8 -N8 plain/model.safetensors)
	# 88 numbers, 1 and -2 in turn
	for i in $(seq 44); do printf '\0\0\200\77\0\0\0\300'; done |
		dd of=plain/model.safetensors bs=1 seek=$((n + 8)) conv=notrunc status=none
	for i in $(seq 44); do printf '\200\77\0\300'; done >head
	mexport -q plain out-plain
	cp -R plain tied
	add tied lm_head.weight BF16 '[11,8]' head
	mckpt import tied ck
	mckpt diff ck plain >diff
	mexport -q tied out
	cmp out/model.safetensors out-plain/model.safetensors
	trains tied
	rm -r ck out
	cp -R plain differs
	printf '\001' | dd of=head bs=1 seek=174 conv=notrunc status=none
	add differs lm_head.weight BF16 '[11,8]' head
	refused_everywhere differs "differs: tensor 'lm_head.weight' differs from the embedding that config.json ties it to (\"tie_word_embeddings\": true): with false there the model has it as its output table"
}
