/* optim.c - learning-rate and weight-decay schedules at their corners, loss scale traces
 * (docs/math.md 4.5 and 4.6) */
#include "lib/model/lr.h"
#include "lib/model/optim_rule.h"
#include "lib/model/scaler.h"
#include "tests/check.h"
#include "train/optim/optim.h"

#include <string.h>

enum { W = 10, N = 110, TAIL = 40 };

#define PI 3.14159265358979323846

static struct err e;

/* From 0.2 through 1 to 0.1: warm-up until sample 10, end at 110, the tail of WSD from 70. */
static struct lr_schedule
schedule(const char *style, const char *tail)
{
	return (struct lr_schedule){ .style = lr_index(lr_styles, style),
		.wsd_style = lr_index(wsd_styles, tail),
		.wd_style = lr_index(wd_styles, "constant"),
		.lr = 1,
		.min_lr = 0.1,
		.lr_warmup_init = 0.2,
		.warmup_samples = W,
		.decay_samples = N,
		.wsd_decay_samples = TAIL };
}

static void
test_warmup(void)
{
	for (int style = 0; lr_styles[style]; style++) {
		struct lr_schedule s = schedule(lr_styles[style], "linear");
		bool constant = !strcmp(lr_styles[style], "constant");

		CHECK_NEAR(lr_at(&s, 0), 0.2, 1e-15);
		CHECK_NEAR(lr_at(&s, 5), 0.6, 1e-15);
		CHECK(lr_at(&s, W) == 1);
		CHECK_NEAR(lr_at(&s, N + 1), constant ? 1 : 0.1, 1e-15);
		CHECK_NEAR(lr_at(&s, 1000000), constant ? 1 : 0.1, 1e-15);
		s.warmup_samples = 0;
		CHECK(lr_at(&s, 0) == 1);
	}
}

static void
test_decay(void)
{
	static const struct {
		const char *style, *tail;
		int64_t at;
		double lr;
	} table[] = {
		{ "constant", "linear", W + 1, 1 },
		{ "constant", "linear", N, 1 },
		{ "linear", "linear", W + 1, 0.991 },
		{ "linear", "linear", 60, 0.55 },
		{ "linear", "linear", N, 0.1 },
		{ "cosine", "linear", W + 1, 0.999777952164579 },
		{ "cosine", "linear", 35, 0.868198051533946 },
		{ "cosine", "linear", 60, 0.55 },
		{ "cosine", "linear", N, 0.1 },
		{ "inverse-square-root", "linear", W + 1, 0.953462589245592 },
		{ "inverse-square-root", "linear", 40, 0.5 },
		{ "inverse-square-root", "linear", N, 0.301511344577764 },
		{ "WSD", "exponential", W + 1, 1 },
		{ "WSD", "exponential", N - TAIL, 1 },
		{ "WSD", "exponential", 90, 0.472792206135786 },
		{ "WSD", "exponential", N, 0.1 },
		{ "WSD", "linear", N - TAIL, 1 },
		{ "WSD", "linear", N - TAIL + 1, 0.9775 },
		{ "WSD", "linear", 90, 0.55 },
		{ "WSD", "linear", N, 0.1 },
		{ "WSD", "cosine", 80, 0.868198051533946 },
		{ "WSD", "cosine", N, 0.1 },
		{ "WSD", "minus_sqrt", 90, 0.363603896932107 },
		{ "WSD", "minus_sqrt", N, 0.1 },
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct lr_schedule s = schedule(table[i].style, table[i].tail);

		CHECK_NEAR(lr_at(&s, table[i].at), table[i].lr, 1e-14);
	}
}

/* The inverse square root never falls below min_lr; without warm-up it starts at one sample. */
static void
test_inverse_square_root(void)
{
	struct lr_schedule s = schedule("inverse-square-root", "linear");

	s.min_lr = 0.5;
	CHECK_NEAR(lr_at(&s, 39), sqrt(10.0 / 39), 1e-15);
	CHECK(lr_at(&s, 41) == 0.5);
	s.min_lr = 0;
	s.warmup_samples = 0;
	CHECK(lr_at(&s, 0) == 1 && lr_at(&s, 1) == 1);
	CHECK_NEAR(lr_at(&s, 4), 0.5, 1e-15);
}

static void
test_weight_decay(void)
{
	struct lr_schedule s = schedule("constant", "linear");

	s.start_weight_decay = 0.1;
	s.end_weight_decay = 0.3;
	s.wd_samples = 100;

	CHECK(wd_at(&s, 0) == 0.3 && wd_at(&s, 1000) == 0.3);
	s.wd_style = lr_index(wd_styles, "linear");
	CHECK_NEAR(wd_at(&s, 0), 0.1, 1e-15);
	CHECK_NEAR(wd_at(&s, 25), 0.15, 1e-15);
	CHECK_NEAR(wd_at(&s, 100), 0.3, 1e-15);
	CHECK_NEAR(wd_at(&s, 101), 0.3, 1e-15);
	s.wd_style = lr_index(wd_styles, "cosine");
	CHECK_NEAR(wd_at(&s, 0), 0.1, 1e-15);
	CHECK_NEAR(wd_at(&s, 25), 0.1 + 0.2 * (1 - cos(PI / 4)) / 2, 1e-15);
	CHECK_NEAR(wd_at(&s, 50), 0.2, 1e-15);
	CHECK_NEAR(wd_at(&s, 100), 0.3, 1e-15);
	CHECK_NEAR(wd_at(&s, 1000), 0.3, 1e-15);
}

