/*
 * piece.h - a tensor of a checkpoint and the pieces that it lies in
 *
 * What a manifest lists (manifest.h) and an open checkpoint tells of (ckpt.h). A piece is a box of
 * its tensor, dense and row-major at one place of one file.
 */
#ifndef CKPT_PIECE_H
#define CKPT_PIECE_H

#include "lib/base/dtype.h"
#include "lib/base/slice.h"

#include <stdint.h>

/* Bytes that have one sum. A power of two, so that no element lies in two blocks. */
#define CKPT_BLOCK_BYTES ((uint64_t)4 << 20)

struct ckpt_piece {
	struct slice box;
	int file;               /* below ckpt_num_files */
	uint64_t offset, bytes; /* in the file */
	/* one a block; 1 for the whole of a larger piece: of a manifest of version 1 */
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

#endif
