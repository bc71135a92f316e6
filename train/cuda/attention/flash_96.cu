/* flash_96.cu - tiled attention for head sizes 88 and 96 */
#include "train/cuda/attention/flash_launch.cuh"

FLASH_WIDTH(96);
