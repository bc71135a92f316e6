#!/bin/sh
# cites.sh - what comments and documents cite of docs/ is there: each "docs/X.md N" has a file and a
# heading that begins with this number; nothing cites spec/, which this repository does not have
#
# Several numbers may follow a name, as in "docs/X.md 2.2, 2.3 and 4", also on the next line of a
# comment.
set -u
cd "${TOP:-.}" || exit 1
places="bin lib tok shard plan ckpt export train man examples packaging tests docs README.md
	CONTRIBUTING.md Makefile"
# shellcheck disable=SC2016,SC2086 # a program of awk; a list of words
found=$(
	grep -rnIE --exclude=cites.sh --exclude-dir=data '(^|[^a-z/])spec/' $places 2>/dev/null |
		awk -F: '{ print $1 ":" $2 ": cites spec/, which is not here" }'
	grep -rlI --exclude=cites.sh --exclude-dir=data 'docs/[a-zA-Z]*\.md' $places 2>/dev/null |
		sort | xargs awk '
		# Whether the document has a heading with the number; its headings are read once.
		function has(name, number,    line, word)
		{
			if (!(name in read)) {
				read[name] = (getline line < name) > 0 ? 1 : -1
				while (read[name] > 0 && (getline line < name) > 0)
					if (line ~ /^##+ [0-9]/) {
						split(line, word, " ")
						heading[name, word[2]] = 1
					}
				close(name)
			}
			return (name, number) in heading
		}

		# A file is looked at as one line, without what begins the lines of a comment.
		function check(file, text,    name, rest, number)
		{
			while (match(text, /docs\/[a-zA-Z]+\.md/)) {
				name = substr(text, RSTART, RLENGTH)
				text = rest = substr(text, RSTART + RLENGTH)
				while (match(rest, /^(,| and| to)? [0-9]+(\.[0-9]+)*/)) {
					number = substr(rest, RSTART, RLENGTH)
					rest = substr(rest, RLENGTH + 1)
					sub(/^.* /, "", number)
					if (!has(name, number))
						print file ": " name " has no heading " number
				}
				has(name, "")
				if (read[name] < 0)
					print file ": there is no " name
			}
		}

		FNR == 1 && NR > 1 { check(file, text) }
		FNR == 1 { file = FILENAME; text = "" }
		{
			line = $0
			sub(/^[ \t]*(\*|#)?[ \t]*/, "", line)
			text = text " " line
		}
		END { check(file, text) }'
)
[ -z "$found" ] || { echo "$found"; exit 1; }
