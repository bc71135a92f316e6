/* disk.c - a model of a file system that forgets what was not synced */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/faults/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A change of a file or of a directory. Those of one call share its number and its fate. */
struct change {
	int number;
	/* of a file: bytes NULL for a new size */
	long long offset;
	const char *bytes;
	size_t len;
	/* of a directory: the name stands for the node, or for none */
	const char *name;
	struct node *node;
};

struct node {
	bool is_dir;
	int synced, count, cap; /* the changes below `synced` are on the disk for good */
	struct change *change;  /* all of them, in order */
	struct node *next;      /* of all nodes */
};

struct disk {
	struct node *root, *all;
	int number; /* of the call */
	struct mem_pool names;
};

/* The random choices of a crash. */
struct crash {
	int keep;
	uint64_t seed;
};

static struct node *
node_new(struct disk *d, bool is_dir)
{
	struct node *n = mem_zalloc(1, sizeof *n);

	n->is_dir = is_dir;
	n->next = d->all;
	d->all = n;
	return n;
}

struct disk *
disk_new(void)
{
	struct disk *d = mem_zalloc(1, sizeof *d);

	d->root = node_new(d, true);
	return d;
}

void
disk_free(struct disk *d)
{
	for (struct node *n = d->all, *next; n; n = next) {
		next = n->next;
		free(n->change);
		free(n);
	}
	mem_pool_release(&d->names);
	free(d);
}

static void
add_change(struct node *n, const struct change *c)
{
	if (n->count == n->cap) {
		n->cap = n->cap ? 2 * n->cap : 16;
		n->change = mem_realloc(n->change, (size_t)n->cap, sizeof *n->change);
	}
	n->change[n->count++] = *c;
}

/* What the name stands for now, as the programs see it. */
static struct node *
look_up(const struct node *dir, const char *name)
{
	for (int i = dir->count - 1; i >= 0; i--)
		if (!strcmp(dir->change[i].name, name))
			return dir->change[i].node;
	return NULL;
}

/* The directory of a path, and the path's last name, which the pool keeps. NULL when there is
 * none. */
static struct node *
find_parent(struct disk *d, const char *path, const char **name)
{
	struct node *n = d->root;
	const char *slash;

	for (; n && n->is_dir && (slash = strchr(path, '/')); path = slash + 1) {
		char part[256];

		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		n = look_up(n, part);
	}
	*name = mem_pool_strndup(&d->names, path, strlen(path));
	return n && n->is_dir ? n : NULL;
}

static struct node *
find(struct disk *d, const char *path)
{
	const char *name;
	struct node *dir = !strcmp(path, ".") ? NULL : find_parent(d, path, &name);

	return !strcmp(path, ".") ? d->root : dir ? look_up(dir, name) : NULL;
}

/* --- calls ----------------------------------------------------------------------------------- */

/* Lets a path stand for a node. */
static int
set_name(struct disk *d, const char *path, struct node *node, struct err *e)
{
	const char *name;
	struct node *dir = find_parent(d, path, &name);

	if (!dir)
		return err_set(e, "'%s' is in no directory of the log", path);
	add_change(dir, &(struct change){ .number = d->number, .name = name, .node = node });
	return 0;
}

/* Opening makes a file, or empties it; otherwise it changes nothing. What was there before the log
 * began is not known, so only what it made can be written. */
static int
take_open(struct disk *d, const struct oplog_record *r, struct err *e)
{
	struct node *n = find(d, r->path);

	if (!(r->argument & O_CREAT) && !(r->argument & O_TRUNC))
		return 0;
	if (!n)
		return set_name(d, r->path, node_new(d, false), e);
	if (r->argument & O_TRUNC)
		add_change(n, &(struct change){ .number = d->number });
	return 0;
}

static int
take_rename(struct disk *d, const struct oplog_record *r, struct err *e)
{
	struct node *a = find(d, r->path), *b = find(d, r->path2);

	if (!a)
		return err_set(e, "'%s' is renamed and not there", r->path);
	if (set_name(d, r->path2, a, e) < 0)
		return -1;
	return set_name(d, r->path, r->argument == RENAME_EXCHANGE ? b : NULL, e);
}

