/* simd_portable.c - the checks of simd.c on the form in plain C, which machines without AVX2 run */
#undef __AVX2__
#include "tests/unit/simd.c"
