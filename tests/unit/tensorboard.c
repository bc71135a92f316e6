/* tensorboard.c - reads event files back: frames, checksums, fields; the tags and the log lines of
 * a run */
#include "train/report/tensorboard.h"

#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/config/config.h"
#include "train/report/metrics.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The contents of one event; text is the version or the tag, content that of a text. */
struct event {
	double wall_time;
	int64_t step;
	bool is_version, is_text;
	char text[64], content[64];
	float value;
};

struct reader {
	const unsigned char *at, *end;
	bool bad;
};

static uint64_t
read_fixed(struct reader *r, int bytes)
{
	uint64_t x = 0;

	if (r->end - r->at < bytes) {
		r->bad = true;
		r->at = r->end;
		return 0;
	}
	for (int i = 0; i < bytes; i++)
		x |= (uint64_t)*r->at++ << 8 * i;
	return x;
}

static uint64_t
read_varint(struct reader *r)
{
	uint64_t x = 0, byte = 0x80;

	for (int shift = 0; byte & 0x80 && shift < 64 && !r->bad; shift += 7) {
		byte = read_fixed(r, 1);
		x |= (byte & 0x7f) << shift;
	}
	return x;
}

/* The bytes of a length-prefixed field. */
static struct reader
read_bytes(struct reader *r)
{
	uint64_t len = read_varint(r);
	struct reader inner = { r->at, r->at, false };

	if (len > (uint64_t)(r->end - r->at)) {
		r->bad = true;
		return inner;
	}
	r->at += len;
	inner.end = r->at;
	return inner;
}

static void
read_text(struct reader *r, char out[64])
{
	struct reader text = read_bytes(r);
	size_t len = (size_t)(text.end - text.at);

	CHECK(len < 64);
	memcpy(out, text.at, len < 64 ? len : 0);
}

/* Checks that the next field has this number and these bytes. */
static void
expect_bytes(struct reader *r, int field, const char *want, size_t len)
{
	struct reader bytes;

	CHECK(read_varint(r) == (uint64_t)(field << 3 | 2));
	bytes = read_bytes(r);
	CHECK((size_t)(bytes.end - bytes.at) == len && !memcmp(bytes.at, want, len));
}

/* 9: SummaryMetadata { 1: PluginData { 1: "text" } },
 * 8: TensorProto { 1: DT_STRING, 2: a shape of one element, 8: text } */
static void
read_tensor(struct reader *value, struct event *e)
{
	struct reader tensor;

	CHECK_STR(e->text + strlen(e->text) - 13, "/text_summary");
	e->text[strlen(e->text) - 13] = '\0';
	expect_bytes(value, 9, "\n\6\n\4text", 8);
	CHECK(read_varint(value) == (8 << 3 | 2));
	tensor = read_bytes(value);
	CHECK(read_varint(&tensor) == (1 << 3 | 0) && read_varint(&tensor) == 7);
	expect_bytes(&tensor, 2, "\022\2\b\1", 4);
	CHECK(read_varint(&tensor) == (8 << 3 | 2));
	read_text(&tensor, e->content);
	CHECK(tensor.at == tensor.end && !tensor.bad);
}

/* Summary { 1: Value { 1: tag, 2: simple_value, or a text } }, one value. */
static void
read_summary(struct reader *r, struct event *e)
{
	struct reader summary = read_bytes(r), value;
	uint32_t u;

	CHECK(read_varint(&summary) == (1 << 3 | 2));
	value = read_bytes(&summary);
	CHECK(summary.at == summary.end);
	CHECK(read_varint(&value) == (1 << 3 | 2));
	read_text(&value, e->text);
	e->is_text = *value.at == (9 << 3 | 2);
	if (e->is_text) {
		read_tensor(&value, e);
	} else {
		CHECK(read_varint(&value) == (2 << 3 | 5));
		u = (uint32_t)read_fixed(&value, 4);
		memcpy(&e->value, &u, 4);
	}
	CHECK(value.at == value.end && !value.bad && !summary.bad);
}

static struct event
read_event(struct reader r)
{
	struct event e = { 0 };
	uint64_t u, key;

	CHECK(read_varint(&r) == (1 << 3 | 1));
	u = read_fixed(&r, 8);
	memcpy(&e.wall_time, &u, 8);
	CHECK(read_varint(&r) == (2 << 3 | 0));
	e.step = (int64_t)read_varint(&r);
	key = read_varint(&r);
	CHECK(key == (3 << 3 | 2) || key == (5 << 3 | 2));
	e.is_version = key == (3 << 3 | 2);
	if (e.is_version)
		read_text(&r, e.text);
	else
		read_summary(&r, &e);
	CHECK(r.at == r.end && !r.bad);
	return e;
}

