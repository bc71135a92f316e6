/*
 * input.c - the lines of many files, plain or compressed, in batches
 *
 * Plain bytes are read straight into the batch, compressed ones through `raw`. What follows the
 * last line feed of a batch is carried over to the next, so only a line that is longer than a batch
 * makes a batch longer, and only up to the longest line that is allowed: the rest is read and
 * dropped. Every read polls two more descriptors, so that neither a failed nor an interrupted run
 * waits for a silent pipe.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tok/input.h"
#include "tok/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* A batch's memory is kept for the next one up to KEPT bytes; longer lines are rare. */
enum { CHUNK = 64 * 1024, KEPT = 4 << 20 };

/* The position of the reading. Only input_stop may be called from another thread. */
struct input {
	const struct input_list *files;
	int64_t *bytes;                   /* read so far of each file */
	int64_t stored;                   /* of all files */
	int current;                      /* file now open, or the next one */
	int fd, wake, stop_fd;            /* fd -1: none is open */
	bool stopped, interrupted, ended; /* ended: no more stored bytes in this file */
	struct unpack *unpack;            /* NULL: the file is plain */
	unsigned char *raw; /* CHUNK stored bytes; [raw_pos, raw_len) is not yet decoded */
	size_t raw_pos, raw_len;
	size_t max_line;  /* bytes */
	int64_t seek;     /* decoded byte at which the next file begins; -1: where its range does */
	int64_t pos;      /* decoded byte where reading continues */
	int64_t skip;     /* decoded bytes to drop first */
	bool skip_line;   /* drop what comes before the first line feed, too */
	struct str carry; /* the unfinished line at the end of the last batch */
};

/* The descriptor that input_stop writes to is polled together with the file. */
struct input *
input_new(const struct input_list *files, int64_t max_line, int stop_fd)
{
	struct input *in = mem_zalloc(1, sizeof *in);

	in->files = files;
	in->bytes = mem_zalloc((size_t)files->count, sizeof *in->bytes);
	in->raw = mem_alloc(CHUNK, 1);
	in->fd = -1;
	in->seek = -1;
	in->stop_fd = stop_fd;
	in->max_line = (size_t)max_line;
	in->wake = eventfd(0, EFD_CLOEXEC);
	return in;
}

/* Ends the current file; the next call of input_next opens the one after it. */
static void
close_file(struct input *in)
{
	unpack_free(in->unpack);
	in->unpack = NULL;
	if (in->fd > 0)
		close(in->fd);
	in->fd = -1;
	in->current++;
}

/* NULL is allowed. Standard input is not closed. */
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
	free(in->raw);
	free(in->bytes);
	free(in);
}

/* The files before this one are never opened; their bytes count as read. */
void
input_seek(struct input *in, int file, int64_t offset)
{
	for (int i = 0; i < file; i++) {
		const struct input_file *f = &in->files->item[i];

		in->bytes[i] = f->size;
		in->stored += (f->end < 0 ? f->size : f->end) - f->begin;
	}
	in->current = file;
	in->seek = offset;
}

/* A place within a compressed file is not known before the file is read again. */
int64_t
input_before(const struct input *in)
{
	return in->stored;
}

/* Called from a thread that is not reading: ends a waiting read, and every later one. */
void
input_stop(struct input *in)
{
	uint64_t one = 1;

	if (write(in->wake, &one, sizeof one) < 0)
		BUG("eventfd: %s", strerror(errno));
}

/* Valid only after input_next has returned -1. */
bool
input_interrupted(const struct input *in)
{
	return in->interrupted;
}

/* Stored (compressed) bytes read so far of file i; all of the file, or of its range, at the end of
 * the run. */
int64_t
input_bytes(const struct input *in, int i)
{
	return in->bytes[i];
}

/* Only for messages: "-" cannot be opened under this name. */
const char *
input_file_name(const struct input_file *f)
{
	return strcmp(f->name, "-") ? f->name : "standard input";
}

/* The name of the file now open. */
static const char *
file_name(const struct input *in)
{
	return input_file_name(&in->files->item[in->current]);
}

/* Reads stored bytes after *len of buf. Waits for the file, for input_stop and for stop_fd. Sets
 * ended at the end of the file. Returns -1 when reading fails or was interrupted, 0 otherwise, also
 * when stopped. */
