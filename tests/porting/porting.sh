#!/bin/sh
# porting.sh [BLOCKS] - public option blocks through mtrain --dry-run
#
# A line of BLOCKS is the source of a block, its ranks and its options, "--name words" separated by
# " ; "; paths and names of people are one capital letter. Data and tokenizers are replaced by the
# tests' own. Each answer is compared with answers.txt, or written there with UPDATE=1; a block that
# is refused is run once more without the options that its answer names, which must be enough. At
# the end a table of what is accepted, by kind of source: by the names of the options alone, with
# their values, and of the blocks that ask for no refused mathematics and that are legal in
# Megatron-LM. B is the build directory.
set -u
here=$(cd "$(dirname "$0")" && pwd)
: "${B:=build}"
blocks=${1:-$here/blocks.tsv}
mtrain=$(cd "$B" && pwd)/mtrain
golden=$(cd "$here/../golden" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
# Reading the options takes a moment; a tokenizer with files is all that is opened.
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# words: the options of a block on standard input, one word on a line. Lists are several words, any
# other value is one.
words()
{
	awk -v golden="$golden" 'BEGIN { RS = " ; " }
	{
		sub(/\n$/, "")
		n = split($0, w, " ")
		name = w[1]
		gsub(/_/, "-", name)
		if (name == "--seed" && w[2] == "X")
			w[2] = 1
		if (n == 2 && w[2] ~ /^[TVM]$/)
			w[2] = w[2] == "T" ? model : \
				golden "/bare/gpt2/" (w[2] == "V" ? "vocab.json" : "merges.txt")
		if (name == "--deepspeed-config")
			w[2] = empty
		print w[1]
		value = ""
		for (i = 2; i <= n; i++) {
			if (name ~ /-path$|^--(rampup-batch-size|[a-z-]*-modules|prompts)$/)
				print w[i]
			else
				value = value (i > 2 ? " " : "") w[i]
		}
		if (value != "")
			print value
	}' model="$1" empty="$work/empty.json" -
}

# The model file that a block names as T, by its --tokenizer-type.
model()
{
	case $1 in
	*"--tokenizer-type TikTokenizer"*) echo "$work/ranks.tiktoken" ;;
	*"--tokenizer-type HuggingFaceTokenizer"*) echo "$work/tokenizer.json" ;;
	*) echo "$golden/bare/llama/tokenizer.model" ;;
	esac
}

# A rank file of the 256 bytes: the base64 of one byte is two digits and two signs.
ranks()
{
	awk 'BEGIN {
		digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
		for (i = 0; i < 256; i++)
			print substr(digits, int(i / 4) + 1, 1) \
				substr(digits, (i % 4) * 16 + 1, 1) "== " i
	}'
}

# answer WORLD [LEAVE ...]: runs the words of $work/words without the options LEAVE; its lines are
# in $work/said. The list of what has no effect is only counted.
answer()
{
	world=$1
	shift
	awk -v leave=" $* " '
		/^--/ { name = $0; gsub(/_/, "-", name); out = index(leave, " " name " ") }
		!out' "$work/words" >"$work/line"
	set -f
	IFS='
'
	# shellcheck disable=SC2046 # a word on a line
	set -- $(cat "$work/line")
	unset IFS
	set +f
	(cd "$work" && "$mtrain" --dry-run --world-size "$world" "$@") >/dev/null 2>"$work/err"
	status=$?
	sed -e 's/^mtrain: //' -e "s|$golden|tests/golden|g; s|$work|.|g" "$work/err" |
		grep -v -e '^stages* [0-9]' -e '^no --gpu: ' -e '^--data-path .* not exist here' |
		awk '/^without effect here: / { $0 = "without effect here: " gsub(/--/, "--") }
			{ print }' >"$work/said"
}

