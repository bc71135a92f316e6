/* flash_64.cu - tiled attention for head sizes up to 64 */
#include "train/cuda/attention/flash_launch.cuh"

FLASH_WIDTH(64);
