/* torchzip.c - tests of lib/ckpt/zip and torchzip: files of torch.save, and files that attack their
 * reader */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/slice.h"
#include "lib/ckpt/torchzip.h"
#include "tests/check.h"
#include "tests/memory_limit.h"
#include "tests/random_box.h"

#define GOLDEN "tests/golden/torchzip/"

enum { DEPTH = 8, MEMORY = 64 << 20 };

/* A file in memory. */
struct file {
	char *bytes;
	size_t len;
	struct torchzip *z;
};

static void
read_file(struct file *f, const char *name)
{
	char path[256];
	struct err e;

	snprintf(path, sizeof path, GOLDEN "%s", name);
	CHECK(io_read_file(path, 0, &f->bytes, &f->len, &e) == 0);
	f->z = NULL;
}

static void
close_file(struct file *f)
{
	torchzip_close(f->z);
	free(f->bytes);
}

/* Dtype, shape and bytes of a tensor, or why it is none. */
static void
put_tensor(const struct torchzip *z, const struct pickle_value *v, struct str *out)
{
	struct torch_tensor t;
	struct slice slice;
	struct err e;
	int64_t n;
	char *bytes;

	if (torchzip_tensor(z, v, &t, &e) < 0) {
		str_adds(out, e.msg);
		return;
	}
	slice = slice_whole(t.ndim, t.shape);
	n = torch_tensor_elements(&t) * (int64_t)dtype_size(t.dtype);
	bytes = mem_alloc((size_t)n, 1);
	if (n > 0)
		torch_tensor_read(&t, &slice, bytes);
	str_addf(out, "%s\t[", dtype_name(t.dtype));
	for (int d = 0; d < t.ndim; d++)
		str_addf(out, "%s%lld", d ? ", " : "", (long long)t.shape[d]);
	str_adds(out, "]\t");
	for (int64_t i = 0; i < n; i++)
		str_addf(out, "%02x", (unsigned char)bytes[i]);
	free(bytes);
}

/* State of a walk. */
struct walk {
	const struct torchzip *z;
	const char *file;
	struct str *out;
};

static void walk(const struct walk *w, const struct pickle_value *v, const char *path, int depth);

/* Visits what lies in a dict, in a sequence, or in the attributes of a Namespace. */
static void
walk_inside(const struct walk *w, const struct pickle_value *v, const char *path, int depth)
{
	for (uint32_t i = 0; i < v->len; i++) {
		char *name = mem_alloc(strlen(path) + 300, 1);
		const char *key = v->type == PICKLE_DICT ? pickle_string(v->pair[i].key) : NULL;

		if (key)
			sprintf(name, "%s/%.200s", path, key);
		else
			sprintf(name, "%s/%u", path, i);
		walk(w, v->type == PICKLE_DICT ? v->pair[i].value : v->item[i], name, depth + 1);
		free(name);
	}
}

/* A line for every leaf. */
static void
walk(const struct walk *w, const struct pickle_value *v, const char *path, int depth)
{
	if (pickle_is(v, "argparse.Namespace") && v->type == PICKLE_OBJECT)
		v = v->object->state;
	if (depth < DEPTH &&
	    (v->type == PICKLE_DICT || v->type == PICKLE_LIST || v->type == PICKLE_TUPLE)) {
		walk_inside(w, v, path, depth);
		return;
	}
	str_addf(w->out, "%s\t%s\t", w->file, path);
	if (torch_is_tensor(v)) {
		put_tensor(w->z, v, w->out);
	} else {
		str_adds(w->out, "value\t\t");
		pickle_print(v, w->out);
	}
	str_addc(w->out, '\n');
}

