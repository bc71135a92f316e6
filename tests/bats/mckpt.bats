# mckpt: every verb, every documented status, every damaged input with its whole error line

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	hf=$TOP/tests/golden/ckpt
	make_checkpoint=$B/tests/unit/reshard
}

# copy NAME: a writable copy of a Hugging Face directory
copy()
{
	cp -r "$hf/$1" hf && chmod -R u+w hf
}

@test "import, verify, ls and info of Llama" {
	run --separate-stderr mckpt import "$hf/llama" ck
	[ "$status" = 0 ] && [ -z "$output$stderr" ]
	[ "$(cat ck/latest_checkpointed_iteration.txt)" = 0 ]
	run mckpt verify ck
	[ "$status" = 0 ] && [ "$output" = "ck/iter_0000000: ok: 39 tensors in 1 files" ]
	run mckpt ls ck
	[ "${lines[0]}" = "$(printf 'directory\titeration\ttensors\tparameters\tbytes\tdtype\toptimizer\tlatest')" ]
	[ "${lines[1]}" = "$(printf 'ck/iter_0000000\t0\t39\t248896\t497792\tBF16\tno\tyes')" ]
	run mckpt info ck
	[[ $output == *"$(printf 'family\tllama')"* ]]
	[[ $output == *"$(printf 'num_query_groups\t4')"* ]]
	[[ $output == *"$(printf 'state_iteration\t0')"* ]]
	mckpt info --tensors ck |
		grep -qx "$(printf 'output_layer.weight\tBF16\t500,64\t32000\t64000\t1')"
}

@test "import and verify of GPT-2" {
	mckpt import "$hf/gpt2" ck
	run mckpt verify ck "$hf/gpt2"
	[ "$status" = 0 ]
	[ "${lines[0]}" = "ck/iter_0000000: ok: 68 tensors in 1 files" ]
	[ "${lines[1]}" = "$hf/gpt2: ok: 52 tensors in 1 files" ]
	mckpt info ck | grep -qx "$(printf 'parameters\t196928')"
}

@test "--json is JSON, one object a line" {
	mckpt import "$hf/llama" ck
	[ "$(mckpt info --json ck | "$B/tests/tools/jsontool" lines hidden_size)" = 64 ]
	[ "$(mckpt info --json ck | "$B/tests/tools/jsontool" lines optimizer)" = false ]
	[ "$(mckpt ls --json ck | "$B/tests/tools/jsontool" lines latest)" = true ]
	[ "$(mckpt info --json --tensors ck | "$B/tests/tools/jsontool" lines dtype | sort | uniq -c)" = '     39 "BF16"' ]
}

@test "import --dtype converts, diff measures it" {
	mckpt import "$hf/llama" a
	mckpt import --dtype fp32 "$hf/llama" b
	run mckpt diff a b
	[ "$status" = 1 ]
	[ "${lines[0]}" = "$(printf 'tensor\tverdict\tdtype_a\tdtype_b\telements\tmax_abs\trelative_l2')" ]
	[ "${lines[1]}" = "$(printf 'decoder.final_layernorm.weight\tdiffers\tBF16\tF32\t64\t0\t0')" ]
	run mckpt diff --tolerance 0 a b
	[ "$status" = 0 ]
	[ "${lines[1]}" = "$(printf 'decoder.final_layernorm.weight\tclose\tBF16\tF32\t64\t0\t0')" ]
}

@test "diff: patterns, tensors of one side, shapes" {
	"$make_checkpoint" a 131
	"$make_checkpoint" b 131 extra
	"$make_checkpoint" c 140
	run mckpt diff a a
	[ "$status" = 0 ] && [ "${#lines[@]}" = 61 ]
	run --separate-stderr mckpt diff --only 'decoder.final*' a b
	[ "$status" = 1 ]
	[ "${lines[1]}" = "$(printf 'decoder.final_layernorm.weight\tonly-a\tF32\t-\t16\t-\t-')" ]
	[ "${#lines[@]}" = 4 ]
	[ "${stderr_lines[0]}" = "mckpt: b/iter_0000007: tensor 'decoder.final_layernorm.weight' is missing" ]
	[ "${stderr_lines[3]}" = "mckpt: b/iter_0000007: tensor 'decoder.final_norm.weight' does not belong to the model" ]
	run mckpt diff --ignore 'decoder.final*' a b
	[ "$status" = 0 ]
	run mckpt diff a c
	[ "$status" = 1 ]
	[[ $output == *"$(printf 'embedding.word_embeddings.weight\tshape\tF32\tF32\t2096\t-\t-')"* ]]
	refused 1 "mckpt: no tensor to compare: --only and --ignore leave none" mckpt diff --only nothing a a
}

@test "diff maps names by parameter: a checkpoint against a Hugging Face directory" {
	for family in llama gpt2; do
		mckpt import "$hf/$family" $family
		mckpt diff $family "$hf/$family" >diff
		[ "$(cut -f 2 diff | sort -u | tr '\n' ' ')" = "equal verdict " ]
		[ "$(wc -l <diff)" = "$(mckpt info --tensors "$hf/$family" | wc -l)" ]
		mckpt diff "$hf/$family" "$hf/$family" >diff
	done
	"$make_checkpoint" a 131
	mexport -q --dtype fp32 a out
	run --separate-stderr mckpt diff a out
	[ "$status" = 1 ] && [ -z "$stderr" ]
	[ "$(printf '%s\n' "${lines[@]}" | cut -f 2 | sort | uniq -c | tr -s ' \n' ' ')" = " 20 equal 40 only-a 1 verdict " ]
	mckpt diff --ignore '*.exp_avg*' a out
}

@test "cat prints a tensor or a box of it, as text or as an array of NumPy" {
	"$make_checkpoint" a 131
	name=decoder.layers.0.mlp.linear_down.weight
	[ "$(mckpt cat a $name | wc -l)" = 16 ]
	[ "$(mckpt cat a $name | awk -F '\t' '{ print NF }' | sort -u)" = 24 ]
	[ "$(mckpt cat a $name --slice 3:5,7:8)" = "$(mckpt cat a $name | sed -n 4,5p | cut -f 8)" ]
	[ "$(mckpt cat a $name.exp_avg --slice :,0)" = "$(mckpt cat a $name.exp_avg | cut -f 1)" ]
	mckpt cat a $name --slice 3:5,7:10 --npy >box.npy
	[ "$(head -c 118 box.npy | tail -c 108 | tr -d '\n')" = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }$(printf '%49s' '')" ]
	[ "$(tail -c 24 box.npy | od -An -v -tf4 -w12 | awk '{ printf "%.5g %.5g %.5g\n", $1, $2, $3 }')" = \
		"$(mckpt cat a $name --slice 3:5,7:10 | awk '{ printf "%.5g %.5g %.5g\n", $1, $2, $3 }')" ]
	mckpt cat "$hf/llama" output_layer.weight --slice 0:1,0:2 | grep -qx "$(printf '0.0625\t-0.1875')"
	fails 2 "mckpt: --slice '3:5,25': dimension 1: must be a range a:b with 0 <= a < b <= 24, or an index" \
		mckpt cat a $name --slice 3:5,25
	fails 2 "mckpt: --slice '1,2,3': more ranges than the 2 dimensions" mckpt cat a $name --slice 1,2,3
	refused 1 "mckpt: a/iter_0000007: no tensor 'x'; mckpt info --tensors lists them" mckpt cat a x
	run bash -c "mckpt cat a $name >/dev/full"
	[ "$status" = 1 ]
}

@test "cast rounds the weights, keeps the optimizer's state, and says what the type cannot hold" {
	"$make_checkpoint" a 131
	refused 0 "" mckpt cast --dtype bf16 a b
	mckpt verify b
	[ "$(mckpt info --tensors b | grep -v '^tensor' | awk '{ print $2, $1 ~ /exp_avg/ }' | sort | uniq -c | tr -s ' \n' ' ')" = " 20 BF16 0 40 F32 1 " ]
	mckpt diff --only '*.exp_avg*' a b >diff
	mckpt diff --tolerance 0.004 a b >diff
	mckpt cast --dtype fp32 --no-optim b c
	mckpt diff --tolerance 0 --only '*weight' b c >diff
	mckpt info c | grep -qx "$(printf 'optimizer\tfalse')"
	grep -qx 'dtype F32' c/iter_0000007/state.conf
	[ "$(cat c/latest_checkpointed_iteration.txt)" = 7 ]
	"$make_checkpoint" big 131 large
	refused 0 "mckpt: half: 1 numbers are too large for fp16 and became infinite, 0 are too small and became 0" \
		mckpt cast --dtype fp16 big half
	fails 2 "mckpt: --dtype: needed, one of bf16, fp16, fp32" mckpt cast a d
	fails 1 "mckpt: 'b' holds a checkpoint already; --force writes into it" mckpt cast --dtype fp16 a b
}

# sums CHECKPOINT: name, type, shape and checksum of every tensor
sums()
{
	grep -v -e '^#' -e '^tensor' "$1"/iter_*/manifest.tsv | cut -f 1-3,9
}

