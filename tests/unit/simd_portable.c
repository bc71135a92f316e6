/* simd_portable.c - the checks of simd.c on the plain C version, which other machines run */
#undef __AVX2__
#undef __ARM_NEON
#include "tests/unit/simd.c"
