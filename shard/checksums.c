/*
 * checksums.c - PREFIX.xxh: XXH3-64 of both files of a dataset
 *
 * Two lines "XXH3_HASH NAME", the index first. The names are for people; the checksums are those of
 * the files with the prefix of the .xxh, so they stay valid when all files of a dataset are renamed
 * together.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "shard/shard.h"

#include <stdlib.h>
#include <string.h>

static const char *const suffix[] = { ".idx", ".bin" };

/* Reads one line, in which only the name varies; returns the text after it, or NULL. */
static const char *
read_line(const char *p, const char *end_of_name, uint64_t *sum)
{
	const char *feed = strchr(p, '\n'),
		   *name = strncmp(p, "XXH3_", 5) ? NULL : hash_read(p + 5, sum);

	if (!feed || !name || strncmp(name, "  ", 2) || feed - name < 2 + 4 ||
	    strncmp(feed - 4, end_of_name, 4))
		return NULL;
	return feed + 1;
}

/* A truncated or edited .xxh is an error: it could not be distinguished from a damaged dataset. */
int
checksums_read(const char *prefix, struct checksums *c, struct err *e)
{
	struct str path = { 0 };
	char *text = NULL;
	const char *p;
	int rc;

	str_addf(&path, "%s.xxh", prefix);
	rc = io_there(path.buf, e);
	if (rc == 1 && io_read_regular(path.buf, 1 << 16, &text, NULL, e) < 0)
		rc = -1;
	if (rc == 1) {
		p = read_line(text, suffix[0], &c->idx);
		if (p)
			p = read_line(p, suffix[1], &c->bin);
		if (!p || *p)
			rc = err_at(e, path.buf, 0,
			    "it must have two lines, the checksums of the .idx and of the .bin");
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
	char idx[17], bin[17];
	int rc;

	str_addf(&path, "%s.xxh", prefix);
	str_addf(&text, "XXH3_%s  %s%s\nXXH3_%s  %s%s\n", hash_text(c->idx, idx), name, suffix[0],
	    hash_text(c->bin, bin), name, suffix[1]);
	rc = outfile_write(path.buf, text.buf, text.len, e);
	str_release(&path);
	str_release(&text);
	return rc;
}
