/*
 * dtype.c - element types and conversions
 *
 * Names are those of safetensors, torch and NumPy, all in one table, because each file format has
 * its own. Every narrowing rounds to nearest, ties to even, and once: from F64 to 16 bits by way of
 * a float that is rounded to odd (Boldo and Melquiond 2008), since rounding twice can differ in the
 * last bit. Buffers may be unaligned, hence the memcpy of each element, which compilers turn into a
 * load.
 */
#include "lib/base/dtype.h"
#include "lib/base/err.h"

#include <math.h>
#include <string.h>

static const struct {
	const char *name, *torch, *alias[3];
	size_t size;
	bool is_float;
} types[DTYPE_COUNT] = {
	[DTYPE_F64] = { "F64", "float64", { "fp64", "double", "<f8" }, 8, true },
	[DTYPE_F32] = { "F32", "float32", { "fp32", "float", "<f4" }, 4, true },
	[DTYPE_BF16] = { "BF16", "bfloat16", { "bf16" }, 2, true },
	[DTYPE_F16] = { "F16", "float16", { "fp16", "half", "<f2" }, 2, true },
	[DTYPE_F8_E4M3] = { "F8_E4M3", "float8_e4m3fn", { NULL }, 1, false },
	[DTYPE_F8_E5M2] = { "F8_E5M2", "float8_e5m2", { NULL }, 1, false },
	[DTYPE_I64] = { "I64", "int64", { "<i8" }, 8, false },
	[DTYPE_I32] = { "I32", "int32", { "<i4" }, 4, false },
	[DTYPE_I16] = { "I16", "int16", { "<i2" }, 2, false },
	[DTYPE_I8] = { "I8", "int8", { "|i1" }, 1, false },
	[DTYPE_U64] = { "U64", "uint64", { "<u8" }, 8, false },
	[DTYPE_U32] = { "U32", "uint32", { "<u4" }, 4, false },
	[DTYPE_U16] = { "U16", "uint16", { "<u2" }, 2, false },
	[DTYPE_U8] = { "U8", "uint8", { "|u1" }, 1, false },
	[DTYPE_BOOL] = { "BOOL", "bool", { "|b1" }, 1, false },
};

/* Bytes of one element; no type here is smaller than a byte. */
size_t
dtype_size(enum dtype t)
{
	return types[t].size;
}

/* t must not be DTYPE_NONE. */
const char *
dtype_name(enum dtype t)
{
	return types[t].name;
}

const char *
dtype_torch_name(enum dtype t)
{
	return types[t].torch;
}

bool
dtype_is_float(enum dtype t)
{
	return t != DTYPE_NONE && types[t].is_float;
}

bool
dtype_is_float8(enum dtype t)
{
	return t == DTYPE_F8_E4M3 || t == DTYPE_F8_E5M2;
}

float
dtype_largest_float8(enum dtype t)
{
	return t == DTYPE_F8_E4M3 ? 448.0f : 57344.0f;
}

/*
 * Accepts every spelling of the table; returns DTYPE_NONE for anything else. Strict callers compare
 * the result's dtype_name with the text.
 */
enum dtype
dtype_from_name(const char *name)
{
	for (int t = 0; t < DTYPE_COUNT; t++) {
		if (!strcmp(types[t].name, name) || !strcmp(types[t].torch, name))
			return (enum dtype)t;
		for (int i = 0; i < 3 && types[t].alias[i]; i++)
			if (!strcmp(types[t].alias[i], name))
				return (enum dtype)t;
	}
	return DTYPE_NONE;
}

/* memcpy and not a cast: types of different kinds must not alias. */
static uint32_t
bits_of(float x)
{
	uint32_t u;

	memcpy(&u, &x, 4);
	return u;
}

/* The inverse of bits_of. */
static float
float_of(uint32_t u)
{
	float x;

	memcpy(&x, &u, 4);
	return x;
}

/*
 * Half a unit less one bit, plus the last bit that stays, makes ties go to even; the carry into the
 * exponent is right, up to infinity. NaN is set apart, as the sum could turn it into infinity, and
 * keeps its upper bits.
 */
