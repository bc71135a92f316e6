#!/bin/sh
# turns.sh [WORKLOAD...] - training speed on one GPU of several forms of a run that take turns
#
# Forms, of which FORMS names those that run, a line each: `own`, what auto chooses for attention;
# `fused`, cuDNN's attention in any order; `ordered`, cuDNN's with --deterministic-mode; `flash`,
# our tiled kernels; `old`, the build OLD as it stands. A workload is one of those of `workloads`,
# with +documents it has packed documents, which cuDNN does not take. Each form has a turn in each
# of TURNS (default 3), of STEPS steps (default: as many as about 12 s take on an H200). A line of
# each: tokens/s, the median of a turn's steps after the first 8, of each turn in order; and their
# median. B is the build directory.
# shellcheck disable=SC2086
set -eu
: "${B:=build}" "${OLD:=}" "${TURNS:=3}" "${STEPS:=}" "${FORMS:=own fused ordered flash old}"
B=$(cd "$B" && pwd)
[ -z "$OLD" ] || OLD=$(cd "$OLD" && pwd)
# shellcheck source=tests/bench/workloads
. tests/bench/workloads
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_ess_singleton_isolated=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# steps MODEL: of a turn
steps()
{
	case $1 in
	gpt2-124m) echo 110 ;;
	gpt2-1.5b | llama-8b-8L) echo 45 ;;
	*) echo 30 ;;
	esac
}

# options WORKLOAD: of the model and its data
options()
{
	shape "${1%+documents}"
	case $1 in
	*+documents)
		echo --data-path text_text_document --split 100,0,0 --reset-attention-mask \
			--tokenizer-type NullTokenizer ;;
	*) echo --mock-data ;;
	esac
}

# form NAME: its program and options, nothing where it does not run
form()
{
	case $1 in
	own) echo "$B/mtrain" ;;
	fused) echo "$B/mtrain --attention-backend fused" ;;
	ordered) echo "$B/mtrain --attention-backend fused --deterministic-mode" ;;
	flash) echo "$B/mtrain --attention-backend flash" ;;
	old) [ -z "$OLD" ] || echo "$OLD/mtrain" ;;
	*) echo "turns.sh: no form '$1'" >&2; exit 2 ;;
	esac
}

# rate WORKLOAD PROGRAM OPTION...: tokens/s of a turn
rate()
{
	model=${1%+documents}
	options=$(options "$1")
	shift
	"$@" $options --backend cuda --bf16 --lr 1e-4 --clip-grad 1 --eval-iters 0 \
		--log-interval 1000 --train-iters "${STEPS:-$(steps "$model")}" \
		--metrics-file metrics >log 2>&1 ||
		{ tail -n 3 log >&2; return 0; }
	tail -n +9 metrics | sed -n 's/.*"tokens_per_second": \([0-9.e+-]*\).*/\1/p' | sort -g |
		awk '{ v[NR] = $1 } END { printf "%.0f\n", v[int((NR + 1) / 2)] }'
	rm metrics
}

[ $# -gt 0 ] || set -- gpt2-124m gpt2-1.5b llama-1b llama-8b-8L qwen3-1.7b gpt2-124m+documents
case " $* " in *+documents*) documents 50257 ;; esac
for workload; do
	turn=0
	while [ $((turn += 1)) -le "$TURNS" ]; do
		for form in $FORMS; do
			case $workload:$form in
			*+documents:fused | *+documents:ordered) continue ;;
			esac
			program=$(form "$form")
			[ -z "$program" ] || rate "$workload" $program >>"$workload.$form"
		done
	done
	for form in $FORMS; do
		[ -s "$workload.$form" ] || continue
		sort -n "$workload.$form" | awk -v turns="$(tr '\n' ' ' <"$workload.$form")" \
			-v name="$workload $form" -v OFS='\t' '
			{ v[NR] = $1 } END { print name, turns, v[int((NR + 1) / 2)] }'
	done
done
