/* safetensors.c - tests of lib/ckpt/safetensors: every rule of the format, the writer, damage */
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/base/str.h"
#include "lib/ckpt/safetensors.h"
#include "tests/check.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define GOLDEN "tests/golden/safetensors/"

static char dir[] = "/tmp/safetensors.XXXXXX";

/* Each file breaks one rule, which the reason must name. */
static const struct {
	const char *file, *reason;
} bad[] = {
	{ "alias", "tensors 'a' and 'b' overlap" },
	{ "array", "header does not begin with '{'" },
	{ "deep_json", "header does not begin with '{'" },
	{ "dup_field", "tensor 'a': a duplicate or unknown field" },
	{ "dup_key", "tensor 'a' twice" },
	{ "f4_odd", "tensor 'a': not a whole number of bytes" },
	{ "float_shape", "tensor 'a': dimension 0 is not a non-negative integer" },
	{ "hole", "a hole of 4 bytes before tensor 'b'" },
	{ "hole_front", "a hole of 4 bytes before tensor 'a'" },
	{ "leading_space", "header does not begin with '{'" },
	{ "len_huge", "header length 9223372036854775808 is above 100000000" },
	{ "len_over_100mb", "is above 100000000" },
	{ "len_past_eof", "reaches past the end of the file" },
	{ "len_short", "shorter than the 8 bytes of the header length" },
	{ "lower_dtype", "tensor 'a': unknown dtype 'f32'" },
	{ "meta_nested", "__metadata__ 'k' is not a string" },
	{ "meta_nonstring", "__metadata__ 'k' is not a string" },
	{ "missing_field", "tensor 'a': no data_offsets" },
	{ "neg_offset", "a number of the header has a sign" },
	{ "neg_shape", "a number of the header has a sign" },
	{ "not_json", "header does not end with '}' and blanks" },
	{ "not_utf8", "header is not UTF-8 at byte 2" },
	{ "overlap", "tensors 'a' and 'b' overlap" },
	{ "reversed", "tensor 'a': its data end before they begin" },
	{ "shape_overflow", "tensor 'a': the product of its shape overflows" },
	{ "short_body", "tensor 'a' reaches past the end of the file" },
	{ "size_mismatch", "tensor 'a': 12 bytes by its offsets, 16 by its shape and type" },
	{ "trailing_bytes", "1 bytes after the last tensor" },
	{ "trailing_json", "not valid JSON: text after the header's '}'" },
	{ "unknown_dtype", "tensor 'a': unknown dtype 'F33'" },
};

static void
test_good(void)
{
	DIR *d = opendir(GOLDEN "good");
	struct dirent *de;
	int count = 0;

	while (d && (de = readdir(d))) {
		char path[512];
		struct safetensors *s;
		struct err e = { "" };

		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, GOLDEN "good/%s", de->d_name);
		s = safetensors_open(path, &e);
		CHECK_STR(e.msg, "");
		CHECK(s != NULL);
		safetensors_close(s);
		count++;
	}
	closedir(d);
	CHECK(count == 11);
}

static void
test_bad(void)
{
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char path[512];
		struct err e = { "" };

		snprintf(path, sizeof path, GOLDEN "bad/%s.safetensors", bad[i].file);
		CHECK(safetensors_open(path, &e) == NULL);
		CHECK(!strncmp(e.msg, path, strlen(path)));
		if (!strstr(e.msg, bad[i].reason))
			CHECK_STR(e.msg, bad[i].reason);
	}
}

/* The contents of the accepted files. */
static void
test_content(void)
{
	struct err e;
	struct safetensors *s = safetensors_open(GOLDEN "good/unordered.safetensors", &e);

	CHECK(safetensors_count(s) == 2);
	CHECK_STR(safetensors_at(s, 0)->name, "a");
	CHECK(safetensors_find(s, "b") == safetensors_at(s, 1) && !safetensors_find(s, "c"));
	CHECK(safetensors_at(s, 1)->offset == safetensors_at(s, 0)->offset + 16);
	safetensors_close(s);
	s = safetensors_open(GOLDEN "good/meta.safetensors", &e);
	CHECK(safetensors_count(s) == 1);
	safetensors_close(s);
	s = safetensors_open(GOLDEN "good/escapes.safetensors", &e);
	CHECK_STR(safetensors_at(s, 0)->name, "a.b\n");
	safetensors_close(s);
	s = safetensors_open(GOLDEN "good/f4.safetensors", &e);
	CHECK(safetensors_at(s, 0)->dtype == DTYPE_NONE && safetensors_at(s, 0)->bytes == 2);
	CHECK_STR(safetensors_at(s, 0)->dtype_name, "F4");
	safetensors_close(s);
	s = safetensors_open(GOLDEN "good/scalar.safetensors", &e);
	CHECK(safetensors_at(s, 0)->ndim == 0 && safetensors_at(s, 0)->dtype == DTYPE_F32);
	safetensors_close(s);
}

