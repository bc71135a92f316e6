/*
 * zip.c - the records of a zip archive in memory
 *
 * The central directory gives sizes and places; the local header of a record only says how
 * long it is itself, since torch's have zeroes for the sizes. Offsets are compared before they are
 * added, so that none overflows.
 */
#include "lib/ckpt/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
	END_BYTES = 22,
	LOCATOR_BYTES = 20,
	END64_BYTES = 56,
	ENTRY_BYTES = 46,
	LOCAL_BYTES = 30,
	ENCRYPTED = 1,
	ZIP64 = 1,             /* id of an extra field */
	CHECK_BYTES = 1 << 25, /* of a record, before its pages are given back */
};

#define NONE16 UINT16_MAX /* the value is in the 64-bit form */
#define NONE32 UINT32_MAX

/* State of reading. */
struct archive {
	struct zip *z;
	const unsigned char *base;
	uint64_t size;
	uint64_t directory, end; /* where the central directory begins and ends */
	uint64_t count;
	struct err *e;
};

/* A record with the bytes of the archive that it takes, local header included. */
struct extent {
	const struct zip_record *record;
	uint64_t begin, end;
};

static uint64_t
load(const unsigned char *p, int bytes)
{
	uint64_t x = 0;

	for (int i = bytes; i-- > 0;)
		x = x << 8 | p[i];
	return x;
}

/* The 32-bit fields of the end record are either the mark or equal to these. */
static int
read_end64(struct archive *a, const unsigned char *end)
{
	const unsigned char *locator = end - LOCATOR_BYTES, *p;
	uint64_t at = load(locator + 8, 8), limit = (uint64_t)(locator - a->base);

	if (limit < END64_BYTES || at != limit - END64_BYTES)
		return err_set(a->e, "the 64-bit end record of the zip is not before its locator");
	p = a->base + at;
	if (load(p, 4) != 0x06064b50 || load(p + 16, 4) != 0 || load(p + 20, 4) != 0 ||
	    load(p + 24, 8) != load(p + 32, 8))
		return err_set(a->e, "the 64-bit end record of the zip is damaged");
	a->count = load(p + 32, 8);
	a->directory = load(p + 48, 8);
	a->end = load(p + 40, 8);
	if ((load(end + 10, 2) != NONE16 && load(end + 10, 2) != a->count) ||
	    (load(end + 12, 4) != NONE32 && load(end + 12, 4) != a->end) ||
	    (load(end + 16, 4) != NONE32 && load(end + 16, 4) != a->directory))
		return err_set(a->e, "the two end records of the zip differ");
	return at < a->directory || at - a->directory != a->end
	    ? err_set(a->e, "the central directory does not reach up to the end record")
	    : 0;
}

/* The end record is the last thing of a file that nobody has added to. */
static int
read_end(struct archive *a)
{
	const unsigned char *p;
	uint64_t at;

	if (a->size < END_BYTES)
		return err_set(a->e, "%llu bytes are not a zip file", (unsigned long long)a->size);
	at = a->size - END_BYTES;
	p = a->base + at;
	if (load(p, 4) != 0x06054b50 || load(p + 20, 2) != 0)
		return err_set(a->e,
		    "not a zip file, or cut off: no end record in its last %d bytes", END_BYTES);
	if (load(p + 4, 4) != 0 || load(p + 8, 2) != load(p + 10, 2))
		return err_set(a->e, "the zip has several volumes");
	if (at >= LOCATOR_BYTES && load(p - LOCATOR_BYTES, 4) == 0x07064b50) {
		if (read_end64(a, p) < 0)
			return -1;
	} else {
		a->count = load(p + 10, 2);
		a->end = load(p + 12, 4);
		a->directory = load(p + 16, 4);
		if (a->directory > at || at - a->directory != a->end)
			return err_set(
			    a->e, "the central directory does not reach up to the end record");
	}
	if (a->count > a->end / ENTRY_BYTES)
		return err_set(a->e, "%llu records in a central directory of %llu bytes",
		    (unsigned long long)a->count, (unsigned long long)a->end);
	a->end += a->directory;
	return 0;
}

/* Replaces the fields that are marked by those of the entry's 64-bit extra field. */
static int
read_wide(struct archive *a, const unsigned char *extra, uint64_t len, uint64_t *const field[3])
{
	while (len >= 4) {
		uint64_t id = load(extra, 2), n = load(extra + 2, 2);

		if (n > len - 4)
			break;
		for (int i = 0; id == ZIP64 && i < 3; i++) {
			if (*field[i] != NONE32)
				continue;
			if (n < 8)
				return err_set(
				    a->e, "a 64-bit extra field of the zip is too short");
			*field[i] = load(extra + 4, 8);
			extra += 8;
			len -= 8;
			n -= 8;
		}
		extra += 4 + n;
		len -= 4 + n;
	}
	return 0;
}

/* Whether no part of a path leads out of its directory. */
static bool
stays_inside(const char *name)
{
	for (const char *p = name; *p; p++)
		if ((p == name || p[-1] == '/') &&
		    (*p == '/' || (p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2]))))
			return false;
	return *name;
}

/* Whether the local header says the same of a size or checksum, or nothing. */
static bool
agrees(const unsigned char *field, uint64_t value)
{
	uint64_t x = load(field, 4);

	return x == 0 || x == NONE32 || x == value;
}

/* Finds the data after the local header, which must agree with the entry as far as it says
 * anything. */
