/*
 * unpack.c - gzip and zstd, one step at a time
 *
 * Both formats allow several streams one after the other in one file, as parallel compressors and
 * cat write them; the next begins where one ends. Other formats are named with the program to pipe
 * through, rather than reported as bad JSON.
 */
#include "lib/base/mem.h"
#include "tok/unpack.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

struct unpack {
	const char *name;
	z_stream gzip;
	ZSTD_DStream *zstd; /* NULL: gzip */
	bool within;
};

/* Decides by content, not by name, since standard input has none. */
int
unpack_new(
    struct unpack **out, const char *name, const unsigned char *head, size_t n, struct err *e)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *tool; /* NULL: we read it ourselves */
	} known[] = {
		{ "\x1f\x8b", 2, NULL },
		{ "\x28\xb5\x2f\xfd", 4, NULL },
		{ "\xfd"
		  "7zXZ",
		    5, "xzcat" },
		{ "BZh", 3, "bzcat" },
		{ "\x04\x22\x4d\x18", 4, "lz4cat" },
		{ "PK\3\4", 4, "unzip -p" },
		{ "PAR1", 4, "a program that makes JSON Lines of Parquet" },
	};
	int found = -1;

	*out = NULL;
	for (int i = 0; i < (int)(sizeof known / sizeof *known); i++)
		if (n >= known[i].len && !memcmp(head, known[i].magic, known[i].len))
			found = i;
	if (found < 0)
		return 0;
	if (known[found].tool)
		return err_set(e,
		    "%s: only gzip and zstd are decompressed here; pipe it through %s", name,
		    known[found].tool);
	*out = mem_zalloc(1, sizeof **out);
	(*out)->name = name;
	if (found == 1)
		(*out)->zstd = ZSTD_createDStream();
	else if (inflateInit2(&(*out)->gzip, 15 + 16) != Z_OK)
		return err_set(e, "%s: zlib does not start", name);
	return 0;
}

/* NULL belongs to a plain file. */
void
unpack_free(struct unpack *u)
{
	if (!u)
		return;
	if (u->zstd)
		ZSTD_freeDStream(u->zstd);
	else
		inflateEnd(&u->gzip);
	free(u);
}

/* Z_BUF_ERROR means only that more input is needed. */
static int
more_gzip(struct unpack *u, struct unpack_step *s, struct err *e)
{
	int rc;

	u->gzip.next_in = (unsigned char *)(size_t)s->in;
	u->gzip.avail_in = (uInt)s->len;
	u->gzip.next_out = (unsigned char *)s->out;
	u->gzip.avail_out = (uInt)s->room;
	rc = inflate(&u->gzip, Z_NO_FLUSH);
	if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
		return err_set(e, "%s: damaged gzip data: %s", u->name,
		    u->gzip.msg ? u->gzip.msg : "no reason given");
	s->taken = s->len - u->gzip.avail_in;
	s->given = s->room - u->gzip.avail_out;
	u->within = rc != Z_STREAM_END;
	if (rc == Z_STREAM_END && inflateReset(&u->gzip) != Z_OK)
		return err_set(e, "%s: zlib does not start again", u->name);
	return 0;
}

/* rc 0 marks the end of a frame: the file may end only there. */
static int
more_zstd(struct unpack *u, struct unpack_step *s, struct err *e)
{
	ZSTD_inBuffer from = { s->in, s->len, 0 };
	ZSTD_outBuffer to = { s->out, s->room, 0 };
	size_t rc = ZSTD_decompressStream(u->zstd, &to, &from);

	if (ZSTD_isError(rc))
		return err_set(e, "%s: damaged zstd data: %s", u->name, ZSTD_getErrorName(rc));
	s->taken = from.pos;
	s->given = to.pos;
	u->within = rc != 0;
	return 0;
}

/* At most 4 GiB per step; the callers' buffers are far smaller. */
int
unpack_more(struct unpack *u, struct unpack_step *s, struct err *e)
{
	return u->zstd ? more_zstd(u, s, e) : more_gzip(u, s, e);
}

/* Before the first byte of the next member it is within none. */
bool
unpack_within(const struct unpack *u)
{
	return u->within;
}
