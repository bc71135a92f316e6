/* float8.c - numbers of 8 bits: all codes and every tie */
#include "lib/base/dtype.h"
#include "tests/check.h"

/* A number by the definition of the formats: sign, exponent, fraction. */
static double
defined(enum dtype t, int code)
{
	int fraction = t == DTYPE_F8_E4M3 ? 3 : 2, bias = t == DTYPE_F8_E4M3 ? 7 : 15,
	    exponent = (code & 0x7f) >> fraction, rest = code & ((1 << fraction) - 1);
	double sign = code & 0x80 ? -1 : 1, one = 1 << fraction;

	if (t == DTYPE_F8_E4M3 && (code & 0x7f) == 0x7f)
		return NAN;
	if (t == DTYPE_F8_E5M2 && exponent == 31)
		return rest ? NAN : sign * (double)INFINITY;
	if (exponent == 0)
		return sign * ldexp(rest / one, 1 - bias);
	return sign * ldexp(1 + rest / one, exponent - bias);
}

static int
code_of(enum dtype t, double x)
{
	float f = (float)x;
	uint8_t wide, narrow;

	dtype_convert(&wide, t, &x, DTYPE_F64, 1);
	dtype_convert(&narrow, t, &f, DTYPE_F32, 1);
	CHECK((double)f != x || wide == narrow);
	return wide;
}

static float
value_of(enum dtype t, int code)
{
	uint8_t c = (uint8_t)code;
	float f;

	dtype_convert(&f, DTYPE_F32, &c, t, 1);
	return f;
}

/* Every code is what the format defines and comes back; between two codes the nearer one is taken,
 * halfway the even one. last: the largest finite one. */
static void
test_codes(enum dtype t, int last)
{
	for (int code = 0; code < 256; code++) {
		double x = defined(t, code), f = (double)value_of(t, code);

		CHECK(isnan(x) ? isnan(f) : f == x && !signbit(f) == !signbit(x));
		if (isfinite(x))
			CHECK(code_of(t, x) == code);
	}
	for (int code = 0; code < last; code++) {
		double middle = (defined(t, code) + defined(t, code + 1)) / 2;

		CHECK(code_of(t, middle) == (code & 1 ? code + 1 : code));
		CHECK(code_of(t, -middle) == (0x80 | (code & 1 ? code + 1 : code)));
		CHECK(code_of(t, nextafter(middle, 0)) == code);
		CHECK(code_of(t, nextafter(middle, 1e9)) == code + 1);
		CHECK(code_of(t, (double)nextafterf((float)middle, 0)) == code);
		CHECK(code_of(t, (double)nextafterf((float)middle, 1e9f)) == code + 1);
	}
	CHECK(dtype_largest_float8(t) == value_of(t, last));
	CHECK(code_of(t, 1e6) == last && code_of(t, -1e6) == (0x80 | last));
	CHECK(code_of(t, (double)INFINITY) == last && code_of(t, (double)NAN) == 0x7f);
	CHECK(code_of(t, (double)-NAN) == 0x7f && code_of(t, 1e300) == last);
}

/* By hand, from the tables of the formats' definition. */
static void
test_known(void)
{
	CHECK(value_of(DTYPE_F8_E4M3, 0x7e) == 448 && value_of(DTYPE_F8_E4M3, 0x01) == 0x1p-9f);
	CHECK(value_of(DTYPE_F8_E4M3, 0x08) == 0x1p-6f && value_of(DTYPE_F8_E4M3, 0x38) == 1);
	CHECK(value_of(DTYPE_F8_E5M2, 0x7b) == 57344 && value_of(DTYPE_F8_E5M2, 0x01) == 0x1p-16f);
	CHECK(value_of(DTYPE_F8_E5M2, 0x04) == 0x1p-14f && value_of(DTYPE_F8_E5M2, 0x3c) == 1);
	CHECK(code_of(DTYPE_F8_E4M3, 0.3) == 0x2a && code_of(DTYPE_F8_E5M2, 0.3) == 0x35);
	CHECK(dtype_count_nonfinite("\177\176\377", DTYPE_F8_E4M3, 3) == 2);
	CHECK(dtype_count_nonfinite("\174\173\376", DTYPE_F8_E5M2, 3) == 2);
	CHECK(dtype_is_float8(DTYPE_F8_E5M2) && !dtype_is_float8(DTYPE_F16));
}

int
main(void)
{
	test_codes(DTYPE_F8_E4M3, 0x7e);
	test_codes(DTYPE_F8_E5M2, 0x7b);
	test_known();
	return check_done();
}
