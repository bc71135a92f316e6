#!/usr/bin/env bats
# tutorial.bats - the commands of mikoshi-tutorial(7) run, and are the same in both languages

bats_require_minimum_version 1.5.0

pages="man/mikoshi-tutorial.7 man/ja/man7/mikoshi-tutorial.7"

# commands PAGE: what a reader types, with the lines that continue it; an empty line after each.
# Where the comment "needs: gpu" is, nothing up to the end of the display.
commands()
{
	awk '
		/^\.\\" needs: gpu/ { gpu = 1 }
		/^\.Ed/ { gpu = inside = 0 }
		/^\$ / { inside = 1 }
		inside && !gpu {
			line = $0
			sub(/^\$ /, "", line)
			gsub(/\\e/, "\\", line)
			print line
			if (line !~ /\\$/) {
				print ""
				inside = 0
			}
		}' "$1"
}

@test "every command runs, in order, in an empty directory" {
	[ -e /usr/share/common-licenses/MPL-2.0 ] || skip 'no texts of Debian'
	commands "$TOP/man/mikoshi-tutorial.7" >"$BATS_TEST_TMPDIR/commands"
	mkdir "$BATS_TEST_TMPDIR/here"
	cd "$BATS_TEST_TMPDIR/here"
	# As a script each command would end a run that fails; those with "; echo $?" do not.
	awk -v RS= '{ print "if ! {\n" $0 "\n}; then echo \"failed: command " NR "\"; exit 1; fi" }' \
		../commands >../script
	[ "$(grep -c '^if' ../script)" -ge 24 ]
	sh ../script >../log 2>&1 || { cat ../log; false; }
	[ "$(grep -cx 3 ../log)" = 2 ]
	[ "$(grep -cx 0 ../log)" = 1 ]
	grep -q 'corpus_text_document: ok' ../log
	grep -qx 'One document a line.' ../log
	grep -q 'fits 16 x h100' ../log
	grep -q 'two/iter_0000300: ok' ../log
	grep -q '^You may copy and distribute' sample.txt
	[ "$(grep -c 'class="line h[01] plan"' two.html)" = 4 ]
	# The first loss is that of equally likely pieces, and the last is as the page says.
	awk -F '[:,]' '/"lm_loss"/ && /"lr"/ { loss = $6; if (!n++) first = loss }
		END { exit !(first > 6.7 && first < 7.2 && loss < 5.3 && n == 300) }' metrics.jsonl
	for file in hf/model.safetensors report.html two.html plan.conf cluster.conf; do
		[ -s $file ]
	done
	# Two ranks give the losses of one, but for rounding, which later steps enlarge.
	for run in metrics two; do
		sed -n 's/.*"iteration": 10,.*"lm_loss": \([^,]*\),.*"lr".*/\1/p' $run.jsonl
	done | awk '{ loss[NR] = $1 } END { d = loss[1] - loss[2]; exit !(NR == 2 && d < 1e-4 && d > -1e-4) }'
}

@test "the pages of both languages have the same commands" {
	cd "$TOP"
	for page in $pages; do
		commands $page >"$BATS_TEST_TMPDIR/$(dirname "$page" | tr / .)"
	done
	cd "$BATS_TEST_TMPDIR"
	[ "$(grep -c . man)" -gt 40 ]
	diff man man.ja.man7
}

@test "both pages are well formed and show their commands" {
	cd "$TOP"
	for page in $pages; do
		[ -z "$(mandoc -Tlint -W warning $page)" ]
		[ -z "$(mandoc -Tlint $page | grep -v 'manual not found\|longer than 80\|trailing delim')" ]
		[ "$(mandoc -Tutf8 $page | grep -c '^ *\$ ')" -ge 24 ]
	done
}
