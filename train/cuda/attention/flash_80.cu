/* flash_80.cu - tiled attention for head sizes 72 and 80 */
#include "train/cuda/attention/flash_launch.cuh"

FLASH_WIDTH(80);
