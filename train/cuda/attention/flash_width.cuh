/* flash_width.cuh - the tiled attention kernels by the width of heads, one .cu file each */
#ifndef TRAIN_CUDA_ATTENTION_FLASH_WIDTH_CUH
#define TRAIN_CUDA_ATTENTION_FLASH_WIDTH_CUH

#include "train/cuda/attention/attn.cuh"

struct flash_width {
	int columns; /* of the widest head */
	struct {
		int shared; /* bytes of shared memory of a block, at most */
		void (*run)(struct stream *, const struct attn *, enum dtype);
	} pass[2]; /* forward, backward */
};

extern const struct flash_width flash_64, flash_80, flash_96, flash_128, flash_256;

#endif
