/*
 * zip.h - a zip archive of stored records, as torch.save writes it
 *
 * Reading checks the whole frame: the end record and its 64-bit form, every entry of the central
 * directory, the local header of each, that names are unique and stay inside the archive, and that
 * no two records share bytes. Compressed records are refused. Source: PKWARE APPNOTE.TXT 6.3.10,
 * sections 4.3 and 4.5; miniz, which torch writes with.
 */
#ifndef CKPT_ZIP_H
#define CKPT_ZIP_H

#include "lib/base/err.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <stdbool.h>

struct zip_record {
	const char *name;
	const unsigned char *data; /* borrowed from the archive; not aligned */
	uint64_t bytes;
	uint32_t crc;
	bool checked; /* zip_check has compared it */
};

struct zip {
	struct mem_pool pool;
	size_t count;
	bool sums; /* some record has a CRC-32 other than 0: torch can be told to write none */
	struct zip_record *record; /* sorted by name */
};

/* bytes: the whole archive, which is borrowed until zip_release. Released in every case. */
int zip_read(struct zip *z, const void *bytes, uint64_t size, struct err *e);
void zip_release(struct zip *z);
struct zip_record *zip_find(const struct zip *z, const char *name); /* or NULL */
/* Compares a record with its CRC-32, once, which reads all of it. file: the map that the record
 * lies in, whose pages are given back on the way, or NULL. */
int zip_check(struct zip_record *r, const struct map *file, struct err *e);

#endif
