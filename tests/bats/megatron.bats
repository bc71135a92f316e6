# mckpt on checkpoints of Megatron-LM: every tensor bit for bit, every refusal
#
# The archives of tests/golden/torch are of Megatron-LM's own save_checkpoint after three steps on
# random tokens (chunks: 2 tensor ranks, 2 stages of 2 chunks, torch's optimizer; buckets: 2 data
# ranks, the distributed optimizer in several buckets; experts: 4 in each layer, which 2 ranks share,
# without an optimizer), or of the same form (gpt2: tied tables, 2 tensor ranks, 2 stages; grouped:
# the experts as tests/golden/megatron_grouped.py makes them; experts_plain, experts_flat: with
# torch's optimizer and with the distributed one, and later: a layer with experts and one that
# predicts later tokens, by its name of before 2026, of tests/golden/megatron_experts.py). A .tsv has
# the sums of all tensors, computed from the live tensors. Those of tests/golden/torch_dist are the
# runs of buckets, of experts, of experts_flat and of later once more, in the torch_dist format.

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	golden=$TOP/tests/golden/torch
}

# unpack NAME: the checkpoint as ./ckpt
unpack()
{
	tar -xJf "$golden/$1.tar.xz"
}

# sums CHECKPOINT: name, type, shape and checksum of every tensor
sums()
{
	grep -v -e '^#' -e '^tensor' "$1"/iter_*/manifest.tsv | cut -f 1-3,9
}