@test "export of experts to Megatron-LM's formats and back" {
	for model in mixtral qwen3_moe; do
		for options in '' '--to torch --transformer-impl local' '--transformer-impl local --tensor-model-parallel-size 2' \
			'--to torch --moe-grouped-gemm --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2'; do
			rm -rf there back
			# shellcheck disable=SC2086 # a list of words
			mckpt export -q $options "$hf/$model" there
			mckpt import -q there back
			mckpt diff "$hf/$model" back >diff
		done
	done
	mckpt export -q --to torch --expert-model-parallel-size 2 "$hf/mixtral" shared
	[ "$(ls shared/iter_0000000)" = "$(printf 'mp_rank_00_000\nmp_rank_00_001')" ]
	grep -aq 'local_experts.1.linear_fc1.weight' shared/iter_0000000/mp_rank_00_001/model_optim_rng.pt
	run grep -aq 'local_experts.2' shared/iter_0000000/mp_rank_00_001/model_optim_rng.pt
	[ "$status" = 1 ]
	mckpt diff "$hf/mixtral" shared >diff
	fails 1 "mckpt: --expert-model-parallel-size 3: must divide --num-experts 4 (try 2)" \
		mckpt export --expert-model-parallel-size 3 "$hf/mixtral" three
	fails 1 "mckpt: --expert-model-parallel-size 2: $hf/llama: the model has no experts" \
		mckpt export --expert-model-parallel-size 2 "$hf/llama" three
}

@test "export of experts that tensor ranks do not share as they share the rest, and back" {
	mckpt export -q --to torch --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 \
		--expert-model-parallel-size 4 --pipeline-model-parallel-size 2 "$hf/mixtral" there
	[ "$(ls there/iter_0000000 | tr '\n' ' ')" = "$(printf 'mp_rank_%s ' 00_000_000 00_000_002 \
		00_001_000 00_001_002 01_000_001 01_000_003 01_001_001 01_001_003)" ]
	mckpt import -q there back
	mckpt diff "$hf/mixtral" back >diff
	mckpt verify -q there
	rm -r there/iter_0000000/mp_rank_01_001_003
	fails 1 "mckpt: there/iter_0000000: 7 mp_rank_* directories, but the run had 2 tensor ranks in 2 stages, for each expert rank" \
		mckpt import there again
	mckpt export -q --expert-tensor-parallel-size 4 "$hf/mixtral" chunks
	mckpt import -q chunks of-chunks
	mckpt diff "$hf/mixtral" of-chunks >diff
	fails 1 "mckpt: --expert-tensor-parallel-size 2: must be at most --tensor-model-parallel-size 1 with --to torch, or ranks have files of the same name" \
		mckpt export --to torch --expert-tensor-parallel-size 2 "$hf/mixtral" other
	fails 1 "mckpt: --expert-model-parallel-size 1 x --expert-tensor-parallel-size 1: must be a multiple of --tensor-model-parallel-size 2 with --to torch, or not all tensor ranks have files" \
		mckpt export --to torch --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1 "$hf/mixtral" other
}

