/* dtype_largest.c - the largest of numbers as they are stored */
#include "lib/base/dtype.h"

#include <string.h>

/* The bits of a number as a whole number that orders as it does, both zeroes alike. The largest
 * whole number does not depend on the order of comparisons, so a loop that seeks it is
 * vectorised. */
static inline int16_t
order16(const char *src)
{
	int16_t x, sign;

	memcpy(&x, src, 2);
	sign = (int16_t)(x >> 15);
	return (int16_t)(((x & INT16_MAX) ^ sign) - sign);
}

static inline int32_t
order32(const char *src)
{
	int32_t x, sign;

	memcpy(&x, src, 4);
	sign = x >> 31;
	return ((x & INT32_MAX) ^ sign) - sign;
}

static inline int64_t
order64(const char *src)
{
	int64_t x, sign;

	memcpy(&x, src, 8);
	sign = x >> 63;
	return ((x & INT64_MAX) ^ sign) - sign;
}

static int64_t
largest16(const char *src, int64_t count)
{
	int16_t max = INT16_MIN;

	for (int64_t i = 0; i < count; i++)
		max = order16(src + 2 * i) > max ? order16(src + 2 * i) : max;
	return max;
}

static int64_t
largest32(const char *src, int64_t count)
{
	int32_t max = INT32_MIN;

	for (int64_t i = 0; i < count; i++)
		max = order32(src + 4 * i) > max ? order32(src + 4 * i) : max;
	return max;
}

static int64_t
largest64(const char *src, int64_t count)
{
	int64_t max = INT64_MIN;

	for (int64_t i = 0; i < count; i++)
		max = order64(src + 8 * i) > max ? order64(src + 8 * i) : max;
	return max;
}

static int64_t
largest(const char *src, size_t size, int64_t count)
{
	return size == 2 ? largest16(src, count)
	    : size == 4  ? largest32(src, count)
			 : largest64(src, count);
}

/* Where `max`, the largest of them, is first: in one half of what is left, again and again. A loop
 * that ends where it is found would not be vectorised. */
static int64_t
first_of(const char *src, size_t size, int64_t count, int64_t max)
{
	int64_t first = 0;

	while (count > 1) {
		int64_t half = count / 2;

		if (largest(src + (size_t)first * size, size, half) < max) {
			first += half;
			half = count - half;
		}
		count = half;
	}
	return first;
}

/* One pass over parts, and then a search of the first part that has the largest of all. */
int64_t
dtype_first_largest(const void *src, enum dtype t, int64_t count)
{
	enum { PART = 512 };
	const char *at = src;
	size_t size = dtype_size(t);
	int64_t max = INT64_MIN, first = 0;

	for (int64_t i = 0; i < count; i += PART) {
		int64_t n = count - i < PART ? count - i : PART,
			here = largest(at + (size_t)i * size, size, n);

		if (here > max) {
			max = here;
			first = i;
		}
	}
	return first +
	    first_of(
		at + (size_t)first * size, size, count - first < PART ? count - first : PART, max);
}
