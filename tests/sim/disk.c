/* disk.c - files and directories in memory, and what is left of them after a loss of power */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>

static struct node *all_nodes;
static int num_nodes;
static long num_calls;

struct node *
node_new(bool dir)
{
	struct node *n = mem_zalloc(1, sizeof *n);

	n->number = ++num_nodes;
	n->dir = dir;
	n->modified = sim.realtime + sim.now;
	n->next = all_nodes;
	all_nodes = n;
	return n;
}

long
disk_call(void)
{
	return ++num_calls;
}

/* --- names ------------------------------------------------------------------------------------ */

/* The place of a name, or where it would be. */
static size_t
place(const struct names *n, const char *name)
{
	size_t low = 0, high = n->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(n->entry[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct node *
names_find(const struct names *n, const char *name)
{
	size_t i = place(n, name);

	return i < n->count && !strcmp(n->entry[i].name, name) ? n->entry[i].node : NULL;
}

static void
names_set(struct names *n, const char *name, struct node *node)
{
	size_t i = place(n, name);
	bool there = i < n->count && !strcmp(n->entry[i].name, name);

	if (there && node) {
		n->entry[i].node = node;
	} else if (there) {
		memmove(&n->entry[i], &n->entry[i + 1], (--n->count - i) * sizeof *n->entry);
	} else if (node) {
		if (n->count == n->cap) {
			n->cap = 2 * n->cap + 8;
			n->entry = mem_realloc(n->entry, n->cap, sizeof *n->entry);
		}
		memmove(&n->entry[i + 1], &n->entry[i], (n->count++ - i) * sizeof *n->entry);
		memcpy(n->entry[i].name, name, strlen(name) + 1);
		n->entry[i].node = node;
	}
}

static void
names_copy(struct names *to, const struct names *from)
{
	if (to->cap < from->count) {
		to->cap = from->cap;
		to->entry = mem_realloc(to->entry, to->cap, sizeof *to->entry);
	}
	to->count = from->count;
	if (from->count)
		memcpy(to->entry, from->entry, from->count * sizeof *to->entry);
}

/* Of any length, to free(). */
static char *
copy_of(const void *bytes, size_t n)
{
	char *p = mem_alloc(n + 1, 1);

	if (n)
		memcpy(p, bytes, n);
	return p;
}

/* --- changes ---------------------------------------------------------------------------------- */

static void
add_change(struct node *n, const struct change *c)
{
	if (n->num_changes == n->cap_changes) {
		n->cap_changes = 2 * n->cap_changes + 8;
		n->change = mem_realloc(n->change, n->cap_changes, sizeof *n->change);
	}
	n->change[n->num_changes++] = *c;
	n->modified = sim.realtime + sim.now;
}

void
node_name(struct node *dir, const char *name, struct node *node, long number)
{
	struct node *before = names_find(&dir->names, name);

	if (before)
		before->links--;
	if (node)
		node->links++;
	names_set(&dir->names, name, node);
	add_change(
	    dir, &(struct change){ .number = number, .name = mem_strdup(name), .node = node });
}

/* New bytes are zeroes. */
static void
resize(char **bytes, size_t *len, size_t *cap, size_t size)
{
	if (size > *cap) {
		*cap = 2 * size + 64;
		*bytes = mem_realloc(*bytes, *cap, 1);
	}
	if (size > *len)
		memset(*bytes + *len, 0, size - *len);
	*len = size;
}

void
node_write(struct node *n, size_t at, const void *bytes, size_t len)
{
	if (at + len > n->len)
		resize(&n->bytes, &n->len, &n->cap, at + len);
	if (len)
		memcpy(n->bytes + at, bytes, len);
	add_change(n,
	    &(struct change){
		.number = disk_call(), .offset = at, .len = len, .bytes = copy_of(bytes, len) });
}

void
node_truncate(struct node *n, size_t len)
{
	resize(&n->bytes, &n->len, &n->cap, len);
	add_change(n, &(struct change){ .number = disk_call(), .len = len });
}

static void
forget_changes(struct node *n)
{
	for (size_t i = 0; i < n->num_changes; i++) {
		free(n->change[i].bytes);
		free(n->change[i].name);
	}
	n->num_changes = 0;
}

void
node_sync(struct node *n, bool reached)
{
	if (reached && n->dir) {
		names_copy(&n->durable_names, &n->names);
	} else if (reached && n->num_changes) {
		free(n->durable);
		n->durable = copy_of(n->bytes, n->len);
		n->durable_len = n->len;
	}
	forget_changes(n);
}

/* --- loss of power ---------------------------------------------------------------------------- */

/* Whether a change, or a sector of it, is on the disk. Both names of a rename have one fate. */
static bool
kept(enum loss how, long number, long cut, size_t sector, size_t cut_sector)
{
	const long what[] = { number, (long)sector, cut };

	switch (how) {
	case LOSS_NONE: return true;
	case LOSS_PREFIX: return number < cut || (number == cut && sector < cut_sector);
	case LOSS_BUT_LAST: return number == cut;
	case LOSS_ANY: return hash_bytes(sim.seed, what, sizeof what) >> 17 & 1;
	default: return false;
	}
}

static void
lose_names(struct node *dir, enum loss how, long cut)
{
	names_copy(&dir->names, &dir->durable_names);
	for (size_t i = 0; i < dir->num_changes; i++) {
		const struct change *c = &dir->change[i];

		if (kept(how, c->number, cut, 0, 0))
			names_set(&dir->names, c->name, c->node);
	}
	names_copy(&dir->durable_names, &dir->names);
}

/* A size is kept with the first sector, so that lost sectors of a longer file are zeroes. */
static void
lose_bytes(struct node *n, enum loss how, long cut, size_t cut_sector)
{
	n->len = 0;
	resize(&n->bytes, &n->len, &n->cap, n->durable_len);
	if (n->durable_len)
		memcpy(n->bytes, n->durable, n->durable_len);
	for (size_t i = 0; i < n->num_changes; i++) {
		const struct change *c = &n->change[i];

		if (!c->bytes) {
			if (kept(how, c->number, cut, 0, 0))
				resize(&n->bytes, &n->len, &n->cap, c->len);
			continue;
		}
		for (size_t at = 0; at < c->len; at += SECTOR) {
			size_t len = c->len - at < SECTOR ? c->len - at : SECTOR;

			if (!kept(how, c->number, cut, at / SECTOR, cut_sector))
				continue;
			if (c->offset + at + len > n->len)
				resize(&n->bytes, &n->len, &n->cap, c->offset + at + len);
			memcpy(n->bytes + c->offset + at, c->bytes + at, len);
		}
	}
	free(n->durable);
	n->durable = copy_of(n->bytes, n->len);
	n->durable_len = n->len;
}

/* All nodes but those of a memory file system, whose roots have lost everything before. */
void
disk_lose_power(struct node *root, enum loss how)
{
	long first = num_calls, last = 0, cut;
	size_t cut_sector = draw(8);

	(void)root;
	for (struct node *n = all_nodes; n; n = n->next)
		for (size_t i = 0; i < n->num_changes; i++) {
			long number = n->change[i].number;

			first = number < first ? number : first;
			last = number > last ? number : last;
		}
	cut = first + (long)draw((uint64_t)(num_calls - first) + 2);
	if (how == LOSS_BUT_LAST)
		cut = last;
	log_event("power", NULL, how, cut);
	for (struct node *n = all_nodes; n; n = n->next) {
		if (n->dir)
			lose_names(n, how, cut);
		else
			lose_bytes(n, how, cut, cut_sector);
		n->flock = NULL;
		forget_changes(n);
	}
}

/* --- for the scene ---------------------------------------------------------------------------- */

struct node *
disk_find(struct node *root, const char *path)
{
	struct node *n = root;
	char name[NAME_SIZE];

	while (n && *path) {
		size_t len = strcspn(path, "/");

		if (len) {
			memcpy(name, path, len);
			name[len] = '\0';
			n = n->dir ? names_find(&n->names, name) : NULL;
		}
		path += len + (path[len] == '/');
	}
	return n;
}

struct node *
disk_put(struct node *root, const char *path, const char *bytes, size_t len)
{
	struct node *n = root;
	char name[NAME_SIZE];

	while (*path) {
		size_t k = strcspn(path, "/");
		bool last = !path[k];
		struct node *next;

		memcpy(name, path, k);
		name[k] = '\0';
		path += k + !last;
		if (!k)
			continue;
		next = names_find(&n->names, name);
		if (!next) {
			next = node_new(!last || !bytes);
			node_name(n, name, next, disk_call());
			node_sync(n, true);
		}
		n = next;
	}
	if (bytes) {
		node_truncate(n, 0);
		node_write(n, 0, bytes, len);
		node_sync(n, true);
	}
	return n;
}

int
disk_export(const struct node *n, const char *dir, struct err *e)
{
	int rc = io_mkdir_p(dir, e);

	for (size_t i = 0; rc == 0 && i < n->names.count; i++) {
		const struct entry *x = &n->names.entry[i];
		struct str path = { 0 };

		str_addf(&path, "%s/%s", dir, x->name);
		rc = x->node->dir ? disk_export(x->node, path.buf, e)
				  : outfile_write(path.buf, x->node->bytes, x->node->len, e);
		str_release(&path);
	}
	return rc;
}
