/*
 * map_cache.c - the keys of index maps: read once for each directory, written once for each
 *
 * Keys are compared as text and never parsed: a damaged line, or one of another version, belongs to
 * no key.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/data/map_cache.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 256 << 20 };

static const char first_line[] = "mikoshi_keys 1\n", suffix[] = "-keys.txt";

/* Lines of keys, without their newlines. */
struct key_lines {
	struct str text;
	char **line; /* [count], sorted, into text */
	size_t count;
};

struct key_dir {
	char *path;
	bool read;
	struct key_lines found;
	struct str added; /* the lines of this run's maps, with their newlines */
};

struct map_cache {
	struct file_set *files; /* the maps */
	pthread_mutex_t lock;   /* guards what follows */
	struct key_dir **dir;   /* [count], by path */
	int count, cap;
};

struct map_cache *
map_cache_new(void)
{
	struct map_cache *c = mem_zalloc(1, sizeof *c);

	c->files = file_set_new();
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

struct file_set *
map_cache_files(struct map_cache *c)
{
	return c->files;
}

static void
key_lines_release(struct key_lines *l)
{
	str_release(&l->text);
	free(l->line);
}

void
map_cache_abort(struct map_cache *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->count; i++) {
		key_lines_release(&c->dir[i]->found);
		str_release(&c->dir[i]->added);
		free(c->dir[i]->path);
		free(c->dir[i]);
	}
	free(c->dir);
	file_set_abort(c->files);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* The directory of that path, which is added when it is new: without --data-cache-path each corpus
 * has its own. Called with the lock. */
static struct key_dir *
find_dir(struct map_cache *c, const char *path)
{
	int low = 0, high = c->count;

	while (low < high) {
		int middle = low + (high - low) / 2, order = strcmp(c->dir[middle]->path, path);

		if (order == 0)
			return c->dir[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (c->count == c->cap)
		c->dir = mem_realloc(c->dir, (size_t)(c->cap = 2 * c->cap + 4), sizeof *c->dir);
	memmove(c->dir + low + 1, c->dir + low, (size_t)(c->count - low) * sizeof *c->dir);
	c->count++;
	c->dir[low] = mem_zalloc(1, sizeof **c->dir);
	c->dir[low]->path = mem_strdup(path);
	return c->dir[low];
}

static int
compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Cuts the text into its lines, each of which ends with a newline, and sorts them. */
static void
sort_lines(struct key_lines *l)
{
	size_t cap = 0;
	char *newline;

	for (char *p = l->text.buf; p && (newline = strchr(p, '\n')); p = newline + 1) {
		*newline = '\0';
		if (l->count == cap)
			l->line = mem_realloc(l->line, cap = 2 * cap + 64, sizeof *l->line);
		l->line[l->count++] = p;
	}
	if (l->count)
		qsort(l->line, l->count, sizeof *l->line, compare_lines);
}

/* Appends the lines of one file of keys; a file of another kind has none. */
static void
read_keys(const char *dir, const char *name, struct str *out)
{
	size_t head = strlen(first_line), len;
	struct str path = { 0 };
	char *text;

	str_addf(&path, "%s/%s", dir, name);
	if (io_read_regular(path.buf, KEYS_MAX, &text, &len, NULL) == 0) {
		if (len > head && !memcmp(text, first_line, head) && !memchr(text, '\0', len))
			str_add(out, text + head, len - head);
		if (out->len && out->buf[out->len - 1] != '\n')
			str_addc(out, '\n');
		free(text);
	}
	str_release(&path);
}

/* The keys of a directory at their first use, from all files of keys. */
static const struct key_lines *
keys_of(struct map_cache *c, const char *path)
{
	const struct dirent *entry;
	struct key_dir *d;
	DIR *list;

	pthread_mutex_lock(&c->lock);
	d = find_dir(c, path);
	list = d->read ? NULL : opendir(path);
	while (list && (entry = readdir(list))) {
		size_t len = strlen(entry->d_name);

		if (len == 32 + strlen(suffix) && !strcmp(entry->d_name + 32, suffix))
			read_keys(path, entry->d_name, &d->found.text);
	}
	if (list) {
		closedir(list);
		sort_lines(&d->found);
	}
	d->read = true;
	pthread_mutex_unlock(&c->lock);
	return &d->found;
}

/* For bsearch: a line is equal to a name when it begins with it. */
static int
compare_name(const void *name, const void *line)
{
	return strncmp(name, *(char *const *)line, strlen(name));
}

static bool
begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool
ends(const char *text, const char *with)
{
	size_t len = strlen(text), want = strlen(with);

	return len >= want && !strcmp(text + len - want, with);
}

/* The first line of a set, whose name has a blank at its end; NULL when there is none. */
static char **
first_of(const struct key_lines *l, const char *name)
{
	char **line = NULL;

	if (l->count)
		line = bsearch(name, l->line, l->count, sizeof *l->line, compare_name);
	while (line && line > l->line && compare_name(name, line - 1) == 0)
		line--;
	return line;
}

/* Files that have the sums of a key are the maps of that key. Those of the present data with other
 * options are others', whatever else is known of the name; those of other data are nobody's. Files
 * of no key's sums, where there is a key of what is wanted here, are the damaged ones of that
 * key. */
enum key_verdict
map_cache_verdict(struct map_cache *c, const char *dir, const struct map_key *key, const char *sums)
{
	const struct key_lines *l = keys_of(c, dir);
	char **line, **end = l->line + l->count;
	bool fits = false, others = false, ours = false;
	struct str name = { 0 };

	str_addf(&name, "%s ", key->set);
	line = first_of(l, name.buf);
	for (; line && line < end && compare_name(name.buf, line) == 0; line++) {
		const char *data = *line + name.len - 1;
		bool same = ends(data, sums), of_data = begins(data, key->data),
		     of_options = of_data && begins(data + strlen(key->data), key->options);

		fits |= same && of_options;
		others |= same && of_data;
		ours |= same || of_options;
	}
	str_release(&name);
	return fits ? KEY_FITS : ours && !others ? KEY_STALE : KEY_NONE;
}

void
map_cache_add(struct map_cache *c, const char *dir, const struct map_key *key, const char *sums)
{
	pthread_mutex_lock(&c->lock);
	str_addf(&find_dir(c, dir)->added, "%s%s%s%s\n", key->set, key->data, key->options, sums);
	pthread_mutex_unlock(&c->lock);
}

/* Adds the file of a directory's new keys. Threads add them in any order: sorted, the same maps
 * have the same file. */
static int
write_keys(struct key_dir *d, struct file_set *set, struct err *e)
{
	struct key_lines l = { .text = d->added };
	struct str text = { 0 }, path = { 0 };
	char hash[33];
	int rc;

	d->added = (struct str){ 0 };
	sort_lines(&l);
	str_adds(&text, first_line);
	for (size_t i = 0; i < l.count; i++)
		str_addf(&text, "%s\n", l.line[i]);
	hash_md5_hex(text.buf, text.len, hash);
	str_addf(&path, "%s/%s%s", d->path, hash, suffix);
	rc = file_set_add(set, path.buf, &(struct iovec){ text.buf, text.len }, 1, e);
	key_lines_release(&l);
	str_release(&text);
	str_release(&path);
	return rc;
}

/* The keys go into the set of the maps, since the sweep for temporary files of the dead, which a
 * new set would make in each directory, would find all of its maps. */
int
map_cache_commit(struct map_cache *c, struct err *e)
{
	int rc = 0, keys = 0;

	for (int i = 0; i < c->count && rc == 0; i++)
		if (c->dir[i]->added.len) {
			rc = write_keys(c->dir[i], c->files, e);
			keys++;
		}
	if (rc == 0) {
		file_set_last_first(c->files, keys);
		rc = file_set_commit(c->files, e);
		c->files = NULL;
	}
	map_cache_abort(c);
	return rc;
}
