#!/bin/sh
# where.sh - mshard where says what a run read: with a batch that grows, stages, iterations that are
# passed over, another list and another layout from a checkpoint on, and packed documents; and which
# iterations read a document
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

corpus a 1 300 3 38
corpus b 2 300 3 38
corpus c 3 200 3 38
a=a_text_document b=b_text_document c=c_text_document
cat >stages <<END
0     0.7 $a 0.3 $b
1.5K  0.5 $a 0.25 $b 0.25 $c
END
for corpus in $a $b $c; do
	mshard head $corpus -n 1000 | sed "1d; s/^/$corpus	/"
done >documents

# parts FILE: a table of where as the lines of read_batches: each part's tokens are those that head
# prints of its document
parts()
{
	awk -F '\t' -v most=17 '
		function end() {
			while (n++ < most) ids = ids " 0"
			if (now != "") print now, trained ids
		}
		NR == FNR { n = split($5, id, " ")
			for (i = 1; i <= n; i++) token[$1, $2, size[$1, $2]++] = id[i]
			next }
		FNR == 1 { now = ""; next }
		{ sub(/\*/, "", $1)
			key = $1 " " $2 " " $4
			if (key != now) { end(); now = key; n = trained = 0; ids = "" }
			if ($10 != n) print "a part is at", $10, "instead of", n
			for (i = 0; i < $9; i++) ids = ids " " token[$5, $6, $8 + i]
			n += $9; trained += $11 }
		END { end() }' documents "$1"
}

# same WHAT: the table `rows` is what was read
same()
{
	parts rows >printed
	[ -s batches ] || fail "$1: nothing was read"
	cmp batches printed || fail "$1: not what the run read"
	echo "$1: $(wc -l <printed) samples"
}

data="--tokenizer-type NullTokenizer --split 90,10,0 --data-cache-path cache --eod-mask-loss
	--lr 1e-3 --log-interval 100"
batch="--global-batch-size 8 --rampup-batch-size 4 4 64 --train-samples 304"
first="--data-schedule stages $data $batch --iterations-to-skip 5 9
	--sample-losses losses"
ends 3 2 $first --save save --save-interval 10 --exit-interval 24 --metrics-file first.jsonl
cp -r save before
cp losses first.losses
printf '25\t128\t%s\t16\t6.1\n25\t1' $a >>losses
second="--data-path 0.5 $c 0.5 $a $data $batch --sample-losses losses"
ends 3 4 $second --save save --load save --data-change exclude-seen --exit-interval 36 \
	--metrics-file second.jsonl

# The mean over the tokens of an iteration is its loss; rows that a checkpoint does not know are cut
# off, and no row is lost.
cat first.jsonl second.jsonl | grep '"grad_norm"' |
	sed 's/.*"iteration": \([0-9]*\),.*"lm_loss": \([^,]*\),.*/\1 \2/' |
	awk '$2 != "null"' >logged
awk -F '\t' 'NR > 1 { n[$1] += $4; s[$1] += $4 * $5; rows++ }
	END { for (i in n) printf "%d %.9g\n", i, s[i] / n[i]; print rows >"rows" }' losses |
	sort -n >means