# The options that an answer names at the start of a line, or as unknown.
named()
{
	sed -n -e "s/^unknown option '\\(--[^']*\\)'.*/\\1/p" -e 's/^\(--[^:]*\):.*/\1/p' \
		"$work/said" |
		grep -o -e '--[A-Za-z0-9_-]*'
}

ranks >"$work/ranks.tiktoken"
echo '{}' >"$work/empty.json"
printf '%s\n' '{"model": {"type": "BPE", "vocab": {"x": 0, "y": 1}, "merges": []}}' \
	>"$work/tokenizer.json"
: >"$work/answers"
: >"$work/table"
tail -n +2 "$blocks" >"$work/blocks"
while IFS='	' read -r source world options; do
	printf %s "$options" | words "$(model "$options")" >"$work/words"
	answer "$world"
	first=$status again=$status
	{
		echo "# $source"
		echo "$status"
		cat "$work/said"
	} >>"$work/answers"
	cp "$work/said" "$work/first"
	if [ "$first" != 0 ]; then
		# shellcheck disable=SC2046 # names
		answer "$world" $(named)
		again=$status
		if [ "$again" != 0 ]; then
			echo "# $source: a second round"
			cat "$work/said"
		fi >>"$work/second"
	fi
	# Rules that Megatron-LM asserts too: such a block does not start there either.
	there=0
	if [ "$first" != 0 ] && ! grep -v -e 'options cannot be used as given:$' \
		-e '^--step-batch-size-schedule: excludes --global-batch-size' \
		-e '^--train-iters .* a run with --rampup-batch-size is counted in samples' \
		-e '^--global-batch-size .* must be a multiple of --micro-batch-size x ' \
		"$work/first" >/dev/null; then
		there=1
	fi
	case $source in
	*" functional "*) kind=functional ;;
	llm-jp/scripts*) kind=llm-jp ;;
	*) kind=scripts ;;
	esac
	printf '%s\t%s\t%s\t%s\t%s\n' "$kind" "$first" "$again" "$there" "$options" >>"$work/table"
done <"$work/blocks"
cat "$work/second" >&2 2>/dev/null

# The table. By names: no option of a block is refused whatever its value.
awk -F '\t' '
FNR == NR {
	while (match($0, /DO\((MATHS|LACKS|SCOPE), "[^"]*"/)) {
		split(substr($0, RSTART, RLENGTH), part, "\"")
		refused["--" part[2]] = substr(part[1], 4, 5)
		$0 = substr($0, RSTART + RLENGTH)
	}
	next
}
{
	n = split($5, option, " ; ")
	bad = maths = 0
	for (i = 1; i <= n; i++) {
		name = option[i]
		sub(/ .*/, "", name)
		gsub(/_/, "-", name)
		bad = bad || name in refused
		maths = maths || (name in refused && refused[name] != "LACKS")
	}
	all[$1]++
	names[$1] += !bad
	values[$1] += $2 == 0
	plain[$1] += !maths && !$4
	taken[$1] += !maths && $2 == 0
	illegal[$1] += $4
	more[$1] += $3 != 0
}
function share(n, of) { return of ? n " (" int(100 * n / of + .5) " %)" : n }
END {
	fmt = "%-12s %6s %14s %14s %16s %24s %12s\n"
	printf fmt, "blocks of", "number", "by names", "with values", "illegal there", \
		"of those without maths", "more rounds"
	for (k in all)
		printf fmt, k, all[k], share(names[k], all[k]), share(values[k], all[k]), \
			illegal[k], share(taken[k], plain[k]) " of " plain[k], more[k]
	print "bars: functional 65 % by names, 55 % with values; " \
		"scripts 85 % of those without maths"
}' "$here/../../train/config/foreign_list.h" "$work/table"
[ -z "${UPDATE:-}" ] || cp "$work/answers" "$here/answers.txt"
[ -n "${1:-}" ] || diff "$here/answers.txt" "$work/answers" >"$work/diff" ||
	{ cat "$work/diff"; echo 'the answers have changed: UPDATE=1 writes them'; exit 1; }
