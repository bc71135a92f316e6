/* batch.c - properties of changing batches: step counts are those of a loop over single steps, from
 * any start */
#include "lib/base/rng.h"
#include "lib/model/batch.h"
#include "tests/check.h"

enum { RAMPS = 2000, STEPS = 200 };

static uint64_t seed, drawn;

/* From lo to hi. */
static int64_t
draw(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rng_uniform(seed, drawn++, 1, 0) * (float)(hi - lo + 1));
}

static struct batch_ramp
random_linear(void)
{
	struct batch_ramp r = { .start = draw(1, 9), .increment = draw(1, 9) };

	r.num_increments = draw(1, 40);
	r.samples = draw(1, 600);
	return r;
}

static struct batch_ramp
random_table(void)
{
	struct batch_ramp r = batch_constant(draw(1, 30));

	r.count = (int)draw(1, 8);
	for (int i = 1; i < r.count; i++) {
		r.step[i].first = r.step[i - 1].first + draw(1, 90);
		r.step[i].size = draw(1, 30);
	}
	return r;
}

/* From sample 0, and from every sample at which a run may have stopped. */
static void
check_ramp(const struct batch_ramp *r)
{
	int64_t at[STEPS + 1] = { 0 };
	int middle = (int)draw(0, STEPS);

	for (int i = 0; i < STEPS; i++) {
		int64_t size = batch_at(r, at[i]);

		CHECK(size >= 1 && size <= batch_largest(r));
		at[i + 1] = at[i] + size;
		CHECK(batch_steps(r, 0, at[i + 1]) == i + 1);
		CHECK(batch_steps(r, 0, at[i + 1] - 1) == i);
	}
	for (int i = 0; i <= STEPS; i++)
		CHECK(batch_end(r, 0, i) == at[i]);
	CHECK(batch_end(r, at[middle], STEPS - middle) == at[STEPS]);
	CHECK(batch_steps(r, at[middle], at[STEPS]) == STEPS - middle);
}

int
main(void)
{
	seed = check_seed();
	for (int i = 0; i < RAMPS; i++) {
		struct batch_ramp r = i % 2 ? random_linear() : random_table();

		check_ramp(&r);
	}
	return check_done();
}
