#!/bin/sh
# size.sh - lengths of files and functions
#
# Files up to 800 lines, mains up to 200; functions up to 150 lines, half of them up to 16, 95 %
# under 70; 95 % of them with up to 5 parameters and none with more than 8.
#
# A function is what starts at a line "name(..." after its return type and ends at a '}' in the
# first column.
set -u
cd "${TOP:-.}" || exit 1
# shellcheck disable=SC2046 # names without blanks
found=$(awk '
function end_file() {
	limit = file ~ /^bin\// ? 200 : 800
	if (lines > limit)
		print file ": " lines " lines, at most " limit
}
FNR == 1 { end_file(); file = FILENAME; name = "" }
{ lines = FNR }
/^[a-z_][a-z0-9_]*\(/ && last ~ /^[a-z].*[a-z0-9_*]$/ {
	name = head = $0
	sub(/\(.*/, "", name)
	begin = 0
	at = FNR
	last = $0
	next
}
name != "" && !begin && /^\{/ {
	begin = FNR
	sub(/^[^(]*\(/, "", head)
	sub(/\)[^)]*$/, "", head)
	gsub(/\([^()]*\)/, "", head)
	parameters = 1 + gsub(/,/, ",", head)
	crowded += parameters > 5
	if (parameters > 8)
		print file ":" at ": " name " has " parameters " parameters, at most 8"
}
name != "" && !begin { head = head $0 }
/;$/ && !begin { name = "" }
begin && /^}/ {
	size = FNR - begin - 1
	count++
	by_size[size]++
	if (size > 150)
		print file ":" at ": " name " has " size " lines, at most 150"
	name = ""
	begin = 0
}
{ last = $0 }
END {
	end_file()
	if (crowded * 20 > count)
		print crowded " of " count " functions have more than 5 parameters, at most 5 %"
	for (i = 0; i <= 10000 && seen < count; i++) {
		if (seen * 2 < count && (seen + by_size[i]) * 2 >= count && i > 16)
			print "median of the functions: " i " lines, at most 16"
		if (seen * 20 < count * 19 && (seen + by_size[i]) * 20 >= count * 19 && i >= 70)
			print "95th percentile of the functions: " i " lines, under 70"
		seen += by_size[i]
	}
}' $(find bin lib tok shard plan ckpt export train \
	\( -name '*.c' -o -name '*.cc' -o -name '*.cu' \) 2>/dev/null | sort))
[ -z "$found" ] || { echo "$found"; exit 1; }