[ "$(cat rows)" = 216 ] || fail "$(cat rows) rows of losses in place of 216"
far=$(join logged means | awk '{ d = $2 / $3 - 1; d = d < 0 ? -d : d; if (d > m) m = d; n++ }
	END { if (n != 34) m = 1; print m }')
within 1e-6 "$far" || fail "the mean of the samples' losses is $far from the step's"
echo "losses of samples: their means are within $far of the log's"

read_batches=$B/tests/tools/read_batches
$read_batches 2 1 0 24 $model $first >batches 2>log || fail "read_batches"
mshard where --run save --step 1-24 >rows 2>log || fail "where"
same "a growing batch and stages on 2 ranks"
awk '$1 ~ /\*/ { print $1 }' rows | sort -u | tr '\n' ' ' >passed
[ "$(cat passed)" = "5* 9* " ] || fail "passed over: $(cat passed)"
$read_batches 4 25 128 36 $model $second --load before --data-change exclude-seen >batches \
	2>log || fail "read_batches"
mshard where --run save --step 25-36 >rows 2>log || fail "where"
same "another list on 4 ranks"

# Some of it, and what there is not.
mshard where --run save --step 30 --rank 2 >some 2>log || fail "where --rank"
grep '^30	2	' rows >want || fail "rank 2 reads nothing"
tail -n +2 some | cmp - want || fail "--rank"
mshard where --run save --sample 170 >some 2>log || fail "where --sample"
awk '$4 == 170' rows >want
tail -n +2 some | cmp - want || fail "--sample"
# wrong TEXT OPTION...: status 1 and the line
wrong()
{
	text=$1
	shift
	rc=0
	mshard where "$@" >out 2>log || rc=$?
	[ $rc = 1 ] || fail "status $rc for $*"
	grep -qF -e "$text" log || fail "no such line for $*: $text"
}
wrong "--step 47: the run has 46 iterations" --run save --step 47
wrong "--sample 400: is of iteration 59: the run has 46 iterations" --run save --sample 400
wrong "--sample 9: is of iteration 3" --run save --step 30 --sample 9
wrong "--rank 4: iteration 30 has 4 data-parallel ranks, counted from 0" --run save --step 30 \
	--rank 4
rm -r save/iter_0000010 save/iter_0000020 save/iter_0000024
wrong "iteration 7: the recorded order began after it, at sample 128 (iteration 25): a checkpoint \
from iterations 7 to 24 knows the one before" --run save --step 7 --data-parallel-size 1
wrong "no such dataset" --run save --document nothing:5
wrong "has 200, counted from 0" --run save --document $c:200

# The greatest losses, with their documents.
mshard where --run save --losses losses --worst 3 >got 2>log || fail "where --losses"
awk -F '\t' 'NR > 1 && $2 >= 128 { n[$1] += $4; s[$1] += $4 * $5; row[NR] = $0 }
	END { for (i in row) { split(row[i], f, "\t")
		print f[5] - s[f[1]] / n[f[1]], f[1], f[2], f[3] } }' losses |
	sort -rg | head -n 3 | cut -d ' ' -f 2- >want
awk 'NR > 1 { print $1, $4, $5 }' got | uniq | cmp - want || fail "the worst samples are others"

# Documents of a run's steps, found again, and no others.
$read_batches 1 1 0 30 $model --data-path $a $data --sample-packing best-fit \
	--global-batch-size 8 --train-iters 30 >batches 2>log || fail "read_batches"
options="--data-path $a --sample-packing best-fit --seq-length 16 --split 90,10,0
	--num-samples 240,0,0 --global-batch-size 8"
mshard where $options --step 1-30 >rows 2>log || fail "where of options"
sed 's/^\([^ ]* [^ ]* [^ ]*\) [^ ]*/\1/' batches >ids && mv ids batches
parts rows | sed 's/^\([^ ]* [^ ]* [^ ]*\) [^ ]*/\1/' | cmp - batches || fail "best-fit"
x=1 found=0 tries=0
while [ $tries -lt 6 ]; do
	tries=$((tries + 1))
	x=$((x * 16807 % 2147483647)) document=$((x % 300))
	mshard where $options --document $a:$document 2>log | awk '$1 + 0 <= 30' >got
	awk -v d=$document 'NR == 1 || $6 == d' rows | cmp - got || fail "document $document"
	found=$((found + $(wc -l <got) - 1))
	mshard where --run before --document $b:$document 2>log | awk 'NR > 1' >got
	mshard where --run before --step 1-24 2>log |
		awk -v c=$b -v d=$document '$5 == c && $6 == d' | cmp - got ||
		fail "document $document of the run"
done
[ $found -gt 0 ] || fail "no document was read"
echo "documents: the iterations that read them and no others, $found parts"

# From a step to a mask: its documents no longer count.
mshard where --run before --step 3 >rows 2>log || fail "where"
mshard mask --documents rows --corpus $a $a >log 2>&1 || fail "mshard mask"
awk -v c=$a '$5 == c { n += $9 } END { print n }' rows >want
mshard info $a >got
[ "$(tail -n 1 log | cut -f 3)" -eq $(($(tail -n 1 log | cut -f 4) + $(cat want))) ] ||
	fail "the mask takes out other tokens"