/* Every leaf of every good file, as torch loads it. */
static void
test_good(void)
{
	static const char *const names[] = { "dtypes.pt", "strides.pt", "shared.pt",
		"scalar_empty.pt", "parameter.pt", "nested.pt", "many.pt", "proto4.pt", "proto5.pt",
		"opaque.pt", "prefix_other.pt", "handmade.pt", "zip64.pt" };
	struct str out = { 0 };
	char *want;
	struct err e;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char name[64];
		struct file f;

		snprintf(name, sizeof name, "good/%s", names[i]);
		read_file(&f, name);
		f.z = torchzip_open(f.bytes, f.len, names[i], &e);
		CHECK(f.z && torchzip_verify(f.z, NULL, &e) == 0);
		if (f.z)
			walk(&(struct walk){ f.z, names[i], &out }, torchzip_root(f.z), "", 0);
		close_file(&f);
	}
	CHECK(io_read_file(GOLDEN "expected.tsv", 0, &want, NULL, &e) == 0);
	CHECK(!strcmp(out.buf, want));
	free(want);
	str_release(&out);
}

/* Each attacks in one way, and the reason names it. What opens is walked as a caller would, and
 * then compared with its checksums. */
static const struct {
	const char *file, *reason;
} hostile[] = {
	{ "bad_cd_offset", "f: record 'archive/version' has no local header at byte 2147483647" },
	{ "bad_memo", "f: byte 2 of the pickle: the memo has no entry 99" },
	{ "crc",
	    "\t/w\tF32\t[4, "
	    "6]"
	    "\t000000000001803f0000004000004040000080400000a0400000c0400000e04000000041000010410000"
	    "20410000304100004041000050410000604100007041000080410000884100009041000098410000a04100"
	    "00a8410000b0410000b841\nrecord 'archive/data/0' does not match its CRC-32\n" },
	{ "deep", "\t/0/0/0/0/0/0/0/0\tvalue\t\ta list of 1\n" },
	{ "deflated",
	    "f: record 'archive/data.pkl' is compressed or encrypted; torch stores records as they "
	    "are" },
	{ "dup_record", "f: record 'archive/data/0' twice" },
	{ "empty", "f: 0 bytes are not a zip file" },
	{ "exec_in_args", "f: byte 99 of the pickle: a key without a value" },
	{ "exec_reduce",
	    "f: byte 51 of the pickle: 2 values and 0 marks on the stack at the end, one value is "
	    "due" },
	{ "huge_expand",
	    "\t/w\t1099511627776 elements of a storage of 24: more than 16 times as many\n" },
	{ "missing_storage", "\t/w\tstorage '7' has no record\n" },
	{ "neg_dim", "\t/w\tits shape is not up to 4 non-negative integers\n" },
	{ "neg_stride", "\t/w\tits strides are not 2 non-negative integers\n" },
	{ "oob_offset", "\t/w\tits element 33 is outside its storage of 24\n" },
	{ "oob_stride", "\t/w\tits element 3005 is outside its storage of 24\n" },
	{ "overflow", "\t/w\tthe product of its shape overflows\n" },
	{ "self_ref", "\t/a/a/a/a/a/a/a/a\tvalue\t\ta dict of 1\n" },
	{ "short_storage", "\t/w\tstorage '0' has 24 elements of F32, but 50 bytes\n" },
	{ "stack_underflow",
	    "f: byte 2 of the pickle: the stack holds fewer than the 2 values that the opcode "
	    "needs" },
	{ "traversal_key", "\t/w\tstorage '../version' has no record\n" },
	{ "trunc_pickle", "f: byte 56 of the pickle: the input ends inside a line" },
	{ "trunc_zip", "f: not a zip file, or cut off: no end record in its last 22 bytes" },
};

static void
test_hostile(void)
{
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
		char name[64];
		struct str out = { 0 };
		struct rlimit old;
		struct err e;
		struct file f;

		snprintf(name, sizeof name, "hostile/%s.pt", hostile[i].file);
		read_file(&f, name);
		old = memory_limit(MEMORY);
		f.z = torchzip_open(f.bytes, f.len, "f", &e);
		if (f.z) {
			walk(&(struct walk){ f.z, "", &out }, torchzip_root(f.z), "", 0);
			if (torchzip_verify(f.z, NULL, &e) < 0)
				str_addf(&out, "%s\n", e.msg);
		} else {
			str_adds(&out, e.msg);
		}
		memory_restore(old);
		CHECK_STR(out.buf, hostile[i].reason);
		str_release(&out);
		close_file(&f);
	}
}

