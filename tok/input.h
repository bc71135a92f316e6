/*
 * input.h - the lines of many files, plain or compressed, in batches
 *
 * gzip and zstd are told by their first bytes, never by the name; "-" is standard input. A batch
 * holds whole lines of one file, so that it can be worked on by itself and every line keeps its
 * file and number. A byte order mark at the start of a file is dropped.
 */
#ifndef TOK_INPUT_H
#define TOK_INPUT_H

#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/base/str.h"

#include <stdint.h>

struct batch {
	struct str text;                /* whole lines; the last of a file may lack its line end */
	const char *file;               /* as given; "-" reads "standard input" in messages */
	int64_t first_line;             /* from 1 */
};

struct input;

/* Borrows the names. Nothing is opened yet. */
struct input *input_new(const struct opt_list *files);
void input_free(struct input *in);
/* Makes a reader that waits for a pipe give up: input_next returns 0. From any thread, once. */
void input_stop(struct input *in);
/* At least `want` bytes, or up to the end of the file. 1, 0 at the end of the last file, -1 with
 * the reason. */
int  input_next(struct input *in, size_t want, struct batch *out, struct err *e);
/* Bytes read so far from file i, as stored (compressed). */
int64_t input_bytes(const struct input *in, int i);

/* The next line of a batch from *pos on, without its line feed. False at the end. */
bool batch_line(const struct batch *b, size_t *pos, const char **line, size_t *len);

#endif
