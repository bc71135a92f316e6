#!/bin/sh
# pretrain.sh [--again] [DIR] - from text to a small Llama in Hugging Face form, in about three
# minutes on two CPU cores
#
# Copy this file and edit it for your own text and model; each step is one or two commands.
# Everything is written under DIR (default: build/pretrain). Ctrl-C is safe at any time: the same
# command continues, and every step that is done is left as it is; --again starts anew.
#
# The text is Debian Reference by Osamu Aoki and its Japanese translation, GPL-2+, from the packages
# debian-reference-en and debian-reference-ja, which are fetched and unpacked without installation;
# where they cannot be fetched, the text in examples/corpus.
#
# STEPS=N fixes the number of steps, which else follows from the time of a step. TEXT=corpus takes
# the text of examples/corpus at once. MORE=N: steps of the first command at the end.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
PATH="$here/build:$PATH"
again=
[ "${1:-}" != --again ] || { again=yes && shift; }
dir=${1:-$here/build/pretrain}
if [ "$again" ] && [ -e "$dir" ]; then
	[ -e "$dir/text.jsonl" ] || {
		echo "pretrain.sh: '$dir' is not of this script: it is not removed" >&2
		exit 2
	}
	rm -rf "$dir"
fi
mkdir -p "$dir"
cd "$dir"
dir=$(pwd)
model="$dir/model.conf" run="$dir/run.conf"

# step TEXT: announces a step with the seconds passed so far
start=$(date +%s)
stopped=
step()
{
	[ -z "$stopped" ] || exit 130
	printf '\n[%3d s] %s\n' $(($(date +%s) - start)) "$*"
}

# A request to stop ends what runs, which saves; the script ends after it.
trap 'stopped=yes' INT TERM HUP

# reached: the iteration of the last checkpoint
reached()
{
	cat "$dir/checkpoints/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0
}