/* Calls on a file that exists. */
static int
take_file(struct disk *d, const struct oplog_record *r, struct err *e)
{
	struct node *n = find(d, r->path);

	if (!n)
		return err_set(e, "%s of '%s', which is not there", call_names[r->call], r->path);
	if (r->call == CALL_FSYNC)
		n->synced = n->count;
	else if (r->call == CALL_LINK)
		return set_name(d, r->path2, n, e);
	else if (r->call == CALL_UNLINK)
		return set_name(d, r->path, NULL, e);
	else
		add_change(n,
		    &(struct change){ .number = d->number,
			.offset = r->argument,
			.bytes = r->call == CALL_WRITE ? r->bytes : NULL,
			.len = r->len });
	return 0;
}

int
disk_take(struct disk *d, const struct oplog_record *r, struct err *e)
{
	int rc;

	d->number++;
	switch (r->call) {
	case CALL_OPEN: rc = take_open(d, r, e); break;
	case CALL_MKDIR: rc = set_name(d, r->path, node_new(d, true), e); break;
	case CALL_RENAME: rc = take_rename(d, r, e); break;
	case CALL_WRITE:
	case CALL_TRUNCATE:
	case CALL_FSYNC:
	case CALL_LINK:
	case CALL_UNLINK: rc = take_file(d, r, e); break;
	default: return 0;
	}
	return rc < 0 ? -1 : 1;
}

/* --- a crash --------------------------------------------------------------------------------- */

enum fate { LOST, KEPT, ZEROED };

/* A call's fate is the same wherever it left a change. */
static enum fate
fate(const struct crash *c, const struct node *n, int i)
{
	const uint32_t counter[4] = { (uint32_t)n->change[i].number, 0, 0, 0 };
	uint32_t word[4];

	if (i < n->synced || c->keep == DISK_LOSSES - 1)
		return KEPT;
	rng_philox(c->seed, counter, word);
	if (c->keep == 0 || (int)(word[0] % (DISK_LOSSES - 1)) >= c->keep)
		return LOST;
	return word[1] % 4 == 0 ? ZEROED : KEPT;
}

/* Room for what a change reaches; new bytes are zeroes. */
static void
grow(char **bytes, size_t *len, size_t size)
{
	if (size <= *len)
		return;
	*bytes = mem_realloc(*bytes, size, 1);
	memset(*bytes + *len, 0, size - *len);
	*len = size;
}

/* The bytes of a file after the crash. */
static int
crash_file(const struct crash *c, const struct node *n, const char *path, struct err *e)
{
	char *bytes = NULL;
	size_t len = 0;
	FILE *f = fopen(path, "w");
	int rc;

	for (int i = 0; i < n->count; i++) {
		const struct change *x = &n->change[i];
		enum fate what = fate(c, n, i);

		if (what == LOST)
			continue;
		grow(&bytes, &len, (size_t)x->offset + x->len);
		if (!x->bytes)
			len = (size_t)x->offset;
		else if (what == KEPT)
			memcpy(bytes + x->offset, x->bytes, x->len);
	}
	rc = f && fwrite(bytes ? bytes : "", 1, len, f) == len ? 0 : -1;
	if (f && fclose(f) != 0)
		rc = -1;
	free(bytes);
	return rc < 0 ? err_sys(e, "write", path) : 0;
}

/* The last change of the name that the crash left, or NULL when another change of this name comes
 * first in the list. */
static const struct node *
left_of(const struct crash *c, const struct node *dir, int i)
{
	const struct node *node = NULL;

	for (int k = 0; k < dir->count; k++) {
		if (strcmp(dir->change[k].name, dir->change[i].name))
			continue;
		if (k < i)
			return NULL;
		if (fate(c, dir, k) != LOST)
			node = dir->change[k].node;
	}
	return node;
}

static int
crash_dir(const struct crash *c, const struct node *dir, const char *path, struct err *e)
{
	for (int i = 0; i < dir->count; i++) {
		const struct node *n = left_of(c, dir, i);
		char sub[PATH_MAX];
		int rc;

		if (!n)
			continue;
		snprintf(sub, sizeof sub, "%s/%s", path, dir->change[i].name);
		if (n->is_dir)
			rc = mkdir(sub, 0777) < 0 ? err_sys(e, "create directory", sub)
						  : crash_dir(c, n, sub, e);
		else
			rc = crash_file(c, n, sub, e);
		if (rc < 0)
			return -1;
	}
	return 0;
}

int
disk_crash(const struct disk *d, int keep, uint64_t seed, const char *dir, struct err *e)
{
	return crash_dir(&(struct crash){ keep, seed }, d->root, dir, e);
}
