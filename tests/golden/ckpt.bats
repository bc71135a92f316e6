# Hugging Face directories, checkpoints of Megatron-LM and tokenizers of the golden set: import, compare, export, byte
# for byte

bats_require_minimum_version 1.5.0

setup()
{
	[ -n "$GOLDEN" ] || skip "GOLDEN is not set"
	cd "$BATS_TEST_TMPDIR" || exit
	golden=$GOLDEN/golden/ckpt
}

# unpack ARCHIVE: its Hugging Face directory as ./hf
unpack()
{
	mkdir unpacked
	tar -C unpacked -xJf "$1"
	ln -s "$(dirname "$(find unpacked -name config.json | head -n 1)")" hf
}

@test "bf16 directories come back as the same file" {
	for family in llama gpt2; do
		mckpt import "$golden/$family/hf-bf16" $family
		mexport -q $family out-$family
		cmp out-$family/model.safetensors "$golden/$family/hf-bf16/model.safetensors"
	done
}

@test "sharded fp32 Llama: import, equal to bf16, exported as the same shards" {
	unpack "$golden/llama/hf-fp32-sharded.tar.xz"
	mckpt verify hf
	mckpt import hf ck
	mckpt import --dtype bf16 hf rounded
	mckpt import "$golden/llama/hf-bf16" want
	mckpt diff rounded want >diff
	mckpt diff --tolerance 0 ck want >diff
	mexport -q --max-shard-size 300000 ck out
	mckpt diff out hf >diff
	for f in hf/model-*.safetensors; do
		cmp "$f" "out/$(basename "$f")"
	done
}

@test "fp32 GPT-2: import, equal to bf16, exported as the same file" {
	unpack "$golden/gpt2/hf-fp32.tar.xz"
	mckpt import hf ck
	mckpt import "$golden/gpt2/hf-bf16" want
	mckpt diff --tolerance 0 ck want >diff
	mexport -q ck out
	cmp out/model.safetensors hf/model.safetensors
}

@test "every layout of Megatron-LM is the same model" {
	for family in llama gpt2; do
		mkdir $family
		tar -C $family -xJf "$golden/$family/megatron/layouts.tar.xz"
		cp -r "$golden/$family"/megatron/*-te $family
		for dir in $family/*; do
			vocab=
			[ $family = llama ] || vocab='--vocab-size 500'
			# shellcheck disable=SC2086 # two words, or none
			mckpt import -q $vocab --dtype bf16 "$dir" ck
			mckpt diff ck "$golden/$family/hf-bf16" >diff
			mckpt verify -q "$dir"
			rm -r ck
		done
	done
}

# same_sums DIRECTORY NAME: whether its tensors have the sums of tests/golden/torch/NAME.tsv
same_sums()
{
	mckpt import -q "$1" ck
	grep -v -e '^#' -e '^tensor' ck/iter_*/manifest.tsv | cut -f 1-3,9 |
		diff - "$TOP/tests/golden/torch/$2.tsv"
	mckpt verify -q "$1"
	rm -r ck
}

@test "the optimizer of Megatron-LM, in either form and any layout" {
	tar -xJf "$golden/optim.tar.xz"
	for dir in optim/*; do
		same_sums "$dir" optim
	done
	for set in chunks:tp2pp2vpp2-plain replicas:tp2pp2vpp2dp2-dist buckets:dp2-buckets-dist; do
		mkdir "${set%:*}"
		tar -C "${set%:*}" -xJf "$golden/megatron_dist/torch-llama-${set#*:}/set.tar.xz"
		same_sums "${set%:*}/ckpt" "${set%:*}"
	done
}

# unpack_set NAME: a checkpoint that Megatron-LM wrote as ./NAME, with what it should hold
unpack_set()
{
	mkdir "$1"
	tar -C "$1" -xJf "$golden/megatron_dist/$1/set.tar.xz"
}

@test "torch_dist: weights and optimizer states are those of the run, bit for bit" {
	for dir in "$golden"/megatron_dist/*/; do
		set=$(basename "$dir")
		[[ $set == torch-llama-* ]] && continue
		unpack_set "$set"
		"$B/tests/tools/megatron_same" "$set/expected.safetensors" "$set/ckpt"
		mckpt verify "$set/ckpt"
		mckpt import -q "$set/ckpt" "of-$set"
		"$B/tests/tools/megatron_same" "$set/expected.safetensors" "of-$set"
		mckpt diff "$set/ckpt" "of-$set" >diff
		grep -q '^optimizer_steps 3$' "of-$set"/iter_0000003/state.conf
	done
	[ -n "$set" ]
}

@test "torch_dist: the weights are those that Hugging Face's names give" {
	for set in llama-tp2pp2-model gpt2-tp1pp1-model; do
		unpack_set $set
		mckpt import -q $set/ckpt of-$set
		mexport -q of-$set out-$set
		mkdir want-$set
		cp out-$set/config.json want-$set
		cp $set/hf.safetensors want-$set/model.safetensors
		mckpt diff out-$set want-$set >diff
	done
}

