/*
 * gemm_file.c - the choices of earlier runs, in one file per GPU model and library version
 *
 * $XDG_CACHE_HOME/mikoshi or ~/.cache/mikoshi, gemm-VERSION-GPU: a line that names the format and
 * the bytes of a record, padded to HEAD bytes, then records (struct gemm_choice). The file saves
 * the measurement and affects results only through the choice of algorithms; it may be removed at
 * any time. It is written whole, and a damaged file counts as missing.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "train/cuda/gemm/gemm.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 64, RECORDS_MAX = 4096 };

/* The first bytes of a file of this format. */
static void
head(char out[HEAD])
{
	memset(out, 0, HEAD);
	snprintf(out, HEAD, "mikoshi gemm 1 %zu\n", sizeof(struct gemm_choice));
}

/* The directory of files that can be regenerated; false when there is none. */
static bool
cache_dir(char *out, size_t room)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n = cache && cache[0] == '/' ? snprintf(out, room, "%s/mikoshi", cache)
	    : home && home[0] == '/'     ? snprintf(out, room, "%s/.cache/mikoshi", home)
					 : -1;

	return n > 0 && (size_t)n < room;
}

/* The records of a file, which the caller frees; NULL when it is not one of ours. */
static struct gemm_choice *
read_records(const char *path, size_t *count)
{
	char expected[HEAD], *bytes = NULL;
	size_t len = 0, size = sizeof(struct gemm_choice);
	struct gemm_choice *out = NULL;
	struct err e;

	*count = 0;
	if (io_read_file(path, HEAD + RECORDS_MAX * size, &bytes, &len, &e) < 0)
		return NULL;
	head(expected);
	if (len >= HEAD && (len - HEAD) % size == 0 && memcmp(bytes, expected, HEAD) == 0) {
		*count = (len - HEAD) / size;
		out = mem_alloc(*count + 1, size);
		memcpy(out, bytes + HEAD, *count * size);
	}
	free(bytes);
	return out;
}

/* Blanks in a GPU's name become hyphens. */
void
gemm_choices_load(struct gemm_choices *c, const char *gpu)
{
	char dir[768], name[128];
	size_t n = 0;

	for (; gpu[n] && n + 1 < sizeof name; n++)
		name[n] = isalnum((unsigned char)gpu[n]) ? gpu[n] : '-';
	name[n] = '\0';
	if (!cache_dir(dir, sizeof dir))
		return;
	snprintf(c->path, sizeof c->path, "%s/gemm-%zu-%s", dir, cublasLtGetVersion(), name);
	c->choice = read_records(c->path, &c->count);
}

/* The file stays. */
void
gemm_choices_release(struct gemm_choices *c)
{
	free(c->choice);
	memset(c, 0, sizeof *c);
}

/* By the key's bytes. */
const struct gemm_choice *
gemm_choices_find(const struct gemm_choices *c, const struct gemm_key *key)
{
	for (size_t i = 0; i < c->count; i++)
		if (memcmp(&c->choice[i].key, key, sizeof *key) == 0)
			return &c->choice[i];
	return NULL;
}

/* Adds the choices that other processes have written meanwhile. */
static void
merge(struct gemm_choices *c)
{
	size_t count;
	struct gemm_choice *other = read_records(c->path, &count);

	c->choice = mem_realloc(c->choice, c->count + count + 1, sizeof *c->choice);
	for (size_t i = 0; i < count; i++)
		if (!gemm_choices_find(c, &other[i].key))
			c->choice[c->count++] = other[i];
	free(other);
}

/* All records in one write. */
static void
write_records(const struct gemm_choices *c)
{
	size_t bytes = c->count * sizeof *c->choice;
	char *file = mem_alloc(HEAD + bytes, 1), *slash;
	char dir[sizeof c->path];
	struct err e;

	head(file);
	memcpy(file + HEAD, c->choice, bytes);
	memcpy(dir, c->path, sizeof dir);
	slash = strrchr(dir, '/');
	*slash = '\0';
	if (io_mkdir_p(dir, &e) == 0)
		(void)outfile_write(c->path, file, HEAD + bytes, &e);
	free(file);
}

/* A full file is left as it is. A record that the library did not take any more is replaced. */
void
gemm_choices_add(struct gemm_choices *c, const struct gemm_choice *choice)
{
	struct gemm_choice *old;

	if (!c->path[0])
		return;
	merge(c);
	old = (struct gemm_choice *)gemm_choices_find(c, &choice->key);
	if (old)
		*old = *choice;
	else if (c->count < RECORDS_MAX)
		c->choice[c->count++] = *choice;
	write_records(c);
}
