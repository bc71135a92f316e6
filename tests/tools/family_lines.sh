#!/bin/sh
# family_lines.sh - how many lines each family of models is, and how many name it elsewhere
#
# A line a family: its name, the lines of lib/model/family/NAME.c, the lines of other sources that
# name it besides its line in family_list.h, and where these are. What several families share is
# rows of fields, which name none.
set -eu
cd "$(dirname "$0")/../.."
printf 'family\tlines\telsewhere\twhere\n'
sed -n 's/.*DO(\([a-z0-9_]*\)) *\\*$/\1/p' lib/model/family_list.h | while read -r name; do
	rooms=$(grep -rnwE "family_$name|\"$name\"" lib tok shard plan ckpt export train bin \
		--include='*.[ch]' --include='*.cu' | grep -v "^lib/model/family/$name\.c:" || :)
	printf '%s\t%s\t%s\t%s\n' "$name" "$(wc -l <"lib/model/family/$name.c")" \
		"$(printf '%s' "$rooms" | grep -c . || :)" \
		"$(printf '%s\n' "$rooms" | cut -d : -f 1 | sort -u | paste -sd ' ')"
done
