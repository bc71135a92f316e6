/*
 * map.h - read-only memory-mapped files
 *
 * base is NULL for an empty file. The bytes belong to the map and live until map_close. Nothing
 * about alignment is promised for what lies inside: load with memcpy.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdint.h>
#include <time.h>

struct map {
	const unsigned char *base;
	uint64_t size;
	struct timespec modified; /* the file, when it was opened */
	struct map_entry *entry;  /* in the list of open maps */
};

int map_open(struct map *m, const char *path, struct err *e);
/* Returns the pages to the file cache; touching one brings it back. For passes over large files,
 * whose pages would otherwise count as this process's memory; those of small files stay, of which a
 * blend has thousands. */
void map_forget(const struct map *m);
/* Of bytes that lie inside one map: they will be read soon; they have been read, as map_forget. */
void map_will_need(const void *first, uint64_t bytes);
void map_forget_part(const void *first, uint64_t bytes);
/* The same of a range of a map, and of the pages before it: where one page is read the system maps
 * those around it, too, also of a part that was forgotten. */
void map_forget_read(const struct map *m, const void *first, uint64_t bytes);
/* Has the file mapped in pages of the usual size alone, so that any of them can be forgotten. */
void map_small_pages(const struct map *m);
/* Of bytes that lie inside one map, and of the pages before and after them: forgets all but a part
 * that is kept, of which all pages are mapped first, so that reading them maps no others. */
void map_keep(const void *first, uint64_t bytes, const void *keep, uint64_t kept);
void map_close(struct map *m);
/* The path of the open map that the address lies in, or NULL. For handlers of SIGBUS, the signal
 * for a mapped page that is lost: safe in a handler, in the thread that touched the page. */
const char *map_file(const void *address);
/* Appends a line for each open map whose file is not as it was when it was opened: one that was cut
 * gives zeros after its new end, on the last page, and one that was written to other bytes. */
void map_changes(struct str *out);

#endif
