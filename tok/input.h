/*
 * input.h - the lines of many files, plain or compressed, in batches
 *
 * gzip and zstd are recognised by their first bytes, never by the name; "-" is standard input. A
 * batch holds whole lines of one file, so that it can be worked on by itself. A byte order mark at
 * the start of a file is dropped. A plain file may be read in part, from any byte to any other: its
 * lines are those whose first byte lies in the range. Of a line of any length, at most max_line
 * bytes, a chunk, and what may be its end are held.
 *
 * In a file of text, what is called a line here and below is a document, which may have several
 * lines (tok/ends.h). Only a file whose documents are lines is read in part.
 */
#ifndef TOK_INPUT_H
#define TOK_INPUT_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "tok/ends.h"

#include <stdbool.h>
#include <stdint.h>

/* A file and the range of its stored bytes; only a plain file may have a range other than the
 * whole. */
struct input_file {
	const char *name;   /* "-": standard input */
	int64_t size;       /* as stored; -1: a pipe or a device */
	int64_t mtime;      /* nanoseconds; 0 without a size */
	int64_t begin, end; /* end -1: to the end of the file */
	bool text;          /* not JSON Lines */
	bool lines;         /* its documents are lines */
};

struct input_list {
	struct input_file *item;
	int count;
	struct ends ends; /* of documents in files of text */
};

struct batch {
	struct str text; /* whole lines; the last of a file may lack its line end */
	int file;        /* index */
	int64_t offset;  /* of the text in the decoded file */
	/* bytes of the file that it covers: more than the text's where the last line is cut off */
	int64_t bytes;
	int64_t stored; /* bytes read so far of all files, as stored */
	bool plain;     /* of a file of text */
	bool cut;       /* the last line is cut off */
	struct ends ends;
};

struct input;

/* Finds size and time of each file; -1 with a reason for one that is missing or cannot be read. */
int input_examine(struct input_list *files, struct err *e);
/* The name of a file in messages: its own, or "standard input". */
const char *input_file_name(const struct input_file *f);

/* Borrows the list. Nothing is opened yet. stop_fd: a descriptor that becomes readable when the run
 * is to end, or -1. A line of more than max_line bytes is the last of its batch, and cut off
 * somewhere after them. */
struct input *input_new(const struct input_list *files, int64_t max_line, int stop_fd);
void input_free(struct input *in);
/* Continues at a decoded byte of a file that is the first of a line. Called before the first
 * input_next. */
void input_seek(struct input *in, int file, int64_t offset);
/* Makes a reader that waits for a pipe give up: input_next returns 0. Called from any thread,
 * once. */
void input_stop(struct input *in);
/* True when stop_fd ended the reading; input_next has returned -1 then. */
bool input_interrupted(const struct input *in);
/* Reads at least `want` bytes, or up to the end of the file. 1, 0 at the end of the last file, -1
 * with the reason. */
int input_next(struct input *in, size_t want, struct batch *out, struct err *e);
/* Bytes of all files before the place that input_seek named, as far as they are known. */
int64_t input_before(const struct input *in);
/* Bytes read so far from file i, as stored (compressed). */
int64_t input_bytes(const struct input *in, int i);

/* The next line of a batch from *pos on, without its end; *pos starts at 0. A last line without a
 * line feed counts. False at the end. */
bool batch_line(const struct batch *b, size_t *pos, const char **line, size_t *len);

/* 1 when a file begins as a compressed one, 0 when it is plain, -1 with a reason. */
int input_is_compressed(const char *path, struct err *e);
/* Line feeds among the first n bytes of a plain file; -1 with a reason. */
int64_t input_count_lines(const char *path, int64_t n, struct err *e);

#endif
