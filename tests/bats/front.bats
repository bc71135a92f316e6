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
	fails 0 "$(printf 'mckpt: %s' "$@")" mckpt import "$dir" ck
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
	cp -R plain meta
	mv meta/model.safetensors meta/consolidated.safetensors
	refuses meta "meta: holds consolidated files in the form of Meta or Mistral, which is not read: give the model in the form of transformers"
	cp -R plain gptq
	sed 's/"hidden_size"/"quantization_config": {"quant_method": "gptq"}, &/' \
		plain/config.json >gptq/config.json
	refuses gptq "gptq: is quantised by gptq; start from the unquantised model"
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