/* Damage to the frame of a good file: bytes at an offset, from the end if negative. */
static const struct {
	int at;
	const char *bytes;
	size_t len;
	const char *reason;
} frames[] = {
	{ -22, "X", 1, "f: not a zip file, or cut off: no end record in its last 22 bytes" },
	{ -18, "\1", 1, "f: the zip has several volumes" },
	{ -12, "\1", 1, "f: the zip has several volumes" },
	{ -12, "\x09", 1, "f: the zip has several volumes" },
	{ -10, "\1", 1, "f: the two end records of the zip differ" },
	{ -6, "\1", 1, "f: the two end records of the zip differ" },
	{ -42, "X", 1, "f: the central directory does not reach up to the end record" },
	{ -34, "X", 1, "f: the 64-bit end record of the zip is not before its locator" },
	{ -98, "X", 1, "f: the 64-bit end record of the zip is damaged" },
	{ -74, "X", 1, "f: the 64-bit end record of the zip is damaged" },
	{ -50, "X", 1, "f: the central directory does not reach up to the end record" },
	{ 0, "X", 1, "f: record 'archive/data.pkl' has no local header at byte 0" },
	{ 8, "\x08", 1, "f: record 'archive/data.pkl': local header and central directory differ" },
	{ 14, "X", 1, "f: record 'archive/data.pkl': local header and central directory differ" },
	{ 18, "\1", 1, "f: record 'archive/data.pkl': local header and central directory differ" },
	{ 22, "\1", 1, "f: record 'archive/data.pkl': local header and central directory differ" },
	{ 26, "\1", 1, "f: record 'archive/data.pkl': local header and central directory differ" },
	{ 28, "\xff\xff", 2,
	    "f: record 'archive/data.pkl': local header and central directory differ" },
	{ 30, "X", 1, "f: record 'archive/data.pkl': local header and central directory differ" },
};

static void
test_frames(void)
{
	struct file f;

	read_file(&f, "good/zip64.pt");
	for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
		char *bytes = mem_alloc(f.len, 1);
		struct torchzip *z;
		struct err e = { "none" };

		memcpy(bytes, f.bytes, f.len);
		memcpy(bytes + (frames[i].at < 0 ? (int)f.len : 0) + frames[i].at, frames[i].bytes,
		    frames[i].len);
		z = torchzip_open(bytes, f.len, "f", &e);
		CHECK_STR(e.msg, frames[i].reason);
		torchzip_close(z);
		free(bytes);
	}
	close_file(&f);
}

/* Random boxes of every tensor of a file are those of the whole tensor. */
static void
test_boxes(void)
{
	struct file f;
	struct err e;

	mt19937_seed(&rng, (uint32_t)check_seed());
	read_file(&f, "good/strides.pt");
	f.z = torchzip_open(f.bytes, f.len, "f", &e);
	for (uint32_t i = 0; i < torchzip_root(f.z)->len; i++) {
		struct torch_tensor t;
		struct slice whole, slice;
		float all[64], part[64], want[64];

		CHECK(torchzip_tensor(f.z, torchzip_root(f.z)->pair[i].value, &t, &e) == 0);
		whole = slice_whole(t.ndim, t.shape);
		torch_tensor_read(&t, &whole, all);
		for (int k = 0; k < 20; k++) {
			slice = random_box(&whole);
			torch_tensor_read(&t, &slice, part);
			slice_copy(want, &slice, all, &whole, &slice, sizeof *all);
			CHECK(!memcmp(want, part, (size_t)slice_elements(&slice) * sizeof *all));
		}
	}
	close_file(&f);
}

int
main(void)
{
	test_frames();
	test_boxes();
	test_good();
	test_hostile();
	return check_done();
}
