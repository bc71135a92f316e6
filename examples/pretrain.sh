#!/bin/sh
# pretrain.sh [DIR] - from the text of two Debian packages to a small Llama in Hugging Face form, on
# two CPU cores
#
# Copy this file and edit it for your own text and model; each step is one or two commands.
# Everything is written under DIR, which must not exist (default: build/pretrain, which is
# replaced). The text is Debian Reference by Osamu Aoki and its Japanese translation, GPL-2+, from
# the packages debian-reference-en and debian-reference-ja, which are fetched and unpacked without
# installation.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
PATH="$here/build:$PATH"
ranks=2
steps=600
if [ $# = 0 ]; then
	dir=$here/build/pretrain
	rm -rf "$dir"
else
	dir=$1
fi
mkdir -p "$(dirname "$dir")"
mkdir "$dir"
cd "$dir"

# Open MPI runs as root only with both of these set; with fewer cores than ranks, ranks may share
# cores and must not spin while waiting.
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
# On several hosts mpirun ends within 11 seconds after one of them, or its link, is lost.
export OMPI_MCA_oob_tcp_keepalive_time=5 OMPI_MCA_oob_tcp_keepalive_intvl=2 \
	OMPI_MCA_oob_tcp_keepalive_probes=3

# step TEXT: announces a step with the seconds passed so far
start=$(date +%s)
step()
{
	printf '\n[%3d s] %s\n' $(($(date +%s) - start)) "$*"
}

# train LOG OPTION...: runs mtrain on all ranks into LOG; on a terminal one line shows its progress
#
# Exit status 3 (saved and stopped on request) counts as success.
train()
{
	log=$1
	shift
	mpirun -np $ranks mtrain --config model.conf --config run.conf \
		--metrics-file metrics.jsonl "$@" >"$log" 2>&1 &
	pid=$!
	trap 'kill $pid' INT TERM
	while [ -t 2 ] && kill -0 $pid 2>/dev/null; do
		line=$(sed -n 's/.*\(iteration .*\) | consumed.*\(lm loss[^|]*\).*/\1: \2/p' \
			"$log" | tail -n 1)
		printf '\r\033[K%s' "$line" >&2
		sleep 1
	done
	[ ! -t 2 ] || printf '\r\033[K' >&2
	status=0
	wait $pid || status=$?
	trap - INT TERM
	if [ $status != 0 ] && [ $status != 3 ]; then
		tail -n 5 "$log" >&2
		exit $status
	fi
}

step 'text: Debian Reference in English and Japanese, one JSON line a section, shuffled'
mkdir debs
(cd debs && apt-get -q download debian-reference-en debian-reference-ja >apt.log 2>&1) || {
	tail -n 5 debs/apt.log >&2
	echo 'pretrain.sh: cannot fetch the packages with the text: does apt-get update help?' >&2
	exit 1
}
for deb in debs/*.deb; do
	dpkg-deb -x "$deb" debs
done
# Preface, chapters and appendices: their directories differ between releases of the packages.
for language in en ja; do
	for part in pr ch ap; do
		find debs -type f -name "$part*.$language.html" | sort |
			LC_ALL=C xargs awk -f "$here/examples/html2jsonl.awk"
	done >$language.jsonl
	[ -s $language.jsonl ] || {
		echo "pretrain.sh: debian-reference-$language holds no page named \
ch*.$language.html" >&2
		exit 1
	}
done
cat en.jsonl ja.jsonl | shuf --random-source=ja.jsonl >text.jsonl
wc -c en.jsonl ja.jsonl

step 'tokenizer: a SentencePiece model of 8,000 pieces'
mtok train --input text.jsonl --vocab-size 8000 --model-type bpe --byte-fallback -o spm.model

step 'tokens: two workers; then verify'
mtok encode --input text.jsonl --output-prefix corpus --tokenizer-type SentencePieceTokenizer \
	--tokenizer-model spm.model --append-eod --workers 2
mshard verify corpus_text_document

# The model and the run as option files, read by both mplan and mtrain.
cat >model.conf <<'EOF'
# a Llama of 4.8 million parameters
num-layers 4
hidden-size 256
num-attention-heads 8
group-query-attention
num-query-groups 4
seq-length 128
max-position-embeddings 128
vocab-size 8000
position-embedding-type rope
normalization RMSNorm
norm-epsilon 1e-5
swiglu
disable-bias-linear
attention-dropout 0
hidden-dropout 0
EOF
cat >run.conf <<EOF
global-batch-size 8
train-iters $steps
lr 3e-3
min-lr 3e-4
lr-decay-style cosine
lr-warmup-iters 20
weight-decay 0.1
adam-beta2 0.95
clip-grad 1.0
seed 1234
data-path corpus_text_document
split 95,5,0
data-cache-path index
tokenizer-type SentencePieceTokenizer
tokenizer-model spm.model
save checkpoints
load checkpoints
save-interval 1000
log-interval 1
eval-interval 1000
eval-iters 8
EOF

step "index maps, and plans for two ranks: the best of all, the best with tensor ranks, the best \
with pipeline stages"
mshard index --data-path corpus_text_document --split 95,5,0 --seq-length 128 --seed 1234 \
	--num-samples $((steps * 8)),64,0 --data-cache-path index
plan()
{
	mplan search --config model.conf --gpu cpu --global-batch-size 8 --world-size $ranks "$@"
}
plan --top 5 | cut -f 1-8,10,11
plan -q --tensor-model-parallel-size 2 -o tensor.conf >tensor.tsv
plan -q --pipeline-model-parallel-size 2 -o pipeline.conf >pipeline.tsv

step "training: evaluate, $((steps / 2)) steps with tensor ranks, on to $steps with pipeline \
stages, evaluate"
train before.log --config tensor.conf --skip-train
train tensor.log --config tensor.conf --exit-interval $((steps / 2))
train pipeline.log --config pipeline.conf
train after.log --config tensor.conf --skip-train

step 'export, and generate from the exported weights'
mckpt verify "checkpoints/iter_$(printf %07d $steps)"
mexport --tokenizer-model spm.model checkpoints hf
for prompt in 'Debian is a ' 'ファイルの'; do
	printf '%s' "$prompt" >prompt.txt
	mtrain -q --model hf --pretrained-checkpoint hf --tokenizer-model hf/tokenizer.model \
		--prompt-file prompt.txt --generate 60 --temperature 0.7 --top-k 40
done >sample.txt

step 'results'
awk -f "$here/examples/plot.awk" metrics.jsonl
for when in before after; do
	loss=$(sed -n 's/.*on validation set | lm loss value: *\([^ ]*\).*/\1/p' $when.log |
		tail -n 1)
	printf 'validation loss %-6s %.4f\n' $when "$loss"
done
printf '\nsample:\n'
cat sample.txt
step "done: the model is in $dir/hf"
