#!/bin/sh
# words.sh - no paths of one machine, no unfinished marks without an issue's number, no code that is
# switched off
set -u
cd "${TOP:-.}" || exit 1

# look PATTERN WHAT [EXCEPT]: prints "FILE:LINE: WHAT" for each line that has PATTERN and not
# EXCEPT, outside this file
look()
{
	grep -rnIE --exclude=words.sh --exclude-dir=corpus --exclude-dir=data "$1" Makefile \
		README.md install.sh .ci bin lib tok shard plan ckpt export train man examples \
		tests 2>/dev/null |
		grep -vE "${3:-^\$}" | awk -F: -v what="$2" '{ print $1 ":" $2 ": " what }'
}

found=$(
	look '(^|[^A-Za-z0-9_.])/(work|home|root|Users)/' 'a path of one machine'
	look '(^|[^A-Za-z0-9_])(TODO|FIXME|XXX|HACK)([^A-Za-z0-9_]|$)' 'an unfinished mark' '#[0-9]'
	look '^[[:space:]]*#[[:space:]]*if 0' 'code that is switched off'
	look 'not (yet )?implemented' 'an unfinished place'
)
[ -z "$found" ] || { echo "$found"; exit 1; }