/* Undoes the mask of a checksum. */
static uint32_t
unmask(uint64_t masked)
{
	uint32_t x = (uint32_t)masked - 0xa282ead8u;

	return x >> 17 | x << 15;
}

/* Reads every record, the first cap into out; returns their number. */
static int
read_file(const char *path, struct event *out, int cap)
{
	struct err err;
	char *bytes;
	size_t len;
	int n = 0;

	CHECK(io_read_file(path, 0, &bytes, &len, &err) == 0);
	for (struct reader r = { (unsigned char *)bytes, (unsigned char *)bytes + len, false };
	     r.at < r.end && !r.bad; n++) {
		const unsigned char *head = r.at;
		uint64_t size = read_fixed(&r, 8);

		CHECK(unmask(read_fixed(&r, 4)) == hash_crc32c(head, 8));
		CHECK(size + 4 <= (uint64_t)(r.end - r.at));
		if (size + 4 > (uint64_t)(r.end - r.at))
			break;
		struct event e = read_event((struct reader){ r.at, r.at + size, false });

		if (n < cap)
			out[n] = e;
		head = r.at;
		r.at += size;
		CHECK(unmask(read_fixed(&r, 4)) == hash_crc32c(head, size));
	}
	free(bytes);
	return n;
}

/* The one file of a directory. */
static void
only_file(const char *dir, char *path, size_t cap)
{
	DIR *d = opendir(dir);
	int n = 0;

	for (struct dirent *entry; d && (entry = readdir(d));)
		if (entry->d_name[0] != '.') {
			CHECK(strncmp(entry->d_name, "events.out.tfevents.", 20) == 0);
			CHECK(strcmp(entry->d_name + strlen(entry->d_name) - 3, ".v2") == 0);
			snprintf(path, cap, "%s/%s", dir, entry->d_name);
			n++;
		}
	CHECK(n == 1);
	if (d)
		closedir(d);
}

static void
test_scalars(const char *top)
{
	struct event e[5] = { 0 };
	struct err err;
	char dir[256], path[512] = "";
	struct tensorboard *t;

	snprintf(dir, sizeof dir, "%s/deep/runs", top);
	t = tensorboard_open(dir, &err);
	CHECK(t);
	if (!t)
		return;
	only_file(dir, path, sizeof path);
	tensorboard_scalar(t, "lm loss", 1, 10.5);
	CHECK(tensorboard_flush(t, &err) == 0);
	CHECK(read_file(path, e, 5) == 2);
	tensorboard_scalar(t, "grad norm", 300, -0.1);
	tensorboard_scalar(t, "lm loss", (int64_t)1 << 40, NAN);
	tensorboard_text(t, "data_path", 7, "a \"b\"");
	CHECK(tensorboard_close(t, &err) == 0);
	CHECK(read_file(path, e, 5) == 5);
	CHECK(e[0].is_version && fabs(e[0].wall_time - (double)time(NULL)) < 60);
	CHECK_STR(e[0].text, "brain.Event:2");
	CHECK(!e[1].is_version && e[1].step == 1 && e[1].value == 10.5f);
	CHECK_STR(e[1].text, "lm loss");
	CHECK(e[2].step == 300 && e[2].value == -0.1f && e[2].wall_time >= e[1].wall_time);
	CHECK_STR(e[2].text, "grad norm");
	CHECK(e[3].step == (int64_t)1 << 40 && isnan(e[3].value));
	CHECK(e[4].is_text && e[4].step == 7);
	CHECK_STR(e[4].text, "data_path");
	CHECK_STR(e[4].content, "a \"b\"");
}

static void
test_failure(const char *top)
{
	struct err err;
	char path[300];

	snprintf(path, sizeof path, "%s/file", top);
	CHECK(outfile_write(path, "x", 1, &err) == 0);
	CHECK(!tensorboard_open(path, &err));
	CHECK(strstr(err.msg, path));
	CHECK(tensorboard_close(NULL, &err) == 0);
}

