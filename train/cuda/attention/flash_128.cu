/* flash_128.cu - tiled attention for head sizes 104 to 128 */
#include "train/cuda/attention/flash_launch.cuh"

FLASH_WIDTH(128);
