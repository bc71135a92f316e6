#!/usr/bin/env bats
# help.bats - --help of every tool, verb, group and option, and completion in bash and zsh

bats_require_minimum_version 1.5.0

setup()
{
	cd "$BATS_TEST_TMPDIR"
}

# each FUNCTION: calls it with TOOL and VERB for every verb of every tool ('' where it has none)
each()
{
	local main tool verb verbs
	for main in "$TOP"/bin/*.c; do
		tool=$(basename "$main" .c)
		verbs=$("$tool" --help </dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z]\{1,\}\) .*/\1/p')
		for verb in ${verbs:-""}; do "$1" "$tool" "$verb" || return 1; done
	done
}

# options TOOL VERB: the names of its options, by the manual
options()
{
	awk -v verb="$2" '
		/^\.\\" begin options/ { on = verb == ""; in_list = 1 }
		/^\.\\" end options/ { on = in_list = 0 }
		in_list && verb != "" && /^\.Ss/ { on = $2 == verb || (on && $2 ~ /^[A-Z]/) }
		on && /^\.It / { sub(/.*Fl Fl /, ""); print $1 }' "$TOP/man/$1.1"
}

one_screen()
{
	# shellcheck disable=SC2086
	"$1" $2 --help >out
	[ "$(wc -l <out)" -le 40 ] || { echo "$1 $2: $(wc -l <out) lines"; return 1; }
	! grep -n '.\{81\}' out || return 1
	if grep -q '^Groups of options' out; then
		grep -q '^Options that most runs have:' out || { echo "$1 $2: no common options"; return 1; }
	fi
	[[ $(head -1 out) = "usage: $1 ${2:+$2 }[options]"* ]]
}

@test "--help of every tool and verb is one screen of 40 lines of 80 columns" {
	each one_screen
	for tool in mtok mshard mplan mckpt; do
		one_screen "$tool" "" || [[ $(head -1 out) = "usage: $tool VERB"* ]]
		[ "$(wc -l <out)" -le 40 ]
		! grep -n '.\{81\}' out
	done
}

# manual_rows TOOL VERB: a line for each option: its name, and what the manual says of it
manual_rows()
{
	awk -v verb="$2" '
		function flush() { if (row) print row; row = "" }
		/^\.\\" begin options/ { on = verb == ""; in_list = 1 }
		/^\.\\" end options/ { flush(); on = in_list = 0 }
		in_list && verb != "" && /^\.Ss/ { flush(); on = $2 == verb || (on && $2 ~ /^[A-Z]/) }
		!on { next }
		/^\.It / { flush(); sub(/.*Fl Fl /, ""); row = $1 " "; next }
		/^\./ { flush(); next }
		row { gsub(/\\&/, ""); gsub(/\\e/, "\\"); row = row " " $0 }
	' "$TOP/man/$1.1" | tr -s ' '
}

agrees()
{
	manual_rows "$1" "$2" | sort >manual
	[ -s manual ]
	# shellcheck disable=SC2046,SC2086
	"$1" $2 --help $(options "$1" "$2") | awk '
		/^  -/ { if (row) print row; sub(/^ *(-., )?--/, ""); row = $1 " "; next }
		/^      / { row = row " " $0 }
		END { print row }' | tr -s ' ' | sed 's/ Other programs call it.*//' | sort >help
	diff manual help || { echo "$1 $2"; return 1; }
}

@test "--help OPTION says of each option what the manual says" {
	each agrees
}

listed()
{
	# shellcheck disable=SC2086
	"$1" $2 --help all | sed -n 's/^  \(-., \)\{0,1\}--\([^ ]*\).*/\2/p' >help
	options "$1" "$2" | diff - help
}

@test "--help all lists what the manual lists" {
	each listed
}