uint16_t
dtype_bf16_from_f32(float x)
{
	uint32_t u = bits_of(x);

	if ((u & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* From 0x8000 on the nearest bfloat16 is the next larger one, except for a tie that is rounded
 * down, which is moved off the tie. */
uint16_t
dtype_low_bits_from_f32(float x)
{
	uint32_t low = bits_of(x) & 0xffff;

	return (uint16_t)(low == 0x8000 && !(bits_of(x) & 0x10000) ? 0x7fff : low);
}

float
dtype_f32_from_parts(uint16_t bf16, uint16_t low_bits)
{
	uint32_t high = (uint32_t)(bf16 - (low_bits >> 15)) & 0xffff;

	return float_of(high << 16 | low_bits);
}

/* The magnitude is rounded up when the random bits carry into the upper half. */
uint16_t
dtype_bf16_stochastic(float x, uint16_t bits)
{
	return (uint16_t)((bits_of(x) + bits) >> 16);
}

/* Exact: bf16 is the upper half of a float. */
float
dtype_f32_from_bf16(uint16_t x)
{
	return float_of((uint32_t)x << 16);
}

/* One of two by a mask: a condition would become a branch, and loops with it are not vectorised. */
static uint32_t
pick(bool first, uint32_t a, uint32_t b)
{
	uint32_t mask = 0u - first;

	return (a & mask) | (b & ~mask);
}

/*
 * The exponent is moved from bias 127 to 15 by a subtraction; below 2^-14 the float adder rounds at
 * the place of the last subnormal bit, 2^-24; 65520 and above overflow to infinity as IEEE 754 has
 * it, and NaN stays NaN with the upper bits of its payload.
 */
uint16_t
dtype_f16_from_f32(float x)
{
	uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffffu;
	uint32_t normal = (m - 0x38000000u + 0xfffu + (m >> 13 & 1)) >> 13;
	uint32_t subnormal = bits_of(float_of(m) + 0.5f) - bits_of(0.5f);
	uint32_t finite = pick(m < 0x38800000u, subnormal, normal);
	uint32_t number = pick(m >= 0x477ff000u, 0x7c00, finite);

	return (uint16_t)(sign | pick(m > 0x7f800000u, 0x7e00 | (m >> 13 & 0x3ff), number));
}

/* Exact. Subnormals of fp16 are normal floats; a multiplication by 2^-24 scales them. */
float
dtype_f32_from_f16(uint16_t x)
{
	uint32_t sign = (uint32_t)(x & 0x8000) << 16, m = x & 0x7fffu;
	uint32_t normal = (m << 13) + 0x38000000u, subnormal = bits_of((float)(int)m * 0x1p-24f);
	uint32_t finite = pick(m >= 0x400, normal, subnormal);

	return float_of(sign | pick(m >= 0x7c00, 0x7f800000u | (m & 0x3ff) << 13, finite));
}

/* A format of 8 bits: of the fraction, what is added to its exponents to give those of floats, and
 * the bits of its largest finite number as a float. */
struct float8 {
	int fraction, bias;
	uint32_t largest;
};
static const struct float8 e4m3 = { 3, 120, 0x43e00000 }, e5m2 = { 2, 112, 0x47600000 };

/* As dtype_f16_from_f32, but for what is too large. */
static inline uint8_t
float8_from_f32(float x, struct float8 f)
{
	uint32_t u = bits_of(x), sign = u >> 24 & 0x80, m = u & 0x7fffffffu;
	int drop = 23 - f.fraction;

	if (m > 0x7f800000u)
		return 0x7f;
	if (m > f.largest)
		m = f.largest;
	/* The float adder rounds at the place of the last subnormal bit. */
	if (m < (uint32_t)(f.bias + 1) << 23) {
		uint32_t place = (uint32_t)(f.bias + 1 + drop) << 23;

		return (uint8_t)(sign | (bits_of(float_of(m) + float_of(place)) - place));
	}
	m -= (uint32_t)f.bias << 23;
	return (uint8_t)(sign | (m + (1u << (drop - 1)) - 1 + (m >> drop & 1)) >> drop);
}

/* Subnormals are multiples of 2^-9. */
static float
f32_from_e4m3(uint8_t x)
{
	uint32_t sign = (uint32_t)(x & 0x80) << 24, m = x & 0x7fu;

	if (m == 0x7f)
		return float_of(sign | 0x7fc00000u);
	if (m >= 8)
		return float_of(sign | ((m << 20) + 0x3c000000u));
	return float_of(sign | bits_of((float)m * 0x1p-9f));
}

/*
 * A double rounded to odd in float precision: the last bit of the float stands for all that it
 * leaves out, so rounding it to at most 16 bits is the same as rounding the double once. Not of
 * what is smaller than every normal float, which has fewer bits. Without branches, for loops that
 * are to be vectorised.
 */
static inline float
round_to_odd(double x)
{
	const uint64_t rest = 0x1fffffff;
	uint64_t u;

	memcpy(&u, &x, 8);
	u = (u & ~rest) | (((u & rest) + rest) & ~rest);
	memcpy(&x, &u, 8);
	return (float)x;
}

/* What is smaller than every normal float is rounded by the adder, at the place of the last bit of
 * bfloat16, 2^-133. */
static uint16_t
bf16_from_f64(double x)
{
	double magnitude = fabs(x);
	bool tiny = magnitude < 0x1p-126;

	return dtype_bf16_from_f32(
	    tiny ? (float)copysign(magnitude + 0x1p-81 - 0x1p-81, x) : round_to_odd(x));
}

/* One element as a double, which holds every value of these types. */
static double
load(const char *src, enum dtype t, int64_t i)
{
	double d;
	float f;
	uint16_t h;

	switch (t) {
	case DTYPE_F64: memcpy(&d, src + 8 * i, 8); return d;
	case DTYPE_F32: memcpy(&f, src + 4 * i, 4); return (double)f;
	case DTYPE_BF16: memcpy(&h, src + 2 * i, 2); return (double)dtype_f32_from_bf16(h);
	case DTYPE_F16: memcpy(&h, src + 2 * i, 2); return (double)dtype_f32_from_f16(h);
	case DTYPE_F8_E4M3: return (double)f32_from_e4m3((uint8_t)src[i]);
	case DTYPE_F8_E5M2: /* the upper half of fp16 */
		return (double)dtype_f32_from_f16((uint16_t)((uint8_t)src[i] << 8));
	default: BUG("conversion from %s", types[t].name);
	}
}

/* The inverse of load, rounded once. */
static void
store(char *dst, enum dtype t, int64_t i, double d)
{
	float f;
	uint16_t h;

	switch (t) {
	case DTYPE_F64: memcpy(dst + 8 * i, &d, 8); return;
	case DTYPE_F32:
		f = (float)d;
		memcpy(dst + 4 * i, &f, 4);
		return;
	case DTYPE_BF16:
		h = bf16_from_f64(d);
		memcpy(dst + 2 * i, &h, 2);
		return;
	case DTYPE_F16:
		h = dtype_f16_from_f32(round_to_odd(d));
		memcpy(dst + 2 * i, &h, 2);
		return;
	case DTYPE_F8_E4M3: dst[i] = (char)float8_from_f32(round_to_odd(d), e4m3); return;
	case DTYPE_F8_E5M2: dst[i] = (char)float8_from_f32(round_to_odd(d), e5m2); return;
	default: BUG("conversion to %s", types[t].name);
	}
}

/* Floats from 16 bits. The conversion is a constant wherever this is inlined, simple enough for the
 * compiler to vectorise, and does not go through double; dst and src may not overlap. */
static inline void
widen(char *dst, const char *src, int64_t count, float (*from)(uint16_t))
{
	for (int64_t i = 0; i < count; i++) {
		uint16_t h;
		float f;

		memcpy(&h, src + 2 * i, 2);
		f = from(h);
		memcpy(dst + 4 * i, &f, 4);
	}
}

/* 16 bits from floats, in the same way. A number that is too large becomes infinite; callers that
 * care count such numbers first. */
static inline void
narrow(char *dst, const char *src, int64_t count, uint16_t (*from)(float))
{
	for (int64_t i = 0; i < count; i++) {
		float f;
		uint16_t h;

		memcpy(&f, src + 4 * i, 4);
		h = from(f);
		memcpy(dst + 2 * i, &h, 2);
	}
}

/* 16 bits from 16 bits of the other form, by way of a float, which holds every number of both. */
static inline void
cross(char *dst, const char *src, int64_t count, float (*from)(uint16_t), uint16_t (*to)(float))
{
	for (int64_t i = 0; i < count; i++) {
		uint16_t h;

		memcpy(&h, src + 2 * i, 2);
		h = to(from(h));
		memcpy(dst + 2 * i, &h, 2);
	}
}

/* Doubles from 16 bits. */
static inline void
widen_twice(char *dst, const char *src, int64_t count, float (*from)(uint16_t))
{
	for (int64_t i = 0; i < count; i++) {
		uint16_t h;
		double d;

		memcpy(&h, src + 2 * i, 2);
		d = (double)from(h);
		memcpy(dst + 8 * i, &d, 8);
	}
}

enum { FEW = 256 /* elements at once, which stay in the first cache */ };

/* Floats from few doubles, rounded to odd. */
static void
round_few(float some[FEW], const char *src, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double d;

		memcpy(&d, src + 8 * i, 8);
		some[i] = round_to_odd(d);
	}
}

/* Whether any of some 16-bit numbers has a magnitude in [low, high]. */
static bool
any_between(const char *x, int64_t n, uint16_t low, uint16_t high)
{
	uint16_t any = 0;

	for (int64_t i = 0; i < n; i++) {
		uint16_t h;

		memcpy(&h, x + 2 * i, 2);
		h = (uint16_t)((h & 0x7fff) - low);
		any = (uint16_t)(any | (h <= high - low));
	}
	return any;
}

/* Rounded once, by way of some floats: a loop over numbers of three sizes is not vectorised well.
 * Those that round_to_odd is not for are at most the smallest normal number then. */
static void
bf16_from_doubles(char *dst, const char *src, int64_t count)
{
	float some[FEW];

	for (int64_t n; count > 0; count -= n, dst += 2 * n, src += 8 * n) {
		bool small;

		n = count < FEW ? count : FEW;
		round_few(some, src, n);
		narrow(dst, (const char *)some, n, dtype_bf16_from_f32);
		small = any_between(dst, n, 0, 0x80);
		for (int64_t i = 0; small && i < n; i++)
			store(dst, DTYPE_BF16, i, load(src, DTYPE_F64, i));
	}
}

/* The same. What is smaller than every normal float is 0, as its float is. */
static void
f16_from_doubles(char *dst, const char *src, int64_t count)
{
	float some[FEW];

	for (int64_t n; count > 0; count -= n, dst += 2 * n, src += 8 * n) {
		n = count < FEW ? count : FEW;
		round_few(some, src, n);
		narrow(dst, (const char *)some, n, dtype_f16_from_f32);
	}
}

static void
double_from_float(char *dst, const char *src, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		float f;
		double d;

		memcpy(&f, src + 4 * i, 4);
		d = (double)f;
		memcpy(dst + 8 * i, &d, 8);
	}
}

static void
float_from_double(char *dst, const char *src, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		double d;
		float f;

		memcpy(&d, src + 8 * i, 8);
		f = (float)d;
		memcpy(dst + 4 * i, &f, 4);
	}
}

