#!/bin/sh
# words.sh - no paths of one machine, no unfinished marks without an issue's number, no code that is
# switched off; no place where time or order is meant, no question and no line without a star in a
# comment, no private name
set -u
cd "${TOP:-.}" || exit 1

# look PATTERN WHAT [EXCEPT]: prints "FILE:LINE: WHAT" for each line that has PATTERN and not
# EXCEPT, outside this file
look()
{
	grep -rnIE --exclude=words.sh --exclude-dir=corpus "$1" Makefile README.md docs \
		CONTRIBUTING.md install.sh .ci bin lib tok shard plan ckpt export train man \
		examples recipes tests 2>/dev/null |
		grep -vE "^tests/[a-z]*/data/|${3:-^\$}" |
		awk -F: -v what="$2" '{ print $1 ":" $2 ": " what }'
}

# say PATTERN WHAT: as look, for whole words outside the record of past measurements
say()
{
	look "(^|[^A-Za-z])($1)([^A-Za-z_]|\$)" "$2" '^tests/bench/results'
}

# comments: looks at those of C, C++ and CUDA, line by line
comments()
{
	# shellcheck disable=SC2016
	find bin lib tok shard plan ckpt export train examples tests \
		-path 'tests/*/data' -prune -o -name '*.[ch]' -print -o -name '*.c[cu]*' -print |
		sort | xargs awk '
			FNR == 1 { inside = 0 }
			{
				text = ""
				if (inside)
					text = $0
				else if (match($0, /(^|[ \t])(\/\*|\/\/)/))
					text = substr($0, RSTART)
				place = FILENAME ":" FNR ": "
				if (inside && $0 !~ /^[ \t]*\*/)
					print place "a line of a block comment begins with a star"
				if (text ~ /[A-Za-z]\?( |$|\))/)
					print place "a question as a comment"
				inside = (inside || text ~ /\/\*/) && text !~ /\*\//
			}'
}

found=$(
	look '(^|[^A-Za-z0-9_.])/(work|home|root|Users)/' 'a path of one machine'
	look '(^|[^A-Za-z0-9_])(TODO|FIXME|XXX|HACK)([^A-Za-z0-9_]|$)' 'an unfinished mark' '#[0-9]'
	look '^[[:space:]]*#[[:space:]]*if 0' 'code that is switched off'
	look 'not (yet )?implemented' 'an unfinished place'
	say '[Bb]ehind|[Ii]n front' 'after and before are for time and order'
	comments
	look '^[[:space:]]*#[^!].*[a-z]\?( |$)' 'a question as a comment' '\.(md|[1-9]|[ch]|cuh?):'
	say 'hungry|set_behind|say_memory|judge|outset|[A-Z_]*NOBODY|BEHIND_ALL|BESIDE_[A-Z_]*' \
		'a name that needs its author'
	say '[a-z0-9]+_products|products_[a-z_]+|[A-Z]+_PRODUCTS|product_case|write_turned' \
		'a GEMM is called gemm, and a copy transposed'
	say '[a-z]+_again|goes_on|steps_go_on' 'a pass is rerun, and a run continues'
	say 'be had|been had|made again|looked at by who' 'not what a person would say'
	say 'freed already|whoever|gives? back|what is there' 'not what a person would say'
	say '(run|command|job|case|corpus|save|average)s? (goes?|going) on' 'a run continues'
	say 'go(ne|ing) on (from|with)' 'a run continues'
	look '[^A-Za-z]go(es)? on[^A-Za-z]' 'a run continues' \
		'^tests/unit/sentence|^tests/bench/results'
	say 'in turns|and the like|ha(s|ve) got|as ever|(is|was|are) run again' \
		'not what a person would say'
	say '(that|which|what|it) (is|are) no (part|file|name|id|ids|failure|matrix|model|UTF-8)' \
		'is not'
	say '(a|one) (row|line|file) a (run|pass|piece|problem|stage)' 'one per'
	say '(a|one) (row|line|file) a (rank|writer|tokenizer|column)' 'one per'
)
[ -z "$found" ] || { echo "$found"; exit 1; }
