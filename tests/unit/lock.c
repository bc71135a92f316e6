/* lock.c - tests of locks: who holds one, what breaks one, and that only one of several processes
 * gets it */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/lock.h"
#include "lib/base/outfile.h"
#include "lib/base/process.h"
#include "tests/check.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The last message. */
static char said[4096];

static void
say(const char *line)
{
	snprintf(said, sizeof said, "%s", line);
}

static bool
at_once(void)
{
	return true;
}

/* Fast enough for a test; renewed ten times before it is stale. */
static const struct lock_terms terms = {
	.path = "lock", .renewal = 0.02, .stale = 0.2, .ending = 0.1, .say = say
};

/* A lock as another process would have left it. */
static void
leave(const char *host, const char *boot, long process, unsigned long long start, const char *job)
{
	char text[400];

	snprintf(text, sizeof text,
	    "host %s\nboot %s\nprocess %ld\nstarted %llu\n%s\nid 00000000000000ff\nrenewed "
	    "0000000000\n",
	    host, boot, process, start, job);
	CHECK(outfile_write("lock", text, strlen(text), NULL) == 0);
}

/* Taking an existing lock succeeds after about this time, with this message. */
static void
breaks(const char *want, double seconds)
{
	double since = clock_seconds();
	struct err e = { "" };
	struct lock *l = lock_take(&terms, &e);

	since = clock_seconds() - since;
	CHECK_STR(e.msg, "");
	CHECK_STR(said, want);
	CHECK(l && since >= seconds && since < seconds + 5);
	lock_release(l);
	CHECK(!io_exists("lock"));
}

/* Who has lost the lock removes no file and cuts no part; who holds it does. */
static void
test_lost_files(struct lock *lost, struct lock *held)
{
	struct outfile o;
	struct err e;
	char *text;

	CHECK(outfile_write("x", "of the holder", 13, &e) == 0);
	CHECK(outfile_write("t.part", "of the holder", 13, &e) == 0);
	CHECK(lock_unlink(lost, "x", &e) < 0 && io_exists("x"));
	CHECK_STR(e.msg, "'lock' no longer belongs to this run");
	CHECK(outfile_resume(&o, "t", 0, false, lost, &e) < 0);
	CHECK_STR(e.msg, "'lock' no longer belongs to this run");
	CHECK(io_read_file("t.part", 0, &text, NULL, &e) == 0);
	CHECK_STR(text, "of the holder");
	free(text);
	CHECK(lock_unlink(held, "x", &e) == 0 && !io_exists("x"));
	CHECK(lock_unlink(held, "x", &e) == 0 && lock_unlink(NULL, "x", &e) == 0);
	CHECK(outfile_resume(&o, "t", 2, false, held, &e) == 0);
	outfile_abort(&o);
	CHECK(!io_exists("t.part"));
}

static void
test_holding(void)
{
	char host[PROCESS_HOST], want[200];
	struct lock *l, *second;
	struct err e;

	process_host(host);
	l = lock_take(&terms, &e);
	CHECK(l && lock_check(l, &e) == 0 && !lock_lost(l));
	CHECK(!lock_take(&terms, &e));
	snprintf(want, sizeof want, "'lock' is held by process %ld of host %s, which is running",
	    (long)getpid(), host);
	CHECK_STR(e.msg, want);
	second = lock_take(&(struct lock_terms){ "lock", 0.02, 0.2, 0.1, true, say, NULL }, &e);
	snprintf(want, sizeof want,
	    "'lock' is broken: it was held by process %ld of host %s, which was overruled",
	    (long)getpid(), host);
	CHECK_STR(said, want);
	CHECK(second && lock_check(second, &e) == 0 && lock_check(l, &e) < 0);
	CHECK_STR(e.msg, "'lock' no longer belongs to this run");
	test_lost_files(l, second);
	lock_release(l);
	CHECK(lock_check(second, &e) == 0);
	lock_release(second);
	CHECK(!io_exists("lock") &&
	    !lock_take(&(struct lock_terms){ .path = "no/lock", .say = say }, &e));
	CHECK_STR(e.msg, "cannot create 'no/lock': No such file or directory");
	CHECK(lock_check(NULL, &e) == 0 && !lock_lost(NULL));
	lock_release(NULL);
}

