/*
 * piece.h - a tensor of a checkpoint and its pieces
 *
 * Listed in a manifest (manifest.h) and returned by an open checkpoint (ckpt.h). A piece is a box
 * of its tensor, dense and row-major at one place in one file.
 */
#ifndef CKPT_PIECE_H
#define CKPT_PIECE_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"
#include "lib/base/slice.h"

#include <stdint.h>

/* Bytes per checksum. A power of two, so that no element lies in two blocks. */
#define CKPT_BLOCK_BYTES ((uint64_t)4 << 20)

struct ckpt_piece {
	struct slice slice;
	int file;               /* below ckpt_num_files */
	uint64_t offset, bytes; /* in the file */
	/* one per block; 1 for a larger piece under a manifest of version 1 */
	int64_t num_sums;
	const uint64_t *sum; /* XXH3-64 */
};

struct ckpt_tensor {
	const char *name;
	enum dtype dtype;
	int ndim;
	int64_t shape[SLICE_DIMS];
	int num_pieces;
	const struct ckpt_piece *piece;
};

/* Whether the pieces, which lie inside the tensor, hold every element once. */
int piece_check_tiles(const struct ckpt_tensor *t, struct err *e);

#endif
