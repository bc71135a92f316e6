/* box.h - the boxes in which the copy engine moves matrices: lines of 128 bytes, whose 16-byte
 * pieces it permutes in shared memory */
#ifndef TRAIN_CUDA_BOX_H
#define TRAIN_CUDA_BOX_H

enum {
	BOX_LINE = 128,
	BOX = 64, /* 16-bit elements of a line, and lines of a box unless it is said otherwise */
	BOX_BYTES = BOX * BOX_LINE,
};

#endif