/* A lock that went with its directory. */
static void
test_directory(void)
{
	struct lock_terms in = terms;
	struct lock *l;
	struct err e;

	in.path = "d/lock";
	CHECK(mkdir("d", 0777) == 0);
	l = lock_take(&in, &e);
	CHECK(l && lock_check(l, &e) == 0 && rename("d", "moved") == 0 && lock_check(l, &e) < 0);
	CHECK_STR(e.msg, "'d/lock' is gone: its directory was removed or unmounted");
	CHECK(mkdir("d", 0777) == 0 && lock_check(l, &e) < 0);
	CHECK_STR(
	    e.msg, "'d/lock' is gone: its directory was unmounted or replaced by another one");
	lock_release(l);
	CHECK(io_remove_tree("d", &e) == 0 && io_remove_tree("moved", &e) == 0);
}

/* The thread notices by itself. */
static void
test_losing(void)
{
	struct err e;
	struct lock *l = lock_take(&terms, &e);

	CHECK(l && unlink("lock") == 0);
	for (int i = 0; i < 500 && !lock_lost(l); i++)
		usleep(10000);
	CHECK(lock_lost(l));
	leave("elsewhere", "b", 1, 1, "job -\nattempt -");
	lock_release(l);
	CHECK(io_exists("lock") && unlink("lock") == 0);
}

static void
test_breaking(void)
{
	char host[PROCESS_HOST], boot[PROCESS_HOST], want[200];
	pid_t pid = fork();

	process_host(host);
	process_boot(boot);
	if (pid == 0)
		_exit(lock_take(&terms, NULL) ? 0 : 1);
	CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid && io_exists("lock"));
	snprintf(want, sizeof want,
	    "'lock' is broken: it was held by process %ld of host %s, which has ended", (long)pid,
	    host);
	breaks(want, 0);
	/* the number belongs to another process by now */
	leave(host, boot, getpid(), process_start(getpid()) + 1, "job -\nattempt -");
	snprintf(want, sizeof want,
	    "'lock' is broken: it was held by process %ld of host %s, which has ended",
	    (long)getpid(), host);
	breaks(want, 0);
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_RESTART_COUNT", "1", 1);
	leave("elsewhere", "b", 5, 1, "job 7\nattempt -");
	breaks("'lock' is broken: it was held by process 5 of host elsewhere, which was of this "
	       "batch job before it was "
	       "restarted",
	    0);
	/* another step of the same job */
	leave("elsewhere", "b", 5, 1, "job 7\nattempt 1");
	breaks(
	    "'lock' is broken: it was held by process 5 of host elsewhere, which was not renewed",
	    0.2);
	unsetenv("SLURM_JOB_ID");
	/* a container of this machine, with its own process numbers */
	leave("elsewhere", boot, getpid(), 1, "job -\nattempt -");
	snprintf(want, sizeof want,
	    "'lock' is broken: it was held by process %ld of host elsewhere, which was not renewed",
	    (long)getpid());
	breaks(want, 0.2);
}

/* A process that runs on for a moment. */
static void
test_ending(void)
{
	char host[PROCESS_HOST], want[200], c;
	int taken[2];
	pid_t pid;

	process_host(host);
	CHECK(pipe(taken) == 0);
	pid = fork();
	if (pid == 0) {
		c = lock_take(&terms, NULL) ? 'y' : 'n';
		c = write(taken[1], &c, 1) != 1;
		usleep(30000);
		_exit(c);
	}
	CHECK(pid > 0 && read(taken[0], &c, 1) == 1 && c == 'y');
	snprintf(want, sizeof want,
	    "'lock' is broken: it was held by process %ld of host %s, which has ended", (long)pid,
	    host);
	breaks(want, 0.01);
	CHECK(waitpid(pid, NULL, 0) == pid && close(taken[0]) == 0 && close(taken[1]) == 0);
}

