# logits.bats - imported models compute what an independent implementation in double precision
# computed

setup() {
	golden=$TOP/tests/golden/ckpt
	cd "$BATS_TEST_TMPDIR" || exit 1
}

# logits FAMILY TOLERANCE OPTION...: the logits of an imported model against the reference
logits() {
	local dir=$golden/$1 tolerance=$2
	shift 2
	[ -d import ] || mckpt import -q "$dir" import
	"${launch[@]}" mtrain -q --use-checkpoint-args --pretrained-checkpoint import --tokens-file "$dir/tokens.npy" \
		--logits-file logits.npy "$@"
	"$B/tests/tools/npydiff" logits.npy "$dir/logits_f64.npy" "$tolerance"
}

@test "llama: fp32 within rounding, fp64 to 1e-12, tensor and pipeline ranks too" {
	launch=()
	logits llama 2e-6
	logits llama 1e-12 --fp64
	launch=(mpirun -np 4)
	logits llama 1e-12 --fp64 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
		--sequence-parallel
}

@test "gpt2: fp32 within rounding, fp64 to 1e-12, tensor and pipeline ranks too" {
	launch=()
	logits gpt2 2e-6
	logits gpt2 1e-12 --fp64
	launch=(mpirun -np 4)
	logits gpt2 1e-12 --fp64 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
}

@test "experts of Mixtral and Qwen3: fp32 within rounding, fp64 to 1e-12, pipeline ranks too" {
	for model in mixtral qwen3_moe; do
		rm -rf import
		launch=()
		logits $model 2e-6
		logits $model 1e-12 --fp64
		launch=(mpirun -np 2)
		logits $model 1e-12 --fp64 --pipeline-model-parallel-size 2
	done
}

# Each was written by tests/golden/family.py --write.
@test "small models of the families: fp64 to 1e-12" {
	launch=()
	for model in "$TOP"/tests/golden/families/*; do
		mtrain -q --fp64 --model "$model" --pretrained-checkpoint "$model" --num-threads 1 \
			--tokens-file "$model/tokens.npy" --logits-file logits.npy
		"$B/tests/tools/npydiff" logits.npy "$model/logits_f64.npy" 1e-12
	done
}

@test "longrope takes the factors for all tokens of a generation, not for --seq-length" {
	dir=$TOP/tests/golden/families/phi3
	echo 5 >prompt
	start=(mtrain --fp64 --model "$dir" --pretrained-checkpoint "$dir" --prompt-file prompt
		--tokenizer-type NullTokenizer --vocab-size 91 --num-threads 1)
	"${start[@]}" --generate 3 --seq-length 24 >of24 2>notes
	grep -q "by the short factors of longrope: sequences of 4," notes
	"${start[@]}" --generate 3 --seq-length 4 >of4
	cmp of24 of4
	"${start[@]}" --generate 4 --seq-length 24 2>&1 | grep -q "long factors .* of 5,"
}

@test "a run with interleaved pairs begins with a directory of halves, and is written as one" {
	launch=(mpirun -np 2)
	dir=$golden/llama
	start=(--model "$dir" --pretrained-checkpoint "$dir" --rotary-interleaved)
	mtrain -q "${start[@]}" --fp64 --tokens-file "$dir/tokens.npy" --logits-file logits.npy
	"$B/tests/tools/npydiff" logits.npy "$dir/logits_f64.npy" 1e-12
	"${launch[@]}" mtrain -q "${start[@]}" --mock-data --train-iters 1 --lr 0 --weight-decay 0 \
		--tensor-model-parallel-size 2 --global-batch-size 2 --seq-length 16 \
		--eval-iters 0 --no-save-optim --save run
	mexport -q --dtype bf16 run out
	mckpt diff --tolerance 0 out "$dir" >diff
}

@test "an upcycled model computes what the dense one did, unless channels are replaced" {
	mckpt upcycle -q --num-experts 4 "$golden/llama" import
	launch=()
	logits llama 2e-6
	logits llama 1e-12 --fp64
	rm -r import
	mckpt upcycle -q --num-experts 4 --ffn-init-ratio 0.25 "$golden/llama" import
	run logits llama 1e-2
	[ "$status" = 1 ]
}

@test "layers that add nothing and an untied table leave the logits as they were" {
	launch=()
	for model in llama mixtral; do
		mckpt stack -q --layers 0,0:,1 --zero-new "$golden/$model" import
		logits $model 1e-12 --fp64
		rm -r import
	done
	mckpt set -q --untie "$golden/gpt2" import
	logits gpt2 1e-12 --fp64
}

@test "the Hugging Face directory itself gives the same logits" {
	mtrain -q --model "$golden/llama" --pretrained-checkpoint "$golden/llama" --fp64 \
		--tokens-file "$golden/llama/tokens.npy" --logits-file logits.npy
	"$B/tests/tools/npydiff" logits.npy "$golden/llama/logits_f64.npy" 1e-12
}

@test "a token outside the vocabulary is refused with its place" {
	printf '\x93NUMPY\x01\x00\x76\x00%-117s\n\x00\x02\x00\x00' \
		"{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }" >bad.npy
	run mtrain -q --model "$golden/llama" --pretrained-checkpoint "$golden/llama" \
		--tokens-file bad.npy --logits-file out.npy
	[ "$status" -eq 1 ]
	[ "$output" = "mtrain: bad.npy: element 0: token id 512 is outside the vocabulary of 500" ]
	[ ! -e out.npy ]
}
