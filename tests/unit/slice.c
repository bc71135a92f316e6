/* slice.c - tests of lib/base/slice */
#include "tests/check.h"
#include "tests/random_box.h"

/* A random shape of 1 to 4 small dimensions. */
static struct slice
random_whole(void)
{
	int64_t shape[SLICE_DIMS];
	int ndim = (int)between(1, SLICE_DIMS);

	for (int d = 0; d < ndim; d++)
		shape[d] = between(1, 7);
	return slice_whole(ndim, shape);
}

/* True when global index `at` lies in s; *pos is then its place in an array laid out as s. */
static bool
locate(const struct slice *s, const int64_t *at, int64_t *pos)
{
	*pos = 0;
	for (int d = 0; d < s->ndim; d++) {
		if (at[d] < s->start[d] || at[d] >= s->start[d] + s->count[d])
			return false;
		*pos = *pos * s->count[d] + at[d] - s->start[d];
	}
	return true;
}

/* The i-th global index of box s in row-major order. */
static void
index_of(const struct slice *s, int64_t i, int64_t *at)
{
	for (int d = s->ndim - 1; d >= 0; d--) {
		at[d] = s->start[d] + i % s->count[d];
		i /= s->count[d];
	}
}

static void
test_basics(void)
{
	int64_t shape[2] = { 4, 6 };
	struct slice whole = slice_whole(2, shape), out;
	struct slice a = { 2, { 1, 2 }, { 2, 3 } }, b = { 2, { 2, 0 }, { 2, 3 } },
		     c = { 2, { 0, 5 }, { 4, 1 } };
	struct slice empty = { 2, { 4, 6 }, { 0, 0 } }, far = { 2, { 1, 2 }, { 4, 1 } },
		     huge = { 2, { INT64_MAX, 0 }, { 1, 1 } };

	CHECK(
	    slice_elements(&whole) == 24 && slice_elements(&a) == 6 && slice_elements(&empty) == 0);
	CHECK(slice_inside(&a, 2, shape) && slice_inside(&whole, 2, shape) &&
	    slice_inside(&empty, 2, shape));
	CHECK(!slice_inside(&far, 2, shape) && !slice_inside(&huge, 2, shape) &&
	    !slice_inside(&a, 1, shape));
	CHECK(slice_intersect(&a, &b, &out));
	CHECK(out.ndim == 2 && out.start[0] == 2 && out.start[1] == 2 && out.count[0] == 1 &&
	    out.count[1] == 1);
	CHECK(!slice_intersect(&a, &c, &out) && !slice_intersect(&a, &empty, &out));
}

/* Copies a random box between two arrays and checks every element of the target. */
static void
test_copy(void)
{
	static int32_t src[7 * 7 * 7 * 7], dst[7 * 7 * 7 * 7];
	bool good = true;

	for (int round = 0; round < 500; round++) {
		struct slice whole = random_whole(), from = random_box(&whole),
			     to = random_box(&whole), slice, inner;
		int64_t at[SLICE_DIMS], p;

		if (!slice_intersect(&from, &to, &inner))
			continue;
		slice = random_box(&inner);
		for (int64_t i = 0; i < slice_elements(&from); i++)
			src[i] = (int32_t)(i + 1);
		memset(dst, 0, sizeof dst);
		slice_copy(dst, &to, src, &from, &slice, sizeof *dst);
		for (int64_t i = 0; i < slice_elements(&to); i++) {
			index_of(&to, i, at);
			good &= locate(&slice, at, &p) ? locate(&from, at, &p) && dst[i] == p + 1
						       : dst[i] == 0;
		}
	}
	CHECK(good);
}

/* The elements of a flat range's boxes, in order, are the range. */
static void
test_flat(void)
{
	int most = 0;
	bool good = true;

	for (int round = 0; round < 2000; round++) {
		struct slice whole = random_whole(), s = random_box(&whole), part[SLICE_FLAT_MAX];
		int64_t total = slice_elements(&s), first = between(0, total),
			count = between(0, total - first);
		int64_t at[SLICE_DIMS], p;
		int n = slice_flat(&s, first, count, part);
		int64_t next = first;

		most = n > most ? n : most;
		for (int k = 0; k < n; k++)
			for (int64_t i = 0; i < slice_elements(&part[k]); i++) {
				index_of(&part[k], i, at);
				good &= locate(&s, at, &p) && p == next;
				next++;
			}
		good &= next == first + count;
	}
	CHECK(good);
	CHECK(most == 2 * SLICE_DIMS - 1);
}

/* The range of a box's elements in a row-major array. */
static void
test_span(void)
{
	const struct slice array = { 2, { 2, 1 }, { 5, 10 } };
	int64_t first, n;

	n = slice_span(&array, &array, &first);
	CHECK(n == 50 && first == 0);
	n = slice_span(&(struct slice){ 2, { 3, 4 }, { 2, 3 } }, &array, &first);
	CHECK(n == 13 && first == 13);
	n = slice_span(&(struct slice){ 2, { 6, 10 }, { 1, 1 } }, &array, &first);
	CHECK(n == 1 && first == 49);
}

/* The text of --slice. */
static void
test_parse(void)
{
	static const int64_t shape[] = { 4, 64 };
	static const struct {
		const char *text;
		int64_t start[2], count[2]; /* count 0: refused */
	} row[] = {
		{ "0:4,0:64", { 0, 0 }, { 4, 64 } },
		{ ":,:", { 0, 0 }, { 4, 64 } },
		{ "1:3", { 1, 0 }, { 2, 64 } },
		{ "2", { 2, 0 }, { 1, 64 } },
		{ ":,63", { 0, 63 }, { 4, 1 } },
		{ "3:,:5", { 3, 0 }, { 1, 5 } },
		{ "", { 0 }, { 0 } },
		{ ",", { 0 }, { 0 } },
		{ "1,", { 0 }, { 0 } },
		{ "4", { 0 }, { 0 } },
		{ "2:2", { 0 }, { 0 } },
		{ "3:2", { 0 }, { 0 } },
		{ "0:5", { 0 }, { 0 } },
		{ "-1:2", { 0 }, { 0 } },
		{ "0:-1", { 0 }, { 0 } },
		{ "1:2:3", { 0 }, { 0 } },
		{ "1 :2", { 0 }, { 0 } },
		{ "0x1", { 0 }, { 0 } },
		{ ":,:,:", { 0 }, { 0 } },
		{ "99999999999999999999:", { 0 }, { 0 } },
		{ "0:99999999999999999999", { 0 }, { 0 } },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct slice s;
		struct err e;
		int rc = slice_parse(row[i].text, 2, shape, &s, &e);

		CHECK((rc == 0) == (row[i].count[0] > 0));
		for (int d = 0; d < 2 && rc == 0; d++)
			CHECK(s.start[d] == row[i].start[d] && s.count[d] == row[i].count[d]);
	}
}

int
main(void)
{
	mt19937_seed(&rng, (uint32_t)check_seed());
	test_basics();
	test_copy();
	test_flat();
	test_parse();
	test_span();
	return check_done();
}