/* The reader reads what the writer wrote, and a file that was not committed does not exist. */
static void
test_write(void)
{
	char path[512];
	struct err e;
	struct safetensors_writer *w;
	struct safetensors *s;
	float a[6] = { 1, 2, 3, 4, 5, 6 };
	unsigned short b[3] = { 7, 8, 9 };
	char *text = NULL;
	size_t len;

	snprintf(path, sizeof path, "%s/w.safetensors", dir);
	w = safetensors_writer_new(path, &e);
	safetensors_declare(w, "layer \"0\"\t日本", DTYPE_F32, 2, (int64_t[]){ 2, 3 });
	safetensors_declare(w, "empty", DTYPE_F32, 2, (int64_t[]){ 0, 3 });
	safetensors_declare(w, "b", DTYPE_BF16, 1, (int64_t[]){ 3 });
	CHECK(safetensors_write(w, a, 8, &e) == 0 && safetensors_write(w, a + 2, 16, &e) == 0);
	CHECK(safetensors_write(w, b, 6, &e) == 0);
	CHECK(safetensors_offset(w, 0) % 8 == 0 &&
	    safetensors_offset(w, 2) == safetensors_offset(w, 0) + 24);
	CHECK(!io_exists(path));
	CHECK(safetensors_commit(w, &e) == 0);
	s = safetensors_open(path, &e);
	CHECK(s && safetensors_count(s) == 3);
	CHECK(io_read_file(path, 1 << 20, &text, &len, &e) == 0 &&
	    strstr(text + 8, "\"__metadata__\":{\"format\":\"pt\"}"));
	free(text);
	CHECK(safetensors_find(s, "empty")->bytes == 0);
	CHECK(!memcmp(safetensors_find(s, "layer \"0\"\t日本")->data, a, 24));
	CHECK(!memcmp(safetensors_find(s, "b")->data, b, 6));
	safetensors_close(s);
	snprintf(path, sizeof path, "%s/none.safetensors", dir);
	w = safetensors_writer_new(path, &e);
	CHECK(safetensors_commit(w, &e) == 0);
	s = safetensors_open(path, &e);
	CHECK(s && safetensors_count(s) == 0 && !safetensors_find(s, "a"));
	safetensors_close(s);
}

/* Names that are illegal in a header, and a full disk, are errors that leave no file. */
static void
test_write_fails(void)
{
	struct rlimit old, small;
	char path[512], big[70000] = { 0 };
	struct err e;
	struct safetensors_writer *w;

	snprintf(path, sizeof path, "%s/f.safetensors", dir);
	w = safetensors_writer_new(path, &e);
	safetensors_declare(w, "a", DTYPE_U8, 1, (int64_t[]){ 1 });
	safetensors_declare(w, "a", DTYPE_U8, 1, (int64_t[]){ 1 });
	CHECK(safetensors_write(w, "x", 1, &e) < 0);
	CHECK(strstr(e.msg, "tensor 'a' declared twice"));
	safetensors_abort(w);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 4096;
	w = safetensors_writer_new(path, &e);
	safetensors_declare(w, "a", DTYPE_U8, 1, (int64_t[]){ sizeof big });
	setrlimit(RLIMIT_FSIZE, &small);
	CHECK(safetensors_write(w, big, sizeof big, &e) < 0);
	setrlimit(RLIMIT_FSIZE, &old);
	CHECK(strstr(e.msg, "cannot write") && strstr(e.msg, "File too large"));
	safetensors_abort(w);
	CHECK(!io_exists(path) && rmdir(dir) < 0);
	CHECK(safetensors_writer_new("/nowhere/f", &e) == NULL);
}

/* Writes a header of many small tensors with unsorted names, so that pieces end between any two of
 * them. Returns the bytes of the file. */
static size_t
many_tensors(const char *path, int count)
{
	struct str file = { 0 };
	uint64_t header;
	struct err e;
	size_t size;

	str_add(&file, "\0\0\0\0\0\0\0", 8);
	for (int i = 0; i < count; i++)
		str_addf(&file,
		    "%c\"t%lld\": {\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
		    i ? ',' : '{', i * 7919LL % count, i, i + 1);
	str_adds(&file, ",\"__metadata__\":{\"format\":\"pt\"}}");
	header = file.len - 8;
	memcpy(file.buf, &header, sizeof header);
	for (int i = 0; i < count; i++)
		str_addc(&file, 'x');
	size = file.len;
	CHECK(outfile_write(path, file.buf, size, &e) == 0);
	str_release(&file);
	return size;
}

/* Bytes of address space that this process has. */
static size_t
address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	CHECK(f && fscanf(f, "%zu", &pages) == 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Memory for a header stays within 240 bytes a tensor and a few pieces; a sanitizer's own memory is
 * left unlimited. */
static void
test_many(void)
{
	enum { COUNT = 200000 };
	struct rlimit old, small;
	char path[512];
	struct err e = { "" };
	struct safetensors *s;
	size_t size, now = address_space();

	snprintf(path, sizeof path, "%s/many.safetensors", dir);
	size = many_tensors(path, COUNT);
	getrlimit(RLIMIT_AS, &old);
	small = old;
	if (now < (size_t)1 << 40)
		small.rlim_cur = address_space() + size + 240UL * COUNT + (32 << 20);
	setrlimit(RLIMIT_AS, &small);
	s = safetensors_open(path, &e);
	setrlimit(RLIMIT_AS, &old);
	CHECK_STR(e.msg, "");
	CHECK(safetensors_count(s) == COUNT && safetensors_find(s, "t199999") &&
	    !safetensors_find(s, "t200000"));
	safetensors_close(s);
}

int
main(void)
{
	struct err e;

	CHECK(mkdtemp(dir) != NULL);
	test_good();
	test_bad();
	test_content();
	test_write();
	test_write_fails();
	test_many();
	CHECK(io_remove_tree(dir, &e) == 0);
	return check_done();
}
