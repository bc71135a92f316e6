/* torch_write.c - pickles and zips as torch.save writes them, byte by byte */
#include "lib/ckpt/pickle_write.h"
#include "lib/ckpt/torchzip_write.h"
#include "tests/check.h"

#include <zlib.h>

/* Whether the text is these bytes; empties it. */
static bool
is(struct str *s, const char *bytes, size_t n)
{
	bool same = s->len == n && !memcmp(s->buf, bytes, n);

	str_clear(s);
	return same;
}

#define IS(s, bytes) CHECK(is(s, bytes, sizeof(bytes) - 1))

static void
test_values(void)
{
	struct str s = { 0 };

	pickle_begin(&s);
	pickle_put_none(&s);
	pickle_put_bool(&s, true);
	pickle_put_bool(&s, false);
	pickle_end(&s);
	IS(&s, "\x80\x02N\x88\x89.");
	pickle_put_int(&s, -2);
	pickle_put_int(&s, INT32_MAX);
	IS(&s, "J\xfe\xff\xff\xffJ\xff\xff\xff\x7f");
	pickle_put_int(&s, (int64_t)INT32_MIN - 1);
	IS(&s, "\x8a\x08\xff\xff\xff\x7f\xff\xff\xff\xff");
	pickle_put_double(&s, 1.5);
	IS(&s, "G\x3f\xf8\0\0\0\0\0\0");
	pickle_put_text(&s, "\xc3\xa9");
	IS(&s, "X\2\0\0\0\xc3\xa9");
	pickle_open_dict(&s);
	pickle_open_list(&s);
	pickle_close_list(&s);
	pickle_open_tuple(&s);
	pickle_close_tuple(&s);
	pickle_close_dict(&s);
	IS(&s, "}(](e(tu");
	pickle_open_object(&s, "argparse", "Namespace");
	pickle_close_object(&s);
	IS(&s, "cargparse\nNamespace\n)\x81}(ub");
	pickle_put_dtype(&s, DTYPE_BF16);
	pickle_put_size(&s, 1, (int64_t[]){ 5 });
	IS(&s, "ctorch\nbfloat16\nctorch\nSize\n(J\5\0\0\0t\x85R");
	pickle_put_tensor(&s, DTYPE_F32, 2, (int64_t[]){ 2, 3 }, 7);
	IS(&s,
	    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\n"
	    "X\1\0\0\0007X\3\0\0\0cpuJ\6\0\0\0tQJ\0\0\0\0(J\2\0\0\0J\3\0\0\0t"
	    "(J\3\0\0\0J\1\0\0\0t\x89"
	    "ccollections\nOrderedDict\n)RtR");
	str_release(&s);
}

/* The little-endian number of so many bytes. */
static uint64_t
number(const unsigned char *p, int bytes)
{
	uint64_t x = 0;

	for (int i = bytes - 1; i >= 0; i--)
		x = x << 8 | p[i];
	return x;
}

/* Finds an entry by the directory: its bytes lie at a multiple of 64 from the zip's start, and have
 * the sum that is stated there and after them. */
static void
check_entry(const unsigned char *zip, uint64_t bytes, const char *name, const char *want)
{
	const unsigned char *end = zip + bytes - 22, *p = zip + number(end + 16, 4), *data;
	size_t n = strlen(want);
	int left = (int)number(end + 8, 2);
	uint64_t at;

	while (left > 0 && strncmp((const char *)p + 46, name, strlen(name))) {
		p += 46 + number(p + 28, 2) + number(p + 30, 2);
		left--;
	}
	CHECK(left > 0 && number(p, 4) == 0x02014b50 && number(p + 28, 2) == strlen(name));
	at = number(p + 42, 4);
	CHECK(number(zip + at, 4) == 0x04034b50);
	at += 30 + number(zip + at + 26, 2) + number(zip + at + 28, 2);
	data = zip + at;
	CHECK(at % 64 == 0 && number(p + 20, 4) == n && number(p + 24, 4) == n);
	CHECK(!memcmp(data, want, n) && number(p + 16, 4) == crc32(0, data, (uInt)n));
	CHECK(number(data + n, 4) == 0x08074b50 && number(data + n + 4, 4) == number(p + 16, 4));
}

/* The second of two zips in one file: all its offsets count from its own start. */
static void
test_zip(void)
{
	struct str pickle = { 0 };
	static unsigned char bytes[8192];
	FILE *f = tmpfile();
	uint64_t first = 0, size = 0;

	str_adds(&pickle, "some pickle");
	for (int k = 0; k < 2; k++) {
		struct torchzip_writer *w = torchzip_begin(f, "archive", &pickle);

		first = size;
		torchzip_storage(w, 6);
		torchzip_put(w, "abcd", 4);
		torchzip_put(w, "ef", 2);
		torchzip_storage(w, 0);
		torchzip_storage(w, 1);
		torchzip_put(w, "g", 1);
		size = torchzip_end(w);
	}
	CHECK(first == size && (uint64_t)ftell(f) == first + size && size <= sizeof bytes);
	fseek(f, (long)first, SEEK_SET);
	CHECK(fread(bytes, 1, size, f) == size);
	check_entry(bytes, size, "archive/data.pkl", "some pickle");
	check_entry(bytes, size, "archive/byteorder", "little");
	check_entry(bytes, size, "archive/data/0", "abcdef");
	check_entry(bytes, size, "archive/data/1", "");
	check_entry(bytes, size, "archive/data/2", "g");
	check_entry(bytes, size, "archive/version", "3\n");
	fclose(f);
	str_release(&pickle);
}

int
main(void)
{
	test_values();
	test_zip();
	return check_done();
}
