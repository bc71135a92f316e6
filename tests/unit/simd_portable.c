/* simd_portable.c - the checks of simd.c on the plain C version, which machines without AVX2 run */
#undef __AVX2__
#include "tests/unit/simd.c"
