#!/usr/bin/env bats
# report.bats - mplan report: the page of runs, its words, and how it looks in a browser

bats_require_minimum_version 1.5.0
load common

# The metrics and checkpoints of a small run that was resumed, ten steps of which were taken twice.
setup_file()
{
	cd "$BATS_FILE_TMPDIR"
	{ cat "$TOP/tests/tiny.conf" && echo mock-data; } >tiny.conf
	mkdir one
	for again in 1 2; do
		[ "$again" = 1 ] || echo 10 >one/ck/latest_checkpointed_iteration.txt
		mtrain --config tiny.conf --train-iters 20 --eval-iters 1 --eval-interval 5 \
			--save one/ck --load one/ck --save-interval 10 \
			--log-memory-to-tensorboard --metrics-file one/metrics.jsonl >log 2>&1
	done
}

setup()
{
	cd "$BATS_TEST_TMPDIR"
	cp -R "$BATS_FILE_TMPDIR/one" .
}

# has TEXT...: the page holds each of them
has()
{
	local text
	for text; do
		grep -qF -- "$text" page.html || { echo "the page lacks: $text" >&2; return 1; }
	done
}

@test "a run that was resumed, beside its plan" {
	run -0 --separate-stderr mplan report one/metrics.jsonl --gpu cpu -o page.html
	[ -z "$output$stderr" ]
	grep -q '^{"iteration": 10, "resumed_on_ranks": 1, "time": ' one/metrics.jsonl
	has '<h1>one</h1>' 'against the plan for cpu' 'resumed: steps 11 to 20 were taken again' \
		'checkpoint of step 10' 'one/ck/iter_0000020/options.conf' '<td>mock-data</td>' \
		'steps that were taken again' 'Utilisation of the device, %' 'in use'
	for chart in loss later perplexity grad-norm lr speed utilisation time memory batch; do
		has "<figure id=\"$chart\""
	done
	has 'Not drawn: epochs by corpus' 'load of experts, as the models have none'
	# Each chart has its table.
	[ "$(grep -c '<summary>Table</summary>' page.html)" = "$(grep -c '<figure ' page.html)" ]
	# The plan is that of the other verbs.
	bytes=$(mplan mem --config one/ck/iter_0000020/options.conf --world-size 1 |
		awk -F '\t' 'NR == 2 { printf "%.3g", $3 / 1048576 }')
	has "weights: $bytes"
}

@test "two runs: labels, samples, options that differ" {
	mkdir two
	sed 's/"lm_loss": 4/"lm_loss": 3/' one/metrics.jsonl >two/metrics.jsonl
	cp -R one/ck two/ck
	sed -i 's/^lr .*/lr 0.5/' two/ck/iter_0000020/options.conf
	printf 'A <b>sample</b>\n' >sample
	run -0 --separate-stderr mplan report one/metrics.jsonl two/metrics.jsonl one/metrics.jsonl \
		--samples sample sample --title 'A & B' -o page.html
	[ -z "$output$stderr" ]
	has '<h1>A &amp; B</h1>' 'A &lt;b&gt;sample&lt;/b&gt;' 'one (2)' \
		'<tr><td>lr</td><td>0.001</td><td>0.5</td><td>0.001</td></tr>'
	! grep -q '<td>num-layers</td>' page.html || false
	run -0 mplan report one/metrics.jsonl --label 名前
	[[ "$output" == '<!DOCTYPE html>'*'<title>名前</title>'*'</html>' ]]
	[ "$(mplan report - --label x <one/metrics.jsonl 2>/dev/null | grep -c '<h1>x</h1>')" = 1 ]
}

@test "lines that are broken, and no plan, are notes; what cannot be drawn is refused" {
	mkdir bare
	{ cat one/metrics.jsonl && printf 'broken\n{"iteration": 21, "lm_l'; } >bare/m.jsonl
	run -0 --separate-stderr mplan report bare/m.jsonl -o page.html
	[ "${stderr_lines[0]}" = "mplan: bare/m.jsonl: 2 broken lines were passed over" ]
	[ "${stderr_lines[1]}" = "mplan: bare/m.jsonl: no plan: no checkpoint beside the metrics file names it in its options: give --checkpoint" ]
	has '2 broken lines were passed over' 'memory, as no run has a plan'
	refused 1 "mplan: 'page.html' exists; --force replaces it" mplan report bare/m.jsonl -o page.html
	echo x >other
	refused 1 "mplan: 'other' is not a report: it is not replaced" \
		mplan report bare/m.jsonl -o other --force
	run -0 mplan report -q bare/m.jsonl --checkpoint one/ck -o page.html --force
	has '<figure id="memory"'
	sed -i 's/^seq-length .*/seq-length 15/' one/ck/iter_0000020/options.conf
	fails 0 "mplan: one/metrics.jsonl: no plan: the options of the checkpoint do not fit the speed in the metrics file" \
		mplan report one/metrics.jsonl -o odd.html
	refused 1 "mplan: bare: holds no checkpoint" mplan report bare/m.jsonl --checkpoint bare
	echo nonsense >bare/m.jsonl
	refused 2 "mplan: bare/m.jsonl: holds no line of a step: --metrics-file of mtrain writes them" \
		mplan report bare/m.jsonl
	refused 2 "mplan: cannot open 'missing': No such file or directory" mplan report missing
	refused 2 "mplan: operands needed: metrics files, which mtrain --metrics-file writes, before options that take lists" \
		mplan report
	refused 2 "mplan: --label: 2 given for 1 metrics file" \
		mplan report one/metrics.jsonl --label a b
}

