#!/bin/sh
# words.sh - no paths of one machine, no unfinished marks without an issue's number, no code that is
# switched off; no place where time or order is meant, no question as a comment, no private name
set -u
cd "${TOP:-.}" || exit 1

# look PATTERN WHAT [EXCEPT]: prints "FILE:LINE: WHAT" for each line that has PATTERN and not
# EXCEPT, outside this file
look()
{
	grep -rnIE --exclude=words.sh --exclude-dir=corpus "$1" Makefile README.md install.sh .ci \
		bin lib tok shard plan ckpt export train man examples tests 2>/dev/null |
		grep -vE "^tests/[a-z]*/data/|${3:-^\$}" |
		awk -F: -v what="$2" '{ print $1 ":" $2 ": " what }'
}

# Files whose words are not yet revised. The list only shrinks.
unrevised='^(lib/(model|ckpt)|plan|ckpt|export)/|^train/(engine|layers|optim|cpu|cuda|mpi|nccl)/'
unrevised="$unrevised"'|^train/[a-z]*\.[ch]:|^README|^man/(mckpt|mexport|mplan|mtrain)'
unrevised="$unrevised|^tests/bench/results"

# say PATTERN WHAT: as look, over the revised files
say()
{
	look "(^|[^A-Za-z])($1)([^A-Za-z_]|\$)" "$2" "$unrevised"
}

found=$(
	look '(^|[^A-Za-z0-9_.])/(work|home|root|Users)/' 'a path of one machine'
	look '(^|[^A-Za-z0-9_])(TODO|FIXME|XXX|HACK)([^A-Za-z0-9_]|$)' 'an unfinished mark' '#[0-9]'
	look '^[[:space:]]*#[[:space:]]*if 0' 'code that is switched off'
	look 'not (yet )?implemented' 'an unfinished place'
	say '[Bb]ehind|[Ii]n front' 'after and before are for time and order'
	look '(^|[[:space:]])(/\*|\*|//)[^"]*\?([[:space:]]*\*/)?$' 'a question as a comment' \
		"$unrevised"
	say 'hungry|set_behind|say_memory|judge|outset|[A-Z_]*NOBODY|BEHIND_ALL|BESIDE_[A-Z_]*' \
		'a name that needs its author'
)
[ -z "$found" ] || { echo "$found"; exit 1; }
