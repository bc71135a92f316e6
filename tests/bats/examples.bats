#!/usr/bin/env bats
# examples.bats - the awk programs of the main job: HTML to JSON Lines, and the plot of a loss curve

bats_require_minimum_version 1.5.0

setup()
{
	cd "$BATS_TEST_TMPDIR"
	export LC_ALL=C
}

@test "html2jsonl: sections, entities, escapes, space, footer" {
	long='a sentence that is long enough to be kept because a section of less than a hundred bytes is only a heading'
	cat >a.html <<-EOF
		<html><body><p>contents</p><h2 class="title">1.1. 題</h2>
		<p>A "b" \\ &lt;c&gt; &amp;lt;
		   d</p><pre>x	y
		  z</pre><p>$long</p>
		<h3>short</h3><div class="navfooter"><p>$long</p></div></body></html>
	EOF
	run -0 awk -f "$TOP/examples/html2jsonl.awk" a.html
	expected='{"text": "1.1. 題\nA \"b\" \\ <c> &lt; d\nx y\n  z\n'"$long"'"}'
	[ "$output" = "$expected" ] || { echo "$output"; false; }
}

@test "html2jsonl: a page that ends in a section ends it" {
	long='a sentence that is long enough to be kept because a section of less than a hundred bytes is only a heading'
	printf '<h2>one</h2><p>%s' "$long" >a.html
	printf '<p>no section</p><h2>two</h2><pre>%s</pre>' "$long" >b.html
	run -0 awk -f "$TOP/examples/html2jsonl.awk" a.html b.html
	[ "${lines[0]}" = "{\"text\": \"one\\n$long\"}" ]
	[ "${lines[1]}" = "{\"text\": \"two\\n$long\"}" ]
	[ "${#lines[@]}" = 2 ]
}

@test "plot: a falling curve, a single step, nothing" {
	for n in 1 2 3 4; do
		echo "{\"iteration\": $n, \"lm_loss\": $((9 - n)).5, \"lr\": 1}"
	done >m.jsonl
	run -0 awk -v height=4 -f "$TOP/examples/plot.awk" m.jsonl
	cat >expected <<-'EOF'
		   8.500 |*
		   7.500 | *
		   6.500 |  *
		   5.500 |   *
		 lm loss +----
		    step  1  4
	EOF
	echo "$output" | diff - expected
	run -0 awk -f "$TOP/examples/plot.awk" <<<'{"iteration": 7, "lm_loss": 2}'
	[ "${lines[0]}" = '   2.000 |*' ]
	run -1 awk -f "$TOP/examples/plot.awk" /dev/null
	[ "$output" = 'no losses to plot' ]
}

@test "pretrain.sh finds the pages wherever a release of the packages puts them" {
	mkdir bin
	printf '#!/bin/sh\n[ "$1" != -q ] || touch "$3.deb" "$4.deb"\n' >bin/apt-get
	cat >bin/dpkg-deb <<-'EOF'
		#!/bin/sh
		docs=$3/usr/share/doc/debian-reference-common/docs
		mkdir -p "$docs"
		for page in pr01.en ch01.en ch02.en ch01.ja; do
			{ printf '<h2>%s</h2>' $page; seq 100; } >"$docs/$page.html"
		done
	EOF
	chmod +x bin/*
	# So little text trains no tokenizer of 4,000 pieces: the example ends there.
	PATH="$PWD/bin:$PATH" run ! sh "$TOP/examples/pretrain.sh" "$PWD/a run"
	run -0 cut -c 1-15 'a run/en.jsonl'
	[ "$output" = $'{"text": "pr01.\n{"text": "ch01.\n{"text": "ch02.' ] || { echo "$output"; false; }
	[ "$(wc -l <'a run/ja.jsonl')" = 1 ]
}

@test "pretrain.sh: Ctrl-C saves, a second call continues, and its last commands work when pasted" {
	command -v script >/dev/null || skip "no script(1)"
	export STEPS=16 MORE=2 TEXT=corpus
	example="sh $TOP/examples/pretrain.sh $PWD/run"
	{
		until grep -qs '"iteration": 2,' run/checkpoints.jsonl; do sleep 0.05; done
		printf '\003'
		sleep 5
	} | script -qefc "exec $example" /dev/null >typed || [ "$?" = 3 ]
	grep -q 'step 1/16  6 %  loss .* tokens/s  .* left' typed || { cat typed; false; }
	grep -q 'pretrain.sh: stopped; the same command continues:' typed
	run -0 --separate-stderr $example
	[[ $output != *"tokenizer: "* ]]
	[[ $stderr == *"resuming $PWD/run/checkpoints at iteration "* ]]
	[[ $stderr != *" left"* ]]
	read -r before after < <(sed -n 's/.*chance: before \([0-9]*\), after \([0-9]*\)$/\1 \2/p' <<<"$output")
	[ "$after" -lt "$before" ]
	sed '1,/What next/d' <<<"$output" >pasted.sh
	[ "$(grep -vc '^#' pasted.sh)" = 4 ]
	cd /
	run -0 bash -e "$BATS_TEST_TMPDIR/pasted.sh"
	[ "$(cat "$BATS_TEST_TMPDIR/run/checkpoints/latest_checkpointed_iteration.txt")" = 38 ]
	run -2 sh "$TOP/examples/pretrain.sh" --again "$BATS_TEST_TMPDIR"
	[ "$output" = "pretrain.sh: '$BATS_TEST_TMPDIR' is not of this script: it is not removed" ]
}

@test "pretrain.sh takes the number of steps from the time of a step" {
	TEXT=corpus sh "$TOP/examples/pretrain.sh" "$PWD/run" >log 2>&1 3>&- &
	pid=$!
	for ((i = 0; i < 1200; i++)); do
		[ ! -e run/run.conf ] && kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	kill -TERM $pid 2>/dev/null || true
	wait $pid || true
	steps=$(sed -n 's/^train-iters //p' run/run.conf)
	grep -q "^a step takes [0-9.]* s: $steps steps\$" log || { cat log; false; }
	((steps >= 120 && steps <= 600 && steps % 20 == 0))
	# Nothing else was written.
	[ ! -e run/600 ]
}