@test "torch_dist: masters that round to other weights are refused" {
	unpack_set llama-tp2pp2dp2-dpreshard
	local file start name
	read -r file start < <(awk -F '\t' '$1 == "decoder.layers.mlp.linear_fc2.weight" && $3 == "1x0x0" {
		print $5, $6 }' llama-tp2pp2dp2-dpreshard/chunks.tsv)
	file=llama-tp2pp2dp2-dpreshard/ckpt/iter_0000003/$file
	name=$(grep -abo "data/0" "$file" | cut -d: -f1 | awk -v start="$start" '$1 > start { print $1; exit }')
	# the high byte of an element: data begin at the next multiple of 64 of the chunk
	printf '\077' | dd of="$file" bs=1 conv=notrunc 2>dd.log \
		seek=$((start + ((name - start + 10) / 64 + 1) * 64 + 9))
	# no CRC-32, which would refuse the file before its values are compared
	perl -0777 -pi -e 's/(PK\x03\x04.{10})..../$1\0\0\0\0/sg; s/(PK\x01\x02.{12})..../$1\0\0\0\0/sg' "$file"
	run --separate-stderr mckpt import llama-tp2pp2dp2-dpreshard/ckpt ck
	[ "$status" = 1 ]
	[[ $stderr == *"the master weights of 'decoder.layers.1.mlp.linear_down.weight' do not round to its weights"* ]]
	[ ! -e ck/latest_checkpointed_iteration.txt ]
}

@test "export: torch itself reads the tensors of the run, in chunks like Megatron-LM's" {
	"${PYTHON:-python3}" -c 'import torch.distributed.checkpoint' 2>err || skip "torch is absent"
	local layout='--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2'
	# check SET OPTION...: exports and compares
	check()
	{
		local set=$1
		shift
		rm -rf out
		mckpt export -q "$@" "of-$set" out
		"${PYTHON:-python3}" "$TOP/tests/golden/megatron.py" "$set/expected.safetensors" out $like
	}
	for set in llama-tp2pp2-fullyreshard gpt2-tp2pp2-dpreshard; do
		unpack_set $set
		mckpt import -q $set/ckpt of-$set
	done
	# shellcheck disable=SC2086 # lists of words
	{
		like=llama-tp2pp2-fullyreshard/ckpt
		check llama-tp2pp2-fullyreshard --use-distributed-optimizer $layout
		like=
		check gpt2-tp2pp2-dpreshard --to torch $layout --num-virtual-stages-per-pipeline-rank 2
		check llama-tp2pp2-fullyreshard --to torch $layout --use-distributed-optimizer \
			--transformer-impl local
	}
	mckpt export -q of-llama-tp2pp2-fullyreshard plain
	"${PYTHON:-python3}" "$TOP/tests/golden/megatron_other.py" plain/iter_0000003 other module.
	"$B/tests/tools/megatron_same" llama-tp2pp2-fullyreshard/expected.safetensors other/iter_0000003
}

# export_tokenizer VOCAB OPTION...: tokenizer.json of a model with that many rows, as ./out/tokenizer.json
export_tokenizer()
{
	"$B/tests/unit/reshard" ck "$1"
	shift
	mexport -q "$@" ck out
}

@test "SentencePiece BPE becomes the reference tokenizer.json" {
	export_tokenizer 8000 --tokenizer-model "$GOLDEN/tokenizers/spm-bpe-8k.model"
	cmp out/tokenizer.model "$GOLDEN/tokenizers/spm-bpe-8k.model"
	diff <(tr -d '\n' <out/tokenizer.json) <(tr -d '\n' <"$GOLDEN/tokenizers/llama2style.tokenizer.json")
}

@test "GPT-2's files become the reference tokenizer.json" {
	export_tokenizer 50257 --vocab-file "$GOLDEN/tokenizers/gpt2-vocab.json" --merge-file "$GOLDEN/tokenizers/gpt2-merges.txt"
	diff <(tr -d '\n' <out/tokenizer.json) <(tr -d '\n' <"$GOLDEN/tokenizers/gpt2.tokenizer.json")
}

@test "SentencePiece unigram and BPE across words" {
	export_tokenizer 8000 --tokenizer-model "$GOLDEN/tokenizers/spm-uni-8k.model"
	grep -q '"model":{"type":"Unigram","unk_id":0,' out/tokenizer.json
	grep -q '"content":"<EXTRA_A>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false' out/tokenizer.json
	grep -q '"content":"<CTRL>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true' out/tokenizer.json
	grep -q '"bos_token_id": 1' out/config.json
	mexport -q --force --tokenizer-model "$GOLDEN/tokenizers/spm-bpe-span-3k.model" ck out
	grep -q '"type":"Precompiled"' out/tokenizer.json
}

@test "exported tokenizers decode what they encode" {
	python3 -c 'import tokenizers' 2>/dev/null || skip "the Python package tokenizers is absent"
	export_tokenizer 8000 --tokenizer-model "$GOLDEN/tokenizers/spm-bpe-8k.model"
	# Names of special tokens become those tokens, which decoding leaves out; the mark of a space becomes one.
	head -c 20000 "$GOLDEN/tokenizers/README.md" | sed 's/<[^>]*>//g; s/▁//g' >text
	python3 -c 'import tokenizers; t = tokenizers.Tokenizer.from_file("out/tokenizer.json"); s = open("text").read(); assert t.decode(t.encode(s).ids) == s'
}
