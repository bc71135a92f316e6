/*
 * checksums.c - PREFIX.xxh: XXH3-64 of both files of a dataset
 *
 * Two lines "XXH3_HASH  NAME", the index first. The names are there for people; the files are those
 * beside the .xxh, so that a dataset keeps its checksums when all its files are renamed together.
 */
#include "lib/base/io.h"
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

static const char *const suffix[] = { ".idx", ".bin" };

/* One line, of which everything but the name is fixed; returns what follows it, or NULL. */
static const char *
read_line(const char *p, const char *end_of_name, uint64_t *sum)
{
	static const char digits[] = "0123456789abcdef", mark[] = "XXH3_";
	const char *feed = strchr(p, '\n');

	*sum = 0;
	if (!feed || strncmp(p, mark, 5) || strspn(p + 5, digits) != 16 || strncmp(p + 21, "  ", 2) ||
	    feed - p < 23 + 4 || strncmp(feed - 4, end_of_name, 4))
		return NULL;
	for (int i = 5; i < 21; i++)
		*sum = *sum << 4 | (uint64_t)(strchr(digits, p[i]) - digits);
	return feed + 1;
}

/* A .xxh that is cut or edited is an error: it could not tell damage from itself. */
int
checksums_read(const char *prefix, struct checksums *c, struct err *e)
{
	struct str path = { 0 };
	char *text = NULL;
	const char *p;
	int rc = 0;

	str_addf(&path, "%s.xxh", prefix);
	if (io_exists(path.buf))
		rc = io_read_file(path.buf, 1 << 16, &text, NULL, e) < 0 ? -1 : 1;
	if (rc == 1) {
		p = read_line(text, suffix[0], &c->idx);
		if (p)
			p = read_line(p, suffix[1], &c->bin);
		if (!p || *p)
			rc = err_at(e, path.buf, 0,
			    "not two lines of checksums, of the .idx and of the .bin");
	}
	free(text);
	str_release(&path);
	return rc;
}

/* Appears whole or not at all. */
int
checksums_write(const char *prefix, const struct checksums *c, struct err *e)
{
	const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
	struct str path = { 0 }, text = { 0 };
	int rc;

	str_addf(&path, "%s.xxh", prefix);
	str_addf(&text, "XXH3_%016llx  %s%s\nXXH3_%016llx  %s%s\n", (unsigned long long)c->idx, name,
	    suffix[0], (unsigned long long)c->bin, name, suffix[1]);
	rc = io_write_file(path.buf, text.buf, text.len, e);
	str_release(&path);
	str_release(&text);
	return rc;
}
