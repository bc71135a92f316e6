/*
 * check.h - the whole test framework
 *
 * A test program is a main that calls functions full of CHECKs and returns check_done(). A failed
 * CHECK prints its place and the test continues. Random tests print their seed; CHECK_SEED in the
 * environment sets it.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the whole program, whichever of its files count. */
__attribute__((weak)) long check_count, check_failures;

#define CHECK(x) \
	((void)(check_count++, \
	    (x) ? 0 \
		: (check_failures++, \
		      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #x), 0)))
#define CHECK_STR(a, b) \
	((void)(check_count++, \
	    !strcmp((a), (b)) \
		? 0 \
		: (check_failures++, \
		      fprintf(stderr, "%s:%d: '%s' is not '%s'\n", __FILE__, __LINE__, (a), (b)), \
		      0)))
/* |a - b| <= tol * max(1, |b|) */
#define CHECK_NEAR(a, b, tol) \
	((void)(check_count++, \
	    fabs((double)(a) - (double)(b)) <= (tol)*fmax(1.0, fabs((double)(b))) \
		? 0 \
		: (check_failures++, \
		      fprintf(stderr, "%s:%d: %s = %.17g is not near %.17g\n", __FILE__, __LINE__, \
			  #a, (double)(a), (double)(b)), \
		      0)))

/* A seed for random tests, printed so that a failure can be repeated. */
static inline unsigned long
check_seed(void)
{
	const char *s = getenv("CHECK_SEED");
	unsigned long seed = s ? strtoul(s, NULL, 10) : 20261120;

	printf("seed %lu\n", seed);
	return seed;
}

static inline int
check_done(void)
{
	printf("%ld checks, %ld failures\n", check_count, check_failures);
	return check_failures != 0 || check_count == 0;
}

#endif
