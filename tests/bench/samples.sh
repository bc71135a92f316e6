#!/bin/sh
# samples.sh - what is known of samples, and what it costs; appends to results.tsv
#
# Five rows, with columns as in bench.sh:
#   --sample-losses against none: CPU time of a step of training, alternating; how much it is
#     longer by the median of the ratios
#   mshard where of the last step of a run of SAMPLES samples, whose maps are in the cache: CPU time
#   tokens per second of best-fit packing against cut with --dataloader-inter-document-masking,
#   tokens that are no padding, over the same documents, alternating
#   text of samples that one thread rearranges by --fim-data, per second of CPU time, beside reading
#     them as they are, alternating; the text is the tree's own sources
#   the share of a step for which the small form of the CodeParrot recipe waits for such samples
# B: the build directory. SAMPLES: 100,000,000. PAIRS: five. ONLY, of losses, where, packing, fim
# and waits: one of them.
set -eu
: "${ONLY:=losses where packing fim waits}" "${B:=build}" "${SAMPLES:=100000000}" "${PAIRS:=5}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
# shellcheck source=tests/bench/record
. tests/bench/record
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

# documents COUNT LEAST MEDIAN: JSON Lines of ids, of log-normal lengths up to 2000
documents()
{
	awk -v n="$1" -v least="$2" -v median="$3" 'BEGIN {
		srand(1)
		for (i = 0; i < n; i++) {
			z = sqrt(-2 * log(1 - rand())) * cos(6.283185307 * rand())
			k = int(median * exp(z))
			k = k < least ? least : k > 2000 ? 2000 : k
			printf "{\"text\": \""
			for (j = 0; j < k; j++) printf "%s%d", j ? " " : "", int(rand() * 1000)
			print "\"}"
		}
	}'
}

# median: of the numbers that come in, one a line
median()
{
	sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

text()
{
	[ -e text_text_document.idx ] || documents 4000 8 365 |
		mtok -q --tokenizer-type NullTokenizer --vocab-size 1001 --append-eod -o text -
}

model="--num-layers 4 --hidden-size 256 --num-attention-heads 4 --vocab-size 1001 --lr 1e-4
	--seq-length 512 --micro-batch-size 2 --global-batch-size 4 --eval-iters 0
	--tokenizer-type NullTokenizer --split 1,0,0 --data-path text_text_document
	--data-cache-path cache --log-interval 1000 --num-threads 1"

# cpu STEPS OPTION...: CPU milliseconds of a run
cpu()
{
	steps=$1
	shift
	# shellcheck disable=SC2086
	"$B/tests/bench/usage" mtrain -q $model --train-iters "$steps" "$@" | cut -f 2
}

losses()
{
	text
	cpu 2 >once
	: >ratio
	for _ in $(seq "$PAIRS"); do
		rm -f losses.tsv
		cpu 42 --sample-losses losses.tsv >with
		cpu 42 >without
		echo "$(cat with) $(cat without) $(cat once)" >>all
		tail -n 1 all | awk '{ print ($1 - $3) / ($2 - $3) }' >>ratio
	done
	longer=$(median <ratio | awk '{ printf "%+.2f %%", 100 * ($1 - 1) }')
	awk -v longer="$longer" '{ w += $1 - $3; o += $2 - $3 }
		END { printf "mtrain --sample-losses, CPU ms of a step, median of ratios %s; "\
			"peer: without\t%.1f\t%.1f\n", longer, w / NR / 40, o / NR / 40 }' all |
		record_rows
}

where()
{
	# one token more than samples of one token take
	awk -v n=100000 'BEGIN { printf "{\"text\": \""
		for (i = 0; i < n; i++) printf "%s%d", i ? " " : "", i % 1000
		print "\"}" }' >piece.jsonl
	mtok -q --tokenizer-type NullTokenizer --vocab-size 1001 -o piece piece.jsonl
	pieces=$(((SAMPLES + 1) / 100000 + 1))
	# shellcheck disable=SC2046
	mshard cat -q -o long $(yes piece_text_document | head -n $pieces)
	options="--data-path long --split 1,0,0 --seq-length 1 --num-samples $SAMPLES,0,0
		--data-cache-path cache --global-batch-size 1024"
	# shellcheck disable=SC2086
	mshard index -q $options >log
	for _ in 1 2 3; do
		# shellcheck disable=SC2086
		"$B/tests/bench/usage" mshard where -q $options --step $((SAMPLES / 1024))
	done >took
	record "mshard where of a step of a run of $SAMPLES samples, CPU ms; peer: none" \
		"$(cut -f 2 took | median)" -
}

