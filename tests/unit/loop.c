/* loop.c - tests of the step loop in a small run on made-up data: what counts as the time and the
 * energy of a step, by a clock that jumps at each checkpoint and evaluation; and that a run without
 * its lock writes nothing */
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/config/config.h"
#include "train/data/corpus_log.h"
#include "train/run/iteration.h"
#include "train/run/loop.h"
#include "train/state/saver.h"
#include "train/step/open.h"

#include <unistd.h>

enum { STEPS = 6, SAVE_INTERVAL = 3, EVAL_INTERVAL = 2, HOUR = 3600 };

static struct err e;
static struct comm *world;

/* The number of these checkpoints that exist. */
static int
checkpoints(void)
{
	char path[64];
	int n = 0;

	for (int i = 1; i <= STEPS; i++) {
		snprintf(path, sizeof path, "save/iter_%07d", i);
		n += io_exists(path);
	}
	return n;
}

/* The number of lines of a file that contain a text. */
static int
lines_with(const char *file, const char *text)
{
	char line[1024];
	FILE *f = fopen(file, "r");
	int n = 0;

	while (f && fgets(line, sizeof line, f))
		n += strstr(line, text) != NULL;
	if (f)
		fclose(f);
	return n;
}

/* Every reading of the clock takes a millisecond, every save and every evaluation an hour. */
static double
jumping_clock(void)
{
	static int looks;

	return 1e-3 * ++looks + HOUR * (checkpoints() + lines_with("metrics", "\"split\""));
}

/* A watt, by the same clock. */
static void
meter(struct device *d, struct meter *out)
{
	(void)d;
	out->joules = jumping_clock();
}

/* The run of a command line, as train/run/run.c makes it. Returns its exit status. */
static int
train(struct train_config *c, struct lock *lock)
{
	struct engine engine;
	struct backend metered = backend_cpu;
	struct run r = { .c = c, .e = &engine, .lock = lock, .watch.clock = jumping_clock };
	struct engine_config ec = {
		.plan = &c->plan, .backend = &metered, .num_threads = 1, .seed = 1
	};
	int status = -1, out = dup(STDOUT_FILENO);

	metered.meter = meter;
	CHECK(engine_open(&engine, &ec, world, &e) == 0);
	engine_init_weights(&engine);
	r.data = data_open(c, world, NULL, &e);
	CHECK(r.data != NULL);
	r.prefetch = prefetch_new(&engine, r.data, false);
	r.metrics = metrics_open(c, 1, 0, &e);
	r.corpora = corpus_log_open(r.data, &engine, 0, &e);
	r.saver = saver_new(&engine, c, lock, NULL, false);
	r.energy = energy_new(&engine);
	fflush(stdout);
	CHECK(out >= 0 && freopen("log", "w", stdout));
	if (r.data && r.metrics)
		status = loop_train(&r);
	fflush(stdout);
	CHECK(dup2(out, STDOUT_FILENO) == STDOUT_FILENO && close(out) == 0);
	saver_free(r.saver);
	energy_free(r.energy);
	corpus_log_close(r.corpora);
	CHECK(metrics_close(r.metrics, 0, &e) == 0);
	prefetch_free(r.prefetch);
	data_close(r.data);
	engine_close(&engine);
	return status;
}

/* The maximum of a figure of the steps in the metrics, and the number of steps. */
static double
greatest(const char *figure, int *steps)
{
	char line[1024], key[64];
	double most = 0;
	FILE *f = fopen("metrics", "r");

	snprintf(key, sizeof key, "\"%s\": ", figure);
	for (*steps = 0; f && fgets(line, sizeof line, f);) {
		const char *at = strstr(line, key);

		if (!at)
			continue;
		++*steps;
		most = fmax(most, atof(at + strlen(key)));
	}
	if (f)
		fclose(f);
	return most;
}

static char *const command[] = { "mtrain", "-q", "--num-layers=1", "--hidden-size=8",
	"--num-attention-heads=2", "--vocab-size=16", "--seq-length=4", "--micro-batch-size=1",
	"--global-batch-size=2", "--train-iters=6", "--lr=1e-3", "--save=save", "--save-interval=3",
	"--eval-interval=2", "--eval-iters=1", "--mock-data", "--log-interval=100",
	"--metrics-file=metrics", "--split=1,1,0", "--log-energy" };

/* Runs the options in a new directory. */
static void
begin(struct train_config *c, char *dir)
{
	char *argv[sizeof command / sizeof *command];

	memcpy(argv, command, sizeof command);
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	CHECK(train_parse(c, sizeof argv / sizeof *argv, argv, &e) == 0);
	CHECK(train_configure(c, 1, &e) == 0);
}

static void
end(struct train_config *c, const char *dir)
{
	train_release(c);
	CHECK(chdir("/") == 0 && io_remove_tree(dir, &e) == 0);
}

/* The times of steps exclude evaluations, and saves that the run waits for. */
static void
test_seconds(void)
{
	struct train_config c;
	char dir[] = "/tmp/mikoshi-loop-XXXXXX";
	int steps;

	begin(&c, dir);
	CHECK(train(&c, NULL) == EXIT_DONE);
	CHECK(checkpoints() == STEPS / SAVE_INTERVAL &&
	    lines_with("metrics", "\"valid\"") == STEPS / EVAL_INTERVAL);
	CHECK(greatest("seconds", &steps) < HOUR && steps == STEPS);
	CHECK(greatest("joules", &steps) > 0 && steps == STEPS);
	CHECK(greatest("joules", &steps) < HOUR);
	CHECK(greatest("watts_per_rank", &steps) < 4);
	CHECK(lines_with("log", " | energy per GPU (J/iter/GPU): 0.0 | power per GPU (W/GPU): ") ==
	    1);
	end(&c, dir);
}

/* A run without its lock stops after the step in which it notices; one that has not noticed yet
 * does so before it saves. */
static void
test_lost_lock(bool known)
{
	const struct lock_terms terms = {
		.path = "save/lock", .renewal = LOCK_RENEWAL, .stale = LOCK_STALE
	};
	struct train_config c;
	char dir[] = "/tmp/mikoshi-loop-XXXXXX";
	struct lock *lock;
	int steps;

	begin(&c, dir);
	CHECK(io_mkdir_p("save", &e) == 0);
	lock = lock_take(&terms, &e);
	CHECK(lock && unlink("save/lock") == 0);
	CHECK(!known || lock_check(lock, &e) < 0);
	prog_mute(true);
	CHECK(train(&c, lock) == EXIT_FAILED);
	prog_mute(false);
	greatest("seconds", &steps);
	CHECK(checkpoints() == 0 && steps == (known ? 1 : SAVE_INTERVAL));
	lock_release(lock);
	end(&c, dir);
}

int
main(void)
{
	prog_quiet(-1);
	world = mpi_world(&e);
	CHECK(world != NULL);
	test_seconds();
	test_lost_lock(true);
	test_lost_lock(false);
	mpi_end();
	return check_done();
}
