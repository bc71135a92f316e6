#!/bin/sh
# slowdisk.sh - a save that waits for the one before is noted once; a new directory is synced before
# its files
# shellcheck source=tests/parity/common disable=SC2086
. "$TOP/tests/parity/common"
cat >slow.c <<'END'
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Takes 30 ms more; the directories go to the file "synced". */
int
fsync(int fd)
{
	char link[40], path[4096];
	struct stat st;

	usleep(30000);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	int directory = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
	ssize_t n = directory ? readlink(link, path, sizeof path) : -1;
	FILE *f = n < 0 ? NULL : fopen("synced", "a");

	if (f) {
		fprintf(f, "%.*s\n", (int)n, path);
		fclose(f);
	}
	return (int)syscall(SYS_fsync, fd);
}
END
cc -shared -fPIC -D_GNU_SOURCE -o slow.so slow.c
steps="--mock-data --lr 1e-2 --async-save"
export LD_PRELOAD="$tmp/slow.so"
train 1 $steps --train-iters 20 --save-interval 5 --save new/deep/C
[ "$(grep -c 'and the next one was due after' log)" = 1 ] || fail "not said once"
line=$(grep 'and the next one was due after' log)
took='the save of iteration 5 took .* with --save-interval \([0-9]*\) it would not wait'
wider=$(echo "$line" | sed -n "s/.*: $took\$/\1/p")
[ "${wider:-0}" -gt 5 ] || fail "$line"
for parent in "$tmp" "$tmp/new" "$tmp/new/deep"; do
	grep -qxF "$parent" synced || fail "$parent was not synced"
done
# Saves far enough apart do not wait, and nothing is noted.
train 1 $steps --train-iters 900 --save-interval 300 --log-interval 100 --save far
! grep 'was due after' log || fail "said without need"
echo "$line"