@test "upcycle: every expert is the MLP, the rest as it was" {
	refused 0 "" mckpt upcycle --num-experts 4 --router-init-std 0.1 "$hf/llama" moe
	mckpt verify moe
	mckpt import "$hf/llama" dense
	for e in 0 1 2 3; do
		sums moe | grep -v router | sed -n "s/\.experts\.$e\./.experts./; /experts\.[0-9]/d; p" |
			sed 's/\.experts\.linear/.linear/' | diff - <(sums dense)
	done
	sums moe | grep router | cut -f 1-3 >routers
	[ "$(cut -f 2- routers | sort | uniq -c)" = "      4 BF16	4,64" ]
	[ "$(mckpt cat moe decoder.layers.1.mlp.router.weight | tr '\t' '\n' |
		awk '{ q += $1 * $1 } END { s = sqrt(q / NR); print NR, (s > 0.085 && s < 0.115) }')" = "256 1" ]
	mckpt info moe | grep -q 'state_provenance_0	upcycle --num-experts 4 --router-init-std 0.1; Hugging Face directory '
	mexport -q moe out
	grep -q '"model_type": "mixtral"' out/config.json
	"$make_checkpoint" a 131
	refused 0 "mckpt: a/iter_0000007: the optimizer's state is left out" \
		mckpt upcycle --num-experts 2 --dtype bf16 a b
	[ "$(mckpt info b | grep -e '^optimizer' -e '^dtype' -e state_iteration)" = "dtype	BF16
optimizer	false
state_iteration	7" ]
}

@test "upcycle --ffn-init-ratio: channels of gate, up and down are replaced by normal numbers of the same mean and deviation" {
	mckpt import "$hf/llama" dense
	mckpt upcycle --num-experts 2 --ffn-init-ratio 0.25 dense a
	mckpt upcycle --num-experts 2 --ffn-init-ratio 0.25 dense b
	mckpt diff a b >diff
	mckpt upcycle --num-experts 2 --ffn-init-ratio 0.25 --seed 5 dense c
	run mckpt diff --only '*experts.1*' a c
	[ "$(printf '%s\n' "${lines[@]}" | grep -c differs)" = 12 ]
	# rows MATRIX WHERE: as lines, of a channel each
	rows() {
		mckpt cat "$2" "$1" | if [[ $1 == *down* ]]; then
			awk '{ for (i = 1; i <= NF; i++) t[i] = t[i] $i "\t" } END { for (i = 1; i <= NF; i++) print t[i] }'
		else
			sed 's/$/\t/'
		fi
	}
	for m in gate up down; do
		rows decoder.layers.2.mlp.linear_$m.weight dense >old
		for e in 0 1; do
			rows decoder.layers.2.mlp.experts.$e.linear_$m.weight a >new
			paste -d '|' old new | awk -F '|' '$1 != $2 { print NR }' >channels.$e.$m
			[ "$(wc -l <channels.$e.$m)" = 44 ]
			cmp channels.$e.$m channels.$e.gate
			paste -d '|' old new | awk -F '|' '$1 != $2' | awk -F '[|\t]+' '
				{ for (i = 1; i <= 64; i++) { a += $i; p += $i ^ 2; b += $(64 + i); q += $(64 + i) ^ 2 } }
				END { n = 64 * NR; s = sqrt(p / n); exit !((q / p) ^ 0.5 > 0.95 && (q / p) ^ 0.5 < 1.05 &&
					(a - b) ^ 2 < 9 * n * s ^ 2) }'
		done
		run cmp channels.0.$m channels.1.$m
		[ "$status" = 1 ]
	done
}

@test "upcycle refuses what cannot have experts" {
	fails 2 "mckpt: --num-experts: needed, such as 8" mckpt upcycle "$hf/llama" ck
	fails 1 "mckpt: $hf/mixtral: the model has 4 experts already" mckpt upcycle --num-experts 4 "$hf/mixtral" ck
	fails 1 "mckpt: $hf/llama: --moe-router-topk 5: must be at most --num-experts 4" \
		mckpt upcycle --num-experts 4 --moe-router-topk 5 "$hf/llama" ck
	fails 1 "mckpt: $hf/gpt2: its MLPs have biases: no experts are made of such" \
		mckpt upcycle --num-experts 4 "$hf/gpt2" ck
	fails 2 "mckpt: --ffn-init-ratio 1.5: must be from 0 to 1" mckpt upcycle --num-experts 4 --ffn-init-ratio 1.5 "$hf/llama" ck
	[ ! -e ck ]
	fails 2 "mtrain: --moe-use-upcycling: mckpt upcycle makes experts of a dense model before the run" \
		mtrain --moe-use-upcycling --dry-run --vocab-size 9 --seq-length 8 --num-layers 1 \
		--hidden-size 8 --num-attention-heads 1
	mckpt import "$hf/llama" ck
	fails 1 "mckpt: 'ck' holds a checkpoint already; --force writes into it" mckpt upcycle --num-experts 4 "$hf/llama" ck
}

@test "average: of checkpoints of a run, by Megatron-LM's options, and of any sources" {
	"$make_checkpoint" run 131
	for i in 2 4; do
		cp -r run/iter_0000007 run/iter_000000$i
		sed -i "s/^iteration 7/iteration $i/; s/^optimizer_steps 7/optimizer_steps $i/" run/iter_000000$i/state.conf
		mckpt seal run/iter_000000$i >sealed
	done
	left_out="mckpt: run/iter_0000007: the optimizer's state is left out"
	unknown="sources do not say which tokenizer they are of: it is not compared"
	fails 0 "mckpt: 2 of 2 $unknown
$left_out" mckpt average run --last 2 mean
	[ "$output" = "source	iteration	weight
run/iter_0000004	4	0.5
run/iter_0000007	7	0.5" ]
	mckpt diff --ignore '*.exp_avg*' run/iter_0000007 mean >differences
	mckpt info mean | grep -q 'state_provenance_0	average --last 2; masters; checkpoint [0-9a-f]* 0.5, checkpoint [0-9a-f]* 0.5; mikoshi '
	run -0 mckpt average -q --merge-inputs run --start-checkpoint 0 --end-checkpoint 7 --min-iteration-interval 3 \
		--merge-style minus-sqrt__reverse --merge-output mean2 --merge-save-dtype bfloat16 --output-iteration 9 \
		--overwrite-merge-output --model-builder gpt --coefficient-seed 3
	[ "$output" = "source	iteration	weight
run/iter_0000004	4	0.292893218813452
run/iter_0000007	7	0.707106781186548" ]
	[ "$(mckpt info mean2 | grep -e '^dtype' -e '^lr' -e state_iteration)" = "dtype	BF16
state_iteration	9" ]
	fails 0 "mckpt: the weights sum to 0.5: so much is in every tensor
mckpt: 2 of 2 $unknown
$left_out" mckpt average --merge-inputs run/iter_0000004:-0.25 run/iter_0000007:0.75 --merge-output half
	mckpt average -q --merge-preflight-only --merge-style ema --decay 0.5 "$hf/llama" "$hf/llama" none
	[ ! -e none ]
}

@test "average refuses what it cannot average, before anything is written" {
	"$make_checkpoint" a 131
	mckpt import "$hf/llama" b
	refused 1 "mckpt: 'a/iter_0000007' and 'b/iter_0000000' are different models: 'num-layers 2' and 'num-layers 4', 'hidden-size 16' and 'hidden-size 64', 'ffn-hidden-size 24' and 'ffn-hidden-size 176', 'num-attention-heads 4' and 'num-attention-heads 8', 'num-query-groups 2' and 'num-query-groups 4', 'kv-channels 4' and 'kv-channels 8', 'vocab-size 131' and 'vocab-size 500', no untie-embeddings-and-output-weights and 'untie-embeddings-and-output-weights'" \
		mckpt average a b out
	refused 1 "mckpt: 'a' is the source 'a', or inside it; give another directory" mckpt average --force a a
	refused 1 "mckpt: 'b/x/y' is the source 'b', or inside it; give another directory" mckpt average b b/x/y
	refused 2 "mckpt: --merge-inputs a:nan: the weight is not a finite number" mckpt average --merge-inputs a:nan --merge-output out
	refused 2 "mckpt: --merge-inputs a: must be PATH:WEIGHT" mckpt average --merge-inputs a --merge-output out
	refused 2 "mckpt: --normalize: the weights sum to 0; their sum must be above 0" \
		mckpt average --normalize --merge-inputs a:1 a:-1 --merge-output out
	refused 2 "mckpt: --merge-inputs: the weights sum to 0" mckpt average --merge-inputs a:1 a:-1 --merge-output out
	refused 1 "mckpt: --min-checkpoints 3: there are 2" mckpt average --min-checkpoints 3 a a out
	refused 1 "mckpt: no 'a/iter_0000009', or it is before --start-checkpoint 0" mckpt average --end-checkpoint 9 a out
	refused 1 "mckpt: a/iter_0000007: its options say no --seq-length and --global-batch-size: give --start-checkpoint in place of --merge-window-btoks" \
		mckpt average --merge-window-btoks 1 --end-checkpoint 7 a out
	refused 2 "mckpt: --last: needs one SRC, the SAVE directory of a run" mckpt average --last 2 a b out
	refused 2 "mckpt: needs SRC ... DST" mckpt average out
	[ ! -e out ] && [ ! -e b/x ]
}

@test "stack, drop-layers, set, strip and extract, and what they refuse" {
	"$make_checkpoint" a 131
	refused 0 "" mckpt stack --layers 0:4,2:4 --zero-new "$hf/llama" deep
	refused 0 "" mckpt drop-layers --layers 4: --no-optim deep back
	mckpt diff "$hf/llama" back >differences
	mckpt info back | grep -q 'state_provenance_1	drop-layers --layers 4: --no-optim; checkpoint '
	refused 0 "mckpt: a/iter_0000007: 'rotary-base 10000.0' becomes 'rotary-base 500000.0'" \
		mckpt set --rope-theta 5e5 a long
	mckpt diff a long >differences
	refused 0 "" mckpt strip --dtype bf16 a stripped
	[ "$(mckpt info stripped | grep -e '^dtype' -e '^optimizer')" = "dtype	BF16
optimizer	false" ]
	refused 1 "mckpt: a/iter_0000007: holds no average of the weights, as a run with --ema-decay saves" \
		mckpt extract --ema a out
	refused 2 "mckpt: needs --ema, --layers or --tensors" mckpt extract a out
	refused 1 "mckpt: a/iter_0000007: no tensor matches 'x*'; mckpt info --tensors lists them" \
		mckpt extract --tensors 'x*' a out
	refused 1 "mckpt: 'a/x' is the source 'a', or inside it; give another directory" \
		mckpt extract --tensors '*' a a/x
	refused 0 "" mckpt extract --tensors '*final_layernorm*' --dtype bf16 a some.safetensors
	refused 1 "mckpt: 'some.safetensors' exists; --force replaces it" \
		mckpt extract --tensors '*' a some.safetensors
	refused 1 "mckpt: 'long' exists and is a directory" mckpt extract --tensors '*' --force a long
	mckpt extract --tensors '*final_layernorm.weight.exp_avg*' a moments.safetensors
	for state in exp_avg exp_avg_sq; do
		mckpt cat --npy a "decoder.final_layernorm.weight.$state" | tail -c 64
	done >want
	[ "$(tail -c 128 moments.safetensors | sha256sum)" = "$(sha256sum <want)" ]
	refused 2 "mckpt: --layers: needed, such as 0:24,8:32" mckpt stack a out
	refused 2 "mckpt: --num-layers: changes the tensors: mckpt stack and mckpt drop-layers change it" \
		mckpt set --num-layers 3 a out
	refused 2 "mckpt: --swiglu: is not set: it gives the stored weights another meaning" mckpt set --swiglu a out
	refused 2 "mckpt: --untie: not with --tie" mckpt set --untie --tie equal a out
	refused 2 "mckpt: needs an option to set" mckpt set a out
	refused 1 "mckpt: $hf/gpt2: --max-position-embeddings: learned positions are a tensor" \
		mckpt set --max-position-embeddings 99 "$hf/gpt2" out
	[ ! -e out ]
}

@test "resize-vocab: rows follow the pieces of SentencePiece models, and what it refuses" {
	for i in $(seq 60); do
		printf '{"text": "the quick brown fox number %d jumps over the lazy dog and runs"}\n' "$i"
	done >t.jsonl
	for size in 300 340; do
		mtok train -q --sentencepiece-defaults -o $size.model --model-type bpe --vocab-size $size --byte-fallback t.jsonl
	done
	grow="mckpt resize-vocab --old-tokenizer-model 300.model --tokenizer-model 340.model"
	shrink="mckpt resize-vocab --old-tokenizer-model 340.model --tokenizer-model 300.model"
	refused 0 "mckpt: 500 rows: 263 same, 37 moved, 0 role, 0 map, 40 mean-of, 0 mean, 160 kept
mckpt: 0 of 40 new rows are equal to another" $grow --report rows.tsv "$hf/llama" grown
	[ "$(sed -n '296p;501p' rows.tsv | tr '\t' '/')" = "294/ num/mean-of/263 265 261/ |n|um/
499//kept/499//" ]
	refused 0 "mckpt: 300 rows: 263 same, 37 moved, 0 role, 0 map, 0 mean-of, 0 mean, 0 kept
mckpt: rows of 40 old tokens are of no new token and are lost" $shrink --shrink grown small
	is=$(mtok info --tokenizer-model 300.model | sed -n 's/^hash	//p')
	other=$(mtok info --tokenizer-model 340.model | sed -n 's/^hash	//p')
	mckpt info small | grep -qx "state_tokenizer	$is"
	refused 1 "mckpt: small/iter_0000000: the old tokenizer has hash $other, but the weights are of one with $is" \
		$shrink small out
	refused 2 "mckpt: --tokenizer-model: needed: the new tokenizer" mckpt resize-vocab small out
	refused 1 "mckpt: small/iter_0000000: --old-tokenizer-model: needed: no tokenizer lies beside the weights" \
		mckpt resize-vocab --tokenizer-model 340.model small out
	printf '5\t6\nx\n' >map
	refused 1 "mckpt: map:2: must be an old token, a tab and a new one" $grow --map map small out
	[ ! -e out ]
}

@test "merge: operands and files of mergekit, and what it refuses" {
	mckpt import -q --dtype fp32 "$hf/llama" a
	mckpt stack -q --layers 1,0,3,2 a b
	mckpt stack -q --layers 3,2,1,0 a c
	run --separate-stderr mckpt merge --method ties --base c --density 0.5 a:0.5 b:0.25 ties
	[ "$status" = 0 ] && [ -z "$output" ]
	[ "${stderr_lines[0]}" = "mckpt: 3 of 3 sources do not say which tokenizer they are of: it is not compared" ]
	mckpt info ties | grep -q 'state_provenance_2	merge --method ties --base "\?c"\? --density 0.5; masters; checkpoint [0-9a-f]* 0.5, checkpoint [0-9a-f]* 0.25, checkpoint [0-9a-f]* 0; mikoshi '
	printf '%s\n' 'models:' '  - model: a' '    parameters: {}' >m.yml
	refused 2 "mckpt: m.yml:3: 'parameters': a list, such as one of values over layers, is not read" \
		mckpt merge --mergekit-config m.yml out
	cat >m.yml <<-END
		merge_method: ties
		base_model: c
		models:
		  - model: c
		  - model: a
		    parameters:
		      weight: 0.5
		  - model: b
		    parameters:
		      weight: 0.25
		parameters:
		  density: 0.5
	END
	mckpt merge -q --mergekit-config m.yml same
	mckpt diff ties same >diff
	refused 2 "mckpt: linear: needs no --base" mckpt merge --base c a b out
	refused 2 "mckpt: ties: needs --base" mckpt merge --method ties a b out
	refused 2 "mckpt: slerp: needs two models, not 3" mckpt merge --method slerp a b c out
	refused 2 "mckpt: the weights sum to 0" mckpt merge a:1 b:-1 out
	refused 2 "mckpt: a:inf: the weight after ':' is not a finite number" mckpt merge a:inf b out
	refused 2 "mckpt: --density 1.5: must be from 0 to 1" mckpt merge --method ties --base c --density 1.5 a b out
	sed -i 's/density: 0.5/density: 1.5/' m.yml
	refused 2 "mckpt: a: density 1.5: must be from 0 to 1" mckpt merge --mergekit-config m.yml out
	refused 2 "mckpt: --semantics paper: the vote of ties knows no weights: give equal ones" \
		mckpt merge --semantics paper --method ties --base c a:0.5 b out
	refused 2 "mckpt: --vocab-of: is for --method task_arithmetic" mckpt merge --vocab-of a a b out
	refused 1 "mckpt: 'c' is the source 'c', or inside it; give another directory" \
		mckpt merge --force --method task_arithmetic --base c a b c
	[ ! -e out ]
}

# stage: what the examples of the manual name
stage()
{
	"$make_checkpoint" run 131
	for i in 1000 500 6000 8000 9000 10000; do
		dir=run/iter_$(printf %07d $i)
		cp -r run/iter_0000007 "$dir"
		sed -i "s/^iteration 7/iteration $i/; s/^optimizer_steps 7/optimizer_steps $i/
			s/^consumed_train_samples 112/consumed_train_samples $((16 * i))/" "$dir/state.conf"
		mckpt seal "$dir" >/dev/null
	done
	rm -r run/iter_0000007
	echo 10000 >run/latest_checkpointed_iteration.txt
	seq -f '{"text": "日本語の 文 %g と other words"}' 300 >ja.jsonl
	for n in old:330 new:380; do
		mtok train -q --model-type bpe --vocab-size "${n#*:}" --byte-fallback \
			--soft-vocab-limit -o "${n%:*}.model" ja.jsonl
	done
	mckpt import -q "$hf/llama" four
	mckpt stack -q --layers 0:4,0:4 four eight
	mexport -q --tokenizer-model old.model eight llama
	ln -s llama Llama-2-7b-hf
	ln -s llama Llama-3.1-8B
	"$B/tests/unit/adapter" 64 >/dev/null
	cp old.model base.model
	cp new.model own.model
	cp -r four base
	mckpt stack -q --layers 1,0,2,3 four instruct
	mckpt resize-vocab -q --old-tokenizer-model old.model --tokenizer-model new.model four own
	printf '%s\n' 'seq-length 16' 'global-batch-size 2' 'lr 1e-4' 'eval-iters 0' >small.conf
}

@test "the examples of the manual" {
	stage
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh DIAGNOSTICS/p' "$TOP/man/mckpt.1" | awk '
		/^\$ / { on = 1 }
		/^\./ { on = 0 }
		on { sub(/^\$ /, ""); gsub(/\\e/, "\\"); print }' >examples.sh
	[ "$(grep -c mckpt examples.sh)" -ge 18 ]
	bash -e examples.sh >said 2>notes || { cat said notes; false; }
	[ "$(grep -c '^same$' said)" = 2 ]
	grep -q '^hf: ok: ' said
	grep -qx "run/iter_0010000	10000	0.2" said
	grep -qx "run/iter_0008000	8000	0.577350269189626" said
	head -n 1 rows.tsv | grep -q '^id	piece	from	old_ids	old_pieces	equal_to$'
	grep -q "^mckpt: 2 tensors: 1 modules with a pair, 0 tensors replaced" notes
	grep -q ' tokens are in both vocabularies; rows of the others stay as they were$' notes
	mckpt verify deep long grown merged chat mean decayed settled trained megatron >verified
}

# verbs: each verb that makes a model of others, without mckpt and DST, of what stage_deep makes
verbs()
{
	cat <<-'END'
		average --merge-style minus-sqrt deep deep deep
		merge --method ties --base deep --density 0.5 ./deep turned
		merge --method slerp --t 0.3 deep turned
		merge --method dare_ties --density 0.5 --base deep turned turned
		stack --layers 0:32,16:32 --zero-new deep
		drop-layers --layers 8:16 deep
		set --rotary-base 5e5 deep
		set --tie mean deep
		resize-vocab --old-tokenizer-model old.model --tokenizer-model new.model deep
		apply-lora deep adapter
		upcycle --num-experts 2 deep
		strip --dtype bf16 deep
		extract --layers 0:16 deep
	END
}

# stage_deep: what they read
stage_deep()
{
	seq -f '{"text": "日本語の 文 %g と other words"}' 300 >ja.jsonl
	for n in old:330 new:380; do
		mtok train -q --model-type bpe --vocab-size "${n#*:}" --byte-fallback \
			--soft-vocab-limit -o "${n%:*}.model" ja.jsonl
	done
	"$B/tests/unit/adapter" 64 >/dev/null
	mckpt import -q --dtype fp32 "$hf/llama" four
	mckpt stack -q --layers "$(yes 0:4 | head -n 8 | paste -sd ,)" four deep
	mckpt stack -q --layers "$(yes 3,2,1,0 | head -n 8 | paste -sd ,)" four turned
}

# KILLS=10 for ten of each verb
@test "a verb that is killed leaves nothing that opens, and the next one succeeds" {
	stage_deep
	verbs | while read -r verb; do
		for i in $(seq "${KILLS:-1}"); do
			rm -rf out
			# shellcheck disable=SC2086 # a list of words
			timeout -s KILL "0.0$((RANDOM % 50 + 10))" mckpt ${verb%% *} -q ${verb#* } out >said || :
			! mckpt info out >info 2>&1 || mckpt verify out
		done
		mckpt ${verb%% *} -q --force ${verb#* } out >said 2>&1 || { cat said; exit 1; }
		mckpt verify out
		[ -z "$(find out -name '.*' -type d)" ]
	done
}

@test "the same command twice gives the same bytes, and of another layout the same tensors" {
	stage_deep
	mckpt reshard -q --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
		--data-parallel-size 2 deep ranks
	verbs | while read -r verb; do
		for out in first second; do
			# shellcheck disable=SC2086 # a list of words
			mckpt ${verb%% *} -q ${verb#* } $out >said
		done
		diff -r first second
		mckpt ${verb%% *} -q $(sed 's/\<deep\>/ranks/g' <<<"${verb#* }") third >said
		mckpt diff first third >differences
		rm -r first second third
	done
}

@test "a full disk ends a verb with one line, and nothing is published" {
	unshare -rm true 2>/dev/null || skip "no name space of mounts"
	stage_deep
	mkdir disk
	verbs >list
	# shellcheck disable=SC2016 # the inner shell expands it
	unshare -rm sh -c '
		mount -t tmpfs -o size=512k none disk || exit 1
		while read -r verb; do
			mckpt ${verb%% *} -q ${verb#* } disk/out >said 2>err && echo "$verb: succeeds"
			printf "%s\t%s\t%s\n" "$(wc -l <err)" "$(cat err)" "$(ls -A disk/out)"
			rm -rf disk/out
		done <list' >ends
	[ "$(wc -l <ends)" = "$(wc -l <list)" ]
	run ! grep -v "^1	mckpt: cannot .*'disk/out/.*: No space left on device	$" ends
}

@test "a copy records where it comes from" {
	mckpt import --dtype fp32 "$hf/llama" a
	mckpt reshard --tensor-model-parallel-size 2 --no-optim a b
	mckpt cast --dtype bf16 b c
	release=$(mckpt --version | sed -n '1s/.* \([0-9.]*\), commit.*/mikoshi \1/p')
	mckpt info c | grep '^state_provenance_' >lines
	[ "$(cut -d ';' -f 1,3 lines)" = "$(printf '%s\n' "state_provenance_0	import --dtype fp32; $release" \
		"state_provenance_1	reshard --tensor-model-parallel-size 2 --no-optim; $release" \
		"state_provenance_2	cast --dtype bf16; $release")" ]
	[ "$(sed 's/.*; \(.*\) [0-9a-f]\{16\};.*/\1/' lines | tr '\n' '|')" = "Hugging Face directory|checkpoint|checkpoint|" ]
	mckpt verify c
	mckpt seal c
}

@test "info describes a Hugging Face directory" {
	run mckpt info "$hf/llama"
	[ "$status" = 0 ]
	[[ $output == *"$(printf 'format\tHugging Face directory\nfamily\tllama\nparameters\t248896\n')"* ]]
	mckpt info --tensors "$hf/llama" |
		grep -qx "$(printf 'output_layer.weight\tBF16\t500,64\t32000\t64000\t1')"
}

@test "reshard there and back, with optimizer state" {
	"$make_checkpoint" a 131
	mckpt reshard a b --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
		--data-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1
	[ "$(cat b/latest_checkpointed_iteration.txt)" = 7 ]
	run mckpt verify b
	[ "$status" = 0 ] && [ "$output" = "b/iter_0000007: ok: 60 tensors in 8 files" ]
	mckpt diff a b >diff
	grep -qx 'pipeline-model-parallel-size 2' b/iter_0000007/options.conf
	grep -qx 'data-path 1 "a b"' b/iter_0000007/options.conf
	diff a/iter_0000007/state.conf <(grep -v '^provenance_' b/iter_0000007/state.conf)
	grep -qx 'num-layers-per-virtual-pipeline-stage 1' b/iter_0000007/options.conf
	mckpt info b | grep -qx "$(printf 'tensor_model_parallel_size\t2')"
	mckpt info b | grep -qx "$(printf 'pipeline_model_parallel_layout\tEt|tL')"
	mckpt reshard b c
	mckpt reshard a d
	diff -r -I '^provenance_' -I '^# ' c d
	mckpt reshard --no-optim a e
	mckpt ls e | grep -q "$(printf 'F32\tno\tyes')"
}

@test "reshard writes the files that a run of that layout writes" {
	mckpt import --dtype fp32 "$hf/llama" ck
	mpirun -np 4 mtrain -q --load ck --finetune --save run --use-checkpoint-args \
		--seq-length 12 --micro-batch-size 1 --global-batch-size 2 --train-iters 2 \
		--lr 1e-4 --mock-data --tensor-model-parallel-size 2 --bf16 >log 2>&1
	mckpt reshard run there --pipeline-model-parallel-size 4
	mckpt reshard there back --tensor-model-parallel-size 2 --data-parallel-size 2
	# mckpt has its own order of lines in options.conf, so the checksum may differ.
	diff <(grep -v '^# ' run/iter_0000002/manifest.tsv) \
		<(grep -v '^# ' back/iter_0000002/manifest.tsv)
	diff run/iter_0000002/state.conf <(grep -v '^provenance_' back/iter_0000002/state.conf)
	for f in pieces-00000.safetensors pieces-00001.safetensors pieces-00002.safetensors pieces-00003.safetensors; do
		cmp run/iter_0000002/$f back/iter_0000002/$f
	done
	mexport -q there out
	grep -q '"dtype": "bfloat16"' out/config.json
}

@test "reshard: experts that ranks share, there and back" {
	mpirun -np 4 mtrain -q --config "$TOP/tests/tiny.conf" --mock-data --disable-bias-linear \
		--num-experts 4 --global-batch-size 2 --train-iters 1 --lr 1e-4 --save run \
		--tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2 \
		--use-distributed-optimizer >log 2>&1
	mckpt reshard run there
	mckpt reshard there back --tensor-model-parallel-size 2 --data-parallel-size 2 \
		--expert-model-parallel-size 2
	for f in pieces-00000.safetensors pieces-00001.safetensors pieces-00002.safetensors pieces-00003.safetensors; do
		cmp run/iter_0000001/$f back/iter_0000001/$f
	done
	grep -qx 'expert-model-parallel-size 2' back/iter_0000001/options.conf
	mckpt reshard there else --data-parallel-size 4 --expert-tensor-parallel-size 4
	mckpt verify else
	mckpt diff run else >diff
	fails 1 "mckpt: --expert-tensor-parallel-size 4: must divide the ranks of a pipeline stage, 2 (try 2)" \
		mckpt reshard run other --data-parallel-size 2 --expert-tensor-parallel-size 4
}

@test "reshard refuses what is not legal" {
	"$make_checkpoint" a 131
	run --separate-stderr mckpt reshard a b --tensor-model-parallel-size 3
	[ "$status" = 1 ]
	[[ $stderr == *--tensor-model-parallel-size* ]]
	[ ! -e b ]
	for force in "" --force; do
		fails 1 "mckpt: 'a/iter_0000007' is the source: it is not replaced; give another directory" \
			mckpt reshard $force a a
	done
	mckpt verify -q a
	mckpt import "$hf/llama" b
	fails 1 "mckpt: 'b' holds a checkpoint already; --force writes into it" mckpt import \
		"$hf/llama" b
	mckpt import --force "$hf/gpt2" b
	mckpt verify b
	fails 1 "mckpt: '$hf/gpt2/config.json' exists and is not a directory" mckpt import \
		"$hf/llama" "$hf/gpt2/config.json"
}

# train FAMILY: one step in bf16, with the state of Adam, as ./FAMILY
train()
{
	mckpt import --dtype fp32 "$hf/$1" "of-$1"
	mtrain -q --load "of-$1" --finetune --save "$1" --use-checkpoint-args --seq-length 12 \
		--micro-batch-size 1 --train-iters 1 --lr 1e-4 --mock-data --bf16 >"$1.log" 2>&1
}

# there_and_back FAMILY FORMAT OPTION...: an export holds what it was made of
there_and_back()
{
	local from=$1 to=$2
	shift 2
	rm -rf there back
	run --separate-stderr mckpt export --to "$to" "$@" "$from" there
	[ "$status" = 0 ] && [ -z "$output" ]
	[[ $stderr == "mckpt: there: the vocabulary tables get "*" padding, zeros" ]]
	[ "$(cat there/latest_checkpointed_iteration.txt)" = 1 ]
	[ "$(find there -mindepth 1 -maxdepth 1 -name '.*')" = "" ]
	mckpt import -q there back
	mckpt diff "$from" back >diff
	grep -q '^optimizer_steps 1$' back/iter_0000001/state.conf
}

@test "export to Megatron-LM's formats and back, with the optimizer" {
	train llama
	train gpt2
	for to in torch torch_dist; do
		for optimizer in '' --use-distributed-optimizer; do
			there_and_back llama $to $optimizer
			there_and_back llama $to $optimizer --tensor-model-parallel-size 4 --transformer-impl local
			there_and_back gpt2 $to $optimizer --tensor-model-parallel-size 2 \
				--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
		done
	done
	there_and_back llama torch --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1
	[ "$(ls there/iter_0000001)" = "$(printf 'mp_rank_00_000\nmp_rank_00_001')" ]
	mckpt export -q --no-optim --dtype fp32 llama weights
	mckpt info weights | grep -qx "$(printf 'optimizer\tfalse')"
	mckpt diff --ignore '*.exp_avg*' llama weights >diff
	mckpt export back again 2>err
	run grep learning err
	[ "$status" = 1 ]
	sed -i '/^schedule /d' back/iter_0000001/state.conf
	sed -i '/^lr /d' back/iter_0000001/options.conf
	mckpt seal back >/dev/null
	mckpt export --force back again 2>err
	grep -qx "mckpt: back/iter_0000001: its learning rate is not known: Megatron-LM takes the optimizer only with the --lr and --min-lr of its run" err
	mckpt export --force --lr 1e-4 back again 2>err
	run grep learning err
	[ "$status" = 1 ]
}

@test "export to Megatron-LM's formats and back: latents, layers that predict later tokens" {
	flat=--use-distributed-optimizer
	small='--mock-data --vocab-size 61 --num-layers 4 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 24
		--normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope --seq-length 12
		--mtp-num-layers 2 --mtp-loss-scaling-factor 0.3 --micro-batch-size 1 --global-batch-size 1
		--hidden-dropout 0 --attention-dropout 0 --eval-iters 0 --num-threads 1 --train-iters 1 --lr 1e-3 --bf16'
	experts='--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 8 --moe-layer-freq ([0]+[1])*2'
	latents='--multi-latent-attention --qk-layernorm --kv-lora-rank 6 --qk-head-dim 4 --qk-pos-emb-head-dim 2 --v-head-dim 5'
	yarn='--q-lora-rank 12 --rotary-scaling-factor 4 --mscale 0.7 --mscale-all-dim 1.2'
	stages='--pipeline-model-parallel-size 2'
	for model in '' --untie-embeddings-and-output-weights "$experts" "$latents" "$latents $yarn $experts"; do
		rm -rf tied
		# shellcheck disable=SC2086 # options are words
		mtrain -q --save tied $small $model >log 2>&1
		for form in torch_dist "torch_dist $flat $stages --tensor-model-parallel-size 2" torch \
			"torch $flat $stages --transformer-impl local --tensor-model-parallel-size 2" \
			"torch_dist --transformer-impl local --tensor-model-parallel-size 2" "torch $stages --num-virtual-stages-per-pipeline-rank 2" \
			"torch $flat $stages --pipeline-model-parallel-layout Ett|ttmmL --tensor-model-parallel-size 2"; do
			[[ $model != *"$experts" ]] || form="$form --expert-model-parallel-size 2"
			# shellcheck disable=SC2086 # options are words
			mckpt export -q --force --to $form tied there
			mckpt import -q --force there back
			mckpt diff -q tied back >diff
			run ! grep -v '	equal	' <(tail -n +2 diff)
			grep -qx 'mtp-num-layers 2' back/iter_0000001/options.conf
			grep -qx 'mtp-loss-scaling-factor 0.3' back/iter_0000001/options.conf
		done
	done
}

# delta NAME OPTIONS...: trains a model with linear attention for two steps and saves it
delta()
{
	local save=$1
	shift
	mtrain -q --save "$save" --mock-data --vocab-size 61 --num-layers 4 --hidden-size 16 --num-attention-heads 4 \
		--group-query-attention --num-query-groups 2 --ffn-hidden-size 24 --normalization RMSNorm \
		--disable-bias-linear --position-embedding-type rope --rotary-percent 0.5 --seq-length 12 --qk-layernorm \
		--apply-layernorm-1p --attention-output-gate --experimental-attention-variant gated_delta_net \
		--linear-attention-freq 4 --linear-num-key-heads 2 --linear-num-value-heads 4 --linear-key-head-dim 6 \
		--linear-value-head-dim 4 --linear-conv-kernel-dim 3 --micro-batch-size 1 --global-batch-size 1 \
		--hidden-dropout 0 --attention-dropout 0 --eval-iters 0 --num-threads 1 --train-iters 2 --lr 1e-3 "$@" >log 2>&1
}

@test "export to Megatron-LM's formats and back: linear attention, gates" {
	flat=--use-distributed-optimizer
	stages='--pipeline-model-parallel-size 2'
	tensor='--tensor-model-parallel-size 2'
	experts='--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 8 --moe-shared-expert-intermediate-size 6
		--moe-shared-expert-gate'
	for model in '' --bf16 "--bf16 $experts --untie-embeddings-and-output-weights"; do
		rm -rf ck
		# shellcheck disable=SC2086 # options are words
		delta ck --swiglu $model
		for form in torch_dist "torch_dist $tensor" "torch_dist $flat $stages $tensor" torch "torch $tensor" \
			"torch $flat $stages $tensor"; do
			[[ $model != *"$experts"* ]] || form="$form --expert-model-parallel-size 2"
			rm -rf there back
			# shellcheck disable=SC2086 # options are words
			mckpt export -q --to $form ck there
			mckpt import -q there back
			mckpt diff -q ck back >diff
			run ! grep -v '	equal	' <(tail -n +2 diff)
			grep -q 'conv_v.weight.exp_avg_sq' back/iter_0000002/manifest.tsv
			grep -qx 'linear-attention-freq 4' back/iter_0000002/options.conf
			grep -qx 'linear-value-head-dim 4' back/iter_0000002/options.conf
			grep -qx attention-output-gate back/iter_0000002/options.conf
		done
	done
}

@test "export names the parts of linear attention as Megatron-LM does" {
	delta ck --swiglu
	mckpt export -q --no-optim --to torch ck there
	strings there/iter_0000002/mp_rank_00/model_optim_rng.pt >words
	for name in dt_bias A_log in_proj.layer_norm_weight in_proj.weight in_proj._extra_state conv1d.weight \
		out_norm.weight out_proj.weight; do
		grep -q "decoder.layers.2.self_attention.$name" words
		run ! grep -q "decoder.layers.3.self_attention.$name" words
	done
	mckpt export -q --no-optim ck chunks
	strings chunks/iter_0000002/.metadata >words
	for name in in_proj.weight.{query,key,value,z,beta,alpha} conv1d.weight.{query,key,value} \
		in_proj._extra_state/shard_0_1 out_proj._extra_state/shard_0_1; do
		grep -q "decoder.layers.2.self_attention.$name" words
	done
	[ "$(mckpt cat there decoder.layers.0.linear_attention.out_layernorm.weight)" = \
		"$(mckpt cat ck decoder.layers.0.linear_attention.out_layernorm.weight)" ]
	fails 1 "mckpt: --transformer-impl local: ck/iter_0000002: Megatron-LM has linear attention with transformer_engine alone" \
		mckpt export --transformer-impl local ck local
	rm -rf ck
	delta ck --squared-relu
	fails 1 "mckpt: ck/iter_0000002: Megatron-LM's args cannot express the model: linear_attention_freq: has the activation and the norm of the rest of the model, and is read with swiglu and RMSNorm alone" \
		mckpt export ck other
}

@test "export names layers that predict later tokens as Megatron-LM does" {
	mtrain -q --save ck --mock-data --vocab-size 61 --num-layers 2 --hidden-size 16 --num-attention-heads 4 \
		--position-embedding-type rope --seq-length 12 --mtp-num-layers 1 --micro-batch-size 1 --global-batch-size 1 \
		--eval-iters 0 --num-threads 1 --train-iters 1 --lr 1e-3 >log 2>&1
	mckpt export -q --no-optim --to torch --pipeline-model-parallel-size 2 ck there
	strings there/iter_0000001/mp_rank_00_001/model_optim_rng.pt >words
	for name in embedding.word_embeddings mtp.layers.0.enorm mtp.layers.0.hnorm mtp.layers.0.eh_proj \
		mtp.layers.0.mtp_model_layer.mlp.linear_fc2 mtp.layers.0.final_layernorm output_layer; do
		grep -q "$name.weight" words
	done
	grep -q 'mtp.layers.0.eh_proj._extra_state' words
	run ! grep -q transformer_layer words
	mckpt export -q --no-optim ck chunks
	strings chunks/iter_0000001/.metadata >words
	grep -q 'mtp.layers.0.transformer_layer.mlp.linear_fc2.weight' words
	grep -q 'mtp.layers.0.eh_proj._extra_state/shard_0_1' words
	run ! grep -q mtp_model_layer words
}

@test "--force replaces checkpoints, and nothing that holds another file" {
	mckpt import -q "$hf/llama" a
	mckpt export -q a b
	mckpt export -q --to torch_dist --force a b
	mckpt import -q --force "$hf/gpt2" b
	mckpt verify -q b
	echo mine >b/iter_0000000/thesis.tex
	fails 1 "mckpt: 'b/iter_0000000/thesis.tex' is nothing that this program writes: 'b/iter_0000000' is not replaced" \
		mckpt import -q --force "$hf/llama" b
	rm b/iter_0000000/thesis.tex
	mkdir b/iter_0000000/plots
	fails 1 "mckpt: 'b/iter_0000000/plots' is nothing that this program writes: 'b/iter_0000000' is not replaced" \
		mckpt cast --force --dtype bf16 a b
	rmdir b/iter_0000000/plots
	mv b/iter_0000000 kept
	ln -s ../kept b/iter_0000000
	fails 1 "mckpt: 'b/iter_0000000' is not a directory: it is not replaced" mckpt import -q --force "$hf/llama" b
	mckpt verify -q kept
	[ "$(ls -A b)" = "$(printf '%s\n' iter_0000000 latest_checkpointed_iteration.txt)" ]
}

@test "export stores the run's schedule, and an optimizer in fp32 without a wrapper" {
	mckpt import --dtype fp32 "$hf/llama" of-llama
	mtrain -q --load of-llama --finetune --save run --use-checkpoint-args --seq-length 12 \
		--micro-batch-size 1 --train-iters 1 --lr 1e-4 --mock-data --lr-decay-style cosine \
		--lr-warmup-iters 3 --lr-decay-iters 9 --override-opt_param-scheduler >log 2>&1
	for to in torch torch_dist; do
		mckpt export -q --to $to run $to
		find $to/iter_0000001 -type f -exec cat {} + | LC_ALL=C tr -cs 'a-z_' '\n' >words
		grep -A 1 -x lr_decay_style words | grep -qx cosine
		run ! grep -qx optimizer <(uniq -d words)
	done
}

@test "export: experts with their optimizer, and what balances them" {
	mckpt import -q --dtype bf16 "$TOP/tests/golden/ckpt/mixtral" ck
	mtrain -q --load ck --finetune --save run --use-checkpoint-args --bf16 --seq-length 12 \
		--micro-batch-size 1 --global-batch-size 1 --train-iters 1 --lr 1e-3 --mock-data \
		--moe-router-score-function sigmoid --moe-router-enable-expert-bias \
		--num-threads 1 --eval-iters 0 >log 2>&1
	shared='--expert-model-parallel-size 2'
	flat=--use-distributed-optimizer
	for form in torch_dist "torch_dist $flat" "torch_dist $shared" torch "torch $flat" \
		"torch $shared --moe-grouped-gemm" "torch $shared $flat" \
		"torch $shared $flat --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1" \
		"torch $shared $flat --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"; do
		# shellcheck disable=SC2086 # options are words
		mckpt export -q --to $form run out
		mckpt import -q out back
		mckpt diff -q run back >diff
		run ! grep -v '	equal	' <(tail -n +2 diff)
		grep -qx 'optimizer_steps 1' back/iter_0000001/state.conf
		grep -q 'mlp.experts.3.linear_down.weight.exp_avg_sq' back/iter_0000001/manifest.tsv
		rm -r out back
	done
}

@test "export refuses what Megatron-LM has no words for, and layouts that do not fit" {
	mckpt import "$hf/llama" ck
	fails 1 "mckpt: --pipeline-model-parallel-size 3: its 3 stages must share 4 layers equally, or give --decoder-first-pipeline-num-layers or another split" \
		mckpt export --pipeline-model-parallel-size 3 ck there
	run --separate-stderr mckpt export --tensor-model-parallel-size 3 ck there
	[ "$status" = 1 ] && [[ $stderr == *"--tensor-model-parallel-size 3"* ]]
	fails 1 "mckpt: 'ck/iter_0000000' is the source: it is not replaced; give another directory" \
		mckpt export -q --force ck ck
	copy llama
	sed -i 's/"rope_scaling": null/"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 2.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}/
		/"rope_parameters"/,/}/d' hf/config.json
	mckpt import hf scaled
	fails 1 "mckpt: scaled/iter_0000000: Megatron-LM's args cannot express --rope-low-freq-factor of the model" \
		mckpt export scaled there
	[ ! -e there ]
	printf x >there
	fails 1 "mckpt: 'there' exists and is not a directory" mckpt export -q ck there
	fails 2 "mckpt: --to hf: must be one of torch, torch_dist" mckpt export --to hf ck out
	ulimit -f 64
	trap '' XFSZ
	run --separate-stderr mckpt export ck small
	[ "$status" = 1 ] && [[ $stderr == *"File too large"* ]]
	[ -z "$(ls -A small)" ]
}

# one_of STATUS STATUS LINE COMMAND...: the command twice at once, which end so; LINE begins that of
# the one that is refused
one_of()
{
	local want=$1$2 line=$3 first second
	shift 3
	"$@" 2>err1 & first=$!
	"$@" 2>err2 & second=$!
	wait $first && first=0 || first=$?
	wait $second && second=0 || second=$?
	[ $first$second = "$want" ] || [ $second$first = "$want" ]
	[ "$(grep -v waiting err1 err2 -h | cut -c 1-${#line})" = "$line" ]
}

@test "two at once into one directory do not mix, nor with a run that saves there" {
	locks_are_seen
	one_of 0 1 "mckpt: 'both' holds a checkpoint already; --force writes into it" \
		mckpt import "$hf/llama" both
	mckpt verify -q both
	one_of 0 0 "" mckpt import --force "$hf/llama" both
	mckpt verify -q both
	[ ! -e both/lock ]
	mtrain -q --load both --finetune --save run --use-checkpoint-args --seq-length 8 --mock-data \
		--train-iters 1000000 --log-interval 1000000 --lr 0 & run=$!
	until [ -e run/lock ]; do sleep 0.1; done
	for verb in "import $hf/gpt2" "reshard both" "cast --dtype fp32 both" "export both"; do
		# shellcheck disable=SC2086 # a list of words
		mckpt $verb run 2>"${verb%% *}" & waiting="${waiting:-} $!"
	done
	for pid in $waiting; do
		wait "$pid" && false || [ $? = 1 ]
	done
	kill -9 $run
	said="mckpt: 'run/lock' is held by process $run of host "
	for verb in import reshard cast export; do
		[[ "$(head -n 1 $verb)" == "$said"*": waiting for its end, up to 5 s" ]]
		[[ "$(tail -n 1 $verb)" == "$said"*", which is running; give another directory" ]]
	done
	mckpt import "$hf/llama" run 2>err
	grep -q "^mckpt: 'run/lock' is broken: it was held by process $run of host .*, which has ended" err
	: >both/lock
	run --separate-stderr timeout 2 mckpt import --force "$hf/llama" both
	[ "$status" = 124 ]
	[ "$stderr" = "mckpt: 'both/lock' is held by an unknown process: waiting until it has not been renewed for 120 s" ]
}

@test "verify finds damaged bytes, truncated and missing files" {
	"$make_checkpoint" a 131
	p=a/iter_0000007/pieces-00000.safetensors
	cp $p good
	printf 'x' | dd of=$p bs=1 seek=$(($(stat -c %s $p) - 3)) conv=notrunc 2>/dev/null
	fails 1 "mckpt: a/iter_0000007/pieces-00000.safetensors: the bytes of tensor 'decoder.final_layernorm.weight.exp_avg_sq' are damaged: wrong checksum" \
		mckpt verify a
	head -c 50000 good >$p
	run --separate-stderr mckpt verify a
	[ "$status" = 1 ]
	[[ $stderr == "mckpt: a/iter_0000007/pieces-00000.safetensors: truncated: "* ]]
	rm $p
	fails 1 "mckpt: cannot open 'a/iter_0000007/pieces-00000.safetensors': No such file or directory" mckpt verify a
}

@test "verify compares with the model: missing, extra, wrong shape" {
	"$make_checkpoint" a 131 missing
	run --separate-stderr mckpt verify a
	[ "$status" = 1 ] && [ -z "$output" ]
	[ "${stderr_lines[0]}" = "mckpt: a/iter_0000007: tensor 'embedding.word_embeddings.weight' is missing" ]
	[ "${#stderr_lines[@]}" = 3 ]
	"$make_checkpoint" b 131 shape
	run --separate-stderr mckpt verify b
	[ "$status" = 1 ]
	[ "${stderr_lines[0]}" = "mckpt: b/iter_0000007: tensor 'embedding.word_embeddings.weight' has shape [130, 16], the model needs [131, 16]" ]
	"$make_checkpoint" c 131 extra
	run --separate-stderr mckpt verify c
	[ "$status" = 1 ]
	[[ $stderr == *"mckpt: c/iter_0000007: tensor 'decoder.final_norm.weight' does not belong to the model"* ]]
	fails 1 "mckpt: c/iter_0000007: tensor 'decoder.final_layernorm.weight' is missing (and 5 more; mckpt verify lists them)" \
		mckpt reshard c d
	[ ! -e d ]
}

@test "options.conf that makes no model" {
	"$make_checkpoint" a 131
	sed -i 's/^num-layers .*/num-layers many/' a/iter_0000007/options.conf
	fails 1 "mckpt: a/iter_0000007/options.conf: changed after it was saved: wrong checksum; mckpt seal accepts an intended change" \
		mckpt verify a
	mckpt seal a
	fails 1 "mckpt: a/iter_0000007/options.conf:6: --num-layers many: not an integer" \
		mckpt verify a
	fails 1 "mckpt: a/iter_0000007/options.conf:6: --num-layers many: not an integer" \
		mckpt info a
}

@test "seal accepts an intended change of a text, and nothing else" {
	"$make_checkpoint" a 131
	cp a/iter_0000007/manifest.tsv before
	run -0 mckpt seal a
	[ "$output" = "a: sealed: no text had changed" ]
	cmp before a/iter_0000007/manifest.tsv
	echo '# edited' | tee -a a/iter_0000007/options.conf >>a/iter_0000007/state.conf
	fails 1 "mckpt: a/iter_0000007/options.conf: changed after it was saved: wrong checksum; mckpt seal accepts an intended change" \
		mckpt info a
	run -0 mckpt seal a/iter_0000007
	[ "$output" = "a/iter_0000007: sealed: options.conf state.conf" ]
	mckpt verify a
	echo '# edited' >>a/iter_0000007/manifest.tsv
	fails 1 "mckpt: a/iter_0000007/manifest.tsv: cut off: the last line is not its own checksum" mckpt seal a
	sed '1s/2$/1/; /^# [a-z]*\.[a-z]* /d' before >a/iter_0000007/manifest.tsv
	fails 1 "mckpt: a/iter_0000007: of an earlier version, which has no checksums of texts; mckpt reshard rewrites it" mckpt seal a
	mckpt verify a
	fails 2 "mckpt: operands needed: DIR; 0 given" mckpt seal
}

@test "ls continues after a damaged checkpoint" {
	"$make_checkpoint" a 131
	mckpt reshard a b
	mkdir b/iter_0000003
	run --separate-stderr mckpt ls a b
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 3 ]
	[ "$stderr" = "mckpt: no checkpoint in 'b/iter_0000003'" ]
	mkdir empty
	refused 1 "mckpt: no iter_* directory in 'empty'" mckpt ls empty
	refused 1 "mckpt: cannot open directory 'nowhere': No such file or directory" mckpt ls nowhere
	fails 1 "mckpt: cannot open directory 'nowhere': No such file or directory" mckpt ls \
		nowhere a
	[ "${#lines[@]}" = 2 ]
	[[ "${lines[0]}" == "directory	iteration	"* ]]
	cd a
	mckpt ls | grep -q '^./iter_0000007'
}

@test "import refuses what does not fit its config.json" {
	copy llama
	sed -i 's/"vocab_size": 500/"vocab_size": 512/' hf/config.json
	run --separate-stderr mckpt import hf ck
	[ "$status" = 1 ] && [ ! -e ck ]
	[[ $stderr == *"mckpt: hf: tensor 'model.embed_tokens.weight' has 500 rows, but config.json says \"vocab_size\": 512 (and 1 more; mckpt verify lists them)" ]]
	cp "$hf/llama/config.json" hf
	sed -i 's/"intermediate_size": 176/"intermediate_size": 160/' hf/config.json
	run --separate-stderr mckpt import hf ck
	[[ $stderr == *"mckpt: hf: tensor 'model.layers.0.mlp.gate_proj.weight' has shape [176, 64], config.json needs [160, 64] (and 11 more; mckpt verify lists them)" ]]
	cp "$hf/llama/config.json" hf
	sed -i 's/"num_hidden_layers": 4/"num_hidden_layers": 3/' hf/config.json
	run --separate-stderr mckpt import hf ck
	[[ $stderr == *"mckpt: hf: tensor 'model.layers.3.input_layernorm.weight' does not belong to a llama model of this config.json (and 8 more; mckpt verify lists them)" ]]
	[ "$(mckpt verify hf 2>&1 | wc -l)" = 9 ]
	sed -i 's/"model_type": "llama"/"model_type": "mamba"/' hf/config.json
	known=$(sed -n '/^.Ss Families/,/^.El/s/^.It Sy //p' "$TOP/man/mexport.1" | paste -sd , | sed 's/,/, /g')
	fails 1 "mckpt: hf/config.json: \"model_type\" is 'mamba'; known are $known" \
		mckpt import hf ck
	cp "$hf/llama/config.json" hf
	sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' hf/config.json
	fails 1 "mckpt: hf: tensor 'lm_head.weight' differs from the embedding that config.json ties it to (\"tie_word_embeddings\": true): with false there the model has it as its output table" \
		mckpt import hf ck
	echo '{' >hf/config.json
	run --separate-stderr mckpt import hf ck
	[ "$status" = 1 ]
	[[ $stderr == "mckpt: hf/config.json: "* ]]
}

@test "import of experts: one that is missing, and one more than the config has" {
	copy mixtral
	sed -i 's/"num_local_experts": 4/"num_local_experts": 5/' hf/config.json
	fails 1 "mckpt: hf: tensor 'model.layers.0.block_sparse_moe.gate.weight' has shape [4, 16], config.json needs [5, 16] (and 7 more; mckpt verify lists them)" \
		mckpt import hf ck
	sed -i 's/"num_local_experts": 5/"num_local_experts": 3/' hf/config.json
	[ "$(mckpt verify hf 2>&1 | tail -1)" = "mckpt: hf: tensor 'model.layers.1.block_sparse_moe.experts.3.w3.weight' does not belong to a mixtral model of this config.json" ]
}

@test "numbers that are not finite: verify and import name their tensors, also those of a type that is too narrow" {
	# last BYTES: writes them over the last number of the model, a BF16.
	last() { printf '%b' "$1" | dd of=hf/model.safetensors bs=1 seek=$(($(stat -c %s hf/model.safetensors) - 2)) conv=notrunc status=none; }
	copy llama
	last '\0300\0177'
	bad="hf: tensor 'decoder.final_layernorm.weight': 1 of 64 elements are not finite"
	refused 1 "mckpt: $bad" mckpt verify hf
	refusal="mckpt: hf: 1 of 39 tensors hold numbers that are not finite, 'decoder.final_layernorm.weight' first; \
--allow-nonfinite imports them"
	refused 1 "mckpt: $bad
$refusal" mckpt import hf ck
	[ ! -e ck/latest_checkpointed_iteration.txt ] && [ -z "$(ls ck)" ]
	refused 0 "mckpt: $bad" mckpt import --allow-nonfinite hf ck
	refused 1 "mckpt: ck/iter_0000000: tensor 'decoder.final_layernorm.weight': 1 of 64 elements are not finite" mckpt verify ck
	last '\0226\0176'
	mckpt verify hf
	refused 1 "$refusal" mckpt import -q --dtype fp16 hf half
	refused 0 "" mckpt import hf whole
}

@test "import refuses what is not a Hugging Face directory, by name" {
	mkdir -p meg/iter_0000500/mp_rank_00
	printf 500 >meg/latest_checkpointed_iteration.txt
	for path in meg meg/iter_0000500; do
		fails 1 "mckpt: cannot open 'meg/iter_0000500/mp_rank_00/model_optim_rng.pt': No such file or directory" \
			mckpt import $path ck
	done
	mkdir bin
	touch bin/pytorch_model.bin
	fails 1 "mckpt: bin/pytorch_model.bin: 0 bytes are not a zip file" mckpt import bin ck
	"$make_checkpoint" a 131
	fails 1 "mckpt: 'a' is a checkpoint already; mckpt reshard rewrites it" mckpt import a ck
	fails 1 "mckpt: cannot open 'nowhere': No such file or directory" mckpt import nowhere ck
	mkdir none
	cp "$hf/llama/config.json" none
	fails 1 "mckpt: none: holds no weights: none of model.safetensors, pytorch_model.bin and their indexes" \
		mckpt import none ck
	[ ! -e ck ]
}

@test "sharded directories: missing shard, foreign and lost tensors" {
	mckpt import "$hf/llama" ck
	mexport -q --max-shard-size 200KB ck hf
	mckpt verify hf
	mckpt import hf again
	mckpt diff ck again >diff
	mv hf/model-00002-of-00003.safetensors away
	fails 1 "mckpt: hf: 1 shard is missing: model-00002-of-00003.safetensors" mckpt verify hf
	mv away hf/model-00002-of-00003.safetensors
	index=hf/model.safetensors.index.json
	cp $index good
	sed '/"model.norm.weight"/d; s/\("model.layers.3.self_attn.v_proj.weight": ".*"\),/\1/' \
		good >$index
	mckpt verify hf
	sed 's/"model.norm.weight": ".*"/"model.norm.weight": "model-00001-of-00003.safetensors"/' \
		good >$index
	mckpt verify hf
	sed 's/"model.norm.weight": /"model.layers.0.self_attn.rotary_emb.inv_freq": "model-00001-of-00003.safetensors", &/' \
		good >$index
	fails 0 "mckpt: hf: the index names 1 tensor that is in no file, such as 'model.layers.0.self_attn.rotary_emb.inv_freq'" \
		mckpt import hf stale
	mckpt diff ck stale >diff
	sed 's|"model.norm.weight": ".*"|"model.norm.weight": "../x.safetensors"|' good >$index
	fails 1 "mckpt: hf/model.safetensors.index.json: tensor 'model.norm.weight': not a plain file name: '../x.safetensors'" \
		mckpt verify hf
	echo '{}' >$index
	fails 1 "mckpt: hf/model.safetensors.index.json: \"weight_map\" is missing or empty" \
		mckpt verify hf
}

@test "usage: 2, and nothing is written" {
	fails 2 "mckpt: no verb given; --help lists the verbs" mckpt
	fails 2 "mckpt: unknown verb 'melt'; --help lists the verbs" mckpt melt
	fails 2 "mckpt: operands needed: SRC DST; 1 given" mckpt import x
	fails 2 "mckpt: operands needed: DIR...; 0 given" mckpt verify
	fails 2 "mckpt: operands needed: DIR; 0 given" mckpt info
	fails 2 "mckpt: operands needed: A B; 1 given" mckpt diff a
	fails 2 "mckpt: --dtype int8: must be one of keep, bf16, fp16, fp32" mckpt import \
		--dtype int8 a b
	fails 2 "mckpt: --data-parallel-size 0: must be from 1 to 1000000" mckpt reshard \
		--data-parallel-size 0 a b
	fails 2 "mckpt: --tolerance x: not a number" mckpt diff --tolerance x a b
	run mckpt --help
	[ "$status" = 0 ]
	run mckpt reshard --help
	[ "$status" = 0 ] && [[ $output == *--no-optim* ]]
	run mckpt --version
	[ "$status" = 0 ]
}

@test "pipes in the place of a checkpoint's files are refused at once" {
	mckpt import "$hf/llama" ck
	for file in latest_checkpointed_iteration.txt iter_0000000/manifest.tsv iter_0000000/pieces-00000.safetensors; do
		mv ck/$file kept
		mkfifo ck/$file
		fails 1 "mckpt: cannot open 'ck/$file': not a regular file" \
			timeout 10 mckpt verify ck
		mv kept ck/$file
	done
	copy llama
	name=$(cd hf && ls *.safetensors | head -n 1)
	rm "hf/$name"
	mkfifo "hf/$name"
	fails 1 "mckpt: cannot open 'hf/$name': not a regular file" timeout 10 mckpt verify hf
}

@test "a full disk is an error" {
	mckpt import "$hf/llama" ck
	run bash -c 'mckpt info --tensors ck >/dev/full'
	[ "$status" = 1 ]
}

@test "the manual's option list is the tool's" {
	mckpt --mdoc >want
	sed -n '/^\.\\" begin options/,/^\.\\" end options/p' "$TOP/man/mckpt.1" | sed '1d;$d' >have
	diff -u have want
}
