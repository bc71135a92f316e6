#!/bin/sh
# signals.sh - what each signal does to a run of one process: its status, its line, what is saved;
# an end under limits of the system; no process is left
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh
# Every sync takes 150 ms: signals come while the run saves.
cat >slow.c <<'END'
#include <sys/syscall.h>
#include <unistd.h>

int
fsync(int fd)
{
	usleep(150000);
	return (int)syscall(SYS_fsync, fd);
}
END
cc -shared -fPIC -D_GNU_SOURCE -o slow.so slow.c
options="--config tiny.conf --train-iters 10000000 --log-interval 1000000 --save C --load C"
printf '#!/bin/sh\nLD_PRELOAD=%s/slow.so exec "$@"\n' "$dir" >slow
chmod +x slow

# begin WRAPPER...: a run that has taken steps from iteration 2 on, in the background as $run
begin()
{
	rm -rf C log
	# shellcheck disable=SC2086
	{
		expect 3 mtrain $options --exit-interval 2
		start "$@" mtrain $options --metrics-file log
	}
	until_true grep -qs '"iteration": 4,' log
}

# send SIGNAL... : to the run, one after the other; a number is a pause in seconds
send()
{
	for word; do
		case $word in
		[0-9]*) sleep "$word" ;;
		*) kill -"$word" "$run" || fail "the run has ended before $word" ;;
		esac
	done
}

# ends STATUS TEXT: the run has ended so, with a line of this text; a checkpoint is there and whole
ends()
{
	finish "$1"
	said "$2"
	[ "$1" != 3 ] || [ "$(tracker C)" -ge 4 ] || fail "saved iteration $(tracker C)"
	cp out last
	expect 0 mckpt verify C
	cp last out
}

kept="steps since the last checkpoint are lost, no checkpoint is"

# One request: status 3, and what was trained is saved.
for name in TERM INT USR1 USR2 HUP XCPU; do
	begin
	[ -z "$(cat /proc/"$run"/task/*/children)" ] || fail "a single process has started another"
	send $name
	ends 3 "by SIG$name; the same command continues the run"
	[ ! -e C/lock ] || fail "$name: the lock is still there"
done
begin ./slow
send USR1 0.1 TERM
ends 3 "by SIGUSR1; the same command continues the run"
begin ./slow
send TERM 0.05 TERM 0.2 INT
ends 3 "by SIGTERM; the same command continues the run"

# A second one that comes later means now: the save under way is lost, the checkpoint before it not.
begin ./slow
send TERM 1.1 INT
ends 1 "mtrain: a second SIGINT: ending at once; $kept"
[ "$(tracker C)" = 2 ] || fail "saved iteration $(tracker C)"
begin ./slow
send USR1 0.1 TERM 1.1 TERM
ends 1 "mtrain: a second SIGTERM: ending at once; $kept"

# One that ends a program ends the run, and says so. A shell has QUIT ignored in the background.
begin
send QUIT 0.1 ALRM
ends 142 "mtrain: ended by SIGALRM: $kept"

# What nohup ignores stays ignored, unless it is asked for.
begin nohup
send HUP 0.2 TERM
ends 3 "by SIGTERM; the same command continues the run"
options="$options --exit-signal SIGHUP"
begin nohup
send HUP
ends 3 "by SIGHUP; the same command continues the run"

# A limit of the size of files is an error of the file, as a full disk is.
rm -rf C
expect 1 sh -c "ulimit -f 8; exec mtrain --config tiny.conf --train-iters 1000 \
	--log-interval 1000 --metrics-file log"
said "mtrain: cannot write 'log': File too large"

# Too little memory for threads or for the buffers of libraries: the program ends all the same, also
# where it is as much as the buffers take and little more.
for kilobytes in 60000 90000 $(seq 180000 3000 216000) 300000; do
	got=0
	# shellcheck disable=SC2016
	timeout -s KILL 20 sh -c 'ulimit -v "$0"; exec mtrain "$@"' "$kilobytes" \
		--config tiny.conf --train-iters 2 >out 2>&1 || got=$?
	[ "$got" != 137 ] || fail "$kilobytes KB: it hangs"
done
