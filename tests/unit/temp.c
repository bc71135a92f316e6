/* temp.c - tests of temporary names: nothing is written through a link, and files of ended
 * processes are removed */
#include "lib/base/io.h"
#include "lib/base/file_set.h"
#include "lib/base/outfile.h"
#include "lib/base/process.h"
#include "lib/base/temp.h"
#include "lib/base/temp_sweep.h"
#include "tests/check.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

/* The number of a process that has ended. */
static long
dead(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
	return pid;
}

/* Makes an empty file; true when it still exists after a sweep. */
static bool
survives(const char *name)
{
	CHECK(outfile_write(name, "", 0, NULL) == 0);
	temp_sweep(".");
	return io_exists(name);
}

static void
test_processes(void)
{
	char host[PROCESS_HOST], boot[PROCESS_HOST];

	process_host(host);
	process_boot(boot);
	CHECK(host[0] && !strpbrk(host, "./\n") && strlen(boot) == 36);
	CHECK(process_start(getpid()) > 0 && process_start(dead()) == 0);
	CHECK(!process_ended(getpid(), 0) && !process_ended(getpid(), process_start(getpid())));
	/* another process of the same number */
	CHECK(process_ended(getpid(), process_start(getpid()) + 1));
	CHECK(process_ended(dead(), 0));
}

static void
test_names(void)
{
	char host[PROCESS_HOST], want[200], long_path[NAME_MAX + 10] = "d/";
	char *name = temp_name("d/x.bin"), *other = temp_name("d/x.bin");

	process_host(host);
	snprintf(want, sizeof want, "d/.x.bin.%s.%ld.", host, (long)getpid());
	CHECK(!strncmp(name, want, strlen(want)) && !strcmp(name + strlen(name) - 4, ".tmp"));
	CHECK(strcmp(name, other) != 0);
	free(name);
	free(other);
	for (size_t i = 2; i < NAME_MAX + 2; i += 3)
		memcpy(long_path + i, "\xe2\x82\xac", 3);
	long_path[NAME_MAX + 2] = '\0';
	name = temp_name(long_path);
	CHECK(strlen(strrchr(name, '/') + 1) <= NAME_MAX && strstr(name, "\xe2\x82\xac.") != NULL);
	free(name);
}

/* A link under the name that earlier releases gave to temporary files, and one under the name of a
 * resumed file. */
static void
test_planted_links(void)
{
	char planted[64], *text;
	struct outfile o;
	struct err e;

	snprintf(planted, sizeof planted, "target.%ld.tmp", (long)getpid());
	CHECK(outfile_write("victim", "mine", 4, &e) == 0);
	CHECK(symlink("victim", planted) == 0 && symlink("victim", "target.part") == 0);
	CHECK(outfile_write("target", "new", 3, &e) == 0);
	CHECK(outfile_resume(&o, "target", 0, false, NULL, &e) < 0);
	CHECK_STR(e.msg, "cannot create 'target.part': Too many levels of symbolic links");
	CHECK(outfile_resume(&o, "target", 2, false, NULL, &e) < 0);
	CHECK(io_read_file("victim", 0, &text, NULL, &e) == 0);
	CHECK_STR(text, "mine");
	free(text);
	CHECK(outfile_open(&o, "no/such/target", &e) < 0);
	CHECK_STR(e.msg, "cannot create 'no/such/target': No such file or directory");
}

static void
test_sweep(void)
{
	static const char *const kept[] = { ".x.%s.1.0123456789abcdef.tmp",
		".x.a%s.%ld.0123456789abcdef.tmp", "x.%s.%ld.0123456789abcdef.tmp",
		".x.%s.%ld.0123456789abcde.tmp", ".x.%s.%ld.0123456789abcdef.tmp.old",
		".%s.%ld.0123456789abcdef.tmp", ".x.%s.%ld.0123456789abcdef",
		".x.%s..0123456789abcdef.tmp", ".tmp" };
	char host[PROCESS_HOST], name[200], *mine = temp_name("x");
	long pid = dead();

	process_host(host);
	CHECK(survives(mine));
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		snprintf(name, sizeof name, kept[i], host, pid);
		CHECK(survives(name));
	}
	snprintf(name, sizeof name, ".x.y.bin.%s.%ld.0123456789abcdef.tmp", host, pid);
	CHECK(!survives(name));
	CHECK(io_mkdir_p(name, NULL) == 0 && chdir(name) == 0 &&
	    outfile_write("piece", "", 0, NULL) == 0 && chdir("..") == 0);
	temp_sweep_beside("z");
	CHECK(!io_exists(name));
	CHECK(temp_is_leaving(".x.elsewhere.1.0123456789abcdef.tmp", TEMP_OF_ANYBODY) &&
	    survives(".x.elsewhere.1.0123456789abcdef.tmp"));
	free(mine);
	temp_sweep("no/such/directory");
}

