/*
 * torchzip_write.c - the zip that torch.save writes, as a stream
 *
 * An entry's sum is known only after its bytes, so a descriptor with it follows them, as in torch's
 * files. The directory at the end is collected as a text while the entries pass.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/ckpt/torchzip_write.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
	LOCAL_HEADER = 0x04034b50,
	DESCRIPTOR = 0x08074b50,
	DIRECTORY_HEADER = 0x02014b50,
	DIRECTORY_END64 = 0x06064b50,
	LOCATOR64 = 0x07064b50,
	DIRECTORY_END = 0x06054b50,
	LOCAL_BYTES = 30,
	EXTRA64 = 1,              /* the id of zip64's extra field */
	EXTRA_PAD = 0x4246,       /* "FB": torch's padding */
	FLAGS = 1 << 3 | 1 << 11, /* a descriptor follows; names are UTF-8 */
	ALIGN = 64,
};
static const uint64_t max32 = UINT32_MAX;

struct torchzip_writer {
	FILE *f;
	const char *folder;
	uint64_t at; /* bytes written */
	struct str directory;
	int entries, storages;
	/* the entry that is being written */
	char name[128];
	uint64_t start, bytes, left; /* of its header; its size; what is still to come */
	uLong sum;
};

/* Little-endian; bytes beyond those of x are zeroes. */
static void
add(struct str *s, uint64_t x, int bytes)
{
	for (int i = 0; i < bytes; i++, x >>= 8)
		str_addc(s, (char)(x & 0xff));
}

/* Writes a record and empties the text. */
static void
put_record(struct torchzip_writer *w, struct str *s)
{
	w->at += s->len;
	str_put(s, w->f);
}

static uint64_t
low32(uint64_t x)
{
	return x < max32 ? x : max32;
}

/* The version that a reader needs, flags, method and time: zeros but for the first two. */
static void
add_common(struct str *s, bool large)
{
	add(s, large ? 45 : 20, 2);
	add(s, FLAGS, 2);
	add(s, 0, 2 + 4);
}

/* The sizes in zip64's extra field, which says the same in both headers. */
static void
add_sizes64(struct str *s, uint64_t bytes)
{
	add(s, bytes, 8);
	add(s, bytes, 8);
}

/* Padding moves the bytes to a multiple of 64. */
static void
begin_entry(struct torchzip_writer *w, const char *name, uint64_t bytes)
{
	struct str s = { 0 };
	bool large = bytes >= max32;
	size_t fixed, pad;

	snprintf(w->name, sizeof w->name, "%s/%s", w->folder, name);
	w->start = w->at;
	w->bytes = w->left = bytes;
	w->sum = crc32(0, NULL, 0);
	fixed = LOCAL_BYTES + strlen(w->name) + (large ? 20 : 0) + 4;
	pad = (ALIGN - (w->at + fixed) % ALIGN) % ALIGN;
	add(&s, LOCAL_HEADER, 4);
	add_common(&s, large);
	add(&s, 0, 4);
	add(&s, large ? max32 : 0, 4);
	add(&s, large ? max32 : 0, 4);
	add(&s, strlen(w->name), 2);
	add(&s, (large ? 20 : 0) + 4 + pad, 2);
	str_adds(&s, w->name);
	if (large) {
		add(&s, EXTRA64, 2);
		add(&s, 16, 2);
		add_sizes64(&s, bytes);
	}
	add(&s, EXTRA_PAD, 2);
	add(&s, pad, 2);
	while (pad-- > 0)
		str_addc(&s, 'Z');
	put_record(w, &s);
	str_release(&s);
}

