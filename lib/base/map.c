/*
 * map.c - read-only memory-mapped files
 *
 * Corpora and checkpoints are larger than memory; mapped, they cost address space only, and the
 * page cache is shared by all ranks of a node. The price is that a file cut short by somebody else
 * while it is mapped ends the program with SIGBUS.
 */
#include "lib/base/map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * An empty file gives base NULL and size 0, because mmap refuses a length of 0. Directories and
 * pipes are refused: their size says nothing. The descriptor is closed at once; the mapping does
 * not need it.
 */
int
map_open(struct map *m, const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	m->base = NULL;
	m->size = 0;
	if (fd < 0)
		return err_sys(e, "open", path);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return err_sys(e, "look at", path);
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(e, "cannot open '%s': not a regular file", path);
	}
	if (st.st_size > 0) {
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			err_sys(e, "map", path);
			close(fd);
			return -1;
		}
		m->base = p;
		m->size = (uint64_t)st.st_size;
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