/*
 * memmove for equal types, so that those alone may overlap. Pairs with 8-bit floats go through
 * double, one element at a time.
 * Integers convert only to themselves; anything else is a bug in the caller.
 */
void
dtype_convert(void *dst, enum dtype dst_type, const void *src, enum dtype src_type, int64_t count)
{
	if (dst_type == src_type) {
		memmove(dst, src, (size_t)count * dtype_size(dst_type));
	} else if (dst_type == DTYPE_F32 && src_type == DTYPE_BF16) {
		widen(dst, src, count, dtype_f32_from_bf16);
	} else if (dst_type == DTYPE_BF16 && src_type == DTYPE_F32) {
		narrow(dst, src, count, dtype_bf16_from_f32);
	} else if (dst_type == DTYPE_F32 && src_type == DTYPE_F16) {
		widen(dst, src, count, dtype_f32_from_f16);
	} else if (dst_type == DTYPE_F16 && src_type == DTYPE_F32) {
		narrow(dst, src, count, dtype_f16_from_f32);
	} else if (dst_type == DTYPE_F16 && src_type == DTYPE_BF16) {
		cross(dst, src, count, dtype_f32_from_bf16, dtype_f16_from_f32);
	} else if (dst_type == DTYPE_BF16 && src_type == DTYPE_F16) {
		cross(dst, src, count, dtype_f32_from_f16, dtype_bf16_from_f32);
	} else if (dst_type == DTYPE_F64 && src_type == DTYPE_BF16) {
		widen_twice(dst, src, count, dtype_f32_from_bf16);
	} else if (dst_type == DTYPE_BF16 && src_type == DTYPE_F64) {
		bf16_from_doubles(dst, src, count);
	} else if (dst_type == DTYPE_F64 && src_type == DTYPE_F16) {
		widen_twice(dst, src, count, dtype_f32_from_f16);
	} else if (dst_type == DTYPE_F16 && src_type == DTYPE_F64) {
		f16_from_doubles(dst, src, count);
	} else if (dst_type == DTYPE_F64 && src_type == DTYPE_F32) {
		double_from_float(dst, src, count);
	} else if (dst_type == DTYPE_F32 && src_type == DTYPE_F64) {
		float_from_double(dst, src, count);
	} else {
		for (int64_t i = 0; i < count; i++)
			store(dst, dst_type, i, load(src, src_type, i));
	}
}