static void
test_watching(void)
{
	struct err e;

	CHECK(outfile_write("lock", "", 0, &e) == 0);
	breaks("'lock' is broken: it was held by an unknown process, which was not renewed", 0.2);
	leave("elsewhere", "b", 5, 1, "job -\nattempt -");
	CHECK(!lock_take(&(struct lock_terms){ "lock", 1, 10, 1, false, say, at_once }, &e));
	CHECK_STR(said,
	    "'lock' is held by process 5 of host elsewhere: waiting until it has not been renewed "
	    "for 10 s");
	CHECK_STR(e.msg,
	    "'lock' is held by process 5 of host elsewhere: stopped on request while waiting for "
	    "it");
	if (fork() == 0) {
		int fd = open("lock", O_WRONLY | O_APPEND);

		usleep(50000);
		_exit(write(fd, "renewed 0000000001\n", 19) != 19);
	}
	CHECK(!lock_take(&terms, &e));
	CHECK_STR(e.msg, "'lock' is held by process 5 of host elsewhere, which renews it");
	wait(NULL);
	unlink("lock");
}

/* A lock that is taken and released again and again is found complete or not at all. */
static void
test_whole(void)
{
	char text[1000];
	pid_t pid = fork();
	int seen = 0, torn = 0;

	for (int i = 0; pid == 0 && i < 60; i++)
		lock_release(lock_take(&terms, NULL));
	if (pid == 0)
		_exit(0);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		int fd = open("lock", O_RDONLY);
		ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

		if (fd < 0)
			continue;
		close(fd);
		text[n] = '\0';
		seen++;
		torn += !strstr(text, "\nrenewed 0000000000\n");
	}
	CHECK(seen > 0 && torn == 0);
}

/* One of many: starts with the others, reports whether it got the lock, and holds it until all have
 * reported. */
static void
racer(const int go[2], const int tried[2], const int finish[2])
{
	char c = 'n';

	close(go[1]);
	close(finish[1]);
	if (read(go[0], &c, 1) == 0 && lock_take(&terms, NULL))
		c = 'y';
	if (write(tried[1], &c, 1) != 1 || read(finish[0], &c, 1) != 0)
		_exit(1);
	_exit(0);
}

/* Several processes find a dead process's lock at the same time: one gets it. */
static void
race(long dead)
{
	enum { RACERS = 6 };
	int go[2], tried[2], finish[2], winners = 0;
	char host[PROCESS_HOST], boot[PROCESS_HOST], c;

	process_host(host);
	process_boot(boot);
	leave(host, boot, dead, 1, "job -\nattempt -");
	CHECK(pipe(go) == 0 && pipe(tried) == 0 && pipe(finish) == 0);
	for (int i = 0; i < RACERS; i++)
		if (fork() == 0)
			racer(go, tried, finish);
	close(go[1]);
	for (int i = 0; i < RACERS; i++)
		winners += read(tried[0], &c, 1) == 1 && c == 'y';
	CHECK(winners == 1);
	close(finish[1]);
	while (wait(NULL) > 0)
		;
	close(go[0]);
	close(tried[0]);
	close(tried[1]);
	close(finish[0]);
}

static void
test_race(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
	for (int round = 0; round < 50; round++)
		race(pid);
	unlink("lock");
}

int
main(void)
{
	char dir[] = "/tmp/mikoshi-lock-XXXXXX";

	CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
	test_holding();
	test_directory();
	test_losing();
	test_breaking();
	test_ending();
	test_watching();
	test_whole();
	test_race();
	CHECK(io_remove_tree(dir, NULL) == 0);
	return check_done();
}