# rate OPTION...: tokens that are no padding per CPU second
rate()
{
	rm -f m.jsonl
	cpu 22 --metrics-file m.jsonl "$@" >ms
	share=$(sed -n 's/.*"fill": \([0-9.]*\).*/\1/p' m.jsonl |
		awk '{ s += $1 } END { print NR ? s / NR : 1 }')
	echo "$(cat ms) $(cat once) $share" |
		awk '{ printf "%.0f\n", 20 * 4 * 512 * $3 / ($1 - $2) * 1000 }'
}

packing()
{
	text
	cpu 2 >once
	: >ratio
	for _ in $(seq "$PAIRS"); do
		rate --sample-packing best-fit >packed
		rate --dataloader-inter-document-masking >whole
		echo "$(cat packed) $(cat whole)" | tee -a rates | awk '{ print $1 / $2 }' >>ratio
	done
	awk -v ratio="$(median <ratio | awk '{ printf "%.3f", $1 }')" '{ p += $1; c += $2 }
		END { printf "mtrain --sample-packing best-fit, tokens that are no padding per "\
			"CPU second, median of ratios %s; peer: cut with the same mask of "\
			"documents\t%.0f\t%.0f\n", ratio, p / NR, c / NR }' rates | record_rows
}

# code: dataset `code` of the tree's sources, with a tokenizer that has the tokens of --fim-data
code()
{
	[ ! -e code_text_document.idx ] || return 0
	mtok train -q --vocab-size 2000 --format text -o code.model \
		--control-symbols "<fim_prefix>" "<fim_middle>" "<fim_suffix>" "<fim_pad>" \
		"<|endoftext|>" --input "$top/lib" "$top/tok"
	mtok -q --format text --tokenizer-model code.model --eod-token "<|endoftext|>" \
		--append-eod -o code "$top/lib" "$top/tok"
}

# reads SAMPLES OPTION...: CPU milliseconds of reading samples of 1,024 tokens
reads()
{
	count=$1
	shift
	"$B/tests/bench/usage" "$B/tests/tools/read_batches" 1 1 0 "$count" --num-layers 1 \
		--hidden-size 8 --num-attention-heads 1 --seq-length 1024 --micro-batch-size 1 \
		--global-batch-size 1 --train-iters 4000 --lr 1 --eval-iters 0 --split 1,0,0 \
		--data-path code_text_document --data-cache-path cache \
		--tokenizer-model code.model "$@" | cut -f 2
}

fim()
{
	code
	reads 1 --fim-data >once
	reads 1 >plain.once
	bytes=$(sed -n 's/.*"text_bytes": \([0-9]*\).*/\1/p' code_text_document.json)
	tokens=$(sed -n 's/.*"tokens": \([0-9]*\),.*/\1/p' code_text_document.json)
	for _ in $(seq "$PAIRS"); do
		echo "$(reads 1001 --fim-data) $(cat once) $(reads 1001) $(cat plain.once)"
	done | awk -v bytes="$bytes" -v tokens="$tokens" '
		{ w += $1 - $2; o += $3 - $4 }
		END { b = NR * 1025 * bytes / tokens
			printf "mtrain --fim-data, text of samples, MB per CPU second of a "\
				"thread; peer: as it is\t%.1f\t%.1f\n", b / w, b / o }' |
		record_rows
}

waits()
{
	code
	grep -v '^mock-data\|^vocab-size' "$top/recipes/codeparrot-small/small.conf" >own.conf
	rm -f m.jsonl
	mtrain -q --config "$top/recipes/codeparrot-small/model.conf" \
		--config "$top/recipes/codeparrot-small/run.conf" --config own.conf \
		--tokenizer-model code.model --data-path code_text_document --split 1,0,0 \
		--data-cache-path cache --fim-data --train-iters 200 --lr-decay-iters 200 \
		--num-threads 1 --metrics-file m.jsonl >log
	sed -n 's/.*"seconds": \([^,]*\), "data_wait_seconds": \([^,}]*\).*/\1 \2/p' \
		m.jsonl | awk 'NR > 1 { s += $1; w += $2 }
			END { printf "codeparrot-small with --fim-data, s of steps; peer: "\
				"those in which they wait for samples\t%.3f\t%.5f\n", s, w }' |
		record_rows
}

for row in $ONLY; do
	$row
done
