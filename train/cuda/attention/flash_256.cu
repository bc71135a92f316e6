/* flash_256.cu - tiled attention for head sizes 136 to 256 */
#include "train/cuda/attention/flash_launch.cuh"

FLASH_WIDTH(256);