# train NAME ITERATION OPTION...: trains up to there on two ranks. On a terminal one line shows the
# progress, and the log lines are in NAME.log; elsewhere they are all there is.
train()
{
	log=$1.log goal=$2 status=0
	shift 2
	if [ -t 2 ]; then
		mtrain --ranks 2 --config "$model" --config "$run" "$@" >>"$log" || status=$?
	else
		mtrain --ranks 2 --config "$model" --config "$run" "$@" || status=$?
	fi
	[ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
	[ "$(reached)" -ge "$goal" ] || {
		echo "pretrain.sh: stopped; the same command continues:"
		echo "sh $here/examples/pretrain.sh $dir"
		exit 3
	}
}

# held_out FILE: the last perplexity on held-out text in a metrics file
held_out()
{
	sed -n 's/.*"split": "valid".*"ppl": \([0-9]*\).*/\1/p' "$1" | tail -n 1
}

# fetched: whether the packages are here, and their pages text in en.jsonl and ja.jsonl
fetched()
{
	mkdir -p debs
	(cd debs && timeout 30 apt-get -q download debian-reference-en debian-reference-ja) \
		>apt.log 2>&1 || return 1
	for deb in debs/*.deb; do
		dpkg-deb -x "$deb" debs
	done
	# Preface, chapters and appendices: their directories differ between releases.
	for language in en ja; do
		for part in pr ch ap; do
			find debs -type f -name "$part*.$language.html" | sort |
				LC_ALL=C xargs awk -f "$here/examples/html2jsonl.awk"
		done >$language.jsonl
		[ -s $language.jsonl ] || return 1
	done
}

if [ ! -e text.jsonl ]; then
	step 'text: English and Japanese, one JSON line a section, shuffled'
	if [ "${TEXT:-}" != corpus ] && fetched; then
		printf '%s\n' 'You can ' 'ファイルの' >prompts
	else
		echo 'that of examples/corpus: the packages with Debian Reference are not used'
		for language in en ja; do
			awk -v RS='----\n' '{
				gsub(/[\\"]/, "\\\\&"); gsub(/\t/, "\\t"); gsub(/\n/, "\\n")
				printf "{\"text\": \"%s\"}\n", $0
			}' "$here/examples/corpus/$language.txt" >$language.jsonl
		done
		printf '%s\n' 'I will ' 'おれは' >prompts
	fi
	cat en.jsonl ja.jsonl | shuf --random-source=ja.jsonl >text.new
	wc -c en.jsonl ja.jsonl
	mv text.new text.jsonl
fi

if [ ! -e spm.model ]; then
	step 'tokenizer: a SentencePiece model of 4,000 pieces'
	mtok train --input text.jsonl --vocab-size 4000 --model-type bpe -o spm.model
fi
if [ ! -e corpus_text_document.idx ]; then
	step 'tokens: two workers; then verify'
	mtok encode --input text.jsonl --output-prefix corpus --tokenizer-model spm.model \
		--append-eod --workers 2
	mshard verify corpus_text_document
fi

# The model and the run as option files, read by both mplan and mtrain.
cat >model.conf <<'EOF'
# a Llama of 4 million parameters
num-layers 4
hidden-size 256
num-attention-heads 4
group-query-attention
num-query-groups 2
seq-length 128
max-position-embeddings 128
vocab-size 4000
position-embedding-type rope
normalization RMSNorm
norm-epsilon 1e-5
swiglu
disable-bias-linear
attention-dropout 0
hidden-dropout 0
EOF
# options STEPS DIRECTORY: the run of so many steps into a directory
options()
{
	cat <<EOF
use-distributed-optimizer
micro-batch-size 4
global-batch-size 8
train-iters $1
lr 3e-3
min-lr 0
lr-decay-style cosine
lr-warmup-iters $(($1 / 12))
weight-decay 0.1
adam-beta2 0.95
clip-grad 1.0
seed 1234
data-path $dir/corpus_text_document
split 95,5,0
data-cache-path $dir/index
tokenizer-type SentencePieceTokenizer
tokenizer-model $dir/spm.model
save $2
load $2
metrics-file $2.jsonl
save-interval 1000
log-interval 10
eval-interval 100000
eval-iters 12
EOF
}

if [ ! -e run.conf ]; then
	steps=${STEPS:-}
	if [ -z "$steps" ]; then
		step 'time of a step: five are taken in a directory of their own'
		options 6 "$dir/timed" >timed.conf
		mtrain -q --ranks 2 --config model.conf --config timed.conf --eval-iters 0 \
			--log-interval 100 >timed.log
		# The first step is longer. As many as fit 95 seconds, from 120 to 600, in twenties.
		steps=$(sed -n 's/.*"seconds": \([0-9.e-]*\).*/\1/p' timed.jsonl | awk '
			NR > 1 { sum += $1; n++ }
			END {
				steps = int(95 / (sum / n) / 20) * 20
				print (steps < 120 ? 120 : (steps > 600 ? 600 : steps))
			}')
		awk -v steps="$steps" -F '"seconds": ' 'NR > 1 { sum += $2; n++ } END {
			printf "a step takes %.2f s: %d steps\n", sum / n, steps }' timed.jsonl
		rm -rf timed timed.jsonl
	fi
	options "$steps" "$dir/checkpoints" >run.new
	mv run.new run.conf
fi
steps=$(sed -n 's/^train-iters //p' run.conf)

if [ ! -e plan.tsv ]; then
	step 'index maps, and plans for two ranks'
	mshard index --data-path corpus_text_document --split 95,5,0 --seq-length 128 --seed 1234 \
		--num-samples $((steps * 8)),96,0 --data-cache-path index
	mplan search --config model.conf --gpu cpu --global-batch-size 8 --world-size 2 --top 5 |
		tee plan.tsv | cut -f 1-8,10,11
fi

# say WHEN OPTION...: continues the prompts, by a model that the options name
say()
{
	when=$1
	shift
	while read -r prompt && [ -z "$stopped" ]; do
		printf '%s' "$prompt" >prompt.txt
		printf '%s: ' "$when"
		mtrain -q "$@" --prompt-file prompt.txt --generate 24 --temperature 0.7 --top-k 40 |
			tr '\n' ' '
		echo
	done <prompts
}
if [ ! -e before.txt ]; then
	step 'the untrained model: held-out text, and what it says'
	train before 0 --skip-train --save "$dir/none" --load "$dir/none" \
		--metrics-file before.jsonl
	[ -z "$stopped" ] || exit 130
	say before --config model.conf --seed 1234 --tokenizer-model spm.model >before.new
	mv before.new before.txt
fi

step "training: $((steps * 3 / 4)) steps on two data ranks, on to $steps on two pipeline stages"
[ "$(reached)" -ge $((steps * 3 / 4)) ] ||
	train data $((steps * 3 / 4)) --exit-interval $((steps * 3 / 4))
[ -z "$stopped" ] || exit 3
train pipeline "$steps" --pipeline-model-parallel-size 2 --micro-batch-size 2

step 'export, and generate from the exported weights'
mckpt verify "checkpoints/iter_$(printf %07d "$steps")"
mexport --force checkpoints hf
hf="--model $dir/hf --pretrained-checkpoint $dir/hf --tokenizer-model $dir/hf/tokenizer.model"
# shellcheck disable=SC2086
say after $hf >after.txt

step 'results'
awk -f "$here/examples/plot.awk" checkpoints.jsonl
cat <<EOF

held-out perplexity, where 4000 is chance: before $(held_out before.jsonl), after $(held_out \
	checkpoints.jsonl)
$(cat before.txt after.txt)
made:
$(du -sh text.jsonl spm.model corpus_text_document.bin checkpoints hf)
EOF

ours="$here/build/mtrain --ranks 2 --config $model --config $run --override-opt_param-scheduler"
more=$((steps + ${MORE:-500}))
cat <<EOF

[$(($(date +%s) - start)) s] done. What next, from any directory:
# ${MORE:-500} steps more
$ours --train-iters $more
# 20 more on another layout: two tensor ranks
$ours --train-iters $((more + 20)) --tensor-model-parallel-size 2
# what follows $dir/prompt.txt
$here/build/mtrain -q $hf --prompt-file $dir/prompt.txt --generate 60 --temperature 0.7
# export; then, in Python:
#   import transformers
#   print(transformers.pipeline("text-generation", "$dir/hf")("You can ")[0]["generated_text"])
$here/build/mexport --force $dir/checkpoints $dir/hf
EOF
