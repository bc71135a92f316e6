/* spike.c - tests of loss spikes: the history and its median, skipped losses, and the record read
 * back from its texts */
#include "tests/check.h"
#include "train/config/spike.h"

static const struct spike_rule rule = { 2, 4, 3 };

static void
test_window(void)
{
	struct spike_record r = { 0 };

	for (int i = 1; i <= 3; i++)
		spike_keep(&r, &rule, i);
	CHECK(isnan(spike_median(&r, &rule)) && !spike_is(&r, &rule, 1e9));
	spike_keep(&r, &rule, 100);
	CHECK(spike_median(&r, &rule) == 2.5);
	CHECK(!spike_is(&r, &rule, 5) && spike_is(&r, &rule, 5.001));
	CHECK(spike_is(&r, &rule, NAN) && spike_is(&r, &rule, INFINITY));
	/* The oldest is out of the history. */
	spike_keep(&r, &rule, 3);
	CHECK(r.num_losses == 4 && spike_median(&r, &rule) == 3);
}

/* A resumed run may have another history, or none. */
static void
test_other_windows(void)
{
	static const struct spike_rule narrow = { 2, 3, 3 }, wide = { 2, 6, 3 }, none = { 0 };
	struct spike_record r = { 0 };

	for (int i = 1; i <= 4; i++)
		spike_keep(&r, &rule, i);
	CHECK(spike_median(&r, &narrow) == 3);
	CHECK(isnan(spike_median(&r, &wide)) && isnan(spike_median(&r, &none)));
	spike_keep(&r, &none, 5);
	CHECK(r.num_losses == 4 && !spike_is(&r, &none, 1e9));
	spike_keep(&r, &narrow, 5);
	CHECK(r.num_losses == 3 && r.loss[0] == 3);
	for (int i = 0; i < 4; i++)
		spike_keep(&r, &wide, 6);
	CHECK(r.num_losses == 6 && r.loss[0] == 4 && spike_median(&r, &wide) == 6);
}

static void
test_ranges(void)
{
	struct spike_record r = { 0 };
	struct spike_range one = spike_rewind(&r, &rule, 20);

	CHECK(one.first == 16 && one.last == 20);
	spike_rewind(&r, &rule, 22);
	CHECK(!spike_passes(&r, 15) && spike_passes(&r, 16) && spike_passes(&r, 22) &&
	    !spike_passes(&r, 23));
}

static void
test_texts(void)
{
	static const struct {
		const char *losses, *passed, *reason;
	} bad[] = {
		{ "1 x", NULL, "'recent_losses' is damaged" },
		{ "nan", NULL, "'recent_losses' is damaged" },
		{ NULL, "5", "'rewound' is damaged" },
		{ NULL, "5-4", "'rewound' is damaged" },
		{ NULL, "0-4", "'rewound' is damaged" },
		{ NULL, "1-4,", "'rewound' is damaged" },
	};
	struct spike_record r = { 0 }, back;
	struct str losses = { 0 }, passed = { 0 };
	struct err e;

	spike_keep(&r, &rule, 1 / 3.);
	spike_keep(&r, &rule, 7);
	spike_rewind(&r, &rule, 20);
	spike_rewind(&r, &rule, 90);
	spike_print(&r, &losses, &passed);
	CHECK_STR(losses.buf, "0.33333333333333331 7");
	CHECK_STR(passed.buf, "16-20 86-90");
	CHECK(spike_read(&back, losses.buf, passed.buf, &e) == 0);
	CHECK(memcmp(&r, &back, sizeof r) == 0);
	CHECK(spike_read(&back, NULL, NULL, &e) == 0 && back.num_losses == 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(spike_read(&back, bad[i].losses, bad[i].passed, &e) < 0);
		CHECK_STR(e.msg, bad[i].reason);
	}
	str_release(&losses);
	str_release(&passed);
}

int
main(void)
{
	test_window();
	test_other_windows();
	test_ranges();
	test_texts();
	return check_done();
}