static int
fill(struct input *in, void *buf, size_t *len, size_t room, struct err *e)
{
	struct pollfd p[3] = { { in->fd, POLLIN, 0 }, { in->wake, POLLIN, 0 },
		{ in->stop_fd, POLLIN, 0 } };
	bool polled = poll(p, 3, -1) >= 0;
	ssize_t r;

	if (polled && (p[2].revents & POLLIN)) {
		in->interrupted = true;
		return err_set(e, "interrupted");
	}
	if (polled && (p[1].revents & POLLIN)) {
		in->stopped = in->ended = true;
		return 0;
	}
	do
		r = read(in->fd, (char *)buf + *len, room);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, "read", file_name(in));
	in->ended = r == 0;
	*len += (size_t)r;
	in->bytes[in->current] += r;
	in->stored += r;
	return 0;
}

/* Reads more stored bytes into raw, after those that are left. */
static int
fill_raw(struct input *in, struct err *e)
{
	memmove(in->raw, in->raw + in->raw_pos, in->raw_len - in->raw_pos);
	in->raw_len -= in->raw_pos;
	in->raw_pos = 0;
	return fill(in, in->raw, &in->raw_len, CHUNK - in->raw_len, e);
}

/* Seeks to where this run begins to read a plain file: the byte before its range, since a line feed
 * there means that the range begins with a line, or the place where a resumed run continues. */
static int
begin_range(struct input *in, const struct input_file *f, struct err *e)
{
	int64_t at = in->seek >= 0 ? in->seek : f->begin ? f->begin - 1 : 0;

	in->skip_line = in->seek < 0 && f->begin > 0;
	in->pos = at;
	if (at == 0)
		return 0;
	if (lseek(in->fd, at, SEEK_SET) < 0)
		return err_sys(e, "seek in", f->name);
	in->raw_pos = in->raw_len = 0;
	in->ended = false;
	in->stored -= in->bytes[in->current];
	in->bytes[in->current] = 0;
	if (in->seek >= 0) {
		in->bytes[in->current] = at - f->begin;
		in->stored += at - f->begin;
	}
	return 0;
}

