#!/bin/sh
# savedir.sh - what happens to --save while a run trains: it is removed, another directory takes its
# place, or somebody puts an iter_* there that the run is about to save; a path as long as the
# system takes
set -u

if [ -z "${MOUNTS_INSIDE:-}" ] && unshare -Urm true >/dev/null 2>&1; then
	export MOUNTS_INSIDE=1
	exec unshare -Urm sh "$0"
fi

# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

# has_steps: true when some steps have been logged
has_steps()
{
	[ -e log ] && [ "$(wc -l <log)" -ge 4 ]
}

# trains: a run that saves every 50th step, in the background, stopped by a signal after some steps;
# $next is the iteration of one of its next saves
trains()
{
	rm -f log
	start mtrain --config tiny.conf --train-iters 10000000 --log-interval 1000000 --save S \
		--load S --save-interval 50 --metrics-file log
	until_true has_steps
	kill -STOP "$run"
	last=$(sed -n 's/.*"iteration": \([0-9]*\),.*/\1/p' log | tail -n 1)
	next=$(((last / 50 + 2) * 50))
}

# What somebody else has put there is kept, a file as well as a directory.
trains
for n in $next $((next + 50)); do
	name=$(printf 'S/iter_%07d' "$n")
	if [ "$n" = "$next" ]; then
		mkdir "$name" && echo mine >"$name/mine"
	else
		echo mine >"$name"
	fi
	printf 'mtrain: --save S: %s was not of this run: it is moved aside: %s.aside-1\n' \
		"${name#S/}" "$name" >>wanted
done
kill -CONT "$run"
until_true test -e "S/$(printf 'iter_%07d' $((next + 100)))"
touch S/stop
finish 3
grep 'moved aside' out | cmp -s - wanted || fail "not these lines: $(cat wanted)"
[ "$(cat S/*.aside-1/mine)$(cat "$name.aside-1")" = minemine ] || fail "it was not kept"
expect 0 mckpt verify S
expect 0 mckpt verify "$name"

# Removed, and another directory in its place: said at the next save, and nothing is written.
trains
mv S gone
kill -CONT "$run"
finish 1
said "mtrain: 'S/lock' is gone: its directory was removed or unmounted"
[ ! -e S ] || fail "S was created anew"
trains
mv S gone2
mkdir S
kill -CONT "$run"
finish 1
said "mtrain: 'S/lock' is gone: its directory was unmounted or replaced by another one"
[ -z "$(ls -A S)" ] || fail "something was written into the other one: $(ls -A S)"
[ "$(find . -name '*.tmp')" = "" ] || fail "left: $(find . -name '*.tmp')"

# A path of 3,819 bytes; one that would make a file's path longer than 4,095 is refused.
long=$(printf '%0200d/' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19)
expect 3 mtrain --config tiny.conf --train-iters 4 --save "$long" --load "$long" --exit-interval 2
expect 0 mtrain --config tiny.conf --train-iters 4 --save "$long" --load "$long"
said "at iteration 2"
expect 0 mckpt verify "$long"
expect 1 mtrain --config tiny.conf --train-iters 4 --save "$long$(printf '%0220d' 20)"
said "path too long: '0000"
said "files of a checkpoint there have paths of "

if [ -z "${MOUNTS_INSIDE:-}" ]; then
	echo "skipped: mount namespaces cannot be made here (unshare -Urm)"
	exit 0
fi
mount -t tmpfs none S
trains
umount -l S
kill -CONT "$run"
finish 1
said "mtrain: 'S/lock' is gone: its directory was unmounted or replaced by another one"
[ -z "$(ls -A S)" ] || fail "something was written below the mount: $(ls -A S)"
