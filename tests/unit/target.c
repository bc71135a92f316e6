/* target.c - tests of what may be replaced, of renames that replace nothing, and of temporary files
 * that another process has open */
#include "lib/base/outfile.h"
#include "lib/base/target.h"
#include "tests/check.h"

#include <sys/file.h>
#include <unistd.h>

static void
put(const char *path, const char *text)
{
	CHECK(outfile_write(path, text, strlen(text), NULL) == 0);
}

/* The contents of a file. */
static void
holds(const char *path, const char *want)
{
	char *text;

	CHECK(io_read_file(path, 0, &text, NULL, NULL) == 0);
	CHECK_STR(text, want);
	free(text);
}

static void
test_files(void)
{
	static const struct target_kind plan = { "a plan", "# plan", 6 };
	struct err e;

	put("plan", "# plan 1");
	put("short", "#");
	CHECK(symlink("plan", "link") == 0 && symlink("nothing", "dangling") == 0);
	CHECK(io_mkdir_p("dir", NULL) == 0);
	CHECK(target_look("absent", &e) == 0 && target_look("plan", &e) == 1);
	CHECK(target_check("absent", false, &e) == 0 && target_check("plan", true, &e) == 0);
	CHECK(target_check("plan", false, &e) < 0);
	CHECK_STR(e.msg, "'plan' exists; --force replaces it");
	for (int replace = 0; replace < 2; replace++) {
		CHECK(target_check("link", replace, &e) < 0);
		CHECK_STR(e.msg, "'link' is a symbolic link: it is not replaced");
		CHECK(target_check("dangling", replace, &e) < 0);
		CHECK_STR(e.msg, "'dangling' is a symbolic link: it is not replaced");
		CHECK(target_check("dir", replace, &e) < 0);
		CHECK_STR(e.msg, "'dir' is a directory: it is not replaced");
		CHECK(target_check("/dev/null", replace, &e) < 0);
		CHECK_STR(e.msg, "'/dev/null' is not a regular file: it is not replaced");
		CHECK(target_check_kind("short", &plan, replace, &e) < 0);
		CHECK_STR(e.msg, "'short' is not a plan: it is not replaced");
	}
	CHECK(target_check_kind("plan", &plan, true, &e) == 0);
	CHECK(target_inside("dir", "dir") && target_inside("dir/", ".") &&
	    target_inside("dir/no/where", "dir") && target_inside("no/where/", ".") &&
	    target_inside("dir/../dir", "dir"));
	CHECK(!target_inside(".", "dir") && !target_inside("no", "dir") &&
	    !target_inside("dir/..", "dir") && !target_inside("/", "."));
	CHECK(target_is("plan", "link") && !target_is("plan", "short") && !target_is("plan", "no"));
	CHECK(target_write("new", false, "1", 1, &e) == 0);
	CHECK(target_write("new", false, "2", 1, &e) < 0);
	CHECK_STR(e.msg, "'new' exists; --force replaces it");
	holds("new", "1");
	CHECK(target_write("new", true, "2", 1, &e) == 0);
	holds("new", "2");
	CHECK(target_rename("short", "new", &e) < 0);
	CHECK_STR(e.msg, "cannot rename to 'new': File exists");
	holds("new", "2");
	CHECK(target_rename("short", "moved", &e) == 0 && !io_exists("short"));
}

static void
test_directories(void)
{
	static const char *const names[] = { "a-*.x", ".hidden", "sub_*/in", NULL };
	struct err e;

	CHECK(io_mkdir_p("d", NULL) == 0 && target_look_inside("d", names, &e) == 0);
	put("d/lock", "");
	put("d/.q.elsewhere.1.0123456789abcdef.tmp", "");
	CHECK(target_look_inside("d", names, &e) == 0);
	CHECK(io_mkdir_p("d/sub_1", NULL) == 0);
	put("d/sub_1/in", "");
	put("d/a-1.x", "");
	put("d/.hidden", "");
	CHECK(target_look_inside("d", names, &e) == 1);
	put("d/sub_1/lock", "");
	CHECK(target_look_inside("d", names, &e) < 0);
	CHECK_STR(e.msg, "'d/sub_1/lock' is nothing that this program writes: 'd' is not replaced");
	CHECK(unlink("d/sub_1/lock") == 0 && io_mkdir_p("d/a-2.x", NULL) == 0);
	CHECK(target_look_inside("d", names, &e) < 0);
	CHECK_STR(e.msg, "'d/a-2.x' is nothing that this program writes: 'd' is not replaced");
	CHECK(rmdir("d/a-2.x") == 0 && symlink("a-1.x", "d/a-3.x") == 0);
	CHECK(target_look_inside("d", names, &e) < 0);
	CHECK_STR(e.msg, "'d/a-3.x' is a symbolic link: 'd' is not replaced");
	CHECK(target_look_inside("no", names, &e) < 0);
	CHECK(!target_is_mounted("d") && target_is_mounted("/proc"));
}

/* A former writer that wakes up has the file open that its successor continues, and writes. */
static void
test_former_writer(void)
{
	for (int taken_over = 0; taken_over < 2; taken_over++) {
		struct outfile former, next;
		struct err e;
		int64_t n;

		CHECK(outfile_resume(&former, "t", 0, false, NULL, &e) == 0);
		fputs("kept", former.f);
		CHECK(outfile_sync(&former, &n, &e) == 0 && n == 4);
		fputs("lost", former.f);
		if (taken_over) /* its host is another, where flock(2) tells nothing */
			CHECK(flock(former.fd, LOCK_UN) == 0);
		CHECK(outfile_resume(&next, "t", 4, taken_over, NULL, &e) == 0);
		fputs(" and continued", next.f);
		CHECK(outfile_commit(&next, &e) == 0);
		fputs("more", former.f);
		outfile_leave(&former);
		holds("t", "kept and continued");
		CHECK(!io_exists("t.part"));
	}
}

/* One that wakes up while it opens the file takes the name of its successor's, which gets it back,
 * with all that was written. */
static void
test_woken_writer(void)
{
	struct outfile next, woken;
	struct err e;
	int64_t n;

	CHECK(outfile_resume(&next, "t", 0, true, NULL, &e) == 0);
	fputs("kept", next.f);
	CHECK(outfile_sync(&next, &n, &e) == 0 && n == 4);
	for (int i = 0; i < 2; i++) {
		CHECK(outfile_resume(&woken, "t", 0, false, NULL, &e) == 0);
		fputs("another", woken.f);
		CHECK(outfile_sync(&woken, &n, &e) == 0 && n == 7);
		fputs(i ? " again" : " and continued", next.f);
		if (i == 0) {
			CHECK(outfile_sync(&next, &n, &e) == 0 && n == 18);
			holds("t.part", "kept and continued");
		} else {
			CHECK(outfile_commit(&next, &e) == 0);
		}
		fputs("more", woken.f);
		outfile_leave(&woken);
	}
	holds("t", "kept and continued again");
	CHECK(!io_exists("t.part"));
}

int
main(void)
{
	char dir[] = "/tmp/mikoshi-target-XXXXXX";

	CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
	test_files();
	test_directories();
	test_former_writer();
	test_woken_writer();
	CHECK(io_remove_tree(dir, NULL) == 0);
	return check_done();
}