# browser ARGUMENT...: Debian's chromium without a network, in $scheme
browser()
{
	local dark=
	[ "$scheme" = light ] || dark=--blink-settings=preferredColorScheme=0
	# shellcheck disable=SC2086 # an option or none
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars $dark \
		--user-data-dir="$PWD/profile" --host-resolver-rules='MAP * ~NOTFOUND' "$@" \
		2>chromium.log
}

@test "in a browser: no text leaves its chart, no labels overlap, contrast, nothing is fetched" {
	command -v chromium >/dev/null || skip 'no chromium'
	# A long run with a spike, a gap, experts and corpora, of which one has a long name.
	awk 'BEGIN {
		srand(1)
		for (i = 1; i <= 100000; i++) {
			loss = i == 70000 ? "null" : i == 61803 ? 30 : 2 + 9 * exp(-i / 9000) + rand()
			printf "{\"iteration\": %d, \"consumed_samples\": %d, \"lm_loss\": %s, " \
				"\"grad_norm\": %g, \"lr\": %g, \"tokens_per_second\": %g, " \
				"\"tflops_per_rank\": %g, \"seconds\": %g, \"max_expert_load\": %g, " \
				"\"exposed_data_comm_ms\": 100}\n", i, 1024 * i, loss,
				rand() + (i == 61803) * 900, 3e-4 / (1 + i / 1e4), 3e6 + 1e6 * rand(),
				400 + rand(), 1.2 + rand(), 1 + 4 * rand()
			if (i % 5000 == 0)
				printf "{\"iteration\": %d, \"corpus\": \"a corpus of a long name %d\", " \
					"\"epochs\": %g}\n", i, i % 3, i / 1e5
		}
	}' >long.jsonl
	mplan report -q long.jsonl long.jsonl one/metrics.jsonl --gpu h200 \
		--label 'a run whose label is long enough' '長い名前のついた実行その一、比較のための基準' c \
		-o three.html
	[ "$(wc -c <three.html)" -lt 600000 ]
	# A spike of one step among 100,000 is in the curve: at the axis of 0 to 30, at its top.
	grep '<figure id="loss"' -A 60 three.html | grep 'class="line h0 raw"' | grep -q 'v-2[0-9][0-9][0-9]'
	mplan report one/metrics.jsonl --gpu cpu -o one.html
	for page in three one; do
		{
			printf '<!DOCTYPE html><meta charset="utf-8"><script>'
			cat "$TOP/tests/bats/data/report.js"
			printf '</script><body>'
			for width in 1280 400; do
				printf '<iframe width="%s" height="4000" srcdoc="' $width
				sed 's/&/\&amp;/g; s/"/\&quot;/g' $page.html
				printf '"></iframe>'
			done
		} >check.html
		printf '<body style="margin:0"><iframe style="border:0" width="400" height="5600" src="%s.html">' \
			$page >narrow.html
		for scheme in light dark; do
			browser --dump-dom "file://$PWD/check.html" | sed 's/<br>/\n/g' >result
			grep -q "^seen: 400 $scheme 1[0-9] charts, texts: true" result
			grep -q "seen: 1280 $scheme 1[0-9] charts, texts: true" result
			! sed 's/.*<body>//' result | grep -E '^(1280|400): ' || false
			[ $page = three ] || continue
			browser --window-size=1280,3000 --screenshot=$page-1280-$scheme.png \
				"file://$PWD/$page.html"
			browser --window-size=500,5600 --screenshot=$page-400-$scheme.png \
				"file://$PWD/narrow.html"
		done
	done
	for width in 1280 400; do
		[ -s three-$width-light.png ]
		! cmp -s three-$width-light.png three-$width-dark.png || false
	done
	[ -z "${SHOTS:-}" ] || cp ./*.png "$SHOTS"
}
