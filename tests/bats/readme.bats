#!/usr/bin/env bats
# readme.bats - the README's commands that need no GPU print what it says, and its links lead somewhere

bats_require_minimum_version 1.5.0

setup()
{
	cd "$BATS_TEST_TMPDIR"
	export LC_ALL=C
}

# blocks: writes each pair of a command marked with <!-- runs --> and the output after it into files
# 1.sh, 1.out, 2.sh and so on
blocks()
{
	awk '
		/^<!-- runs -->$/ { n++; kind = "sh"; next }
		/^```/ && kind { inside = !inside; if (!inside) kind = kind == "sh" ? "out" : ""; next }
		inside { print > (n "." kind) }' "$TOP/README.md"
}

@test "marked commands print what the README says" {
	blocks
	[ -s 1.sh ]
	for command in *.sh; do
		sh "$command" >printed 2>&1
		diff "${command%.sh}.out" printed
	done
}

@test "the line that plans makes a plan" {
	line=$(grep '^mplan search' "$TOP/README.md")
	[[ "$line" != *'\' ]]
	sed -n "/^cat >model.conf/,/^EOF/p" "$TOP/examples/pretrain.sh" | sed '1d;$d' >model.conf
	[ -s model.conf ] || cp "$TOP/tests/tiny.conf" model.conf
	n=4 sh -c "$line"
	[ -s plan.conf ]
}

@test "every linked file exists, and so do the files of the two commands" {
	for file in README.md CONTRIBUTING.md docs/*.md; do
		cd "$TOP/$(dirname "$file")"
		grep -o '](\([^)#:]*\))' "$(basename "$file")" | tr -d '()]' | while read -r link; do
			[ -e "$link" ] || { echo "$file: no $link"; exit 1; }
		done
		cd "$TOP"
	done
	sh -n install.sh
	sh -n examples/pretrain.sh
	grep -q "sh install.sh --test && make -j2 test" .ci/run
}

@test "the README has at most 110 lines" {
	[ "$(wc -l <"$TOP/README.md")" -le 110 ]
}