/* Opens the next file of the list. One that is not found here has gone since it was examined. */
static int
open_file(struct input *in, struct err *e)
{
	const struct input_file *f = &in->files->item[in->current];

	in->fd = strcmp(f->name, "-") ? open(f->name, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (in->fd < 0)
		return err_sys(e, "open", f->name);
	in->raw_pos = in->raw_len = 0;
	in->ended = in->skip_line = false;
	in->pos = in->skip = 0;
	str_clear(&in->carry);
	while (in->raw_len < UNPACK_HEAD && !in->ended)
		if (fill_raw(in, e) < 0)
			return -1;
	if (unpack_new(&in->unpack, file_name(in), in->raw, in->raw_len, e) < 0)
		return -1;
	if (in->unpack)
		in->skip = in->seek > 0 ? in->seek : 0;
	else if (begin_range(in, f, e) < 0)
		return -1;
	in->seek = -1;
	return 0;
}

/* Appends plain bytes, beginning with those that were read to learn the file's format. */
static int
read_plain(struct input *in, struct str *out, struct err *e)
{
	if (in->raw_pos < in->raw_len) {
		str_add(out, in->raw + in->raw_pos, in->raw_len - in->raw_pos);
		in->raw_pos = in->raw_len;
		return 0;
	}
	return in->ended ? 0 : fill(in, out->buf, &out->len, CHUNK, e);
}

/* Appends up to CHUNK decoded bytes, none at the end of the file. */
static int
read_unpacked(struct input *in, struct str *out, struct err *e)
{
	size_t before = out->len;

	while (out->len == before) {
		struct unpack_step step = {
			.in = in->raw + in->raw_pos,
			.len = in->raw_len - in->raw_pos,
			.out = out->buf + out->len,
			.room = CHUNK,
		};

		if (in->raw_pos == in->raw_len && !in->ended) {
			if (fill_raw(in, e) < 0)
				return -1;
			continue;
		}
		/* At the end of the file the decoder may still hold text back. */
		if ((step.len || unpack_within(in->unpack)) &&
		    unpack_more(in->unpack, &step, e) < 0)
			return -1;
		in->raw_pos += step.taken;
		out->len += step.given;
		if (step.given == 0 && in->raw_pos == in->raw_len && in->ended)
			break;
	}
	if (out->len == before && unpack_within(in->unpack) && !in->stopped)
		return err_set(
		    e, "%s: truncated: the compressed data ends too early", file_name(in));
	return 0;
}

/* Appends up to CHUNK decoded bytes, less those to be dropped. 1, 0 at the end of the file, -1. */
static int
decode(struct input *in, struct str *out, struct err *e)
{
	size_t before = out->len, got;
	int64_t drop;

	do {
		str_reserve(out, CHUNK);
		if ((in->unpack ? read_unpacked(in, out, e) : read_plain(in, out, e)) < 0)
			return -1;
		got = out->len - before;
		drop = in->skip < (int64_t)got ? in->skip : (int64_t)got;
		if (drop) {
			memmove(out->buf + before, out->buf + before + drop, got - (size_t)drop);
			out->len -= (size_t)drop;
			in->skip -= drop;
		}
		in->pos += (int64_t)got;
	} while (got && out->len == before);
	return got > 0;
}

/* Drops the end of a line that began before the range. False when nothing else was in the batch. */
static bool
drop_line(struct input *in, struct batch *b)
{
	const char *feed =
	    in->skip_line && b->text.len ? memchr(b->text.buf, '\n', b->text.len) : NULL;
	size_t n = feed ? (size_t)(feed - b->text.buf) + 1 : b->text.len;

	if (!in->skip_line)
		return true;
	in->skip_line = !feed;
	memmove(b->text.buf, b->text.buf + n, b->text.len - n);
	b->text.len -= n;
	b->offset += (int64_t)n;
	return feed != NULL;
}

/* Cuts the text after the last line that begins in the file's range; false when that is not yet
 * known because the line is not complete. Text before `from` has been searched. */
static bool
cut_at_end(const struct input *in, struct batch *b, size_t from)
{
	int64_t end = in->files->item[in->current].end;
	size_t inside;
	const char *feed;

	if (in->unpack || end < 0 || b->offset + (int64_t)b->text.len < end)
		return false;
	/* A line begins after a line feed: the first line feed at or after the byte before the end
	 * closes the last line. */
	inside = end > b->offset ? (size_t)(end - b->offset) - 1 : 0;
	if (end <= b->offset) {
		b->text.len = 0;
		return true;
	}
	inside = inside > from ? inside : from;
	feed = memchr(b->text.buf + inside, '\n', b->text.len - inside);
	if (!feed)
		return false;
	b->text.len = (size_t)(feed - b->text.buf) + 1;
	return true;
}

/* Drops the rest of the line in which the batch ends, which still counts as part of the batch. What
 * was read of the next line is carried over. */
static int
drop_rest(struct input *in, struct batch *b, struct ends *s, bool *ended, struct err *e)
{
	struct str *carry = &in->carry;
	bool found = false;

	while (!found && !*ended) {
		int rc = decode(in, carry, e);
		size_t at = 0;

		if (rc < 0)
			return -1;
		*ended = rc == 0;
		found = ends_next(s, carry->buf, carry->len, &at) > 0;
		memmove(carry->buf, carry->buf + at, carry->len - at);
		carry->len -= at;
		b->bytes += (int64_t)at;
	}
	return 0;
}

/* Reads into b until it holds `want` bytes and a line end; *ended at the end of the file or of its
 * range. It may hold more than `want`: less than a chunk more, or the rest of a long line. What
 * was read of the next line is carried over. */
static int
read_lines(struct input *in, size_t want, struct batch *b, bool *ended, struct err *e)
{
	/* where the last line begins (0: none has ended); how far was searched */
	size_t line = 0, from = 0;
	struct ends s = b->ends;

	*ended = b->cut = false;
	while (!*ended && !b->cut && !(line && b->text.len >= want)) {
		int rc = decode(in, &b->text, e);

		if (rc < 0)
			return -1;
		*ended = rc == 0;
		if (!drop_line(in, b))
			continue;
		if (cut_at_end(in, b, from)) {
			*ended = true;
			break;
		}
		while (ends_next(&s, b->text.buf, b->text.len, &from))
			line = from;
		b->cut = !*ended && b->text.len - line > in->max_line + ends_open(&s);
	}
	if (b->cut)
		return drop_rest(in, b, &s, ended, e);
	if (!*ended) {
		str_add(&in->carry, b->text.buf + line, b->text.len - line);
		b->text.len = line;
	}
	return 0;
}

/* The next batch of the open file; empty at its end. The batch ends after a line end, except
 * at the end of the file or where a long line was cut off. A byte order mark is dropped at the
 * start of the file; inside it the same bytes are an error, which jsonl_parse reports. */
static int
next_of_file(struct input *in, size_t want, struct batch *out, struct err *e)
{
	struct str *text = &out->text;
	bool ended;

	str_add(text, in->carry.buf, in->carry.len);
	out->file = in->current;
	out->plain = in->files->item[in->current].text;
	out->ends = out->plain ? in->files->ends : (struct ends){ .by = BY_LINE };
	out->ends.most = in->max_line;
	out->offset = in->pos + in->skip - (int64_t)in->carry.len;
	out->bytes = 0;
	str_clear(&in->carry);
	if (read_lines(in, want, out, &ended, e) < 0)
		return -1;
	if (out->offset == 0 && text->len >= 3 && !memcmp(text->buf, "\xef\xbb\xbf", 3)) {
		memmove(text->buf, text->buf + 3, text->len - 3);
		text->len -= 3;
		out->offset += 3;
	}
	if (text->buf)
		text->buf[text->len] = '\0';
	out->bytes += (int64_t)text->len;
	out->stored = in->stored;
	if (ended)
		close_file(in);
	return 0;
}

/* Empty files give no batch. 1 with a batch, 0 after the last file or when stopped, -1 with a
 * reason. Reuses out's memory. */
int
input_next(struct input *in, size_t want, struct batch *out, struct err *e)
{
	if (out->text.cap > KEPT)
		str_release(&out->text);
	if (in->carry.cap > KEPT && in->carry.len < KEPT / 2) {
		struct str less = { 0 };

		str_add(&less, in->carry.buf, in->carry.len);
		str_release(&in->carry);
		in->carry = less;
	}
	str_clear(&out->text);
	while (in->current < in->files->count && !in->stopped) {
		if (in->fd < 0 && open_file(in, e) < 0)
			return -1;
		if (next_of_file(in, want, out, e) < 0)
			return -1;
		if (out->text.len && !in->stopped)
			return 1;
		str_clear(&out->text);
	}
	return 0;
}

/* The bytes of a text without the line feed at its end, and the CR before that. */
static size_t
without_end(const char *text, size_t len)
{
	size_t feed = len && text[len - 1] == '\n', cr = feed && len > 1 && text[len - 2] == '\r';

	return len - feed - cr;
}

/* Lines point into the batch. Of a run of blank lines that end documents, the first ends one; the
 * others, and those at the start of a file, have no document before them. */
bool
batch_line(const struct batch *b, size_t *pos, const char **line, size_t *len)
{
	const char *text = b->text.buf;

	do {
		struct ends s = b->ends;
		size_t begin = *pos, none;

		if (begin >= b->text.len)
			return false;
		none = ends_next(&s, text, b->text.len, pos);
		if (!none && !b->cut)
			none = ends_last(&s);
		*line = text + begin;
		*len = *pos - begin - none;
		if (none && s.by == BY_BLANK_LINE)
			*len = without_end(*line, *len);
	} while (b->ends.by == BY_BLANK_LINE && *len == 0);
	return true;
}

/* A mistyped last name should not cost the hours that the first files take. A file is whole, with
 * its size where it has one. */
int
input_examine(struct input_list *files, struct err *e)
{
	for (int i = 0; i < files->count; i++) {
		struct input_file *f = &files->item[i];
		struct stat st;

		f->begin = 0;
		f->end = f->size = -1;
		f->mtime = 0;
		if (!strcmp(f->name, "-"))
			continue;
		if (access(f->name, R_OK) < 0 || stat(f->name, &st) < 0)
			return err_sys(e, "open", f->name);
		if (S_ISDIR(st.st_mode))
			return err_set(e, "cannot read '%s': it is a directory", f->name);
		if (S_ISREG(st.st_mode)) {
			f->size = st.st_size;
			f->mtime = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
		}
	}
	return 0;
}

/* Decides by content, as reading does. */
int
input_is_compressed(const char *path, struct err *e)
{
	unsigned char head[UNPACK_HEAD];
	struct unpack *u;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return err_sys(e, "read", path);
	rc = unpack_new(&u, path, head, (size_t)n, e);
	if (rc == 0)
		rc = u != NULL;
	unpack_free(rc == 1 ? u : NULL);
	return rc;
}

/* For the line numbers of a file that is read from its middle; only a bad line needs them. */
int64_t
input_count_lines(const char *path, int64_t n, struct err *e)
{
	char *buf = mem_alloc(CHUNK, 1);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int64_t lines = 0;
	ssize_t r = fd < 0 ? -1 : 0;

	while (fd >= 0 && n > 0 && (r = read(fd, buf, n < CHUNK ? (size_t)n : CHUNK)) > 0) {
		for (const char *p = buf; (p = memchr(p, '\n', (size_t)(buf + r - p))); p++)
			lines++;
		n -= r;
	}
	if (r < 0)
		err_sys(e, "read", path);
	if (fd >= 0)
		close(fd);
	free(buf);
	return r < 0 ? -1 : lines;
}