/* A broken rule names its option. */
static void
refused(struct lr_schedule s, const char *why)
{
	e.msg[0] = '\0';
	CHECK(lr_check(&s, &e) == -1);
	CHECK(strncmp(e.msg, why, strlen(why)) == 0 && !strchr(e.msg, '\n'));
}

static void
test_check(void)
{
	struct lr_schedule good = schedule("WSD", "linear"), s;

	CHECK(lr_check(&good, &e) == 0);
	s = good, s.wsd_decay_samples = N - W;
	CHECK(lr_check(&s, &e) == 0);
	s = good, s.min_lr = 1.5;
	refused(s, "--min-lr 1.5: ");
	s = good, s.lr_warmup_init = 2;
	refused(s, "--lr-warmup-init 2: ");
	s = good, s.decay_samples = 0;
	refused(s, "--lr-decay-iters: ");
	s = good, s.warmup_samples = N;
	refused(s, "--lr-warmup-iters: ");
	s = good, s.wsd_decay_samples = N - W + 1;
	refused(s, "--lr-wsd-decay-iters: ");
}

/* Steps in order, 'o' for an overflow and '.' for none, and the scale after each. */
static void
trace(struct scaler s, const char *steps, const double *scale)
{
	for (int i = 0; steps[i]; i++) {
		scaler_update(&s, steps[i] == 'o');
		CHECK(s.scale == scale[i]);
	}
}

static void
test_scaler(void)
{
	struct scaler s = { .dynamic = true,
		.scale = 16,
		.min_scale = 1,
		.growth_interval = 3,
		.hysteresis = 2,
		.hysteresis_left = 2 };

	/* The first overflow changes nothing, every further one halves the scale; a clean growth
	 * interval doubles it and allows one overflow again. */
	trace(s, "ooo...o..o...", (double[]){ 16, 8, 4, 4, 4, 8, 8, 8, 8, 4, 4, 4, 8 });
	/* An overflow restarts the growth interval: of five clean steps around one, only the last
	 * three count. */
	trace(s, "..o..o...", (double[]){ 16, 16, 16, 16, 16, 8, 8, 8, 16 });
	trace(s, "......", (double[]){ 16, 16, 32, 32, 32, 64 });
	s.hysteresis = s.hysteresis_left = 1;
	trace(s, "oooooo", (double[]){ 8, 4, 2, 1, 1, 1 });
	s.min_scale = 3;
	trace(s, "ooo", (double[]){ 8, 4, 3 });
	s.dynamic = false;
	trace(s, "o...o", (double[]){ 16, 16, 16, 16, 16 });
}

/* The states of the rules as letters. */
static bool
has_state(const void *held, const char *state)
{
	return strchr(held,
	    !strcmp(state, "exp_avg")        ? 'a'
		: !strcmp(state, "momentum") ? 'm'
					     : 's');
}

static void
check_rule(const char *name, const char *held, const char *rule)
{
	const struct optim_rule *r = optim_rule_of(name, has_state, held);

	CHECK(!r == !rule);
	if (r && rule)
		CHECK_STR(r->name, rule);
}

/* The rule of a checkpoint's states, by the name that it records or by the states that it has. */
static void
test_rules(void)
{
	check_rule(NULL, "", NULL);
	check_rule(NULL, "a", "sgd");
	check_rule(NULL, "as", "adam");
	check_rule(NULL, "s", NULL);
	check_rule("adam", "", NULL);
	check_rule("adam", "a", "adam");
	check_rule("sgd", "as", "sgd");
	check_rule("sgd", "s", NULL);
	check_rule("other", "as", "adam");
	check_rule(NULL, "mas", "muon");
	check_rule("muon", "m", "muon");
	check_rule("adam", "mas", "adam");
	for (int i = 0; i < 6; i++) {
		CHECK(optim_keeps(&optim_rules[0], i / 2, i % 2));
		CHECK(optim_keeps(&optim_rules[2], i / 2, i % 2) == ((i / 2 == 0) == i % 2));
	}
	CHECK(optim_num_states(NULL) == 0 && optim_num_states(&optim_rules[0]) == 2);
}

int
main(void)
{
	test_rules();
	test_warmup();
	test_decay();
	test_inverse_square_root();
	test_weight_decay();
	test_check();
	test_scaler();
	return check_done();
}
