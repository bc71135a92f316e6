#!/bin/sh
# args.sh - no argument is passed over in silence: each member of the structs of train/op is read by
# both backends, where they have its operation, or by a function of its header
#
# A backend reads a member where one of its files that names the struct does. An implementation
# that does not serve a value refuses it by ops_require. `unread` are those that may be left: room,
# or a hint that changes no result.
set -u
cd "${TOP:-.}" || exit 1
export LC_ALL=C
unread='attention_grad.work norm.has_stats'
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# code FILE...: without comments
code()
{
	awk '{
		while (1) {
			if (inside && !(end = index($0, "*/")))
				next
			if (inside)
				$0 = substr($0, end + 2)
			inside = begin = index($0, "/*")
			if (!begin)
				break
			rest = substr($0, begin)
			$0 = substr($0, 1, begin - 1)
			if ((end = index(rest, "*/"))) {
				$0 = $0 substr(rest, end + 2)
				inside = 0
			} else {
				print
				next
			}
		}
		print
	}' "$@"
}

# members HEADER: STRUCT MEMBER of each struct that is no result
members()
{
	code "$1" | awk '
		/^struct [a-z_0-9]+ \{/ { name = $2; next }
		/^\};/ { name = ""; text = "" }
		name != "" { text = text " " $0 }
		name != "" && /;[ \t]*$/ {
			n = split(text, declaration, ";")
			for (i = 1; i < n; i++) {
				if (match(declaration[i], /\(\*[a-z_0-9]+\)/)) {
					print name, substr(declaration[i], RSTART + 2, RLENGTH - 3)
					continue
				}
				m = split(declaration[i], word, ",")
				for (k = 1; k <= m; k++) {
					sub(/\[.*/, "", word[k])
					sub(/[ \t]+$/, "", word[k])
					sub(/.*[ \t*]/, "", word[k])
					print name, word[k]
				}
			}
			text = ""
		}'
}

# reads ROOM STRUCT MEMBER: whether one of the room's files that name the struct reads it
reads()
{
	named=$tmp/$1.$2
	[ -e "$named" ] || grep -lE "struct $2\\b" "$tmp/$1"/* | xargs -r cat >"$named"
	grep -qE "(->|\\.)$3\\b" "$named"
}

for room in cpu cuda; do
	mkdir "$tmp/$room"
	find train/$room -type f | while read -r file; do
		code "$file" >"$tmp/$room/$(echo "$file" | tr / _)"
	done
done
for header in train/op/*.h; do
	[ "$header" != train/op/call.h ] || continue
	code "$header" | sed '/^describe_/,/^}/d' >"$tmp/header"
	members "$header" | while read -r struct member; do
		case " $unread " in *" $struct.$member "*) continue ;; esac
		grep -qE "(->|\\.)$member\\b" "$tmp/header" && continue
		for room in cpu cuda; do
			[ $room = cpu ] || grep -rqE "struct $struct\\b" train/cuda ||
				grep -qE "^OPERATION\\([a-z_0-9]+, $struct\\)" "$header" ||
				continue
			reads $room "$struct" "$member" ||
				echo "$header: struct $struct: train/$room does not read '$member'"
		done
	done
done >"$tmp/found"
cat "$tmp/found"
[ ! -s "$tmp/found" ]
