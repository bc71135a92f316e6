#!/bin/sh
# A learning-rate style, added in the middle of the list: what other builds have saved keeps its
# style, and a build that lacks it says so.
# shellcheck source=tests/extend/toy disable=SC2031,SC2046,SC2086
. "$TOP/tests/extend/toy"
helps '--lr-decay-style .*cosine|1-sqrt|inverse'
proves --lr-decay-style 1-sqrt
metric lr one.jsonl | awk '
	{ want = 1e-3 * (1 - sqrt((NR - 1) / 4)) }
	{ d = $1 - want; if (d < -1e-15 || d > 1e-15) exit 1 }
	END { exit NR != 4 }' || fail "other rates: $(metric lr one.jsonl)"

# before STATUS RANKS OPTION...: ends, by the build without the toy
before()
{
	(PATH=$BEFORE:$PATH && ends "$@")
}
before 2 1 $steps --lr-decay-style 1-sqrt
before 1 1 $steps --load half --save other
grep -q "state.conf: .*'1-sqrt'" log || fail "a build that lacks the style does not name it"
before 3 1 $steps --lr-decay-style cosine --save cosine --exit-interval 2
train 1 $steps --lr-decay-style cosine --load cosine --save cosine
echo "saved by a build without the style: resumed"