/* A disk that is full after the first record: flush and close both say so. */
static void
test_full_disk(const char *top)
{
	struct rlimit old, small;
	struct err err;
	char dir[256];
	struct tensorboard *t;

	snprintf(dir, sizeof dir, "%s/full", top);
	t = tensorboard_open(dir, &err);
	CHECK(t && tensorboard_flush(t, &err) == 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 64;
	setrlimit(RLIMIT_FSIZE, &small);
	tensorboard_scalar(t, "lm loss", 1, 2.0);
	CHECK(tensorboard_flush(t, &err) == -1);
	CHECK(strstr(err.msg, "cannot write") && strstr(err.msg, "File too large"));
	CHECK(tensorboard_close(t, &err) == -1);
	setrlimit(RLIMIT_FSIZE, &old);
}

/* The content of the text of this name, or "". */
static const char *
option(const struct event *e, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (e[i].is_text && !strcmp(e[i].text, name))
			return e[i].content;
	return "";
}

/* The events of a run: two steps of 4 samples, the second of which is skipped, an evaluation of two
 * sets, and the test; then it rewinds after a loss that is not a number, and skips a step.
 */
static void
report(struct metrics *m)
{
	struct step_metrics s = { .iteration = 11,
		.consumed_samples = 44,
		.samples = 4,
		.lm_loss = 2,
		.grad_norm = 3,
		.num_zeros = 17,
		.params_norm = 2.5,
		.planned_bytes = 4096,
		.used_bytes = 8192,
		.lr = 0.5,
		.joules = NAN,
		.loss_scale = 8,
		.seconds = 0.25 };
	struct metrics_rewind back = { .spike = { .iteration = 13, .loss = NAN, .median = 2 },
		.to = 11,
		.passed = { 12, 13 } };
	struct metrics_evaluation valid = {
		.iteration = 12, .consumed_samples = 48, .split = "valid", .lm_loss = 0
	};

	metrics_step(m, &s);
	s.iteration = 12;
	s.consumed_samples = 48;
	s.lm_loss = INFINITY;
	s.skipped = true;
	metrics_step(m, &s);
	metrics_timer(m, 12, "optimizer", 0.5);
	metrics_evaluation(m, &valid);
	valid.set = "web";
	metrics_evaluation(m, &valid);
	valid.split = "test";
	valid.set = NULL;
	metrics_evaluation(m, &valid);
	metrics_rewind(m, &back);
	s.left_out = true;
	s.lm_loss = 0;
	s.passed_samples = 4;
	metrics_step(m, &s);
}

static const struct {
	const char *tag;
	int64_t step;
	float value;
} points[] = {
	{ "learning-rate", 11, 0.5f },
	{ "learning-rate vs samples", 44, 0.5f },
	{ "batch-size", 11, 4 },
	{ "batch-size vs samples", 44, 4 },
	{ "lm loss", 11, 2 },
	{ "lm loss vs samples", 44, 2 },
	{ "loss-scale", 11, 8 },
	{ "loss-scale vs samples", 44, 8 },
	{ "world-size", 11, 1 },
	{ "world-size vs samples", 44, 1 },
	{ "grad-norm", 11, 3 },
	{ "grad-norm vs samples", 44, 3 },
	{ "num-zeros", 11, 17 },
	{ "num-zeros vs samples", 44, 17 },
	{ "params-norm", 11, 2.5f },
	{ "params-norm vs samples", 44, 2.5f },
	{ "mem-planned-bytes", 11, 4096 },
	{ "mem-used-bytes", 11, 8192 },
	{ "iteration-time", 11, 0.25f },
	{ "throughput", 11, -1 },
	{ "learning-rate", 12, 0.5f },
	{ "learning-rate vs samples", 48, 0.5f },
	{ "batch-size", 12, 4 },
	{ "batch-size vs samples", 48, 4 },
	{ "lm loss", 12, INFINITY },
	{ "lm loss vs samples", 48, INFINITY },
	{ "loss-scale", 12, 8 },
	{ "loss-scale vs samples", 48, 8 },
	{ "world-size", 12, 1 },
	{ "world-size vs samples", 48, 1 },
	{ "params-norm", 12, 2.5f },
	{ "params-norm vs samples", 48, 2.5f },
	{ "mem-planned-bytes", 12, 4096 },
	{ "mem-used-bytes", 12, 8192 },
	{ "iteration-time", 12, 0.25f },
	{ "throughput", 12, -1 },
	{ "optimizer-time", 12, 0.5f },
	{ "lm loss validation", 12, 0 },
	{ "lm loss validation vs samples", 48, 0 },
	{ "lm loss validation ppl", 12, 1 },
	{ "lm loss validation ppl vs samples", 48, 1 },
	{ "lm loss validation-web", 12, 0 },
	{ "lm loss validation-web vs samples", 48, 0 },
	{ "lm loss validation-web ppl", 12, 1 },
	{ "lm loss validation-web ppl vs samples", 48, 1 },
	{ "lm loss test", 12, 0 },
	{ "lm loss test vs samples", 48, 0 },
	{ "lm loss test ppl", 12, 1 },
	{ "lm loss test ppl vs samples", 48, 1 },
};

enum { POINTS = sizeof points / sizeof *points, EVENTS = 300 };

/* Tags, steps and values of all points in their order, after the options as text. -1 is any
 * value. */
static void
check_board(const char *path)
{
	struct event *e = calloc(EVENTS, sizeof *e);
	int n = read_file(path, e, EVENTS), texts = n - 1 - POINTS;

	CHECK(n < EVENTS && texts > 50);
	CHECK_STR(option(e, n, "lr"), "0.125");
	CHECK_STR(option(e, n, "hidden_size"), "8");
	CHECK_STR(option(e, n, "global_batch_size"), "4");
	CHECK_STR(option(e, n, "adam_beta1"), "0.9");
	CHECK_STR(option(e, n, "norm_epsilon"), "1e-05");
	CHECK_STR(option(e, n, "mock_data"), "True");
	CHECK_STR(option(e, n, "lr_decay_iters"), "");
	for (int i = 1; i < n; i++)
		CHECK(e[i].is_text == (i <= texts) && (i > texts || e[i].step == 10));
	for (int i = 0; i < POINTS && texts > 0; i++) {
		const struct event *have = &e[1 + texts + i];

		CHECK_STR(have->text, points[i].tag);
		CHECK(have->step == points[i].step);
		CHECK(points[i].value == -1 || have->value == points[i].value);
	}
	free(e);
}

/* The log line of each step: a step that was skipped has neither loss nor norm, and one whose loss
 * is not finite is counted. */
static void
check_lines(const char *path)
{
	struct err err;
	char *text, *second;
	size_t len;

	CHECK(io_read_file(path, 1 << 20, &text, &len, &err) == 0);
	second = strchr(text, '\n');
	CHECK(second != NULL);
	*second++ = '\0';
	CHECK(strstr(text,
	    " iteration       11/      20 | consumed samples:           44 | elapsed time per "
	    "iteration (ms): 250.0 | throughput per GPU (TFLOP/s/GPU): 0.000 | learning rate: "
	    "5.000000E-01 | global batch size:     4 | lm loss: 2.000000E+00 | loss scale: 8.0 | "
	    "grad norm: "
	    "3.000 | num zeros: 17 | params norm: 2.500 | "
	    "number of skipped iterations:   0 | number of nan iterations:   0 | tokens per "
	    "second: 64 |"));
	CHECK(strstr(second,
	    " global batch size:     4 | loss scale: 8.0 | params norm: 2.500 | "
	    "number of skipped iterations:   1 | "
	    "number of nan iterations:   1 |"));
	CHECK(strstr(second,
	    "\n validation loss at iteration 12 | lm loss value: 0.000000E+00 | lm loss PPL: "
	    "1.000000E+00 | \n validation-web loss at iteration 12 | "));
	CHECK(strstr(second, "\n validation loss at iteration 12 on test set | "));
	CHECK(strstr(second,
	    " iteration       12/      20 | consumed samples:           48 | skipped samples:"
	    "            4 | elapsed time per iteration (ms): 250.0 | throughput per GPU "
	    "(TFLOP/s/GPU): 0.000 | learning rate: 5.000000E-01 | global batch size:     4 | loss "
	    "scale: 8.0 | params norm: 2.500 | number of skipped iterations:   1 | number of nan "
	    "iterations:   1 | tokens per second: 0 |\n"));
	free(text);
}

static void
test_run(const char *top)
{
	char board[256], lines[256], path[512] = "";
	char *argv[] = { "mtrain", "-q", "--num-layers=1", "--hidden-size=8",
		"--num-attention-heads=2", "--vocab-size=16", "--seq-length=4",
		"--global-batch-size=4", "--train-iters=20", "--lr=0.125", "--mock-data",
		"--log-interval=1", "--log-params-norm", "--log-num-zeros-in-grad",
		"--log-world-size-to-tensorboard", "--log-memory-to-tensorboard",
		"--tensorboard-dir", board };
	struct train_config c;
	struct metrics *m;
	struct err err;
	int out = dup(1);

	snprintf(board, sizeof board, "%s/board", top);
	snprintf(lines, sizeof lines, "%s/lines", top);
	CHECK(train_parse(&c, sizeof argv / sizeof *argv, argv, &err) == 0);
	CHECK(train_configure(&c, 1, &err) == 0);
	m = metrics_open(&c, 1, 10, &err);
	CHECK(m && freopen(lines, "w", stdout));
	report(m);
	CHECK(metrics_close(m, 0, &err) == 0);
	CHECK(fflush(stdout) == 0 && dup2(out, 1) == 1);
	close(out);
	only_file(board, path, sizeof path);
	check_board(path);
	check_lines(lines);
	train_release(&c);
}

int
main(void)
{
	char top[] = "/tmp/tensorboardXXXXXX";
	struct err err;

	CHECK(mkdtemp(top));
	prog_quiet(-1);
	test_scalars(top);
	test_run(top);
	test_failure(top);
	test_full_disk(top);
	CHECK(io_remove_tree(top, &err) == 0);
	return check_done();
}
