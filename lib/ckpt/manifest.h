/*
 * manifest.h - the text of a checkpoint's manifest.tsv
 *
 *   # mikoshi checkpoint 2
 *   # options.conf 16 hexadecimal digits
 *   # state.conf 16 hexadecimal digits
 *   tensor  dtype  shape  start  count  file  offset  bytes  xxh3
 *   X       F32    4,64   0,0    2,64   pieces-00000.safetensors  512  512  SUMS
 *   # manifest.tsv 16 hexadecimal digits (of all before this line)
 *
 * Fields are separated by tabs. SUMS are 16 hexadecimal digits for each 4 MiB of the piece,
 * separated by commas.
 *
 * All checksums are XXH3-64. Version 1 has none of the texts and none of its own, and one per
 * piece, however large. Shared by the reader and the writer of checkpoints; everything else goes
 * through ckpt.h.
 */
#ifndef CKPT_MANIFEST_H
#define CKPT_MANIFEST_H

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/ckpt/piece.h"

/* The version that is written; version 1 is read, too. */
enum { MANIFEST_VERSION = 2 };

/* The texts whose checksums the manifest holds, and their names. */
enum manifest_text { MANIFEST_OPTIONS, MANIFEST_STATE, MANIFEST_TEXTS };
extern const char *const manifest_text_name[MANIFEST_TEXTS];

struct manifest_place {
	int tensor, piece; /* indices into tensor and its piece */
};

struct manifest {
	struct mem_pool pool;              /* owns all below */
	int version;                       /* 1 or MANIFEST_VERSION */
	uint64_t text_sum[MANIFEST_TEXTS]; /* of version 2 */
	int num_tensors, num_files, num_pieces;
	struct ckpt_tensor *tensor;   /* sorted by name, the pieces of each by start */
	const char **file;            /* sorted */
	struct manifest_place *place; /* every piece, sorted by file and offset */
	int *first;                   /* file i has places first[i] .. first[i + 1] - 1 */
	int64_t num_sums;
	uint64_t *sum; /* of all pieces, whose `sum` points into it */
};

/*
 * Parses and checks a whole manifest: its own checksum, fields, agreement of the lines of a tensor,
 * pieces that tile every tensor exactly and do not share bytes of a file. Sizes of files are not
 * checked. name is for messages. After an error there is nothing to release.
 */
int manifest_parse(
    struct manifest *m, const char *text, size_t len, const char *name, struct err *e);
/* The same pieces as text of the same version, sorted by tensor and start. */
void manifest_print(const struct manifest *m, struct str *out);
/* The head and the last line of a manifest; for the last line, out must hold the rest. */
void manifest_print_head(struct str *out, int version, const uint64_t text_sum[MANIFEST_TEXTS]);
void manifest_print_end(struct str *out, int version);
/* Appends the line of one piece. */
void manifest_print_piece(
    struct str *out, const struct ckpt_tensor *t, const struct ckpt_piece *p, const char *file);
void manifest_release(struct manifest *m);
/* "4,64"; at most 4 numbers. */
void manifest_print_list(struct str *out, int ndim, const int64_t *x);

#endif
