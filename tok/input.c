/*
 * input.c - the lines of many files, plain or compressed, in batches
 *
 * Stored bytes go through `raw`, decoded ones straight into the batch. What follows the last line
 * feed of a batch is carried over to the next, so only a line that is longer than a batch makes a
 * batch longer. Every read polls a second descriptor, so that a run which has failed does not wait
 * for a pipe that stays silent.
 */
#include "tok/input.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { CHUNK = 256 * 1024 };

enum coding { CODING_PLAIN, CODING_GZIP, CODING_ZSTD };

/* Where the reading stands. Only input_stop may be called from another thread. */
struct input {
	const struct opt_list *files;
	int64_t *bytes;                 /* read of each file */
	int current;                    /* file now open, or the next one */
	int fd, wake;                   /* fd -1: none is open */
	bool stopped, ended;            /* ended: no more stored bytes in this file */
	enum coding coding;
	unsigned char raw[CHUNK];       /* stored bytes [raw_pos, raw_len) are still to be decoded */
	size_t raw_pos, raw_len;
	bool within;                    /* inside a compressed frame: the end of the file would be a truncation */
	z_stream gzip;
	ZSTD_DStream *zstd;
	struct str carry;               /* the line that the last batch ended within */
	int64_t line;
};

/* The descriptor that input_stop writes to is polled together with the file. */
struct input *
input_new(const struct opt_list *files)
{
	struct input *in = mem_zalloc(1, sizeof *in);

	in->files = files;
	in->bytes = mem_zalloc((size_t)files->count, sizeof *in->bytes);
	in->fd = -1;
	in->wake = eventfd(0, EFD_CLOEXEC);
	return in;
}

/* Ends the current file; the next call of input_next opens the one after it. Also for a file
 * whose decoder did not start. */
static void
close_file(struct input *in)
{
	if (in->coding == CODING_GZIP)
		inflateEnd(&in->gzip);
	if (in->coding == CODING_ZSTD)
		ZSTD_freeDStream(in->zstd);
	in->coding = CODING_PLAIN;
	if (in->fd > 0)
		close(in->fd);
	in->fd = -1;
	in->current++;
}

/* NULL is freed already. Standard input is not closed. */
void
input_free(struct input *in)
{
	if (!in)
		return;
	if (in->fd >= 0)
		close_file(in);
	if (in->wake >= 0)
		close(in->wake);
	str_release(&in->carry);
	free(in->bytes);
	free(in);
}

/* Called by another thread than the one that reads: it ends a read that waits, and every one
 * after it. */
void
input_stop(struct input *in)
{
	uint64_t one = 1;

	if (write(in->wake, &one, sizeof one) < 0)
		BUG("eventfd: %s", strerror(errno));
}

/* Stored bytes read of file i so far, compressed as they are; all of the file once the run is
 * through. */
int64_t
input_bytes(const struct input *in, int i)
{
	return in->bytes[i];
}

/* The name for messages. */
static const char *
file_name(const struct input *in)
{
	const char *name = in->files->item[in->current];

	return strcmp(name, "-") ? name : "standard input";
}

/* Reads stored bytes into raw, after what is left there. Waits for the file and for input_stop.
 * Sets ended at the end of the file. Returns -1 when reading fails, 0 otherwise, also when
 * stopped. */
static int
fill_raw(struct input *in, struct err *e)
{
	struct pollfd p[2] = { { in->fd, POLLIN, 0 }, { in->wake, POLLIN, 0 } };
	ssize_t r;

	memmove(in->raw, in->raw + in->raw_pos, in->raw_len - in->raw_pos);
	in->raw_len -= in->raw_pos;
	in->raw_pos = 0;
	if (poll(p, 2, -1) >= 0 && (p[1].revents & POLLIN)) {
		in->stopped = in->ended = true;
		return 0;
	}
	do
		r = read(in->fd, in->raw + in->raw_len, CHUNK - in->raw_len);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, "read", file_name(in));
	in->ended = r == 0;
	in->raw_len += (size_t)r;
	in->bytes[in->current] += r;
	return 0;
}

