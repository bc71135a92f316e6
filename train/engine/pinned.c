/* pinned.c - host memory that is copied to and from the device */
#include "train/engine/pinned.h"

#include <sys/mman.h>

/* A part of the array, or what is left of it. */
static size_t
part_at(size_t bytes, size_t at, size_t part)
{
	return bytes - at < part ? bytes - at : part;
}

/* Touched before it is pinned, which is faster. */
void *
pinned_alloc(const struct engine *e, size_t bytes, size_t part)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_HUGEPAGE);
	for (size_t at = 0; at < bytes; at += part) {
		memset(p + at, 0, part_at(bytes, at, part));
		if (e->backend->pin)
			e->backend->pin(e->device, p + at, part_at(bytes, at, part));
	}
	return p;
}

void
pinned_free(const struct engine *e, void *p, size_t bytes, size_t part)
{
	if (!p)
		return;
	for (size_t at = 0; e->backend->unpin && at < bytes; at += part)
		e->backend->unpin(e->device, (char *)p + at);
	munmap(p, bytes);
}
