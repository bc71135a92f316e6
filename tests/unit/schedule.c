/* schedule.c - learning rate and weight decay of every step, from mtrain's options to the numbers,
 * against those of Megatron-LM's own scheduler */
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/config/config.h"

static const char model[] = "mtrain -q --mock-data --num-layers 1 --hidden-size 8 "
			    "--num-attention-heads 2 --vocab-size 16 --seq-length 4 "
			    "--global-batch-size 4 ";

static struct err e;

/* Configures a run with these options; splits text in place, which must outlive it. 0, or -1 with
 * the reason in e. */
static int
configure(struct train_config *c, char *text)
{
	char *argv[64], *rest, *word = strtok_r(text, " ", &rest);
	int argc = 0;

	for (; word && argc < 64; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	e.msg[0] = '\0';
	return train_parse(c, argc, argv, &e) < 0 ? -1 : train_configure(c, 1, &e);
}

/* Relative, since rates are small and CHECK_NEAR compares numbers below 1 by their absolute
 * difference. */
static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-14 * fabs(b);
}

/* Checks the lines of one set of options; returns their number. */
static int
compare(const struct train_config *c, const char *options, char **rest)
{
	int steps = 0;
	double lr, wd;

	for (; *rest && sscanf(*rest, "%lf %lf", &lr, &wd) == 2; steps++) {
		int64_t samples = steps * c->plan.global_batch_size;
		double x = lr_at(&c->schedule, samples), y = wd_at(&c->schedule, samples);

		if (!near(x, lr) || !near(y, wd)) {
			fprintf(stderr, "%s: step %d: %.17g %.17g instead of %.17g %.17g\n",
			    options, steps + 1, x, y, lr, wd);
			CHECK(0);
		}
		*rest = strchr(*rest, '\n');
		*rest += *rest != NULL;
	}
	CHECK(c->train_iters == steps);
	return steps;
}

/* tests/golden/data/schedule.txt: a line of options, then a line per step. */
static void
test_golden(void)
{
	char *text, *at;
	size_t len;
	int sets = 0, steps = 0;

	CHECK(io_read_file("tests/golden/data/schedule.txt", 1 << 20, &text, &len, &e) == 0);
	for (at = text; at && *at;) {
		char *options = at, *end = strchr(at, '\n');
		struct train_config c;
		struct str line = { 0 };

		at = end ? end + 1 : NULL;
		if (*options == '#')
			continue;
		*end = '\0';
		str_addf(&line, "%s%s", model, options);
		CHECK(configure(&c, line.buf) == 0);
		CHECK_STR(e.msg, "");
		steps += compare(&c, options, &at);
		sets++;
		train_release(&c);
		str_release(&line);
	}
	CHECK(sets == 18 && steps == 536);
	free(text);
}

int
main(void)
{
	prog_quiet(-1);
	test_golden();
	return check_done();
}
