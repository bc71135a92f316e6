/*
 * map.c - read-only memory-mapped files
 *
 * Corpora and checkpoints are larger than memory; mapped, they cost address space only, and the
 * page cache is shared by all ranks of a node. The price: a file that another program truncates
 * while it is mapped ends this one with SIGBUS, whose handler asks here which file it was.
 */
#include "lib/base/io.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Linux maps at once what lies in one large page of the file cache, or in fault_around_bytes. */
enum { FEW_BYTES = 16 << 10, AROUND_BYTES = 2 << 20 };

/* Maps that are open. A handler walks the list while other threads open and close maps, so entries
 * are never freed, only reused; the entry that a handler reads belongs to a map that its thread is
 * using. */
struct map_entry {
	_Atomic(const unsigned char *) base; /* NULL: a free entry */
	uint64_t size;
	char *path;
	dev_t device; /* the file's, as the next two */
	ino_t inode;
	struct timespec modified;
	struct map_entry *next, *next_unused;
};
static _Atomic(struct map_entry *) entries;
static struct map_entry *unused;
static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;

static struct map_entry *
entry_add(const struct map *m, const char *path, const struct stat *st)
{
	struct map_entry *x;

	pthread_mutex_lock(&entries_lock);
	x = unused;
	if (x) {
		unused = x->next_unused;
	} else {
		x = mem_zalloc(1, sizeof *x);
		x->next = atomic_load(&entries);
		atomic_store(&entries, x);
	}
	x->size = m->size;
	x->path = mem_strdup(path);
	x->device = st->st_dev;
	x->inode = st->st_ino;
	x->modified = st->st_mtim;
	atomic_store(&x->base, m->base);
	pthread_mutex_unlock(&entries_lock);
	return x;
}

static void
entry_remove(struct map_entry *x)
{
	pthread_mutex_lock(&entries_lock);
	atomic_store(&x->base, NULL);
	free(x->path);
	x->path = NULL;
	x->next_unused = unused;
	unused = x;
	pthread_mutex_unlock(&entries_lock);
}

/* The entry of the map that an address lies in, or NULL. */
static const struct map_entry *
entry_of(const void *address)
{
	uintptr_t at = (uintptr_t)address;

	for (struct map_entry *x = atomic_load(&entries); x; x = x->next) {
		uintptr_t base = (uintptr_t)atomic_load(&x->base);

		if (base && at >= base && at - base < x->size)
			return x;
	}
	return NULL;
}

const char *
map_file(const void *address)
{
	const struct map_entry *x = entry_of(address);

	return x ? x->path : NULL;
}

/* The change of one file, if any. A file of the same size and time in its place is taken for a
 * copy: some file systems give the same file another number after a while. */
static void
add_change(const struct map_entry *x, struct str *out)
{
	struct stat st;

	if (stat(x->path, &st) < 0) {
		str_addf(out, "%s: cannot be seen any more (%s): this run reads on in it\n",
		    x->path, strerror(errno));
		return;
	}
	if ((uint64_t)st.st_size == x->size && st.st_mtim.tv_sec == x->modified.tv_sec &&
	    st.st_mtim.tv_nsec == x->modified.tv_nsec)
		return;
	if (st.st_dev != x->device || st.st_ino != x->inode)
		str_addf(out,
		    "%s: was replaced while it was open: this run reads on in the old file, and "
		    "another would read the new one\n",
		    x->path);
	else if ((uint64_t)st.st_size < x->size)
		str_addf(out,
		    "%s: was cut while it was open, from %llu bytes to %llu: what is read after "
		    "them is zeros, or ends the run\n",
		    x->path, (unsigned long long)x->size, (unsigned long long)st.st_size);
	else
		str_addf(out, "%s: was written to while it was open\n", x->path);
}

/* Other threads wait to open or close a map meanwhile. */
void
map_changes(struct str *out)
{
	pthread_mutex_lock(&entries_lock);
	for (const struct map_entry *x = atomic_load(&entries); x; x = x->next)
		if (atomic_load(&x->base))
			add_change(x, out);
	pthread_mutex_unlock(&entries_lock);
}

/*
 * An empty file gives base NULL and size 0, because mmap refuses a length of 0.
 */
int
map_open(struct map *m, const char *path, struct err *e)
{
	struct stat st;
	int fd = io_open_regular(path, &st, e);
	void *p;

	*m = (struct map){ 0 };
	if (fd < 0)
		return -1;
	m->size = (uint64_t)st.st_size;
	m->modified = st.st_mtim;
	if (m->size > 0) {
		p = mmap(NULL, (size_t)m->size, PROT_READ, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			err_sys(e, "map", path);
			close(fd);
			m->size = 0;
			return -1;
		}
		m->base = p;
		m->entry = entry_add(m, path, &st);
	}
	close(fd);
	return 0;
}

/* Whole pages, the first and the last included: it is only advice, and no bytes are lost. */
static void
advise(const void *first, uint64_t bytes, int advice)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)first / page * page;

	if (bytes)
		(void)madvise((void *)from, (size_t)((uintptr_t)first - from + bytes), advice);
}

/* Read-only pages of a file hold nothing that would be lost. */
void
map_forget_part(const void *first, uint64_t bytes)
{
	if (bytes > FEW_BYTES)
		advise(first, bytes, MADV_DONTNEED);
}

void
map_forget_read(const struct map *m, const void *first, uint64_t bytes)
{
	uint64_t offset = (uint64_t)((const unsigned char *)first - (const unsigned char *)m->base),
		 before = offset < AROUND_BYTES ? offset : AROUND_BYTES;

	map_forget_part((const unsigned char *)first - before, bytes + before);
}

void
map_small_pages(const struct map *m)
{
	advise(m->base, m->size, MADV_NOHUGEPAGE);
}

/* Forgets the whole pages between two places. */
static void
forget_between(const unsigned char *from, const unsigned char *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
		  first = ((uintptr_t)from + page - 1) / page * page,
		  end = (uintptr_t)to / page * page;

	if (first < end)
		advise((const void *)first, end - first, MADV_DONTNEED);
}

void
map_keep(const void *first, uint64_t bytes, const void *keep, uint64_t kept)
{
	const struct map_entry *x = entry_of(first);
	const unsigned char *base = x->base, *from = first, *at = keep, *to = from + bytes,
			    *end = base + x->size;

	advise(keep, kept, MADV_POPULATE_READ);
	forget_between(from - base < AROUND_BYTES ? base : from - AROUND_BYTES, at);
	forget_between(at + kept, end - to < AROUND_BYTES ? end : to + AROUND_BYTES);
}

void
map_forget(const struct map *m)
{
	map_forget_part(m->base, m->size);
}

void
map_will_need(const void *first, uint64_t bytes)
{
	advise(first, bytes, MADV_WILLNEED);
}

/*
 * A struct that was never opened, or is already closed, is allowed: callers close it on their error
 * paths. Pointers into the file are invalid afterwards.
 */
void
map_close(struct map *m)
{
	if (m->base) {
		entry_remove(m->entry);
		munmap((void *)(uintptr_t)m->base, m->size);
	}
	m->base = NULL;
	m->size = 0;
}
