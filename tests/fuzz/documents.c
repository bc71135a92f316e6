/* documents.c - fuzz target: any bytes, many times over, as a file of text whose documents end by
 * each rule, read in batches; a slow splitter that has the whole text says what they are */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tok/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BYTES = 200 * 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is left to be compared. */
struct slow {
	const char *p, *end;
	struct ends rule;
};

/* The bytes of the line at p without its end; *next is after that. */
static size_t
line_at(const char *p, const char *end, const char **next)
{
	const char *stop = p;

	while (stop < end && *stop != '\n')
		stop++;
	*next = stop < end ? stop + 1 : end;
	return (size_t)(stop - p) - (stop < end && stop > p && stop[-1] == '\r');
}

/* True when a line with this end ends a document. */
static bool
ends_one(const struct slow *s, const char *line, size_t len, const char *next)
{
	size_t i = 0;

	if (s->rule.by == BY_SEPARATOR)
		return len == strlen(s->rule.separator) && !memcmp(line, s->rule.separator, len);
	while (i < len && (line[i] == ' ' || line[i] == '\t'))
		i++;
	return s->rule.by == BY_BLANK_LINE && i == len &&
	    (size_t)(next - line) - (next[-1] == '\n') <= s->rule.most;
}

/* The next document; false at the end. */
static bool
slow_next(struct slow *s, const char **document, size_t *document_len)
{
	const char *p = s->p, *next;

	*document = s->p;
	if (s->rule.by == BY_LINE && s->p < s->end) {
		*document_len = line_at(s->p, s->end, &s->p);
		return true;
	}
	for (; p < s->end; p = next) {
		size_t len = line_at(p, s->end, &next);

		if (!ends_one(s, p, len, next))
			continue;
		*document_len = (size_t)(p - *document);
		s->p = next;
		if (s->rule.by == BY_SEPARATOR)
			return true;
		if (*document_len) {
			*document_len -= 1 + (*document_len > 1 && p[-2] == '\r');
			return true;
		}
		*document = next;
	}
	*document_len = (size_t)(s->end - *document);
	s->p = s->end;
	return *document_len > 0;
}

/* Compares all documents. Of one that is longer than most, its first bytes. */
static void
compare(struct input *in, struct slow *s, size_t want)
{
	size_t most = s->rule.most;
	struct batch b = { 0 };
	const char *line, *slow;
	size_t len, slow_len;
	struct err e;
	int rc;

	while ((rc = input_next(in, want, &b, &e)) > 0)
		for (size_t pos = 0; batch_line(&b, &pos, &line, &len);) {
			if (!slow_next(s, &slow, &slow_len) ||
			    (slow_len <= most ? len != slow_len : len <= most) ||
			    memcmp(line, slow, len < slow_len ? len : slow_len) != 0)
				abort();
		}
	if (rc < 0 || slow_next(s, &slow, &slow_len))
		abort();
	str_release(&b.text);
}

/* Fills the file. Returns its text. */
static char *
fill(int fd, const uint8_t *data, size_t size, size_t times)
{
	char *text = mem_alloc(size, times);

	for (size_t i = 0; i < times; i++)
		memcpy(text + i * size, data, size);
	if (fd < 0 || ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    io_write_all(fd, text, size * times) < 0)
		abort();
	return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	size_t times = size ? FILE_BYTES / size + 1 : 0, bom;
	char path[32], *text;
	struct err e;

	if (size < 2)
		return 0;
	if (fd < 0)
		fd = memfd_create("text", MFD_CLOEXEC);
	text = fill(fd, data, size, times);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	bom = size * times >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
	for (int by = BY_FILE; by <= BY_SEPARATOR && !input_is_compressed(path, &e); by++) {
		struct input_file file = { .name = path, .size = -1, .end = -1, .text = true };
		struct input_list files = { &file, 1, { .by = by, .separator = "--" } };
		size_t most = data[0] % 2 ? size : (size_t)data[1] * 100 + 1;
		struct input *in = input_new(&files, (int64_t)most, -1);
		struct slow s = { text + bom, text + size * times, files.ends };

		s.rule.most = most;
		compare(in, &s, (size_t)data[1] * 1000 + 1);
		input_free(in);
	}
	free(text);
	return 0;
}