/* Looks at the first bytes of a file. By content, not by name, since standard input has none.
 * Formats that we do not read are named, rather than reported as bad JSON. */
static int
find_coding(struct input *in, struct err *e)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *tool;       /* NULL: we read it ourselves */
		enum coding coding;
	} known[] = {
		{ "\x1f\x8b", 2, NULL, CODING_GZIP },
		{ "\x28\xb5\x2f\xfd", 4, NULL, CODING_ZSTD },
		{ "\xfd" "7zXZ", 5, "xzcat", CODING_PLAIN },
		{ "BZh", 3, "bzcat", CODING_PLAIN },
	};

	while (in->raw_len < 6 && !in->ended)
		if (fill_raw(in, e) < 0)
			return -1;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (in->raw_len < known[i].len || memcmp(in->raw, known[i].magic, known[i].len))
			continue;
		if (known[i].tool)
			return err_set(e,
			    "%s: only gzip and zstd are decompressed here; pipe it through %s",
			    file_name(in), known[i].tool);
		in->coding = known[i].coding;
	}
	if (in->coding == CODING_ZSTD)
		in->zstd = ZSTD_createDStream();
	memset(&in->gzip, 0, sizeof in->gzip);
	if (in->coding == CODING_GZIP && inflateInit2(&in->gzip, 15 + 16) != Z_OK)
		return err_set(e, "%s: zlib does not start", file_name(in));
	return 0;
}