# poke FILE OFFSET: another byte there
poke()
{
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	# shellcheck disable=SC2059 # the byte is the format
	printf "\\$(printf %o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# unsummed FILE...: without the CRC-32 of its records, as torch can be told to write it
unsummed()
{
	perl -0777 -pi -e 's/(PK\x03\x04.{10})..../$1\0\0\0\0/sg; s/(PK\x01\x02.{12})..../$1\0\0\0\0/sg' "$@"
}

@test "import: two chunks of layers a stage, with torch's optimizer" {
	unpack chunks
	fails 0 "mckpt: ckpt/iter_0000003: 3 rows of padding of the vocabulary tables are dropped
mckpt: ckpt/iter_0000003: the state of random numbers is not read" mckpt import ckpt out
	sums out | diff - "$golden/chunks.tsv"
	for line in 'adam_beta2 0.999' 'optimizer_steps 3' 'consumed_train_samples 12' 'seed 4217' \
		'schedule constant exponential constant 0.01 0.001 0 0.10000000000000001 0.10000000000000001 0 12 0 12'; do
		grep -qx "$line" out/iter_0000003/state.conf
	done
	mckpt diff -q ckpt out >diff
	mckpt info ckpt | grep -qx "$(printf 'pipeline_model_parallel_layout\tEt|t|t|tL')"
	mckpt verify -q ckpt ckpt/iter_0000003
}

@test "import: the distributed optimizer in several buckets" {
	unpack buckets
	mckpt import -q ckpt out
	sums out | diff - "$golden/buckets.tsv"
}

@test "import: tied tables, of which the run has not recorded the tokens" {
	unpack gpt2
	mckpt import --vocab-size 500 ckpt out
	mckpt diff out "$TOP/tests/golden/ckpt/gpt2" >diff
	fails 0 "mckpt: ckpt/iter_0000500: the run has not recorded how many of the 512 rows of its vocabulary tables are tokens: all are kept; --vocab-size drops the padding" \
		mckpt import ckpt all
	mckpt info --tensors all | grep -q 'word_embeddings.weight	BF16	512,64'
	fails 1 "mckpt: ckpt/iter_0000500: the model has 512 tokens at most, not 513" \
		mckpt import --vocab-size 513 ckpt more
	fails 1 "mckpt: --mtp-num-layers: 'ckpt' is no Hugging Face directory: of other sources all such layers are read" \
		mckpt import --mtp-num-layers 1 ckpt more
}

@test "import: experts that ranks share, in either format" {
	unpack experts
	fails 0 "mckpt: ckpt/iter_0000003: 3 rows of padding of the vocabulary tables are dropped
mckpt: ckpt/iter_0000003: the state of random numbers is not read" mckpt import ckpt out
	sums out | diff - "$golden/experts.tsv"
	[ "$(mckpt info out | grep -e num_experts -e topk -e '^family')" = "family	mixtral
num_experts	4
moe_router_topk	2" ]
	mckpt verify -q ckpt
	mkdir dist
	tar -C dist -xJf "$TOP/tests/golden/torch_dist/experts.tar.xz"
	mckpt import -q dist/ckpt of-dist
	sums of-dist | diff - "$golden/experts.tsv"
	mckpt verify -q dist/ckpt
	mexport -q out hf
	LC_ALL=C sed -i 's/common_state/common_stale/g' dist/ckpt/iter_0000003/.metadata
	mckpt import -q --model hf dist/ckpt without-args
	sums without-args | diff - "$golden/experts.tsv"
	dir=ckpt/iter_0000003
	name=$(grep -abo 'local_experts.1.linear_fc2' $dir/mp_rank_00_001/model_optim_rng.pt | head -n 1 | cut -d : -f 1)
	printf 9 | dd of=$dir/mp_rank_00_001/model_optim_rng.pt bs=1 seek=$((name + 14)) conv=notrunc status=none
	run --separate-stderr mckpt verify ckpt
	[ "$status" = 1 ]
	[[ $stderr == *"mckpt: $dir: mp_rank_00_001/model_optim_rng.pt: tensor 'decoder.layers.0.mlp.experts.local_experts.9.linear_fc2.weight' does not belong to the model"* ]]
	[[ $stderr == *"mckpt: $dir: tensor 'decoder.layers.0.mlp.experts.local_experts.3.linear_fc2.weight' of tensor rank 0 is missing"* ]]
	first=$dir/mp_rank_00_000/model_optim_rng.pt
	cp $first whole
	perl -0777 -pe 's/(expert_tensor_parallel_size.{1,6}?K)\x01/$1\x02/s' whole >$first
	fails 1 "mckpt: $dir: expert_tensor_parallel_size 2: above tensor_model_parallel_size, 1, so that ranks wrote files of the same name" \
		mckpt import ckpt again
	rm -r $dir/mp_rank_00_001
	cp whole $first
	fails 1 "mckpt: $dir: 1 mp_rank_* directories, but the run had 1 tensor ranks in 1 stages, for each expert rank" \
		mckpt import ckpt again
}

@test "import: experts that ranks share, with their optimizer, in either format" {
	for set in experts_plain experts_flat; do
		unpack $set
		mckpt import -q ckpt out
		sums out | diff - "$golden/$set.tsv"
		grep -qx 'optimizer_steps 3' out/iter_0000003/state.conf
		mckpt verify -q ckpt
		mckpt export -q --to torch --expert-model-parallel-size 2 --transformer-impl local out again
		mckpt diff -q out again >diff
		run ! grep -v "	equal	" <(tail -n +2 diff)
		rm -r out again
		[ $set = experts_flat ] || rm -r ckpt
	done
	# the buffers of what both hold are with the first rank alone
	[ "$(strings ckpt/iter_0000003/mp_rank_00_001/distrib_optim.pt | grep -c buckets_coalesced)" = 1 ]
	rm -r ckpt/iter_0000003/mp_rank_00_001/distrib_optim.pt
	fails 1 "mckpt: ckpt/iter_0000003: mp_rank_00_001/model_optim_rng.pt: its optimizer has no state, and there is no distrib_optim.pt beside it" \
		mckpt import -q ckpt out
	mkdir dist
	tar -C dist -xJf "$TOP/tests/golden/torch_dist/experts_flat.tar.xz"
	mckpt import -q dist/ckpt out
	sums out | diff - "$golden/experts_flat.tsv"
	mckpt verify -q dist/ckpt
}

@test "import: layers that predict later tokens, in either format" {
	unpack later
	mkdir dist
	tar -C dist -xJf "$TOP/tests/golden/torch_dist/later.tar.xz"
	for from in ckpt dist/ckpt; do
		mckpt import -q $from out
		sums out | diff - "$golden/later.tsv"
		grep -qx 'mtp-num-layers 1' out/iter_0000003/options.conf
		grep -qx 'mtp-loss-scaling-factor 0.3' out/iter_0000003/options.conf
		mckpt verify -q $from
		rm -r out
	done
	# without args the names in the directory tell how many there are
	cat >config.json <<-'END'
	{ "model_type": "mixtral", "hidden_size": 16, "intermediate_size": 20, "num_attention_heads": 4,
	  "num_key_value_heads": 2, "num_hidden_layers": 1, "num_local_experts": 2, "num_experts_per_tok": 2,
	  "vocab_size": 61, "max_position_embeddings": 16, "rope_theta": 10000.0, "rms_norm_eps": 1e-5 }
	END
	LC_ALL=C sed -i 's/common_state/common_stale/g' dist/ckpt/iter_0000003/.metadata
	mckpt import -q --model config.json dist/ckpt without-args
	sums without-args | cut -f 1,3 | grep -v exp_avg | diff - <(cut -f 1,3 "$golden/later.tsv" | grep -v exp_avg)
	mckpt import -q ckpt out
	mckpt diff -q --tolerance 0.01 --ignore '*.exp_avg*' out without-args
	# a table of the stage that has such layers is that of the first
	mckpt export -q --no-optim --dtype fp32 --to torch --pipeline-model-parallel-size 2 \
		--pipeline-model-parallel-layout 'Et|mL' out stages
	mckpt import -q stages back
	mckpt diff -q --ignore '*.exp_avg*' out back
	file=stages/iter_0000003/mp_rank_00_001/model_optim_rng.pt
	unsummed stages/iter_0000003/*/model_optim_rng.pt
	data=$(grep -abo 'archive/data/0' $file | head -n 1 | cut -d : -f 1)
	poke $file $((data + 200))
	fails 1 "mckpt: stages/iter_0000003: 'embedding.word_embeddings.weight': its 2 copies differ (fp32 and 16 bits, tensor ranks, first and last stage)" \
		mckpt import -q stages other
}

@test "import: experts of a rank in one transposed tensor, as --moe-grouped-gemm had them first" {
	unpack grouped
	mckpt import -q ckpt out
	sums out | diff - "$golden/experts.tsv"
	mckpt verify -q ckpt
	# of more experts than the tensors are of
	perl -0777 -pi -e 's/(num_experts.{1,6}?K)\x04/$1\x06/s' ckpt/iter_0000003/mp_rank_00_000/model_optim_rng.pt
	run --separate-stderr mckpt verify ckpt
	[ "$status" = 1 ]
	[[ $stderr == *"mp_rank_00_001/model_optim_rng.pt: tensor 'decoder.layers.3.mlp.experts.local_experts.2.linear_fc2.weight' cannot be read: its shape is not that of the rank's experts"* ]]
}

@test "a release, and a directory by its own name" {
	unpack gpt2
	mv ckpt/iter_0000500 ckpt/release
	echo release >ckpt/latest_checkpointed_iteration.txt
	mckpt import -q ckpt a
	mckpt import -q ckpt/release b
	mckpt diff a b >diff
	mckpt import -q --dtype fp32 ckpt c
}

@test "copies that differ: a bias on tensor ranks, the table on the last stage" {
	unpack gpt2
	cp -r ckpt bias
	poke bias/iter_0000500/mp_rank_01_000/model_optim_rng.pt 74817
	unsummed bias/iter_0000500/*/model_optim_rng.pt
	refused 1 "mckpt: bias/iter_0000500: 'decoder.layers.0.mlp.linear_down.bias': its 2 copies differ (fp32 and 16 bits, tensor ranks, first and last stage)" \
		mckpt import -q bias out
	poke ckpt/iter_0000500/mp_rank_00_001/model_optim_rng.pt 65025
	unsummed ckpt/iter_0000500/*/model_optim_rng.pt
	refused 1 "mckpt: ckpt/iter_0000500: 'embedding.word_embeddings.weight': its 2 copies differ (fp32 and 16 bits, tensor ranks, first and last stage)" \
		mckpt import -q ckpt out
	[ -z "$(ls out)" ]
	unpack gpt2
	unsummed ckpt/iter_0000500/*/model_optim_rng.pt
	run -0 --separate-stderr mckpt import ckpt out
	[[ $stderr == *"ckpt/iter_0000500: the files have no CRC-32, so that damage of their bytes is not found"* ]]
	run -0 mckpt verify ckpt
	unpack gpt2
	poke ckpt/iter_0000500/mp_rank_00_001/model_optim_rng.pt 65025
	run -1 --separate-stderr mckpt verify ckpt
	[[ $stderr == *"ckpt/iter_0000500/mp_rank_00_001/model_optim_rng.pt: record 'model_optim_rng/data/26' does not match its CRC-32"* ]]
}

@test "a damaged record is refused by all that read it" {
	unpack gpt2
	file=ckpt/iter_0000500/mp_rank_01_000/model_optim_rng.pt
	cp -r ckpt good
	poke $file 74817
	damaged="mckpt: $file: record 'model_optim_rng/data/13' does not match its CRC-32"
	refused 1 "$damaged" mckpt import -q ckpt out
	fails 1 "$damaged" mckpt diff ckpt good
	refused 1 "$damaged" mckpt cat ckpt decoder.layers.0.mlp.linear_down.bias
	refused 1 "mexport${damaged#mckpt}" mexport -q ckpt hf
	[ ! -e hf ]
	# other tensors are not looked at
	mckpt cat ckpt decoder.final_layernorm.weight >cat
	mckpt cat good decoder.final_layernorm.weight | cmp - cat
	# what the file says of its tensors is read before any of them
	cp good/${file#ckpt/} $file
	perl -0777 -pi -e 's/(iteration.{1,6}?)M\xf4\x01/$1M\xf3\x01/s' $file
	! cmp -s good/${file#ckpt/} $file
	refused 1 "mckpt: ckpt/iter_0000500: mp_rank_01_000/model_optim_rng.pt: record 'model_optim_rng/data.pkl' does not match its CRC-32" \
		mckpt cat ckpt decoder.final_layernorm.weight
}

@test "a tensor of which a rank's part cannot be read is not read at all" {
	unpack gpt2
	cp -r ckpt good
	file=ckpt/iter_0000500/mp_rank_01_000/model_optim_rng.pt
	unsummed $file
	name=decoder.layers.0.self_attention.linear_proj.weight
	run -0 mckpt cat --slice 0:1 ckpt $name
	# its storage has fewer elements than the view
	perl -0777 -pi -e 's/(self_attention.linear_proj.weight.{1,80}?K\x00)K\x40(K\x20\x86)/$1K\x41$2/s' $file
	! cmp -s good/${file#ckpt/} $file
	run -1 mckpt verify -q ckpt
	[[ $output == *"tensor '$name' cannot be read: "* ]]
	fails 1 "mckpt: ckpt/iter_0000500: no tensor '$name' that can be read; mckpt verify lists what is wrong here" \
		mckpt cat ckpt $name
	run -1 mckpt diff ckpt good
	grep -q "^$name	only-b	" <<<"$output"
}

@test "files that are missing, too many, or cut off" {
	unpack gpt2
	dir=ckpt/iter_0000500
	mkdir $dir/mp_rank_02_000
	refused 1 "mckpt: $dir: 5 mp_rank_* directories, but the run had 2 tensor ranks in 2 stages" \
		mckpt import ckpt out
	rmdir $dir/mp_rank_02_000
	mv $dir/mp_rank_01_001 $dir/mp_rank_01_002
	refused 1 "mckpt: cannot open '$dir/mp_rank_01_001/model_optim_rng.pt': No such file or directory" \
		mckpt import ckpt out
	mv $dir/mp_rank_01_002 $dir/mp_rank_01_001
	poke $dir/mp_rank_01_001/model_optim_rng.pt 2672
	refused 1 "mckpt: $dir: mp_rank_01_001/model_optim_rng.pt: is of iteration 501, mp_rank_00_000/model_optim_rng.pt of 500" \
		mckpt import -q ckpt out
	truncate -s -1 $dir/mp_rank_01_001/model_optim_rng.pt
	refused 1 "mckpt: $dir/mp_rank_01_001/model_optim_rng.pt: not a zip file, or cut off: no end record in its last 22 bytes" \
		mckpt import ckpt out
	rm $dir/mp_rank_00_000/model_optim_rng.pt
	refused 1 "mckpt: cannot open '$dir/mp_rank_00_000/model_optim_rng.pt': No such file or directory" \
		mckpt import ckpt out
	[ ! -e out ]
}

@test "fp32 weights of another run" {
	unpack buckets
	cp ckpt/iter_0000003/mp_rank_00/distrib_optim.pt .
	poke distrib_optim.pt "$(grep -abo exp_avg_sq distrib_optim.pt | head -n 1 | cut -d : -f 1)"
	cp distrib_optim.pt ckpt/iter_0000003/mp_rank_00/
	refused 1 "mckpt: ckpt/iter_0000003: mp_rank_00/distrib_optim.pt: chunk 0: 'exp_avg_sq' is not a flat tensor like 'param'" \
		mckpt import -q ckpt out
	rm ckpt/iter_0000003/mp_rank_00/distrib_optim.pt
	refused 1 "mckpt: ckpt/iter_0000003: mp_rank_00/model_optim_rng.pt: its optimizer has no state, and there is no distrib_optim.pt beside it" \
		mckpt import -q ckpt out
}

@test "mtrain: a run of Megatron-LM continues as from its import; tokens that it has not recorded are needed" {
	unpack chunks
	mckpt import -q ckpt out
	run='--use-checkpoint-args --mock-data --seq-length 16 --train-iters 4 --global-batch-size 4
		--lr 1e-3 --lr-decay-style constant --bf16 --eval-iters 0 --override-opt_param-scheduler'
	for from in ckpt out; do
		# shellcheck disable=SC2086 # a list of words
		mtrain -q --load $from --save run-$from $run >/dev/null
	done
	mckpt diff -q run-ckpt run-out >diff
	mckpt info run-ckpt | grep -qx "$(printf 'state_consumed_train_samples\t16')"
	rm -r ckpt
	unpack gpt2
	# shellcheck disable=SC2086
	fails 2 "mtrain: --vocab-size: is needed (or a tokenizer, or --model CONFIG)" \
		mtrain -q --load ckpt --finetune --save tuned $run
	# shellcheck disable=SC2086
	fails 1 "mtrain: ckpt/iter_0000500: the model has 512 tokens at most, not 513" \
		mtrain -q --load ckpt --finetune --save tuned $run --vocab-size 513
	# shellcheck disable=SC2086
	mtrain -q --load ckpt --finetune --save tuned $run --vocab-size 500 >/dev/null
	mckpt info tuned | grep -qx "$(printf 'vocab_size\t500')"
}

@test "mtrain: a run of Megatron-LM continues with its options, at its sample with its rate" {
	unpack chunks
	mckpt import -q ckpt out
	mckpt info out | grep -qx "$(printf 'schedule_min_lr\t0.001')"
	run="--config out/iter_0000003/options.conf --mock-data --train-iters 4 --eval-iters 0 --lr 0.02"
	for from in ckpt out; do
		# shellcheck disable=SC2086 # a list of words
		refused 1 "mtrain: $from/iter_0000003: the learning-rate schedule differs from the checkpoint's; --override-opt_param-scheduler takes the command line's, --use-checkpoint-opt_param-scheduler the checkpoint's" \
			mtrain -q $run --load $from
		# shellcheck disable=SC2086
		mtrain -q $run --load $from --use-checkpoint-opt_param-scheduler --metrics-file $from.metrics
		grep -q '^{"iteration": 4, "consumed_samples": 16, .*"lr": 0.01,' $from.metrics
	done
	mckpt export -q out back
	mckpt import -q back again
	diff <(grep -v provenance out/iter_*/state.conf) <(grep -v provenance again/iter_*/state.conf)
}

# found FILE REASON: what the directory is by that name
found()
{
	mkdir -p ds
	touch "ds/$1"
	fails 1 "mckpt: 'ds' $2" mckpt import ds out
	rm -r ds
}

@test "checkpoints of DeepSpeed are refused by what is found" {
	found mp_rank_00_model_states.pt \
		"is a checkpoint of DeepSpeed (mp_rank_*_model_states.pt), which is not read"
	found layer_01-model_00-model_states.pt \
		"is a checkpoint of DeepSpeed by layers (layer_*-model_states.pt), which is not read"
	found zero_pp_rank_0_mp_rank_00_optim_states.pt \
		"is a checkpoint of DeepSpeed's ZeRO (zero_pp_rank_*_optim_states.pt), which is not read"
	found bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt \
		"is a checkpoint of DeepSpeed's ZeRO (bf16_zero_pp_rank_*_optim_states.pt), which is not read"
	found global_step1000 "holds checkpoints of DeepSpeed (global_step*), which are not read"
	mkdir -p save/iter_0000500
	touch save/iter_0000500/mp_rank_00_model_states.pt
	echo 500 >save/latest_checkpointed_iteration.txt
	fails 1 "mckpt: 'save/iter_0000500' is a checkpoint of DeepSpeed (mp_rank_*_model_states.pt), which is not read" \
		mckpt import save out
}

# unpack_dist: a checkpoint of torch_dist as ./ckpt, with an optimizer in flat buffers
unpack_dist()
{
	tar -xJf "$TOP/tests/golden/torch_dist/buckets.tar.xz"
	chmod -R u+w ckpt
	dir=ckpt/iter_0000003
}

@test "torch_dist: flat buffers in several buckets, wherever the directory lies" {
	unpack_dist
	fails 0 "mckpt: $dir: 3 rows of padding of the vocabulary tables are dropped
mckpt: $dir: the state of random numbers is not read" mckpt import ckpt out
	sums out | diff - "$golden/buckets.tsv"
	grep -qx 'optimizer_steps 3' out/iter_0000003/state.conf
	mckpt verify -q ckpt
	mckpt diff -q ckpt out >diff
	printf 'release\n' >ckpt/latest_checkpointed_iteration.txt
	mv $dir ckpt/release
	mckpt diff -q ckpt out >diff
	mkdir nemo
	mv ckpt/release nemo/weights
	mckpt diff -q nemo out >diff
}

@test "torch_dist: without args the model is that of --model, and train_state.pt has the counters" {
	unpack_dist
	mckpt import -q ckpt want
	mexport -q want hf
	fails 1 "mckpt: $dir: has the args of its run, which say its model" \
		mckpt import --model hf ckpt out
	fails 1 "mckpt: 'hf' is a Hugging Face directory, which says its model itself" \
		mckpt import --model hf hf out
	LC_ALL=C sed -i 's/common_state/common_stale/g' $dir/.metadata
	fails 1 "mckpt: $dir: neither a file common.pt nor an object common_state: the args of the run are missing; mckpt import --model config.json says the model instead" \
		mckpt import ckpt out
	rest="mckpt: $dir: 3 rows of padding of the vocabulary tables are dropped
mckpt: $dir: the state of random numbers is not read"
	fails 0 "mckpt: $dir: iteration 3 has fewer consumed samples: taken for the start of a run
$rest" mckpt import --model hf ckpt start
	grep -qx 'iteration 0' start/iter_0000000/state.conf
	cp "$TOP/tests/golden/torch_dist/train_state.pt" $dir
	fails 0 "$rest" mckpt import --model hf/config.json ckpt out
	sums out | diff - "$golden/buckets.tsv"
	grep -E '^(iteration|consumed|optimizer_steps)' out/iter_0000003/state.conf >state
	diff state - <<-'end'
		iteration 3
		consumed_train_samples 12
		optimizer_steps 3
		consumed_valid_samples 5
	end
	sed 's/"intermediate_size": 24/"intermediate_size": 32/' hf/config.json >other.json
	fails 1 "$rest
mckpt: $dir: tensor 'decoder.layers.mlp.linear_fc1.weight' has shape [4, 48, 16], config.json needs [64, 16] in each layer (and 1 more; mckpt verify lists them)" \
		mckpt import --model other.json ckpt bad
	printf x | dd of=$dir/train_state.pt bs=1 seek=1344 conv=notrunc status=none
	run --separate-stderr mckpt import --model hf ckpt bad
	[ "$status" = 1 ] && [[ $stderr == "mckpt: $dir/train_state.pt: record 'train_state/data/1' does not match its CRC-32" ]]
	[ ! -e bad ]
}

@test "torch_dist: what is damaged or missing is said" {
	unpack_dist
	cp -r ckpt whole
	rm $dir/metadata.json
	fails 1 "mckpt: '$dir' lacks .metadata or metadata.json: an incomplete checkpoint of Megatron-LM" \
		mckpt import ckpt out
	cp -r whole/iter_0000003/metadata.json $dir
	truncate -s 100000 $dir/__1_0.distcp
	run --separate-stderr mckpt import ckpt out
	[ "$status" = 1 ] && [[ $stderr == "mckpt: $dir/__1_0.distcp: cut off: '"*" bytes, the file has 100000" ]]
	rm $dir/__1_0.distcp
	fails 1 "mckpt: cannot open '$dir/__1_0.distcp': No such file or directory" mckpt import ckpt out
	cp whole/iter_0000003/__1_0.distcp $dir
	truncate -s -1 $dir/.metadata
	run --separate-stderr mckpt import ckpt out
	[ "$status" = 1 ] && [[ $stderr == "mckpt: $dir/.metadata: byte "*" of the pickle: "* ]]
	cp whole/iter_0000003/.metadata $dir
	mckpt import -q ckpt out
	# inside the tensor that was cut off above
	poke $dir/__1_0.distcp 101000
	run --separate-stderr mckpt verify ckpt
	[ "$status" = 1 ]
	[[ $stderr == "mckpt: $dir/__1_0.distcp: 'optimizer.distributed.dp_group_idx_0."*".bucket_idx_1.exp_avg': record 'archive/data/0' does not match its CRC-32" ]]
	damaged=$stderr
	refused 1 "$damaged" mckpt import -q ckpt again
	fails 1 "$damaged" mckpt diff ckpt whole
	# the weights are whole
	mexport -q ckpt hf
	# what all ranks have in common
	cp whole/iter_0000003/__1_0.distcp $dir
	perl -0777 -pi -e 's/(iteration.{1,6}?K)\x03/$1\x02/s' $dir/*.distcp
	! diff -rq whole ckpt >diff
	refused 1 "mckpt: $dir: common_state/shard_0_1: record 'archive/data.pkl' does not match its CRC-32" mckpt import -q ckpt again
}

@test "log lines match what public parsers of Megatron-LM's logs look for" {
	cp "$TOP/tests/tiny.conf" .
	for i in $(seq 200); do echo '{"text": "1 2 3 4 5 6 7 8 9 10 11 12 13 14"}'; done >docs.jsonl
	mtok -q -o docs --tokenizer-type NullTokenizer --vocab-size 99 docs.jsonl
	mtrain -q --config tiny.conf --data-path docs_text_document --split 8,1,1 --train-iters 4 \
		--eval-iters 1 --eval-interval 2 --data-cache-path cache >log
	# hits, and an expression: of steps, of validations, of the test
	while read -r hits pattern; do
		[ "$(grep -cE -e "$pattern" log)" = "$hits" ] || { echo "$hits $pattern"; cat log; false; }
	done <<-'X'
		4 iteration +[0-9]+/ +[0-9]+ \|
		4 consumed samples: +[0-9]+ \|
		4 elapsed time per iteration \(ms\): [0-9.]+ \|
		4 throughput per GPU \(TFLOP/s/GPU\): [0-9.]+ \|
		4 learning rate: [0-9.]+E[-+][0-9]+ \|
		4 lm loss: [0-9.]+E[-+][0-9]+ \|
		4 grad norm: [0-9.]+ \|
		4 number of nan iterations: +[0-9]+ \|
		3 validation loss at iteration ([0-9]+)
		3 lm loss value: ([0-9.E+-]+) \| lm loss PPL: ([0-9.E+-]+) \| $
		1 ^ validation loss at iteration 2 \| lm loss value:
		1 ^ validation loss at iteration 4 on validation set \| lm loss value:
		1 ^ validation loss at iteration 4 on test set \| lm loss value:
	X
}

# A line a model: equal in both formats, or what its refusal ends with. The whole of it, with models
# of each family and layouts, is tests/golden/megatron_families.py.
@test "families: there and back as they are, or refused by what Megatron-LM has no part for" {
	turn=0
	while read -r model want; do
		mckpt import -q "$TOP/tests/golden/$model" ours 2>/dev/null
		to=torch
		[ $((turn += 1)) != $((turn / 2 * 2)) ] || to=torch_dist
		if [ "$want" = equal ]; then
			mckpt export -q --to $to ours there
			mckpt import -q there back
			mckpt diff -q ours back >diff
			run ! grep -v '	equal	' <(tail -n +2 diff)
			run ! grep -v -e '-token-id ' <(comm -23 <(sort ours/iter_*/options.conf) \
				<(sort back/iter_*/options.conf))
		else
			run -1 --separate-stderr mckpt export --to $to ours there
			[ "$stderr" = "mckpt: ours/iter_0000000: Megatron-LM's args cannot express $want" ]
			[ ! -e there ]
		fi
		rm -rf ours there back
	done <<-'END'
	ckpt/gpt2 equal
	ckpt/llama equal
	ckpt/mixtral equal
	ckpt/qwen3_moe equal
	families/ministral equal
	families/nemotron equal
	families/qwen3_next equal
	families/qwen3_next equal
	families/arcee --rope-scaling-type of the model
	families/cohere2 --norm-without-bias of the model
	families/deepseek_v3 --rope-original-positions of the model
	families/exaone4 --norm-placement of the model
	families/gemma --activation of the model
	families/gpt_oss the model: add_bias_linear True: biases of experts and routers, which are not read
	families/granite --rope-original-positions of the model
	families/olmo3 --norm-placement of the model
	families/olmoe --linear-biases of the model
	families/smollm3 --rope-scaling-type of the model
	END
}
