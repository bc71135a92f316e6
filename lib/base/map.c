/*
 * map.c - read-only memory-mapped files
 *
 * Corpora and checkpoints are larger than memory; mapped, they cost address space only, and the
 * page cache is shared by all ranks of a node. The price is that a file cut short by somebody else
 * while it is mapped ends the program with SIGBUS.
 */
#include "lib/base/map.h"
#include "lib/base/io.h"

#include <sys/mman.h>
#include <unistd.h>

/*
 * An empty file gives base NULL and size 0, because mmap refuses a length of 0. The
 * descriptor is closed at once; the mapping does not need it.
 */
int
map_open(struct map *m, const char *path, struct err *e)
{
	int fd = io_open_regular(path, &m->size, e);
	void *p;

	m->base = NULL;
	if (fd < 0) {
		m->size = 0;
		return -1;
	}
	if (m->size > 0) {
		p = mmap(NULL, (size_t)m->size, PROT_READ, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			err_sys(e, "map", path);
			close(fd);
			m->size = 0;
			return -1;
		}
		m->base = p;
	}
	close(fd);
	return 0;
}

/* Read-only pages of a file lose nothing by it. */
void
map_forget(const struct map *m)
{
	if (m->base)
		madvise((void *)(uintptr_t)m->base, m->size, MADV_DONTNEED);
}

/* Whole pages; advice alone, so what the kernel answers does not matter. */
void
map_will_need(const struct map *m, uint64_t at, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = at / page * page;

	if (m->base)
		(void)madvise((void *)(uintptr_t)(m->base + from), (size_t)(at - from + bytes), MADV_WILLNEED);
}

/*
 * A struct that was never opened, or is closed already, is fine: openers call this on their error
 * paths. Pointers into the file are dead afterwards.
 */
void
map_close(struct map *m)
{
	if (m->base)
		munmap((void *)(uintptr_t)m->base, m->size);
	m->base = NULL;
	m->size = 0;
}
