#!/bin/sh
# settings.sh - a setting of a switch changes something where the switch is on: the losses, the
# plan, the log without its times, or what files are written
#
# settings.tsv has a line of each setting: with a value, and the options beside which it is read; or
# why no run of three steps on one CPU shows it.
. "${TOP:-.}/tests/parity/common"

model="--mock-data --num-layers 4 --hidden-size 32 --num-attention-heads 4 --vocab-size 100
	--seq-length 16 --global-batch-size 4 --lr 1e-3 --train-iters 3 --num-threads 1
	--eval-iters 1 --eval-interval 2 --log-interval 1"

# seen FILE OPTIONS...: everything that the options may change
seen()
{
	out=$1
	shift
	rm -rf S B W wandb metrics.jsonl profile* other*
	# shellcheck disable=SC2086 # words
	mtrain -q $model "$@" --dry-run >plan
	train 1 "$@" --metrics-file metrics.jsonl
	{
		sed -n 's/.*"lm_loss": \([^,]*\),.*"grad_norm": \([^,]*\),.*/\1 \2/p' metrics.jsonl
		grep -o '"lr": [^,]*' metrics.jsonl
		sed -e '/read by nothing/d' -e 's/\[[^]]*\]//' -e 's/(ms): *[0-9.]*//' \
			-e 's/GPU): [0-9.]*//' -e 's/second: [0-9]*//' -e 's/([0-9., ]*)//g' log
		cat plan
		find . -name 'S' -o -name 'profile*' -o -name 'other*' | sort
		[ ! -e S ] || find S -type f -printf '%p %s\n' | sort
		cat B/* 2>/dev/null | tr -cd 'a-z/-' | sed 's/[a-z]*tfevents[a-z]*//g'
		grep -aoh '"[NPW]"' W/wandb/*/*.wandb 2>/dev/null || :
	} >"$out.seen"
}

table=$TOP/tests/porting/settings.tsv
"$B/tests/unit/foreign" read | cut -d ' ' -f 1 | sort >rows
grep -v '^#' "$table" | cut -d ' ' -f 1 | cut -f 1 | sort >listed
cmp -s rows listed || fail "not a line of each setting: $(diff rows listed)"
grep -v '^#' "$table" | while IFS='	' read -r setting with; do
	case $with in '('*) continue ;; esac
	# shellcheck disable=SC2086 # words
	seen without $with
	# shellcheck disable=SC2086
	seen with $with $setting
	if cmp -s without.seen with.seen; then
		fail "$setting changes nothing beside $with"
	fi
done
