#!/bin/sh
# contents.sh - what the datasets contain: tokens that are not those that were written, or not those
# of the checkpoint or of another rank, are found at the start or while the run trains
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

# dataset NAME BLOCKS SEED: blocks of 1 MiB of tokens below 499, in documents of 512, as another
# program writes it
dataset()
{
	perl -e '
		my ($name, $blocks, $x) = @ARGV;
		my ($n, $all) = ($blocks * 1024, "");
		for (1 .. 4096) { $x = $x * 16807 % 2147483647; $all .= pack "v", $x % 499 }
		open my $bin, ">:raw", "$name.bin";
		print $bin $all x ($blocks * 128);
		open my $idx, ">:raw", "$name.idx";
		print $idx "MMIDIDX\0\0";
		print $idx pack("Q<CQ<Q<", 1, 8, $n, $n + 1),
			pack("l<*", (512) x $n), pack("q<*", map { 1024 * $_ } 0 .. $n - 1),
			pack("q<*", 0 .. $n);' "$@"
}

# change FILE OFFSET: two other tokens there
change()
{
	printf '\001\000\002\000' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# says PATTERN: a line of the last run is this
says()
{
	grep -q "^mtrain[^:]*: $1\$" log || fail "no line '$1'"
}

# pair STATUS: how one rank with d and another with other/d end
pair()
{
	rc=0
	mpirun -np 1 mtrain $model $two --data-path d --data-cache-path c1 : \
		-np 1 mtrain $model $two --data-path other/d --data-cache-path c2 \
		>log 2>&1 || rc=$?
	[ "$rc" = "$1" ] || fail "ranks with other tokens: exit status $rc instead of $1"
}

sum='[0-9a-f]\{16\}'
options="--tokenizer-type NullTokenizer --split 1,0,0 --lr 1e-3"
two="$options --train-iters 2"
run="$options --train-iters 6 --data-path d --data-cache-path cache --load s"
dataset d 2 1
cp d.bin whole
mshard verify -q --seal d >verified
cp d.sum sealed

# A .bin that changed since the checkpoint: with the checksums of before, with new ones, with none.
ends 3 1 $run --save s --exit-interval 3
change d.bin 5000
ends 1 1 $run
says "d.bin: block 0 (bytes 0 to 1048575) has XXH3-64 $sum, but d.sum has $sum: .*"
changed="s: the data changed since this checkpoint was saved: corpus 1 of the list, d, is not what"
rm d.sum
mshard verify -q --seal d >verified
ends 1 1 $run
says "$changed d was; --data-change .*"
train 1 $run --data-change restart
rm d.sum
ends 1 1 $run
says "$changed d was; --data-change .*"

# The tokens of the checkpoint with and without their checksums are the same data.
cp whole d.bin
train 1 $run
says "data: d: no checksums of the tokens, .* mshard verify --seal makes them"
cp sealed d.sum
train 1 $run
! grep 'no checksums' log || fail "a note about checksums that are there"
echo "resumed: changed tokens are refused, with and without checksums"

# Ranks with other tokens under the same index: with the same checksums, by which one is damaged,
# with their own, with none.
mkdir other
cp d.* other
change other/d.bin 5000
pair 1
says "other/d.bin: block 0 .* (rank 1, on .*)"
rm other/d.sum
mshard verify -q --seal other/d >verified
pair 2
says "d: corpus 1 of the train data: contents .* on rank 0 (.*), contents .* must be the same on .*"
rm d.sum other/d.sum
pair 2
says "d: corpus 1 of the train data: contents .* on rank 0 (.*), contents .* must be the same on .*"
# In a block that the start does not look at only the checksums differ.
dataset d 12 1
cp d.* other
change other/d.bin 7345032
mshard verify -q --seal d other/d >verified
pair 2
says "d: checksums of corpus 1 of the train data: .* must be the same on all ranks"
echo "ranks with other tokens: refused, with and without checksums"

# That block is found while the run trains, on one rank of those that share the work; nothing is
# saved.
cp other/d.bin d.bin
for ranks in 1 2; do
	ends 1 $ranks $options --train-iters 5000 --data-path d --data-cache-path c1 --save no
	grep -q ': data: train: [0-9]* samples from 1 corpus' log || fail "found at the start"
	says "d.bin: block 7 (bytes 7340032 to 8388607) has XXH3-64 .*; stopping without a save"
	[ ! -e no/latest_checkpointed_iteration.txt ] || fail "it was saved"
done
echo "a changed block is found while the run trains"

# A .bin that is cut on its last page: at each save.
dataset d 1 1
rm d.sum
mtrain $model $options --train-iters 1000000 --data-path d --data-cache-path c3 --save w \
	--save-interval 20 >log 2>&1 &
job=$!
# seen PATTERN: waits for the line
seen()
{
	n=0
	until grep -q "$1" log; do
		n=$((n + 1))
		[ $n -lt 600 ] || fail "no line '$1'"
		kill -0 $job 2>/dev/null || fail "the run ended without a line '$1'"
		sleep 0.1
	done
}
seen ': saved iteration'
! grep 'while it was open' log || fail "files that did not change"
truncate -s -2 d.bin
seen ': data: d.bin: was cut while it was open, from 1048576 bytes to 1048574: '
touch w/stop
rc=0
wait $job || rc=$?
[ $rc = 3 ] || fail "exit status $rc instead of 3"
echo "a .bin that is cut is told at saves"