/* Writes what follows the entry's bytes, and adds its line of the directory. */
static void
end_entry(struct torchzip_writer *w)
{
	struct str s = { 0 }, *line = &w->directory;
	bool large = w->bytes >= max32, far = w->start >= max32;
	int width = large ? 8 : 4, extra = (large ? 16 : 0) + (far ? 8 : 0);

	if (w->left)
		BUG("entry '%s' lacks %llu bytes", w->name, (unsigned long long)w->left);
	add(&s, DESCRIPTOR, 4);
	add(&s, w->sum, 4);
	add(&s, w->bytes, width);
	add(&s, w->bytes, width);
	put_record(w, &s);
	str_release(&s);
	add(line, DIRECTORY_HEADER, 4);
	add(line, 0, 2);
	add_common(line, large || far);
	add(line, w->sum, 4);
	add(line, low32(w->bytes), 4);
	add(line, low32(w->bytes), 4);
	add(line, strlen(w->name), 2);
	add(line, extra ? (uint64_t)extra + 4 : 0, 2);
	add(line, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
	add(line, low32(w->start), 4);
	str_adds(line, w->name);
	if (extra) {
		add(line, EXTRA64, 2);
		add(line, (uint64_t)extra, 2);
	}
	if (large)
		add_sizes64(line, w->bytes);
	if (far)
		add(line, w->start, 8);
	w->entries++;
}

static void
put_entry(struct torchzip_writer *w, const char *name, const void *bytes, size_t n)
{
	begin_entry(w, name, n);
	torchzip_put(w, bytes, n);
	end_entry(w);
}

struct torchzip_writer *
torchzip_begin(FILE *f, const char *folder, const struct str *pickle)
{
	struct torchzip_writer *w = mem_zalloc(1, sizeof *w);

	w->f = f;
	w->folder = folder;
	put_entry(w, "data.pkl", pickle->buf, pickle->len);
	put_entry(w, "byteorder", "little", 6);
	return w;
}

/* The entry before ends here: nothing follows its bytes that would say so. */
void
torchzip_storage(struct torchzip_writer *w, uint64_t bytes)
{
	char name[32];

	if (w->storages > 0)
		end_entry(w);
	snprintf(name, sizeof name, "data/%d", w->storages++);
	begin_entry(w, name, bytes);
}

void
torchzip_put(struct torchzip_writer *w, const void *bytes, size_t n)
{
	if (n > w->left)
		BUG("entry '%s' gets too many bytes", w->name);
	w->sum = crc32_z(w->sum, bytes, n);
	w->left -= n;
	w->at += n;
	fwrite(bytes, 1, n, w->f);
}

void
torchzip_abort(struct torchzip_writer *w)
{
	str_release(&w->directory);
	free(w);
}

/* The directory, then the records at the end; those of zip64 where a number does not fit. */
uint64_t
torchzip_end(struct torchzip_writer *w)
{
	uint64_t start, bytes, end, entries;
	struct str s = { 0 };

	if (w->storages > 0)
		end_entry(w);
	put_entry(w, "version", "3\n", 2);
	start = w->at;
	bytes = w->directory.len;
	end = start + bytes;
	entries = (uint64_t)w->entries;
	put_record(w, &w->directory);
	if (end >= max32 || entries >= UINT16_MAX) {
		add(&s, DIRECTORY_END64, 4);
		add(&s, 44, 8); /* bytes that follow */
		add(&s, 45, 2);
		add(&s, 45, 2);
		add(&s, 0, 4 + 4);
		add(&s, entries, 8);
		add(&s, entries, 8);
		add(&s, bytes, 8);
		add(&s, start, 8);
		add(&s, LOCATOR64, 4);
		add(&s, 0, 4);
		add(&s, end, 8);
		add(&s, 1, 4);
	}
	add(&s, DIRECTORY_END, 4);
	add(&s, 0, 2 + 2);
	add(&s, entries < UINT16_MAX ? entries : UINT16_MAX, 2);
	add(&s, entries < UINT16_MAX ? entries : UINT16_MAX, 2);
	add(&s, low32(bytes), 4);
	add(&s, low32(start), 4);
	add(&s, 0, 2);
	put_record(w, &s);
	str_release(&s);
	bytes = w->at;
	torchzip_abort(w);
	return bytes;
}