/* Of floats that became 16 bits, of which inf is infinity and all exponent bits: simple enough for
 * the compiler to vectorise, as this is asked of whole models. */
static struct dtype_lost
count_narrowed(const char *before, const char *after, int64_t count, uint16_t inf)
{
	struct dtype_lost lost = { 0 };

	for (int64_t i = 0; i < count; i++) {
		uint32_t b;
		uint16_t a;

		memcpy(&b, before + 4 * i, 4);
		memcpy(&a, after + 2 * i, 2);
		lost.overflows += (a & 0x7fff) == inf && (b & 0x7fffffff) < 0x7f800000;
		lost.underflows += (a & 0x7fff) == 0 && (b & 0x7fffffff) != 0;
	}
	return lost;
}

/* The same for BF16 that became FP16. */
static struct dtype_lost
count_crossed(const char *before, const char *after, int64_t count)
{
	struct dtype_lost lost = { 0 };

	for (int64_t i = 0; i < count; i++) {
		uint16_t b, a;

		memcpy(&b, before + 2 * i, 2);
		memcpy(&a, after + 2 * i, 2);
		lost.overflows += (a & 0x7fff) == 0x7c00 && (b & 0x7fff) < 0x7f80;
		lost.underflows += (a & 0x7fff) == 0 && (b & 0x7fff) != 0;
	}
	return lost;
}

