/* npy.c - .npy files: files written by NumPy, files as NumPy would write them, and refused ones */
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/data/npy.h"
#include "tests/check.h"

#include <unistd.h>

static struct err e;
static char path[] = "/tmp/mikoshi-npy-XXXXXX";

/* Writes a version 1 file with this header text, padded with one newline, and `bytes` zero bytes
 * after it. */
static void
make(int version, const char *header, size_t bytes)
{
	char file[600] = "\x93NUMPY";
	size_t n = strlen(header), start = version == 1 ? 10 : 12;

	file[6] = (char)version;
	file[8] = (char)n;
	memcpy(file + start, header, n);
	CHECK(outfile_write(path, file, start + n + bytes, &e) == 0);
}

static void
test_headers(void)
{
	static const struct {
		int version;
		const char *header;
		size_t bytes;
		int ndim;
		int64_t count;
		enum dtype dtype;
	} row[] = {
		{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, 2, 6,
		    DTYPE_I32 },
		{ 2, "{'shape':(5,),'fortran_order':True,'descr':'|u1'}", 5, 1, 5, DTYPE_U8 },
		{ 3, "{\"descr\": \"<f8\", \"fortran_order\": False, \"shape\": ()}  \n", 8, 0, 1,
		    DTYPE_F64 },
		{ 1, "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 7)}", 0, 2, 0,
		    DTYPE_F16 },
		{ 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2, 1, 2)}", 4, 4, 4,
		    DTYPE_BOOL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct npy a;

		make(row[i].version, row[i].header, row[i].bytes);
		CHECK(npy_open(&a, path, &e) == 0);
		CHECK(a.ndim == row[i].ndim && a.count == row[i].count && a.dtype == row[i].dtype &&
		    a.data);
		npy_close(&a);
	}
}

/* Headers of every length: the elements are aligned wherever they begin in the file. */
static void
test_alignment(void)
{
	char header[] = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,)}        ";
	size_t least = strlen(header) - 8;

	for (size_t n = least; n < least + 8; n++) {
		struct npy a;

		header[n] = '\0';
		make(1, header, 24);
		header[n] = ' ';
		CHECK(npy_open(&a, path, &e) == 0);
		CHECK((uintptr_t)a.data % 8 == 0 && a.count == 3 &&
		    ((const int64_t *)a.data)[2] == 0);
		npy_close(&a);
		CHECK(!a.data);
	}
}

static void
test_refused(void)
{
	static const struct {
		const char *header;
		size_t bytes;
		const char *reason;
	} row[] = {
		{ "\n\n", 0, "the header is not a dictionary" },
		{ "{'descr': '<i4'}", 0, "the header lacks descr, fortran_order or shape" },
		{ "{'descr': '>i4', 'fortran_order': False, 'shape': (1,)}", 4,
		    "element type '>i4' is not a little-endian number" },
		{ "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 4,
		    "element type '|O' is not a little-endian number" },
		{ "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", 4,
		    "the element type is structured; only numbers are read" },
		{ "{'descr': '<i4', 'fortran_order': True, 'shape': (1, 2)}", 8,
		    "the array is in Fortran order; only C order is read" },
		{ "{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,)}", 4,
		    "the header's fortran_order is neither True nor False" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1)}", 4,
		    "more than 4 dimensions" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}", 4,
		    "the header's shape is not a tuple of sizes" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (1 2)}", 4,
		    "the header's shape is not a tuple of sizes" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': 3}", 4,
		    "the header's shape is not a tuple" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4,
		    "the header's shape is not a tuple of sizes" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296,4294967296,2)}", 4,
		    "the shape has more elements than 64 bits can count" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", 7,
		    "the file ends inside the array: 2 elements do not fit 7 bytes" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", 9,
		    "1 bytes follow the array" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), 'more': 1}", 8,
		    "unknown key 'more' in the header" },
		{ "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)} x", 8,
		    "text after the header's dictionary" },
		{ "{'descr': '<i4' 'fortran_order': False, 'shape': (2,)}", 8,
		    "the header is not a dictionary" },
	};
	struct npy a;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		make(1, row[i].header, row[i].bytes);
		CHECK(npy_open(&a, path, &e) < 0);
		CHECK(!strncmp(e.msg, path, strlen(path)));
		CHECK_STR(e.msg + strlen(path) + 2, row[i].reason);
	}
	make(4, "{}", 0);
	CHECK(npy_open(&a, path, &e) < 0 && strstr(e.msg, "format version 4.0; 1 to 3 are read"));
	CHECK(outfile_write(path, "\x93NUMPY\1\0\xff\0aa", 12, &e) == 0);
	CHECK(npy_open(&a, path, &e) < 0 && strstr(e.msg, "the file ends inside its header"));
	CHECK(outfile_write(path, "", 0, &e) == 0);
	CHECK(npy_open(&a, path, &e) < 0 && strstr(e.msg, "not a .npy file"));
}

/* Files of NumPy's own, read and written again byte for byte. */
static void
test_rewrite(void)
{
	static const char *const name[] = {
		"01_a_s8_one_epoch/train.sample_index",
		"01_a_s8_one_epoch/train.shuffle_index",
		"01_a_s8_one_epoch/train.loss_mask",
		"03_b_s64_998/valid.shuffle_index",
		"03_b_s64_998/valid.sample_index",
	};

	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		char from[256], *x, *y;
		size_t n, m;
		struct npy a;

		snprintf(from, sizeof from, "tests/golden/data/cases/%s.npy", name[i]);
		CHECK(npy_open(&a, from, &e) == 0);
		CHECK(npy_write(path, a.dtype, a.ndim, a.shape, a.data, &e) == 0);
		npy_close(&a);
		CHECK(io_read_file(from, 0, &x, &n, &e) == 0 &&
		    io_read_file(path, 0, &y, &m, &e) == 0);
		CHECK(n == m && !memcmp(x, y, n));
		free(x);
		free(y);
	}
}

static void
test_header_text(void)
{
	static const int64_t large[4] = { 1000000000000, 1000000000000, 1000000000000,
		1000000000000 };
	char out[256], below[sizeof path + 8];

	CHECK(npy_header(out, DTYPE_I32, 0, NULL) == 128 && out[127] == '\n');
	CHECK(!memcmp(out + 10, "{'descr': '<i4', 'fortran_order': False, 'shape': (), } ", 56));
	CHECK(npy_header(out, DTYPE_F32, 4, large) % 64 == 0);
	snprintf(below, sizeof below, "%s/x.npy", path);
	CHECK(npy_write(below, DTYPE_F32, 0, NULL, out, &e) < 0);
}

int
main(void)
{
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	test_headers();
	test_alignment();
	test_refused();
	test_rewrite();
	test_header_text();
	unlink(path);
	return check_done();
}
