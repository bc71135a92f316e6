/*
 * dtype.h - element types of files and tensors, and conversions between the floating ones
 *
 * Names follow safetensors ("F32", "BF16"); dtype_from_name also knows "fp32", "bfloat16" and the
 * like. Rounding is to nearest, ties to even; NaN stays NaN; overflow gives infinity, of 8-bit
 * floats the largest finite number.
 */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dtype {
	DTYPE_F64,
	DTYPE_F32,
	DTYPE_BF16,
	DTYPE_F16,
	DTYPE_F8_E4M3,
	DTYPE_F8_E5M2,
	DTYPE_I64,
	DTYPE_I32,
	DTYPE_I16,
	DTYPE_I8,
	DTYPE_U64,
	DTYPE_U32,
	DTYPE_U16,
	DTYPE_U8,
	DTYPE_BOOL,
	DTYPE_COUNT,
	DTYPE_NONE = -1,
};

size_t dtype_size(enum dtype t);              /* bytes of one element */
const char *dtype_name(enum dtype t);         /* "F32" */
const char *dtype_torch_name(enum dtype t);   /* "float32", as config.json writes it */
enum dtype dtype_from_name(const char *name); /* DTYPE_NONE when unknown */
/* F64, F32, BF16, F16: those of weights. No file of ours holds the two 8-bit floats. */
bool dtype_is_float(enum dtype t);
bool dtype_is_float8(enum dtype t);     /* F8_E4M3, F8_E5M2 */
float dtype_largest_float8(enum dtype); /* the largest finite one: 448 or 57344 */

uint16_t dtype_bf16_from_f32(float x);
float dtype_f32_from_bf16(uint16_t x);
/* The 16 bits that complete the bfloat16 nearest to x, and the float that both make. It is x, but
 * for one of two: if x lies halfway between two bfloat16s and is rounded to the smaller magnitude,
 * it is the next smaller float. */
uint16_t dtype_low_bits_from_f32(float x);
float dtype_f32_from_parts(uint16_t bf16, uint16_t low_bits);
/* Rounds a finite x up or down by 16 random bits, so that the mean over all of them is x. */
uint16_t dtype_bf16_stochastic(float x, uint16_t bits);
uint16_t dtype_f16_from_f32(float x);
float dtype_f32_from_f16(uint16_t x);

/* dst[i] = src[i] for count elements of F64, F32, BF16, F16 and the 8-bit floats; the arrays must
 * not overlap unless they are the same type. F64 to a narrower type than F32 rounds once. To 8 bits
 * what is larger than the largest finite number, infinite too, becomes that number, and NaN 0x7f;
 * E4M3 has no infinity, and NaN where all bits but the sign are set (Micikevicius 2022
 * arXiv:2209.05433, table 1). Alignment of either array is not required. */
void dtype_convert(
    void *dst, enum dtype dst_type, const void *src, enum dtype src_type, int64_t count);
/* What a conversion loses: finite numbers that become infinite, and numbers other than zero that
 * become zero. */
struct dtype_lost {
	int64_t overflows, underflows;
};
struct dtype_array {
	const void *data;
	enum dtype type;
};
/* Compares count elements before and after dtype_convert, none of 8 bits. Alignment is not
 * required. */
struct dtype_lost dtype_count_lost(
    struct dtype_array before, struct dtype_array after, int64_t count);
/* Whether two arrays of one floating type have the same numbers: zeroes of either sign are one, and
 * a NaN equals a NaN. Alignment is not required. */
bool dtype_same(const void *a, const void *b, enum dtype t, int64_t count);
/* How many of count elements are NaN or infinite; 0 of types without such numbers.
 * Alignment is not required. */
int64_t dtype_count_nonfinite(const void *src, enum dtype t, int64_t count);
/* The place of the largest of count numbers of F64, F32, BF16 or F16, the first of equal ones;
 * zeroes of either sign are equal. There is at least one number, and none is NaN. Alignment is not
 * required. */
int64_t dtype_first_largest(const void *src, enum dtype t, int64_t count);

#endif
