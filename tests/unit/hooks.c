/* hooks.c - tests of what a run starts after its saves: commands that print, fail and hang, the
 * newest of those that wait, and what a process gets of the run */
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "tests/check.h"
#include "train/state/hooks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The text of a file, once it holds `want`, for which it is waited some seconds; free() it. */
static char *
wait_for(const char *path, const char *want)
{
	const struct timespec hundredth = { 0, 10000000 };
	char *text = NULL;
	struct err e;

	for (int i = 0; i < 1000; i++) {
		if (io_read_file(path, 0, &text, NULL, &e) == 0 && strstr(text, want))
			return text;
		free(text);
		text = NULL;
		nanosleep(&hundredth, NULL);
	}
	CHECK(!"the file holds it");
	return calloc(1, 1);
}

static struct hooks *
open_hook(const char *command)
{
	static struct train_config c;
	struct hooks *h;
	struct err e = { "" };

	c.o.save = "S";
	c.o.save_hook = command;
	c.train_iters = 9;
	CHECK(hooks_open(&c, &h, &e) == 0);
	CHECK_STR(e.msg, "");
	return h;
}

/* Polls until nothing runs or waits. */
static void
poll_all(struct hooks *h)
{
	const struct timespec hundredth = { 0, 10000000 };
	int64_t read[HOOKS_READ];

	for (int i = 0; i < 1000 && hooks_read(h, read) > 0; i++) {
		nanosleep(&hundredth, NULL);
		hooks_poll(h);
	}
	CHECK(hooks_read(h, read) == 0);
}

/* What a command sees: its words, no descriptor of the run, a session of its own, nothing of a
 * launcher; and where its output goes. */
static void
test_process(void)
{
	struct hooks *h = open_hook("echo \"$0 $1 $2\" >words; ls /proc/self/fd >fds; env >env; "
				    "cut -d' ' -f 5,6 /proc/$$/stat >session; echo $$ >>session; "
				    "echo printed");
	int left = open("/dev/null", O_RDONLY);
	char *text;
	long pid, group, session;

	CHECK(left > 2 && setenv("OMPI_COMM_WORLD_SIZE", "2", 1) == 0 &&
	    setenv("PMIX_RANK", "0", 1) == 0 && setenv("SLURM_STEP_ID", "1", 1) == 0 &&
	    setenv("SLURM_JOB_ID", "5", 1) == 0);
	hooks_saved(h, 3);
	poll_all(h);
	hooks_close(h);
	close(left);
	text = wait_for("words", "\n");
	CHECK_STR(text, "mikoshi S/iter_0000003 3\n");
	free(text);
	text = wait_for("fds", "\n"); /* 3 is that of ls, of the directory */
	CHECK_STR(text, "0\n1\n2\n3\n");
	free(text);
	text = wait_for("env", "SLURM_JOB_ID=5\n");
	CHECK(!strstr(text, "OMPI_COMM") && !strstr(text, "PMIX_") && !strstr(text, "SLURM_STEP"));
	free(text);
	text = wait_for("session", "\n");
	CHECK(sscanf(text, "%ld %ld %ld", &group, &session, &pid) == 3 && group == pid &&
	    session == pid && session != getsid(0));
	free(text);
	text = wait_for("S/hooks.log", "printed\n");
	free(text);
}

/* Of three that wait the last one runs, and all that is read is known. */
static void
test_newest(void)
{
	struct hooks *h = open_hook("echo $2 >>order; while [ ! -e go ]; do sleep 0.01; done");
	int64_t read[HOOKS_READ];
	struct err e;
	char *text;

	hooks_saved(h, 1);
	for (int64_t i = 2; i <= 4; i++)
		hooks_saved(h, i);
	CHECK(hooks_read(h, read) == 2 && read[0] == 1 && read[1] == 4);
	CHECK(outfile_write("go", "", 0, &e) == 0);
	poll_all(h);
	text = wait_for("order", "4\n");
	CHECK_STR(text, "1\n4\n");
	free(text);
	hooks_close(h);
}

/* One that fails, one that cannot be waited for, and what waits at the end of the run. */
static void
test_ends(void)
{
	struct hooks *h = open_hook("echo $2 $$ >>late; [ $2 != 7 ] || exec sleep 100; exit 3");
	char *text, *line;

	hooks_saved(h, 5);
	poll_all(h);
	hooks_saved(h, 7);
	hooks_saved(h, 8);
	hooks_close(h);
	/* these two run side by side */
	free(wait_for("late", "\n8 "));
	text = wait_for("late", "\n7 ");
	line = strstr(text, "\n7 ");
	CHECK(line && kill((pid_t)atoi(line + 3), SIGKILL) == 0);
	free(text);
}

static void
test_export(void)
{
	struct train_config c = { .o.save = "S", .o.save_hf_interval = 2 };
	struct hooks *h;
	struct err e;

	/* this test has no mexport beside it */
	CHECK(hooks_open(&c, &h, &e) < 0 && h == NULL);
	CHECK(strstr(e.msg, "--save-hf-interval: '/") == e.msg &&
	    strstr(e.msg, "/mexport': No such file or directory"));
	c.o.save_hf_interval = 0;
	CHECK(hooks_open(&c, &h, &e) == 0 && h == NULL);
	hooks_saved(h, 1);
	hooks_close(h);
}

int
main(void)
{
	char dir[] = "/tmp/mikoshi-hooks-XXXXXX", *text;
	struct err e;
	int said = dup(STDERR_FILENO);

	CHECK(mkdtemp(dir) && chdir(dir) == 0 && io_mkdir_p("S", &e) == 0);
	CHECK(said >= 0 && freopen("said", "w", stderr));
	test_process();
	test_newest();
	test_ends();
	test_export();
	fflush(stderr);
	CHECK(dup2(said, STDERR_FILENO) == STDERR_FILENO);
	text = wait_for("said", "outlives");
	CHECK(strstr(text, "--save-hook: iteration 3: done in "));
	CHECK(strstr(text, "--save-hook: iteration 2: left out: that of 1 has not ended\n"));
	CHECK(strstr(text, "--save-hook: iteration 3: left out: that of 1 has not ended\n"));
	CHECK(strstr(text, "--save-hook: iteration 5: failed with status 3 after "));
	CHECK(strstr(text, ": what it printed is in S/hooks.log\n"));
	CHECK(strstr(text, "--save-hook: iteration 8: has not ended, and outlives the run\n"));
	free(text);
	CHECK(chdir("/") == 0);
	io_remove_tree(dir, &e);
	return check_done();
}
