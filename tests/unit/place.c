/* place.c - buffers that are alive at the same time lie apart, in no more bytes than they need */
#include "lib/model/place.h"
#include "tests/check.h"

#include <stdbool.h>

enum { MOST = 24 };

static uint64_t state = 1;

static unsigned
below(unsigned n)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (unsigned)(state >> 33) % n;
}

/* None overlaps another of its times, all end inside `size`, and none could lie lower. */
static void
check_placed(const struct placed *p, int n, uint64_t size)
{
	uint64_t end = 0;

	for (int i = 0; i < n; i++) {
		bool rests = p[i].offset == 0;

		end = p[i].offset + p[i].bytes > end ? p[i].offset + p[i].bytes : end;
		for (int j = 0; j < n; j++) {
			bool meets = i != j && p[i].alive & p[j].alive;

			CHECK(!meets || p[i].offset + p[i].bytes <= p[j].offset ||
			    p[j].offset + p[j].bytes <= p[i].offset);
			rests |= meets && p[j].offset + p[j].bytes == p[i].offset;
		}
		CHECK(rests);
	}
	CHECK(end == size && size >= place_bound(p, n));
}

/* Random buffers; the result does not depend on the order in which they come. */
static void
test_random(void)
{
	for (int round = 0; round < 300; round++) {
		int n = 1 + (int)below(MOST);
		struct placed p[MOST], reversed[MOST];
		uint64_t size;

		for (int i = 0; i < n; i++)
			p[i] = reversed[n - 1 - i] = (struct placed){ .number = i,
				.alive = 1 + below(63),
				.bytes = 256 * (1 + below(below(2) ? 4 : 1000)) };
		size = place_in_order(p, n);
		check_placed(p, n, size);
		for (int i = 0; i < n; i++)
			CHECK(p[i].number == i);
		CHECK(place_tight(p, n) <= size);
		check_placed(p, n, place_tight(p, n));
		CHECK(place_tight(reversed, n) == place_tight(p, n));
		for (int i = 0; i < n; i++)
			CHECK(
			    p[i].number == reversed[i].number && p[i].offset == reversed[i].offset);
	}
}

/* Sizes and phases of a Llama of 70 billion parameters on four tensor ranks, in units of 256 bytes:
 * the largest first takes a tenth more than the fullest phase. */
static void
test_found(void)
{
	static const unsigned known[][2] = { { 16, 705408 }, { 17, 524288 }, { 1, 458752 },
		{ 27, 393216 }, { 1, 524288 }, { 4, 524304 }, { 10, 524288 }, { 2, 458752 },
		{ 12, 163840 }, { 4, 131072 }, { 4, 2048 }, { 16, 528 }, { 16, 128 }, { 16, 128 } };
	enum { N = sizeof known / sizeof *known };
	struct placed p[N];

	for (int i = 0; i < N; i++)
		p[i] = (struct placed){ i, known[i][0], 256 * (uint64_t)known[i][1], 0 };
	CHECK(place_tight(p, N) == place_bound(p, N));
	CHECK(place_bound(p, N) == 486539264);
	CHECK(place_tight(p, 0) == 0 && place_in_order(p, 0) == 0);
}

int
main(void)
{
	test_random();
	test_found();
	return check_done();
}
