#!/bin/sh
# subject.sh - the subjects of commits after the one that added this file have at most 72 columns
#
# Older commits keep theirs. Outside a checkout, or where history was cut off before that commit,
# nothing is checked.
set -u
cd "${TOP:-.}" || exit 1
export LC_ALL=C.UTF-8
added=$(git log --diff-filter=A --format=%H -- tests/lint/subject.sh 2>/dev/null | tail -n 1)
[ -n "$added" ] || exit 0
found=$(git log --format='%h %s' "$added..HEAD" | awk '
	{
		subject = substr($0, length($1) + 2)
		if (length(subject) > 72)
			print $1 ": a subject of " length(subject) " columns, more than 72"
	}')
[ -z "$found" ] || { echo "$found"; exit 1; }
