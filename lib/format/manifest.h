/*
 * manifest.h - the text of a checkpoint's manifest.tsv
 *
 *   # mikoshi checkpoint 1
 *   tensor  dtype  shape  start  count  file  offset  bytes  xxh3              (separated by tabs, as are the fields below)
 *   X       F32    4,64   0,0    2,64   pieces-00000.safetensors  512  512  16 hexadecimal digits
 *
 * Shared by the reader and the writer of checkpoints; everything else goes through ckpt.h.
 */
#ifndef FORMAT_MANIFEST_H
#define FORMAT_MANIFEST_H

#include "lib/base/mem.h"
#include "lib/format/ckpt.h"

/* The two lines before the pieces. */
#define MANIFEST_HEAD                                                                              \
	"# mikoshi checkpoint 1\ntensor\tdtype\tshape\tstart\tcount\tfile\toffset\tbytes\txxh3\n"

struct manifest_place {
	int tensor, piece;              /* indices into tensor and its piece */
};

struct manifest {
	struct mem_pool pool;           /* owns all below */
	int num_tensors, num_files, num_pieces;
	struct ckpt_tensor *tensor;     /* sorted by name, the pieces of each by start */
	const char **file;              /* sorted */
	struct manifest_place *place;   /* every piece, sorted by file and offset */
	int *first;                     /* file i has places first[i] .. first[i + 1] - 1 */
};

/*
 * Parses and checks a whole manifest: fields, agreement of the lines of a tensor, pieces that tile
 * every tensor exactly and do not share bytes of a file. Sizes of files are not looked at. name is
 * for messages. After an error there is nothing to release.
 */
int manifest_parse(
    struct manifest *m, const char *text, size_t len, const char *name, struct err *e);
/* The same pieces as text, head included, sorted by tensor and start. */
void manifest_print(const struct manifest *m, struct str *out);
/* Appends the line of one piece. */
void manifest_print_piece(
    struct str *out, const struct ckpt_tensor *t, const struct ckpt_piece *p, const char *file);
void manifest_release(struct manifest *m);
/* "4,64"; at most 4 numbers. */
void manifest_print_list(struct str *out, int ndim, const int64_t *x);

#endif