/* Of doubles that became 16 bits. Few are infinite or 0, and others are looked at in no loop over
 * doubles. */
static struct dtype_lost
count_narrowed_doubles(const char *before, const char *after, int64_t count, uint16_t inf)
{
	struct dtype_lost lost = { 0 };

	for (int64_t n; count > 0; count -= n, before += 8 * n, after += 2 * n) {
		bool any;

		n = count < FEW ? count : FEW;
		any = any_between(after, n, 0, 0) || any_between(after, n, inf, inf);
		for (int64_t i = 0; any && i < n; i++) {
			uint64_t b;
			uint16_t a;

			memcpy(&b, before + 8 * i, 8);
			memcpy(&a, after + 2 * i, 2);
			b &= INT64_MAX;
			lost.overflows += (a & 0x7fff) == inf && b < 0x7ff0000000000000;
			lost.underflows += (a & 0x7fff) == 0 && b != 0;
		}
	}
	return lost;
}

/* Of doubles that became floats. */
static struct dtype_lost
count_doubles(const char *before, const char *after, int64_t count)
{
	struct dtype_lost lost = { 0 };

	for (int64_t i = 0; i < count; i++) {
		uint64_t b;
		uint32_t a;

		memcpy(&b, before + 8 * i, 8);
		memcpy(&a, after + 4 * i, 4);
		b &= INT64_MAX;
		a &= INT32_MAX;
		lost.overflows += a == 0x7f800000 && b < 0x7ff0000000000000;
		lost.underflows += a == 0 && b != 0;
	}
	return lost;
}