@test "a group by the beginning of its heading, an option with and without dashes" {
	run -0 mtrain --help check
	[[ $output = *"Checkpoints:"*"--save DIR"* ]]
	[[ $output != *"--lr "* ]]
	mtrain --help lr >a
	mtrain --help --lr >b
	mtrain --help=lr >c
	mtrain -h lr >d
	cmp a b && cmp a c && cmp a d
	[ "$(cat a)" = "  --lr N
      highest learning rate. A number, at least 0. Other programs call it
      --learning-rate." ]
	run -0 mtrain --help optimizer
	[[ $output = *"adamw is adam."*"The default is adam."* ]]
	run -0 mtrain --help batch-and adam-eps
	[[ $output = *"Batch and precision:"*"--adam-eps N"*"It needs --optimizer adam or"* ]]
	[[ $(mtrain --help model) = "  --model CONFIG"* ]]
	[[ $(mtrain --help Model) = *"Model:"*"--hidden-size N "* ]]
	# Part of a name, another program's option, a verb.
	run -0 mtrain --help warmup-
	[[ $output = *"--lr-warmup-iters N"*"--lr-warmup-fraction N"* ]]
	run -0 mtrain --help batch-size
	[[ $output = *"--batch-size: is --micro-batch-size \$ here"* ]]
	run -0 mtok --help --keep-newlines
	[[ $output = "mtok encode:"*"mtok count:"* ]]
	run -0 mtok --help count
	[[ $output = *"Groups of options"* ]]
	[[ $(mtok count --help inp) = *"Input:"*"--input FILE..."* ]]
}

@test "--help of what does not exist" {
	run -2 --separate-stderr mtrain --help frobnicate
	[ "$stderr" = "mtrain: --help frobnicate: no option and no group is called so; --help lists the groups" ]
	run -2 --separate-stderr mckpt --help frobnicate
	[ "$stderr" = "mckpt: --help frobnicate: no verb, no option and no group is called so" ]
	run -2 --separate-stderr mplan mem --help frobnicate
	[ "$stderr" = "mplan: --help frobnicate: no option and no group is called so; --help lists the groups" ]
	run -2 --separate-stderr mshard --completion csh
	[ "$stderr" = "mshard: --completion csh: must be one of bash, zsh" ]
}

completes()
{
	options "$1" "$2" >names
	"$1" --completion bash >file
	bash -c '
		. ./file
		tool=$1 verb=$2 missing=0
		while read -r name; do
			COMP_WORDS=("$tool" $verb "--${name%?}")
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			"_$tool"
			case " ${COMPREPLY[*]} " in
			*" --$name "*) ;;
			*) echo "$tool $verb: --$name"; missing=1 ;;
			esac
		done <names
		exit "$missing"' - "$1" "$2"
}

@test "bash completes every option" {
	each completes
}

# answers TOOL WORD...: what bash completes the last word to, in one line
answers()
{
	"$1" --completion bash >file
	bash -c '. ./file; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); "_$1"; echo "${COMPREPLY[*]}"' - "$@"
}

@test "bash completes verbs, choices, files and words after --help" {
	mkdir -p "a dir" && touch "a dir/x.conf" b.model
	[ "$(answers mckpt resh)" = reshard ]
	[ "$(answers mshard "")" = "info verify head sample where cat split mask repair index blend" ]
	[ "$(answers mtrain --optimizer m)" = muon ]
	[ "$(answers mtrain --optimizer = m)" = muon ]
	[ "$(answers mtrain --dataloader-type =)" = "single cyclic" ]
	[ "$(answers mtrain --config "a")" = "a dir" ]
	[ "$(answers mtrain --data-path 0.3 b)" = b.model ]
	[ "$(answers mtrain --lr "")" = "" ]
	[ "$(answers mtrain --lr 1 "")" = "" ]
	[ "$(answers mtok count b)" = b.model ]
	[ "$(answers mtok encode -o b)" = b.model ]
	[[ " $(answers mtrain --help lr-) " = *" lr-warmup-iters "* ]]
	[[ " $(answers mtrain --help check) " = *" checkpoints "* ]]
	[ "$(answers mtrain --completion z)" = zsh ]
}

specified()
{
	options "$1" "$2" | sort >names
	"$1" --completion zsh >_file
	zsh -f -c '
		compdef() { :; }; compadd() { :; }
		_arguments() { print -rl -- "$@"; }
		. ./_file
		words=($1 $2 --) CURRENT=$#words
		_$1' - "$1" "$2" | sed -n 's/^\*--\([^[]*\)\[.*/\1/p' | sort | diff names - ||
		{ echo "$1 $2"; return 1; }
}

@test "zsh completes every option" {
	command -v zsh >/dev/null || skip "no zsh"
	each specified
}

@test "the files of completion are well-formed" {
	for main in "$TOP"/bin/*.c; do
		tool=$(basename "$main" .c)
		"$tool" --completion bash >file.bash
		bash -n file.bash
		! command -v shellcheck >/dev/null || shellcheck -s bash file.bash
		! command -v zsh >/dev/null || { "$tool" --completion zsh >_file && zsh -n _file; }
	done
}