/* Files of one call and of several: empty ones, and those of pieces of every kind. */
static void
test_pieces(void)
{
	static const size_t size[][3] = { { 0, 0, 0 }, { 0, 128, 2000 }, { 128, 16 << 10, 1 },
		{ 128, (16 << 10) - 128, 0 }, { 3, 2 << 20, 5 } };
	enum { SIZES = sizeof size / sizeof *size };
	static char bytes[3][2 << 20];
	struct file_set *set = file_set_new();
	char name[16], *text;
	size_t len, at;
	struct err e;

	for (int k = 0; k < 3; k++)
		memset(bytes[k], 'a' + k, sizeof bytes[k]);
	for (int i = 0; i < SIZES; i++) {
		const struct iovec piece[3] = { { size[i][0] ? bytes[0] : NULL, size[i][0] },
			{ bytes[1], size[i][1] }, { bytes[2], size[i][2] } };

		snprintf(name, sizeof name, "p%d", i);
		CHECK(file_set_add(set, name, piece, 3, &e) == 0);
	}
	CHECK(file_set_commit(set, &e) == 0);
	for (int i = 0; i < SIZES; i++) {
		snprintf(name, sizeof name, "p%d", i);
		CHECK(io_read_file(name, 0, &text, &len, &e) == 0);
		CHECK(len == size[i][0] + size[i][1] + size[i][2]);
		at = 0;
		for (int k = 0; k < 3; at += size[i][k++])
			CHECK(!memcmp(text + at, bytes[k], size[i][k]));
		free(text);
	}
}

/* A set clears each directory that it writes into. */
static void
test_set(void)
{
	char host[PROCESS_HOST], name[200];
	struct file_set *set = file_set_new();
	struct iovec piece = { "x", 1 };
	struct err e;

	process_host(host);
	snprintf(name, sizeof name, "sub/.x.%s.%ld.0123456789abcdef.tmp", host, dead());
	CHECK(io_mkdir_p("sub", &e) == 0 && outfile_write(name, "", 0, &e) == 0);
	CHECK(file_set_add(set, "a", &piece, 1, &e) == 0 && io_exists(name));
	CHECK(file_set_add(set, "sub/b", &piece, 1, &e) == 0 && !io_exists(name));
	CHECK(file_set_commit(set, &e) == 0 && io_exists("sub/b"));
}

/* What was added last gets its name first, and before what cannot have its own. */
static void
test_last_first(void)
{
	struct file_set *set = file_set_new();
	struct iovec piece = { "x", 1 };
	struct err e;

	CHECK(io_mkdir_p("taken/full", &e) == 0);
	CHECK(file_set_add(set, "taken", &piece, 1, &e) == 0);
	CHECK(file_set_add(set, "other", &piece, 1, &e) == 0);
	CHECK(file_set_add(set, "key", &piece, 1, &e) == 0);
	file_set_last_first(set, 0);
	file_set_last_first(set, 1);
	CHECK(file_set_commit(set, &e) < 0);
	CHECK(io_exists("key") && !io_exists("other"));
}

int
main(void)
{
	char dir[] = "/tmp/mikoshi-temp-XXXXXX";

	CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
	test_processes();
	test_names();
	test_planted_links();
	test_sweep();
	test_pieces();
	test_set();
	test_last_first();
	CHECK(io_remove_tree(dir, NULL) == 0);
	return check_done();
}