static int
read_local(struct archive *a, const unsigned char *entry, uint64_t at, struct zip_record *r)
{
	uint64_t room, head, name = load(entry + 28, 2);
	const unsigned char *p;
	bool inside = at <= a->directory && a->directory - at >= LOCAL_BYTES;

	if (!inside || load(a->base + at, 4) != 0x04034b50)
		return err_set(a->e, "record '%s' has no local header at byte %llu", r->name,
		    (unsigned long long)at);
	p = a->base + at;
	room = a->directory - at;
	head = LOCAL_BYTES + load(p + 26, 2) + load(p + 28, 2);
	if (head > room || load(p + 26, 2) != name || load(p + 8, 2) != load(entry + 10, 2) ||
	    memcmp(p + LOCAL_BYTES, entry + ENTRY_BYTES, name) != 0 || !agrees(p + 14, r->crc) ||
	    !agrees(p + 18, r->bytes) || !agrees(p + 22, r->bytes))
		return err_set(
		    a->e, "record '%s': local header and central directory differ", r->name);
	if (r->bytes > room - head)
		return err_set(a->e, "record '%s' of %llu bytes reaches past the records", r->name,
		    (unsigned long long)r->bytes);
	r->data = p + head;
	return 0;
}

/* One entry of the central directory; *at moves to the next. */
static int
read_entry(struct archive *a, uint64_t *at, struct extent *x)
{
	struct zip_record *r = &a->z->record[a->z->count];
	const unsigned char *p = a->base + *at;
	uint64_t name, extra, stored, place;

	if (a->end - *at < ENTRY_BYTES || load(p, 4) != 0x02014b50)
		return err_set(a->e, "entry %zu of the central directory is damaged", a->z->count);
	name = load(p + 28, 2);
	extra = load(p + 30, 2);
	*at += ENTRY_BYTES + name + extra + load(p + 32, 2);
	if (*at > a->end)
		return err_set(
		    a->e, "entry %zu of the central directory reaches past its end", a->z->count);
	r->name = mem_pool_strndup(&a->z->pool, (const char *)p + ENTRY_BYTES, name);
	r->crc = (uint32_t)load(p + 16, 4);
	stored = load(p + 20, 4);
	r->bytes = load(p + 24, 4);
	place = load(p + 42, 4);
	if (strlen(r->name) != name || !stays_inside(r->name))
		return err_set(a->e, "record '%s': not a valid name", r->name);
	if (read_wide(a, p + ENTRY_BYTES + name, extra,
		(uint64_t *const[]){ &r->bytes, &stored, &place }) < 0)
		return -1;
	if (load(p + 10, 2) != 0 || stored != r->bytes || load(p + 8, 2) & ENCRYPTED)
		return err_set(a->e,
		    "record '%s' is compressed or encrypted; torch stores records "
		    "as they are",
		    r->name);
	if (read_local(a, p, place, r) < 0)
		return -1;
	a->z->count++;
	a->z->sums |= r->crc != 0;
	*x = (struct extent){ r, place, (uint64_t)(r->data - a->base) + r->bytes };
	return 0;
}

static int
compare_extents(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

static int
compare_names(const void *a, const void *b)
{
	const struct zip_record *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* There is room for all records, as read_end has bounded them by the bytes of their entries. The
 * extents point to records, so they are compared before the records are sorted. */
static int
read_directory(struct archive *a, struct extent *x)
{
	struct zip_record *r = a->z->record;
	uint64_t at = a->directory;
	size_t n;

	for (uint64_t i = 0; i < a->count; i++)
		if (read_entry(a, &at, &x[i]) < 0)
			return -1;
	if (at != a->end)
		return err_set(a->e, "the central directory has more than its %llu entries",
		    (unsigned long long)a->count);
	n = a->z->count;
	qsort(x, n, sizeof *x, compare_extents);
	for (size_t i = 1; i < n; i++)
		if (x[i].begin < x[i - 1].end)
			return err_set(a->e, "records '%s' and '%s' overlap", x[i - 1].record->name,
			    x[i].record->name);
	qsort(r, n, sizeof *r, compare_names);
	for (size_t i = 1; i < n; i++)
		if (!strcmp(r[i - 1].name, r[i].name))
			return err_set(a->e, "record '%s' twice", r[i].name);
	return 0;
}

int
zip_read(struct zip *z, const void *bytes, uint64_t size, struct err *e)
{
	struct archive a = { .z = z, .base = bytes, .size = size, .e = e };
	struct extent *x;
	int rc;

	memset(z, 0, sizeof *z);
	if (read_end(&a) < 0)
		return -1;
	z->record = mem_pool_alloc(&z->pool, a.count, sizeof *z->record);
	x = mem_alloc(a.count, sizeof *x);
	rc = read_directory(&a, x);
	free(x);
	return rc;
}

void
zip_release(struct zip *z)
{
	mem_pool_release(&z->pool);
	memset(z, 0, sizeof *z);
}

struct zip_record *
zip_find(const struct zip *z, const char *name)
{
	const struct zip_record key = { .name = name };

	return z->count ? bsearch(&key, z->record, z->count, sizeof key, compare_names) : NULL;
}

int
zip_check(struct zip_record *r, const struct map *file, struct err *e)
{
	uLong crc = 0;

	if (r->checked)
		return 0;
	for (uint64_t at = 0, n; at < r->bytes; at += n) {
		n = r->bytes - at < CHECK_BYTES ? r->bytes - at : CHECK_BYTES;
		crc = crc32_z(crc, r->data + at, n);
		if (file)
			map_forget(file);
	}
	r->checked = crc == r->crc;
	if (r->checked)
		return 0;
	return err_set(e, "record '%s' does not match its CRC-32", r->name);
}