/* True when every number of one type is one of the other. */
static bool
holds_all(enum dtype to, enum dtype from)
{
	return to == from || to == DTYPE_F64 || (to == DTYPE_F32 && from != DTYPE_F64);
}

struct dtype_lost
dtype_count_lost(struct dtype_array before, struct dtype_array after, int64_t count)
{
	uint16_t inf = after.type == DTYPE_BF16 ? 0x7f80 : 0x7c00;

	if (holds_all(after.type, before.type))
		return (struct dtype_lost){ 0 };
	if (before.type == DTYPE_F64 && after.type == DTYPE_F32)
		return count_doubles(before.data, after.data, count);
	if (before.type == DTYPE_F64)
		return count_narrowed_doubles(before.data, after.data, count, inf);
	if (before.type == DTYPE_F32)
		return count_narrowed(before.data, after.data, count, inf);
	/* every number of fp16 has one of bf16 near it */
	return before.type == DTYPE_BF16 ? count_crossed(before.data, after.data, count)
					 : (struct dtype_lost){ 0 };
}

bool
dtype_same(const void *a, const void *b, enum dtype t, int64_t count)
{
	if (!memcmp(a, b, (size_t)count * dtype_size(t)))
		return true;
	for (int64_t i = 0; i < count; i++) {
		double x = load(a, t, i), y = load(b, t, i);

		if (x != y && !(isnan(x) && isnan(y)))
			return false;
	}
	return true;
}

/* A number is not finite when all bits of its exponent are set, in E4M3 those of its fraction too.
 * size is a constant wherever this is inlined, so that the copy compiles to one load. */
static inline int64_t
count_masked(const unsigned char *src, size_t size, uint64_t exponent, int64_t count)
{
	int64_t found = 0;

	for (int64_t i = 0; i < count; i++) {
		uint64_t v = 0;

		memcpy(&v, src + (size_t)i * size, size);
		found += (v & exponent) == exponent;
	}
	return found;
}

/* The same for what whole models are of. Counters are as wide as the numbers and so many at a time
 * that none overflows, for which the loop is vectorised. */
static int64_t
count_masked16(const unsigned char *src, uint16_t exponent, int64_t count)
{
	int64_t found = 0, n;

	for (; count > 0; count -= n, src += 2 * n) {
		uint16_t some = 0;

		n = count < INT16_MAX ? count : INT16_MAX;
		for (int64_t i = 0; i < n; i++) {
			uint16_t v;

			memcpy(&v, src + 2 * i, 2);
			some = (uint16_t)(some + ((v & exponent) == exponent));
		}
		found += some;
	}
	return found;
}

static int64_t
count_masked32(const unsigned char *src, uint32_t exponent, int64_t count)
{
	int64_t found = 0, n;

	for (; count > 0; count -= n, src += 4 * n) {
		uint32_t some = 0;

		n = count < INT32_MAX ? count : INT32_MAX;
		for (int64_t i = 0; i < n; i++) {
			uint32_t v;

			memcpy(&v, src + 4 * i, 4);
			some += (v & exponent) == exponent;
		}
		found += some;
	}
	return found;
}

int64_t
dtype_count_nonfinite(const void *src, enum dtype t, int64_t count)
{
	switch (t) {
	case DTYPE_F64: return count_masked(src, 8, 0x7ff0000000000000, count);
	case DTYPE_F32: return count_masked32(src, 0x7f800000, count);
	case DTYPE_BF16: return count_masked16(src, 0x7f80, count);
	case DTYPE_F16: return count_masked16(src, 0x7c00, count);
	case DTYPE_F8_E4M3: return count_masked(src, 1, 0x7f, count);
	case DTYPE_F8_E5M2: return count_masked(src, 1, 0x7c, count);
	default: return 0;
	}
}
