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
		examples packaging recipes tests 2>/dev/null |
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

# left: in train/ and lib/model, names of which a part is a word that docs/GLOSSARY.md has another
# for, and the words of them that have no other meaning in comments too. Each line has such words
# and, where they have another meaning, the files; what an include or a text has is not looked at.
left()
{
	words='
window|windows	lib/model/(config|family|fields|options|rope|rank_buffers)|/attention
window|windows	lib/model/block/buffers|train/engine/engine.c
link|links	lib/model/hardware|train/run/calibrate
letter|letters	train/config/(option|train_config.h)
scope|scopes	train/config/(foreign|port)
tally|tallies	train/config/port|train/cuda/embedding.cu|train/run/explain.c
move|moves	train/cuda/
narrow	train/cuda/norm.cu
spread	train/cuda/norm.cu|lib/model/split.c
arriving	train/engine/activation_offload.c
replica|replicas	lib/model/layout.c
office|offices|leg|legs|kin|twin|hosted|stretch|stretches|ceiling|ceilings|landing|company
traffic|handover|stash|unstash|culprit|culprits|verdict|verdicts|circle|circles|dwhole|remainder
remainders
'
	# shellcheck disable=SC2016
	find train lib/model -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort |
		xargs awk -v words="$words" '
			# Whether the word has another meaning in the file.
			function other(word,    files)
			{
				files = substr(except[word], 2)
				return files != "" && FILENAME ~ files
			}
			BEGIN {
				see = ": see docs/GLOSSARY.md"
				rows = split(words, row, "\n")
				for (i = 1; i <= rows; i++) {
					split(row[i], part, "\t")
					n = split(part[1], word, "|")
					for (k = 1; k <= n; k++)
						except[word[k]] = except[word[k]] "|" part[2]
				}
			}
			FNR == 1 { inside = 0 }
			{
				text = $0
				gsub(/"([^"\\]|\\.)*"/, "", text)
				if (match(text, /[Oo]ffice|stash|handover|culprit|expert of all/))
					print FILENAME ":" FNR ": " substr(text, RSTART) see
				if (text ~ /^#include/ || inside) {
					if (!sub(/^.*\*\//, "", text))
						next
					inside = 0
				}
				gsub(/\/\*([^*]|\*[^\/])*\*\//, "", text)
				inside = sub(/\/\*.*/, "", text)
				n = split(tolower(text), part, /[^a-z0-9_]+/)
				for (i = 1; i <= n; i++) {
					m = split(part[i], piece, "_")
					for (k = 1; k <= m; k++)
						if (piece[k] in except && !other(piece[k]))
							print FILENAME ":" FNR ": " part[i] ": " \
								piece[k] see
				}
			}'
}

found=$(
	left
	look '(^|[^A-Za-z0-9_.])/(work|home|root|Users)/' 'a path of one machine' \
		'^tests/porting/scripts/'
	look '(^|[^A-Za-z0-9_])(TODO|FIXME|XXX|HACK)([^A-Za-z0-9_]|$)' 'an unfinished mark' '#[0-9]'
	look '^[[:space:]]*#[[:space:]]*if 0' 'code that is switched off'
	look 'not (yet )?implemented' 'an unfinished place'
	say '[Bb]ehind|[Ii]n front' 'after and before are for time and order'
	comments
	look '/\* (The same (of|in|for) |Likewise)' 'a comment needs the line above it' \
		'/attention/|^lib/(base|ckpt|data|script|token)/|^(tok|ckpt|export|tests)/'
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
