/* direct.c - tests of lib/base/direct by way of outfile_open_direct: the bytes of any calls, on a
 * disk and where there is none */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALL = (17 << 20) + 321 };

/* Writes all bytes in calls of these sizes, in turn, and reads them back. */
static void
there_and_back(const char *dir, const char *bytes, const size_t sizes[3])
{
	char path[200], *back;
	struct outfile o;
	size_t at = 0, len;
	struct err e;

	snprintf(path, sizeof path, "%s/file", dir);
	CHECK(outfile_open_direct(&o, path, &e) == 0);
	for (int i = 0; at < ALL; i++) {
		size_t n = sizes[i % 3] < ALL - at ? sizes[i % 3] : ALL - at;

		CHECK(fwrite(bytes + at, 1, n, o.f) == n);
		at += n;
	}
	outfile_begin_sync(&o, 0, ALL);
	CHECK(outfile_commit(&o, &e) == 0);
	CHECK(io_read_file(path, 0, &back, &len, &e) == 0);
	CHECK(len == ALL && !memcmp(back, bytes, ALL));
	free(back);
	unlink(path);
}

static void
test_bytes(const char *where)
{
	static const size_t sizes[][3] = { { ALL, ALL, ALL }, { 4 << 20, 4 << 20, 4 << 20 },
		{ 8 << 20, 0, 8 << 20 }, { 333, 1 << 22, 77777 } };
	char dir[100], *bytes = mem_alloc(ALL, 1);

	for (size_t i = 0; i < ALL; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	snprintf(dir, sizeof dir, "%s/mikoshi-direct-XXXXXX", where);
	CHECK(mkdtemp(dir) != NULL);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		there_and_back(dir, bytes, sizes[i]);
	CHECK(rmdir(dir) == 0);
	free(bytes);
}

/* Nothing is left of a file that is given up. */
static void
test_abort(void)
{
	char dir[] = "/tmp/mikoshi-direct-XXXXXX", path[100];
	struct outfile o;
	struct err e;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/file", dir);
	CHECK(outfile_open_direct(&o, path, &e) == 0);
	CHECK(fputs("text", o.f) >= 0);
	outfile_abort(&o);
	CHECK(rmdir(dir) == 0);
}

int
main(void)
{
	test_bytes("/tmp");
	if (io_is_dir("/dev/shm"))
		test_bytes("/dev/shm");
	test_abort();
	return check_done();
}