/* Opens the next file of the list. Not found here means that it went away after check_inputs. */
static int
open_file(struct input *in, struct err *e)
{
	const char *name = in->files->item[in->current];

	in->fd = strcmp(name, "-") ? open(name, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (in->fd < 0)
		return err_sys(e, "open", name);
	in->raw_pos = in->raw_len = 0;
	in->ended = in->within = false;
	in->line = 1;
	str_clear(&in->carry);
	return find_coding(in, e);
}

/* Inflates into out; one gzip file may be several members, one after the other. Z_BUF_ERROR only
 * means that more input is needed. out has room for CHUNK bytes. */
static int
decode_gzip(struct input *in, struct str *out, struct err *e)
{
	int rc;

	in->gzip.next_in = in->raw + in->raw_pos;
	in->gzip.avail_in = (uInt)(in->raw_len - in->raw_pos);
	in->gzip.next_out = (unsigned char *)out->buf + out->len;
	in->gzip.avail_out = CHUNK;
	rc = inflate(&in->gzip, Z_NO_FLUSH);
	if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
		return err_set(e, "%s: damaged gzip data: %s", file_name(in),
		    in->gzip.msg ? in->gzip.msg : "no reason given");
	in->raw_pos = in->raw_len - in->gzip.avail_in;
	out->len += CHUNK - in->gzip.avail_out;
	in->within = rc != Z_STREAM_END;
	if (rc == Z_STREAM_END && inflateReset(&in->gzip) != Z_OK)
		return err_set(e, "%s: zlib does not start again", file_name(in));
	return 0;
}

/* Decompresses into out; frames may follow each other. rc 0 is the end of a frame: the file may
 * end there and nowhere else. */
static int
decode_zstd(struct input *in, struct str *out, struct err *e)
{
	ZSTD_inBuffer from = { in->raw, in->raw_len, in->raw_pos };
	ZSTD_outBuffer to = { out->buf + out->len, CHUNK, 0 };
	size_t rc = ZSTD_decompressStream(in->zstd, &to, &from);

	if (ZSTD_isError(rc))
		return err_set(
		    e, "%s: damaged zstd data: %s", file_name(in), ZSTD_getErrorName(rc));
	in->raw_pos = from.pos;
	out->len += to.pos;
	in->within = rc != 0;
	return 0;
}

/* Appends up to CHUNK decoded bytes. 1, 0 at the end of the file, -1. */
static int
decode(struct input *in, struct str *out, struct err *e)
{
	size_t before = out->len;
	int rc = 0;

	str_reserve(out, CHUNK);
	while (rc == 0 && out->len == before) {
		if (in->raw_pos == in->raw_len && !in->ended && fill_raw(in, e) < 0)
			return -1;
		if (in->raw_pos == in->raw_len && in->ended && in->coding == CODING_PLAIN)
			break;
		if (in->coding == CODING_PLAIN) {
			str_add(out, in->raw + in->raw_pos, in->raw_len - in->raw_pos);
			in->raw_pos = in->raw_len;
			continue;
		}
		/* At the end of the file the decoder may still hold text back. */
		if (in->raw_pos < in->raw_len || in->within)
			rc = in->coding == CODING_GZIP ? decode_gzip(in, out, e)
						       : decode_zstd(in, out, e);
		if (rc == 0 && out->len == before && in->raw_pos == in->raw_len && in->ended)
			break;
	}
	if (rc < 0)
		return -1;
	if (out->len == before && in->within && !in->stopped)
		return err_set(
		    e, "%s: truncated: the compressed data ends too early", file_name(in));
	return out->len > before;
}

/* Drops a byte order mark at the start of a file. Inside a file the same bytes are an error,
 * which jsonl_parse reports. */
static void
drop_mark(struct str *text)
{
	if (text->len >= 3 && !memcmp(text->buf, "\xef\xbb\xbf", 3)) {
		memmove(text->buf, text->buf + 3, text->len - 3);
		text->len -= 3;
	}
}

/* Reads into out until it holds `want` bytes and a line end; *ended at the end of the file. More
 * than want by less than a chunk, or by the rest of a long line. */
static int
read_lines(struct input *in, size_t want, struct str *out, bool *ended, struct err *e)
{
	bool found = false;             /* what was carried over has no line end */

	*ended = false;
	while (!*ended && !(found && out->len >= want)) {
		size_t before = out->len;
		int rc = decode(in, out, e);

		if (rc < 0)
			return -1;
		*ended = rc == 0;
		found = found || memchr(out->buf + before, '\n', out->len - before);
	}
	return 0;
}

/* The next batch of the open file; empty at its end. The batch ends behind a line feed, except
 * at the end of the file; counting the feeds gives the number of the next batch's first line. */
static int
next_of_file(struct input *in, size_t want, struct batch *out, struct err *e)
{
	const char *last;
	size_t keep;
	bool ended;

	str_add(&out->text, in->carry.buf, in->carry.len);
	str_clear(&in->carry);
	if (read_lines(in, want, &out->text, &ended, e) < 0)
		return -1;
	if (in->line == 1)
		drop_mark(&out->text);
	out->file = file_name(in);
	out->first_line = in->line;
	last = out->text.len ? memrchr(out->text.buf, '\n', out->text.len) : NULL;
	keep = ended ? out->text.len : (size_t)(last - out->text.buf) + 1;
	str_add(&in->carry, out->text.buf + keep, out->text.len - keep);
	out->text.len = keep;
	for (const char *p = out->text.buf;
	     keep && (p = memchr(p, '\n', (size_t)(out->text.buf + keep - p))); p++)
		in->line++;
	if (ended)
		close_file(in);
	return 0;
}

/* Files that hold nothing give no batch. 1 with a batch, 0 after the last file or when stopped,
 * -1 with a reason. out's memory is used again. */
int
input_next(struct input *in, size_t want, struct batch *out, struct err *e)
{
	str_clear(&out->text);
	while (in->current < in->files->count && !in->stopped) {
		if (in->fd < 0 && open_file(in, e) < 0)
			return -1;
		if (next_of_file(in, want, out, e) < 0)
			return -1;
		if (out->text.len && !in->stopped)
			return 1;
	}
	return 0;
}

/* Lines come without their line feed and point into the batch. False after the last; *pos starts
 * at 0. A last line without a line feed is a line. */
bool
batch_line(const struct batch *b, size_t *pos, const char **line, size_t *len)
{
	const char *end;

	if (*pos >= b->text.len)
		return false;
	*line = b->text.buf + *pos;
	end = memchr(*line, '\n', b->text.len - *pos);
	*len = end ? (size_t)(end - *line) : b->text.len - *pos;
	*pos += *len + 1;
	return true;
}
