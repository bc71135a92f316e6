#!/bin/sh
# porting.sh [BLOCKS] - public option blocks through mtrain --dry-run
#
# A line of BLOCKS is the source of a block, its ranks and its options, "--name words" separated by
# " ; "; paths and names of people are one capital letter. Data and tokenizers are replaced by the
# tests' own. Each answer is compared with answers.txt, or written there with UPDATE=1; a block that
# is refused is mended as its answer says and run once more, which must be enough. At the end a
# table of what is accepted, by kind of source: by the names of the options alone, with their
# values, and of the blocks that ask for no refused mathematics and that are legal in Megatron-LM;
# and how many needed a second round. B is the build directory.
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
	awk -v golden="$golden" -v vocab="$2" 'BEGIN { RS = " ; " }
	{
		sub(/\n$/, "")
		n = split($0, w, " ")
		name = w[1]
		gsub(/_/, "-", name)
		if (name == "--seed" && w[2] == "X")
			w[2] = 1
		if (n == 2 && w[2] ~ /^[TVM]$/)
			w[2] = w[2] == "T" ? model : w[2] == "V" ? vocab : \
				golden "/bare/gpt2/merges.txt"
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

# Its vocabulary, a SentencePiece model in one fork.
vocab()
{
	case $1 in
	*"--tokenizer-type JapaneseSentencePiece"*) echo "$golden/bare/llama/tokenizer.model" ;;
	*) echo "$golden/bare/gpt2/vocab.json" ;;
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

# answer WORLD: runs the words of $work/words; its lines are in $work/said. The list of what has no
# effect is only counted.
answer()
{
	world=$1
	set -f
	IFS='
'
	# shellcheck disable=SC2046 # a word on a line
	set -- $(cat "$work/words")
	unset IFS
	set +f
	(cd "$work" && "$mtrain" --dry-run --world-size "$world" "$@") >/dev/null 2>"$work/err"
	status=$?
	sed -e 's/^mtrain: //' -e "s|$golden|tests/golden|g; s|$work|.|g" "$work/err" |
		grep -v -e '^stages* [0-9]' -e '^no --gpu: ' -e '^--data-path .* not exist here' |
		awk '/^without effect here: / { $0 = "without effect here: " gsub(/--/, "--") }
			{ print }' >"$work/said"
}

# mend: changes $work/words as the lines of $work/said say. An option is left out, unless its line
# has a value to try, or words that it may have, or what to give beside it.
mend()
{
	awk '
	function options(text, list, n) {
		while (match(text, /--[A-Za-z0-9_-]+/)) {
			list[++n] = substr(text, RSTART, RLENGTH)
			text = substr(text, RSTART + RLENGTH)
		}
		return n
	}
	# The option after the phrase, with its value, joins the words.
	function beside(text, phrase, w) {
		if (!match(text, phrase " --[a-z0-9-]+( [0-9.]+)?"))
			return 0
		text = substr(text, RSTART, RLENGTH)
		split(substr(text, index(text, "--")), w, " ")
		add[w[1]] = w[1] == "--train-samples" ? 1000000 : w[2]
		return 1
	}
	FNR == NR {
		split("", name)
		head = $0
		if (!sub(/: .*/, "", head) || head !~ /^--/)
			head = $0
		n = options(head, name)
		why = substr($0, length(head) + 1)
		if (match(why, /\(try [0-9]+\)/))
			value[name[1]] = substr(why, RSTART + 5, RLENGTH - 6)
		else if (match(why, /must be [a-z_]+,/))
			value[name[1]] = substr(why, RSTART + 8, RLENGTH - 9)
		else if (/exclude each other/)
			out[name[1]]
		else if (/is counted in samples/) {
			for (n = options($0, name); n > 0; n--)
				if (name[n] ~ /-iters$/)
					out[name[n]]
		}
		else if (/^[0-9]+ options cannot|^without effect|^read by nothing/ ||
			beside(why, "give") || beside(why, "^: needs"))
			;
		else if (/^unknown option/)
			out[name[1]]
		else
			for (i = 1; i <= n; i++)
				out[name[i]]
		beside(why, "these need")
		if (match(why, /--[a-z-]+ must be at most [a-z_]+/)) {
			split(substr(why, RSTART, RLENGTH), w, " ")
			value[w[1]] = w[6]
		}
		beside(why, "counted in samples: give")
		next
	}
	/^--/ { at = $0; gsub(/_/, "-", at); put = at in value }
	at in out { next }
	!/^--/ && put { print value[at]; put = 0; next }
	!/^--/ && at in value { next }
	{ print }
	END { for (o in add) print o (add[o] == "" ? "" : "\n" add[o]) }
	' "$work/said" "$work/words" >"$work/mended"
	mv "$work/mended" "$work/words"
}

ranks >"$work/ranks.tiktoken"
echo '{}' >"$work/empty.json"
printf '%s\n' '{"model": {"type": "BPE", "vocab": {"x": 0, "y": 1}, "merges": []}}' \
	>"$work/tokenizer.json"
: >"$work/answers"
: >"$work/table"
tail -n +2 "$blocks" >"$work/blocks"
while IFS='	' read -r source world options; do
	printf %s "$options" | words "$(model "$options")" "$(vocab "$options")" >"$work/words"
	answer "$world"
	first=$status again=$status
	{
		echo "# $source"
		echo "$status"
		cat "$work/said"
	} >>"$work/answers"
	cp "$work/said" "$work/first"
	if [ "$first" != 0 ]; then
		mend
		answer "$world"
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
		-e '^--num-layers-per-virtual-pipeline-stage and .* exclude each other' \
		"$work/first" >/dev/null; then
		there=1
	fi
	# Values that other mathematics have.
	maths=0
	if grep -q -e '; accepted: ' -e '^--moe-router-load-balancing-type .* is not supported' \
		"$work/first"; then
		maths=1
	fi
	case $source in
	*" functional "*) kind=functional ;;
	llm-jp/scripts*) kind=llm-jp ;;
	*) kind=scripts ;;
	esac
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$kind" "$first" "$again" "$there" "$maths" "$options" \
		>>"$work/table"
done <"$work/blocks"
cat "$work/second" >&2 2>/dev/null

seconds=$(grep -c '^# ' "$work/second" 2>/dev/null)
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
	n = split($6, option, " ; ")
	bad = 0
	maths = $5
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
	fmt = "%-12s %6s %14s %14s %16s %24s %14s\n"
	printf fmt, "blocks of", "number", "by names", "with values", "illegal there", \
		"of those without maths", "second round"
	for (k in all)
		printf fmt, k, all[k], share(names[k], all[k]), share(values[k], all[k]), \
			illegal[k], share(taken[k], plain[k]) " of " plain[k], more[k]
	print "bars: functional 65 % by names, 55 % with values; " \
		"scripts 85 % of those without maths"
}' "$here/../../train/config/foreign_list.h" "$work/table"
[ -n "${1:-}" ] || [ "${seconds:-0}" = 0 ] || { echo 'a second round'; exit 1; }
[ -z "${UPDATE:-}" ] || cp "$work/answers" "$here/answers.txt"
[ -n "${1:-}" ] || diff "$here/answers.txt" "$work/answers" >"$work/diff" ||
	{ cat "$work/diff"; echo 'the answers have changed: UPDATE=1 writes them'; exit 1; }
